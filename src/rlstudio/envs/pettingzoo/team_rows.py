"""The rows of environments with several agents, and how one agent's column is filled.

Inside, arrays are [environments, agents, ...]; the vector gives them as columns, environment by environment. The column
of an agent that is out of the episode, or not yet in it, holds zeros (and its number, where that is shown).
"""

from __future__ import annotations

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import Array, Step
from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Dict, Leaf, Space, Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.action_mask import OBSERVATION, as_mask
from rlstudio.envs.gym.rows import Allocate, Buffers, Deliver, Misfit, deliverer_into, info_noter
from rlstudio.envs.pettingzoo.agent_spaces import AGENT_ID, TeamSpaces, entries


class TeamBuffers(Buffers):
    """One row per agent of each environment."""

    def __init__(self, spaces: Spaces, num_envs: int, agents: int, allocate: Allocate = np.zeros) -> None:
        super().__init__(spaces, num_envs, allocate, (agents,))
        self.active = allocate((num_envs, agents), bool)
        self.over = allocate((num_envs,), bool)  # environments that began another episode with this step

    @property
    def in_columns(self) -> Array:
        return columns(self.observations)

    def quiet_step(self) -> Step:
        rows, infos = self.in_columns, {key: column.reshape(-1) for key, column in self.infos.items()}
        flags = self.terminated.reshape(-1), self.truncated.reshape(-1)
        return Step(rows, rows, self.rewards.reshape(-1), *flags, infos, self.active.reshape(-1))

    def ended(self) -> np.ndarray | None:
        """Environments, not agents: one whose agents are not all out goes on."""
        return self.over if b"\1" in self.over.tobytes() else None

    def outcome(self, quiet: Step) -> tuple[Step, np.ndarray | None]:
        agents_out = super().ended()
        if agents_out is None:
            return quiet, self.ended()
        self.complete_successors(agents_out)
        return quiet._replace(successors=columns(self.successors)), self.ended()

    def clear(self) -> None:
        """Nobody acted, nothing was paid, nothing ended."""
        self.rewards.fill(0.0)
        for flags in (self.terminated, self.truncated, self.active, self.over):
            flags.fill(False)
        for numbers in self.infos.values():
            numbers.fill(np.nan)


def columns(rows: Array) -> Array:
    """[environments, agents, ...] as [columns, ...], sharing the memory."""
    if isinstance(rows, dict):
        return {name: array.reshape(-1, *array.shape[2:]) for name, array in rows.items()}
    return rows.reshape(-1, *rows.shape[2:])


class Seat:
    """The place of one agent in one environment: what it is shown, and which part of an action is its own."""

    def __init__(self, team: TeamSpaces, number: int, rows: TeamBuffers, env: int, cfg: EnvConfig) -> None:
        given, spaces = team.given[number], team.spaces[number]
        self.name, self.column, self._id = team.names[number], number, cfg.id
        self._action = spaces.action
        assert not isinstance(self._action, Dict)
        self._start = np.asarray(getattr(self._action, "start", 0) or 0)
        self._own = tuple(slice(0, size) for size in self._action.shape)
        self._mask_in_info = cfg.action_mask == "info"
        self._now, self._after = (_views(given, array, env, number) for array in (rows.observations, rows.successors))
        rule = ActionMask.of(Spaces(given, self._action))
        self._show = deliverer_into(given, self._now, rule)
        self._wait = deliverer_into(given, self._now)
        self._last = deliverer_into(given, self._after)
        self._note = info_noter({key: column[env] for key, column in rows.infos.items()}, number)
        self._notes = bool(rows.infos)
        for array in (rows.observations, rows.successors):
            _write_number(given, spaces.observation, array, env, number)

    def action(self, actions: np.ndarray) -> object:
        """Its own of the actions of all agents: a NumPy integer, or an array that it may change."""
        own = actions[self.column]
        if own.ndim:
            own = own[self._own].copy()
        return own + self._start if self._start.any() else own

    def show(self, observation: object, info: dict[str, object]) -> None:
        """What it acts on next."""
        self._deliver(self._show, observation, info)

    def wait(self, observation: object, info: dict[str, object]) -> None:
        """What it sees while others act: a mask may forbid everything."""
        self._deliver(self._wait, observation, info)

    def leave(self, observation: object, info: dict[str, object]) -> None:
        """The last that it sees; its column is empty from then on."""
        self._deliver(self._last, observation, info)
        self.clear()

    def clear(self) -> None:
        for view in self._now:
            view[...] = 0

    def keep_last(self) -> None:
        """What it sees now is the last of its episode."""
        for now, after in zip(self._now, self._after, strict=True):
            after[...] = now

    def note(self, info: dict[str, object]) -> None:
        if self._notes:
            self._note(info)

    def _deliver(self, deliver: Deliver, observation: object, info: dict[str, object]) -> None:
        try:
            deliver(self._with_mask(observation, info) if self._mask_in_info else observation)
        except Misfit as misfit:
            raise Misfit(f"agent {self.name}: {misfit}") from misfit

    def _with_mask(self, observation: object, info: dict[str, object]) -> dict[str, object]:
        if ACTION_MASK not in info:
            raise ConfigError(f"env.action_mask: {self._id} has no {ACTION_MASK!r} in its info; set it to none")
        given = observation if isinstance(observation, dict) else {OBSERVATION: observation}
        return {**given, ACTION_MASK: as_mask(info[ACTION_MASK], self._action, self._id)}


def _views(given: Space, rows: Array, env: int, number: int) -> list[np.ndarray]:
    """The part of a column that the environment itself fills, entry by entry."""
    if not isinstance(rows, dict):
        (leaf,) = entries(given).values()
        return [_view(leaf, rows, env, number)]
    return [_view(leaf, rows[name], env, number) for name, leaf in entries(given).items()]


def _view(leaf: Leaf, array: np.ndarray, env: int, number: int) -> np.ndarray:
    """Its numbers come first along each axis; a scalar keeps one dimension."""
    if not leaf.shape:
        return array[env, number : number + 1]
    view: np.ndarray = array[env, number][tuple(slice(0, size) for size in leaf.shape)]
    return view


def _write_number(given: Space, visible: Space, rows: Array, env: int, number: int) -> None:
    """Once: nothing else is ever written there."""
    if isinstance(rows, dict):
        if AGENT_ID in rows and AGENT_ID not in entries(given):
            rows[AGENT_ID][env, number, number] = 1.0
    elif visible != given:  # a row of numbers with that of the agent behind it
        (first,) = next(iter(entries(given).values())).shape
        rows[env, number, first + number] = 1.0
