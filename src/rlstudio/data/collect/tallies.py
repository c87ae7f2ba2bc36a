"""What several that collect have to report, as one: ranks, slices of workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rlstudio.core.contracts import EpisodeDraws, State, Tally

T = TypeVar("T")


def to_state(tally: Tally) -> State:
    draws = None if tally.draws is None else tally.draws._asdict()
    return {**tally._asdict(), "draws": draws}


def from_state(state: State) -> Tally:
    draws = state["draws"]
    return Tally(**{**state, "draws": None if draws is None else EpisodeDraws(**draws)})


def together(tallies: Sequence[Tally]) -> Tally:
    """Episodes in their order; of what is noticed once, that of the first which noticed it. Metrics of environments are
    those of the first."""
    first, reasons = tallies[0], dict.fromkeys(reason for tally in tallies for reason in tally.bad)
    return Tally(
        returns=[value for tally in tallies for value in tally.returns],
        lengths=[value for tally in tallies for value in tally.lengths],
        bad_rows=sum(tally.bad_rows for tally in tallies),
        bad={reason: sum(tally.bad.get(reason, 0) for tally in tallies) for reason in reasons},
        infos=_joined([tally.infos for tally in tallies]),
        restarts=_optional(tallies, lambda tally: tally.restarts, _in_turn),
        outside=next((tally.outside for tally in tallies if tally.outside is not None), None),
        bad_row=next((tally.bad_row for tally in tallies if tally.bad_row is not None), None),
        metrics=first.metrics,
        draws=draws_together(tallies),
        quarantined=_optional(tallies, lambda tally: tally.quarantined, _in_turn),
    )


def _optional(
    tallies: Sequence[Tally], part: Callable[[Tally], T | None], join: Callable[[Sequence[T]], T]
) -> T | None:
    given = [value for tally in tallies if (value := part(tally)) is not None]
    return join(given) if given else None


def _in_turn(lists: Sequence[list[str]]) -> list[str]:
    return [line for one in lists for line in one]


def _joined(columns: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {name: [value for one in columns for value in one[name]] for name in columns[0]}


def draws_together(tallies: Sequence[Tally]) -> EpisodeDraws | None:
    """What was drawn for the episodes of all of them, in the order of these; None where nothing is drawn."""
    return _optional(tallies, lambda tally: tally.draws, _drawn)


def _drawn(draws: Sequence[EpisodeDraws]) -> EpisodeDraws:
    return EpisodeDraws(
        [version for one in draws for version in one.versions],
        [component for one in draws for component in one.components],
        _joined([one.values for one in draws]),
    )
