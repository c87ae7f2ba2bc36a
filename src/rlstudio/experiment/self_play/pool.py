"""OpponentPool: the players that a learner was measured against, and the score of all games between them.

Members are numbers. The learner is the first, then those who never change, then its snapshots in the order in which
they were taken. A snapshot is the learner of that moment, so half of the learner's games become its own; the other half
stays, and older games fade as more snapshots are taken.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from rlstudio.core.contracts import State
from rlstudio.ops.ratings import Ratings, bradley_terry

LEARNER = -1


class OpponentPool:
    def __init__(self, fixed: Sequence[int], size: int) -> None:
        """`fixed`: members that never change. `size`: snapshots that are kept."""
        self.size = size
        self._fixed = len(fixed) + 1
        self.members = [LEARNER, *fixed]
        self.scores = np.zeros((self._fixed, self._fixed))  # games that the row won against the column, draws as half

    @property
    def snapshots(self) -> list[int]:
        """From old to new."""
        return self.members[self._fixed :]

    def record(self, member: int, score: float) -> None:
        """A game of the learner: it got 1, or 0.5 by a draw, or 0."""
        place = self.members.index(member)
        self.scores[0, place] += score
        self.scores[place, 0] += 1.0 - score

    def add(self, member: int, in_play: Collection[int] = ()) -> list[int]:
        """Take up a snapshot of the learner; those that are dropped for it. Who is still in play stays."""
        self.scores[0] /= 2
        self.scores[:, 0] /= 2
        self.scores = np.pad(self.scores, ((0, 1), (0, 1)))
        self.scores[-1], self.scores[:, -1] = self.scores[0], self.scores[:, 0]
        self.members.append(member)
        surplus = max(len(self.snapshots) - self.size, 0)
        dropped = [old for old in self.snapshots[:-1] if old not in in_play][:surplus]
        kept = [place for place, one in enumerate(self.members) if one not in dropped]
        self.members = [self.members[place] for place in kept]
        self.scores = self.scores[np.ix_(kept, kept)]
        return dropped

    def chances(self, prioritise: str) -> np.ndarray:
        """How likely each snapshot is met, by the share p of games that the learner wins against it, with one drawn
        game more: prioritised fictitious self-play (Vinyals et al. 2019)."""
        won, lost = self.scores[0, self._fixed :], self.scores[self._fixed :, 0]
        share = (won + 0.5) / (won + lost + 1.0)
        weights = {"hard": (1 - share) ** 2, "even": share * (1 - share), "uniform": np.ones_like(share)}[prioritise]
        return np.asarray(weights / weights.sum()) if len(weights) else weights

    def ratings(self) -> Ratings:
        """Of the members, relative to the first that is not the learner."""
        return bradley_terry(self.scores, reference=1 if len(self.members) > 1 else 0)

    def state_dict(self) -> State:
        return {"members": np.array(self.members), "scores": self.scores.copy()}

    def load_state_dict(self, state: State) -> None:
        self.members = np.asarray(state["members"]).tolist()
        self.scores = np.array(state["scores"], float)
