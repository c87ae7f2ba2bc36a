"""TeamColumns: where the agents of one team stand among the columns of environments with several agents."""

from __future__ import annotations

import numpy as np

from rlstudio.core.contracts import Array, Step
from rlstudio.core.spaces import Dict, Leaf, Spaces


class TeamColumns:
    """Agents `numbers` of the `agents` in each environment, with spaces of their own. Agent a of environment e is
    column e * agents + a; those of the team keep that order. In arrays of all agents the numbers of a smaller one come
    first."""

    def __init__(self, numbers: tuple[int, ...], agents: int, spaces: Spaces) -> None:
        self.numbers = numbers
        self.agents = agents
        self.spaces = spaces
        self._of: dict[int, np.ndarray] = {}  # by number of columns: a run has few

    def among(self, columns: int) -> np.ndarray:
        """Which of so many columns are the team's."""
        own = self._of.get(columns)
        if own is None:
            firsts = np.arange(0, columns, self.agents)
            own = self._of[columns] = (firsts[:, None] + np.asarray(self.numbers)).reshape(-1)
        return own

    def observations(self, rows: Array) -> Array:
        """What the team is shown, [b, ...] of [B, ...]."""
        space = self.spaces.observation
        if isinstance(rows, dict):
            assert isinstance(space, Dict)
            return {name: self._cut_out(rows[name], entry) for name, entry in space.items()}
        assert not isinstance(space, Dict)
        return self._cut_out(rows, space)

    def _cut_out(self, rows: np.ndarray, space: Leaf) -> np.ndarray:
        own: np.ndarray = rows[self.among(len(rows))]
        return own if own.shape[1:] == space.shape else own[:, *_first(space.shape)]

    def put(self, actions: np.ndarray, own: np.ndarray) -> None:
        """The team's actions [b, ...] in their places among those of all, [B, ...]."""
        columns = self.among(len(actions))
        if actions.shape[1:] == own.shape[1:]:
            actions[columns] = own
        else:
            places: tuple[np.ndarray | slice, ...] = (columns, *_first(own.shape[1:]))
            actions[places] = own

    def actions(self, actions: np.ndarray) -> np.ndarray:
        """The team's actions among those of all: what `put` put there."""
        space = self.spaces.action
        assert not isinstance(space, Dict)
        return self._cut_out(actions, space)

    def outcome(self, step: Step) -> Step:
        """The team's part of a step."""
        own = self.among(len(step.rewards))
        return Step(
            self.observations(step.observations),
            self.observations(step.successors),
            step.rewards[own],
            step.terminated[own],
            step.truncated[own],
            {key: numbers[own] for key, numbers in step.infos.items()},
            None if step.active is None else step.active[own],
        )


def _first(shape: tuple[int, ...]) -> tuple[slice, ...]:
    """So many along each axis."""
    return tuple(slice(size) for size in shape)
