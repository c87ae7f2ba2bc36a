"""Sources: who the rows of a replay came from, and whose rows are not learned from.

A source is a rollout worker, or an environment where there are none. One that fails a check is quarantined: its rows
weigh nothing and stay, and so do those to come. A look depends on the rows alone, so it comes at the same row in a run
that was resumed, and as long as nobody fails, a checkpoint has nothing of this in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Contributor, State
from rlstudio.core.spaces import Spaces
from rlstudio.data.replay.source_checks import SourceChecks

if TYPE_CHECKING:
    from rlstudio.data.replay.buffer import ReplayBuffer


class Sources:
    """Of one replay. `compared`: they are alike by design, so that one which differs lies."""

    def __init__(self, replay: ReplayBuffer, spaces: Spaces, origins: Sequence[Contributor], *, compared: bool) -> None:
        self.origins = tuple(origins)
        self.quarantined: dict[int, str] = {}  # source -> why
        self.released: set[int] = set()  # by the user: they are not compared again
        self.decisions = 0  # of the user, that were carried out
        self._untold: list[str] = []  # quarantined since the last report
        self._replay = replay
        self._counts = np.ones(replay.num_envs, bool)  # of each column
        self._checks = SourceChecks(replay, spaces, origins) if compared else None
        self._looks = 0

    def look(self) -> None:
        """Asked after every bit of collecting, so cheap where nothing is due."""
        checks, least = self._checks, self._replay.numbering.least
        if checks is None or least < (self._looks + 1) * checks.every:
            return
        self._looks = least // checks.every
        good = [source for source in range(len(self.origins)) if source not in self.quarantined]
        if suspect := checks.suspect(self._looks * checks.every, good, self.released):
            self.quarantine(*suspect)
            self._untold.append(f"{self.origins[suspect.source].name}: {suspect.reason}")

    # -- what counts ------------------------------------------------------------------------------------------------

    def quarantine(self, source: int, reason: str) -> None:
        self.quarantined[source] = reason
        self.released.discard(source)
        self._note()

    def release(self, source: int) -> None:
        self.quarantined.pop(source, None)
        self.released.add(source)
        self._note()

    def purge(self, source: int, reason: str) -> None:
        """Its rows are gone for good; what it still gives weighs nothing."""
        self.quarantine(source, reason)
        held = self._replay.numbering.held()
        self._replay.erase(held[np.isin(held % self._replay.num_envs, self.origins[source].columns)])

    def _note(self) -> None:
        self._counts[:] = True
        for source in self.quarantined:
            self._counts[self.origins[source].columns] = False

    def count(self, rows: np.ndarray) -> np.ndarray:
        """Which of these rows count."""
        return np.asarray(self._counts[rows % len(self._counts)])

    def weighed(self, batch: Batch) -> Batch:
        """With no weight on rows of a source in quarantine."""
        if not self.quarantined:
            return batch
        counts = torch.from_numpy(self.count(batch.rows.numpy()).astype(np.float32))
        return batch.with_(weights=counts if batch.weights is None else batch.weights * counts)

    # -- state ------------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """None while all count."""
        return {"data/quarantined_share": float(1 - self._counts.mean())} if self.quarantined else {}

    def take(self) -> list[str]:
        """Who was quarantined since the last time, and why."""
        taken, self._untold = self._untold, []
        return taken

    def state_dict(self) -> State:
        """Empty while nothing happened."""
        state: State = {
            "quarantined": {str(source): reason for source, reason in sorted(self.quarantined.items())},
            "released": sorted(self.released),
            "decisions": self.decisions,
            "untold": list(self._untold),
        }
        return state if any(state.values()) else {}

    def load_state_dict(self, state: State) -> None:
        """After the rows are back."""
        self.quarantined = {int(source): str(reason) for source, reason in state.get("quarantined", {}).items()}
        self.released = {int(source) for source in state.get("released", [])}
        self.decisions = int(state.get("decisions", 0))
        self._untold = list(state.get("untold", []))
        self._looks = 0 if self._checks is None else self._replay.numbering.least // self._checks.every
        self._note()
