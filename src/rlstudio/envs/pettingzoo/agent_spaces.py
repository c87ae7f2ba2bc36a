"""What the agents of one environment are shown and take, each for itself and all of them as columns of one array.

An agent with smaller spaces has its numbers first along each axis and zeros behind them, and its choices are the first
ones (`NamedAgents` in `core/contracts`). The number of the agent (`env.agent_id`) follows its own numbers where those
are a row, otherwise it is an entry of a Dict; the state of the whole world (`env.state`) always is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlstudio.core.action_mask import ACTION_MASK, ActionMask
from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Spaces, describe, from_json, to_json
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.action_mask import OBSERVATION, mask_size
from rlstudio.envs.gym.spaces import bounds_of, convert_action, convert_observation

AGENT_ID, STATE = "agent_id", "state"


@dataclass(frozen=True)
class TeamSpaces:
    names: tuple[str, ...]
    """Of the possible agents, in the order of their columns."""

    given: tuple[Space, ...]
    """What the environment itself shows each of them, with the mask of its info."""

    spaces: tuple[Spaces, ...]
    """What each of them sees in its column, and takes."""

    together: Spaces
    """Of the columns."""

    def to_json(self) -> State:
        return {
            "names": self.names,
            "given": [to_json(space) for space in self.given],
            "observations": [to_json(spaces.observation) for spaces in (*self.spaces, self.together)],
            "actions": [to_json(spaces.action) for spaces in (*self.spaces, self.together)],
            "infos": self.together.infos,
        }

    @classmethod
    def from_json(cls, value: State) -> TeamSpaces:
        pairs = zip(value["observations"], value["actions"], strict=True)
        *each, together = (Spaces(from_json(shows), from_json(takes), tuple(value["infos"])) for shows, takes in pairs)
        return cls(tuple(value["names"]), tuple(map(from_json, value["given"])), tuple(each), together)


def convert_team(env: Any, cfg: EnvConfig) -> TeamSpaces:
    """The spaces of all possible agents, or a refusal that names the agent and the part that does not fit."""
    agents = list(getattr(env, "possible_agents", None) or ())
    if not agents:
        raise Incompatible(f"{cfg.id}: has no possible_agents; an environment must say which agents may appear in it")
    names = tuple(map(str, agents))
    actions = [convert_action(env.action_space(agent), f"{cfg.id}: {agent}") for agent in agents]
    given = [
        _given(convert_observation(env.observation_space(agent), f"{cfg.id}: {agent}"), action, cfg)
        for agent, action in zip(agents, actions, strict=True)
    ]
    state = _state_space(env, cfg.id) if cfg.state else None
    count = len(agents) if cfg.agent_id else 0
    visible = [visible_space(space, count, state, cfg.id) for space in given]
    each = [Spaces(space, action, cfg.infos) for space, action in zip(visible, actions, strict=True)]
    for name, spaces in zip(names, each, strict=True):
        try:
            ActionMask.of(spaces)
        except Incompatible as error:
            raise Incompatible(f"{cfg.id}: {name}: {error}") from error
    observation, action = joined(names, visible, cfg.id), joined(names, actions, cfg.id)
    return TeamSpaces(names, tuple(given), tuple(each), Spaces(observation, action, cfg.infos))


def teams(team: TeamSpaces) -> dict[str, tuple[int, ...]]:
    """Agents by the beginning of their name, `adversary` of `adversary_0`, as far as their spaces are equal: a name
    whose agents differ is split into its agents."""
    by_prefix: dict[str, list[int]] = {}
    for number, name in enumerate(team.names):
        by_prefix.setdefault(name.rpartition("_")[0] or name, []).append(number)
    made: dict[str, tuple[int, ...]] = {}
    for prefix, numbers in by_prefix.items():
        if len({team.spaces[number] for number in numbers}) == 1:
            made[prefix] = tuple(numbers)
        else:
            made.update({team.names[number]: (number,) for number in numbers})
    return made


def entries(space: Space) -> dict[str, Leaf]:
    return dict(space.items()) if isinstance(space, Dict) else {OBSERVATION: space}


def _given(space: Space, action: Leaf, cfg: EnvConfig) -> Space:
    if cfg.action_mask != "info":
        return space
    if ACTION_MASK in entries(space):
        raise ConfigError(f"env.action_mask: {cfg.id} shows its mask in the observation already; set it to none")
    mask = Box((mask_size(action, cfg.id),), "uint8", (0.0,), (1.0,))
    return _dict({**entries(space), ACTION_MASK: mask})


def visible_space(space: Space, agents: int, state: Box | None, id: str) -> Space:
    """What the environment shows, the number of the agent among `agents` (0: not asked for) and the state."""
    if not agents and state is None:
        return space
    number = Box((agents,), "float32", (0.0,), (1.0,))
    if state is None and isinstance(space, Box) and len(space.shape) == 1 and space.dtype == "float32":
        low, high = (np.broadcast_to(bound, space.shape) for bound in space.bounds())
        lows, highs = np.concatenate([low, np.zeros(agents)]), np.concatenate([high, np.ones(agents)])
        return Box((len(lows),), "float32", bounds_of(lows, "float32"), bounds_of(highs, "float32"))
    more: dict[str, Leaf] = {**({AGENT_ID: number} if agents else {}), **({} if state is None else {STATE: state})}
    if taken := more.keys() & entries(space).keys():
        raise ConfigError(f"env.{min(taken)}: {id} shows an entry of that name already; set it to false")
    return _dict({**entries(space), **more})


def _state_space(env: Any, id: str) -> Box:
    space = getattr(env, "state_space", None)
    if space is None:
        raise ConfigError(f"env.state: {id} has no state_space, so no state of the whole world; set it to false")
    state = convert_observation(space, f"{id}: state")
    if not isinstance(state, Box):
        raise ConfigError(f"env.state: {id} has a state that is {describe(state)}, not a Box; set it to false")
    return state


def _dict(leaves: dict[str, Leaf]) -> Dict:
    return Dict(tuple(sorted(leaves.items())))


def joined(names: tuple[str, ...], spaces: list[Any], id: str) -> Any:
    """The smallest space that has room for each of these."""
    if all(space == spaces[0] for space in spaces):
        return spaces[0]
    first = spaces[0]
    for name, space in zip(names, spaces, strict=True):
        if not _alike(first, space):
            raise Incompatible(
                f"{id}: {names[0]} has {describe(first)} and {name} has {describe(space)}; agents of one environment"
                " must have the same kinds of spaces"
            )
    if isinstance(first, Dict):
        parts = {key: [dict(space.items())[key] for space in spaces] for key, _ in first.items()}
        return _dict({key: joined(names, leaves, id) for key, leaves in parts.items()})
    return _room(spaces)


def _room(leaves: list[Any]) -> Leaf:
    first = leaves[0]
    if isinstance(first, Discrete):
        return replace(first, n=max(leaf.n for leaf in leaves))
    if isinstance(first, MultiDiscrete):
        longest = max(len(leaf.nvec) for leaf in leaves)
        return MultiDiscrete(tuple(max((*leaf.nvec, *[1] * longest)[i] for leaf in leaves) for i in range(longest)))
    shape = tuple(max(sizes) for sizes in zip(*(leaf.shape for leaf in leaves), strict=True))
    low = min(0.0, *(float(leaf.bounds()[0].min()) for leaf in leaves))
    high = max(0.0, *(float(leaf.bounds()[1].max()) for leaf in leaves))
    return Box(shape, first.dtype, (low,), (high,))


def _alike(first: Space, other: Space) -> bool:
    if isinstance(first, Dict) and isinstance(other, Dict):
        mine, theirs = dict(first.items()), dict(other.items())
        return mine.keys() == theirs.keys() and all(_alike(mine[name], theirs[name]) for name in mine)
    if isinstance(first, Box) and isinstance(other, Box):
        return (first.dtype, len(first.shape)) == (other.dtype, len(other.shape))
    if isinstance(first, Discrete) and isinstance(other, Discrete):
        return first.start == other.start
    if isinstance(first, MultiDiscrete) and isinstance(other, MultiDiscrete):
        return not first.start and not other.start
    return False
