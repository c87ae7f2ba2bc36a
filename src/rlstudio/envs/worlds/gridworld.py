"""GridWorld: walk to the centre of a small board, again and again.

    board 7x7, start (0, 0), actions up, down, left, right (a wall stops you)
    -1 per step and +10 on reaching the centre, which sends you to one of the four cells diagonal to a corner
    optimal return at gamma .9 from the start: V = 7.170, (1 - gamma) V = .717 per round

With `teleport: false` the centre ends the episode instead. State [row, column, dice], observation one-hot of the cell.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Transition
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.worlds import dice
from rlstudio.envs.worlds.kernel import one_hot

STEP_REWARD, GOAL_REWARD = -1.0, 10.0


class GridWorld:
    id = "rlstudio/GridWorld-v0"
    state_size = 3
    noise_size = 1
    limit: int | None = 100
    agents = 1
    params: Mapping[str, float] = {}

    def __init__(self, size: int = 7, teleport: bool = True) -> None:
        if size < 5 or size % 2 == 0:
            raise ValueError(f"size must be odd and at least 5, got {size}")
        self.size = size
        self.teleport = teleport
        self.spaces = Spaces(Box((size * size,), "float32", (0.0,), (1.0,)), Discrete(4))

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        corner = xp.zeros_like(noise)
        return xp.concatenate((corner, corner, dice.first(noise, xp)), -1)

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        row, column, throw = states[..., 0], states[..., 1], states[..., 2]
        last, centre = self.size - 1, self.size // 2
        row = xp.clip(row + (actions == 1) * 1.0 - (actions == 0) * 1.0, 0, last)
        column = xp.clip(column + (actions == 3) * 1.0 - (actions == 2) * 1.0, 0, last)
        reached = (row == centre) & (column == centre)
        rewards = reached * GOAL_REWARD + STEP_REWARD
        if not self.teleport:
            return Transition(xp.stack((row, column, throw), -1), rewards, reached)
        throw = xp.where(reached, dice.roll(throw), throw)
        face = xp.floor(dice.unit(throw) * 4)
        row = xp.where(reached, 1 + (face >= 2) * (last - 2.0), row)
        column = xp.where(reached, 1 + (face % 2) * (last - 2.0), column)
        return Transition(xp.stack((row, column, throw), -1), rewards, xp.zeros_like(reached))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return one_hot(states[..., 0] * self.size + states[..., 1], self.size**2, xp)
