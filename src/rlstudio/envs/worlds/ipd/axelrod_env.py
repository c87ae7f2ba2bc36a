"""`rlstudio/AxelrodIPD-v0`: the iterated prisoner's dilemma against strategies of the Axelrod library, as a plain env.

Actions, observations and payoffs are those of `rlstudio/IPD-v0`. With several opponents one is drawn per game. Each
action of the opponent is turned into the other one with probability `tremble`, and both see what was done. The length
of the game is not told to the opponent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlstudio.envs.worlds.ipd.axelrod_library import library, player
from rlstudio.envs.worlds.ipd.world import SITUATIONS, IteratedDilemma

ID = "rlstudio/AxelrodIPD-v0"
UNKNOWN_LENGTH = -1


class AxelrodIPD(gymnasium.Env):
    metadata = {"render_modes": []}

    def __init__(
        self,
        opponent: str | Sequence[str] = "TitForTat",
        history: int = 20,
        payoffs: Sequence[float] | None = None,
        tremble: float = 0.05,
    ) -> None:
        game = IteratedDilemma(history, payoffs, tremble)
        self.observation_space = spaces.Box(0.0, 1.0, (history, SITUATIONS), np.float32)
        self.action_space = spaces.Discrete(2)
        self._history, self._payoffs, self._tremble = history, game.payoffs.by_outcome, tremble
        names = [opponent] if isinstance(opponent, str) else list(opponent)
        if not names:
            raise ValueError("opponent must name at least one strategy of Axelrod")
        self._players = [player(name) for name in names]
        self._action = library("env.id", ID).Action

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, float]]:
        super().reset(seed=seed)
        which = int(self.np_random.integers(len(self._players)))
        self._opponent, self._learner = (self._players[which].clone() for _ in range(2))
        self._opponent.set_match_attributes(length=UNKNOWN_LENGTH, noise=self._tremble)
        self._opponent.set_seed(int(self.np_random.integers(2**31)))
        self._outcomes = [0] * self._history
        return self._observed(), {"opponent": float(which)}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, float]]:
        mine = self._action.C if action == 1 else self._action.D
        theirs = self._opponent.strategy(self._learner)
        if self.np_random.random() < self._tremble:
            theirs = theirs.flip()
        self._opponent.update_history(theirs, mine)
        self._learner.update_history(mine, theirs)
        cooperates = theirs is self._action.C
        outcome = 4 - 2 * (action == 1) - cooperates  # 1 to 4 for CC, CD, DC, DD
        self._outcomes = [*self._outcomes[1:], int(outcome)]
        return self._observed(), self._payoffs[outcome - 1], False, False, {"opponent_cooperates": float(cooperates)}

    def _observed(self) -> np.ndarray:
        observed: np.ndarray = np.eye(SITUATIONS, dtype=np.float32)[self._outcomes]
        return observed
