"""What is looked for in the newest rows of each source, with the other sources to compare with.

bad         rows that the row guard left out: numbers that are none, rewards outside guardrails.reward_range, actions
            that do not exist
repeated    rows that came before, to the last bit
scaled      rewards that are many times what they are with the others, also where most of them are near 0
strange     what follows from an action is not as with the others (`strangeness.py`)

A source fails in two windows that follow each other, and only in what the others do not: a world that repeats itself
repeats itself everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rlstudio.core.contracts import Contributor
from rlstudio.core.spaces import Spaces
from rlstudio.data.replay.row_numbers import RowNumbers
from rlstudio.data.replay.strangeness import STRANGE, Expectation, Rows, repeated_share

if TYPE_CHECKING:
    from rlstudio.data.replay.buffer import ReplayBuffer

WINDOW = 256
"""Rows of a source that fail together."""

REFERENCE = 512
"""Rows of the others that a source is compared with: half of them new, half from all that is held."""

REMEMBERED = 4096
"""Rows of a source among which repeated ones are looked for."""

PROBES = 16
FEWEST = 3
"""Sources: of two that disagree nobody can say which one lies."""

REPEATED, ELSEWHERE = 0.9, 0.5
"""Shares of repeated rows: of one that repeats them, and what the others may have at most."""

BAD, BAD_ELSEWHERE = 0.5, 0.1

SCALED, UNEXPLAINED = 3.0, 0.3
"""How many times the others' rewards are too many, and the part of them that need not follow such a factor."""


class Suspect(NamedTuple):
    source: int
    reason: str


class SourceChecks:
    def __init__(self, replay: ReplayBuffer, spaces: Spaces, origins: Sequence[Contributor]) -> None:
        self._replay = replay
        self._columns = [np.asarray(one.columns) for one in origins]
        self._numbers = RowNumbers(replay.store, spaces)
        widest = max((len(columns) for columns in self._columns), default=1)
        self._window = max(WINDOW // widest, 16)  # steps
        self.every = 2 * self._window
        """Steps between two looks."""

    def suspect(self, end: int, good: Sequence[int], exempt: Collection[int]) -> Suspect | None:
        """Of the rows before this step: the source that lies, one at a time. `good`: those that count so far. One that
        is exempt may differ, and would stand before another that does: it is compared with only where it must be."""
        compared = [source for source in good if source not in exempt]
        good = compared if len(compared) >= FEWEST else good
        oldest = int(self._replay.numbering.oldest().max())
        if len(good) < FEWEST or end - self.every < oldest:
            return None
        for check in (self._bad, self._repeated, self._scaled, self._strange):
            suspected = check(end, oldest, good)
            if suspected is not None and suspected.source not in exempt:
                return suspected
        return None

    def _rows(self, source: int, steps: np.ndarray) -> np.ndarray:
        """Their numbers."""
        return np.asarray((steps[:, None] * self._replay.num_envs + self._columns[source]).ravel())

    def _windows(self, source: int, end: int) -> list[np.ndarray]:
        steps = np.arange(end - self.every, end)
        return [self._rows(source, steps[: self._window]), self._rows(source, steps[self._window :])]

    def _bad(self, end: int, oldest: int, good: Sequence[int]) -> Suspect | None:
        if not self._replay.store.weighted:
            return None
        shares = {source: [*map(self._numbers.bad_share, self._windows(source, end))] for source in good}
        source = max(good, key=lambda source: min(shares[source]))
        elsewhere = max(max(shares[other]) for other in good if other != source)
        if (share := min(shares[source])) < BAD or elsewhere > BAD_ELSEWHERE:
            return None
        return Suspect(source, f"{share:.0%} of its rows are bad, of the others' {elsewhere:.0%}")

    def _repeated(self, end: int, oldest: int, good: Sequence[int]) -> Suspect | None:
        if not self._numbers.has_observations:
            return None
        probed = {source: self._probed(source, end, oldest) for source in good}
        source = max(good, key=lambda source: probed[source])
        elsewhere = max(probed[other] for other in good if other != source)
        if probed[source] < REPEATED or elsewhere > ELSEWHERE:
            return None
        rows = self._numbers.of(self._remembered(source, end, oldest)).y  # what it gave: the action is the agent's own
        size = self._window * len(self._columns[source])
        share = min(
            repeated_share(rows[-size:], rows[:-size]), repeated_share(rows[-2 * size : -size], rows[: -2 * size])
        )
        return Suspect(source, f"{share:.0%} of its rows came before, to the last bit") if share >= REPEATED else None

    def _remembered(self, source: int, end: int, oldest: int) -> np.ndarray:
        steps = REMEMBERED // len(self._columns[source])
        return self._rows(source, np.arange(max(end - steps, oldest), end))

    def _probed(self, source: int, end: int, oldest: int) -> float:
        """How many of a few of its newest rows may have come before: a quick answer, which is asked of every source."""
        numbers = self._numbers.fingerprint(self._remembered(source, end, oldest))
        size = self._window * len(self._columns[source])
        probes = numbers[-size :: max(size // PROBES, 1)]
        return float((numbers[None, :-size] == probes[:, None]).any(1).mean())

    def _scaled(self, end: int, oldest: int, good: Sequence[int]) -> Suspect | None:
        sizes = {source: self._numbers.reward_size(self._windows(source, end)[1]) for source in good}
        source = max(good, key=lambda source: sizes[source])
        elsewhere = max(sizes[other] for other in good if other != source)
        if not sizes[source] > SCALED * elsewhere > 0:
            return None
        held = self._held(end, oldest, good)
        expected = Expectation(_joined([held[other] for other in good if other != source]))
        scales = [expected.scale(self._numbers.of(window)) for window in self._windows(source, end)]
        if not all(scale.times > SCALED and scale.unexplained < UNEXPLAINED for scale in scales):
            return None
        times = min(scale.times for scale in scales)
        return Suspect(source, f"its rewards are {times:.1f} times what the others' say")

    def _held(self, end: int, oldest: int, good: Sequence[int]) -> dict[int, Rows]:
        """Of each source some rows to compare with: half of them new, half from all that is held."""
        rows = sum(len(self._columns[source]) for source in good)
        each = max(REFERENCE // 2 // rows, 8)
        old, new = np.linspace(oldest, end - 1, each), np.linspace(end - self.every, end - 1, each)
        steps = np.unique(np.concatenate([old, new]).astype(np.int64))
        return {source: self._numbers.of(self._rows(source, steps)) for source in good}

    def _strange(self, end: int, oldest: int, good: Sequence[int]) -> Suspect | None:
        held = self._held(end, oldest, good)
        newest = {source: self._numbers.of(self._windows(source, end)[1]) for source in good}
        # Who is the strangest to all together is compared with the others alone: two fits instead of one for each.
        common = Expectation(_joined([*held.values()]))
        source = max(good, key=lambda source: float(common.strangeness(newest[source]).max()))
        expected = Expectation(_joined([held[other] for other in good if other != source]))
        by = expected.strangeness(newest[source])
        if by.max() > STRANGE:  # the second look is for the few that fail the first
            by = np.minimum(by, expected.strangeness(self._numbers.of(self._windows(source, end)[0])))
        if by.max() <= STRANGE:
            return None
        return Suspect(
            source, f"its {self._numbers.name(int(by.argmax()))} does not follow from its actions as the others' do"
        )


def _joined(parts: Sequence[Rows]) -> Rows:
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
