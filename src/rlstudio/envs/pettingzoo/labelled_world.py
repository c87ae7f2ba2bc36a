"""A World of several agents that shows what `env.agent_id` and `env.state` ask for, as PettingZoo's environments do."""

from __future__ import annotations

from typing import Any, cast

from rlstudio.core.contracts import Transition, World
from rlstudio.core.contracts.arrays import AnyArray, Namespace, Params
from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.action_mask import OBSERVATION
from rlstudio.envs.pettingzoo.agent_spaces import AGENT_ID, STATE, joined, visible_space
from rlstudio.envs.worlds.team import numbered_names


class LabelledWorld:
    """The state of the whole world is what all agents observe, one after the other, as MPE2 has it."""

    def __init__(self, world: World[Any], cfg: EnvConfig) -> None:
        own: tuple[Spaces, ...] = getattr(world, "agent_spaces", (world.spaces,) * world.agents)
        self._world, self._sizes = world, [_row(spaces, cfg.id) for spaces in own]
        self._numbered, self._with_state = cfg.agent_id, cfg.state
        self.id, self.limit, self.params = world.id, world.limit, world.params
        self.agents, self.state_size, self.noise_size = world.agents, world.state_size, world.noise_size
        self.agent_names: tuple[str, ...] = getattr(world, "agent_names", numbered_names(world.agents))
        whole = Box((sum(self._sizes),), "float32", (-float("inf"),), (float("inf"),)) if cfg.state else None
        count = world.agents if cfg.agent_id else 0
        visible = [visible_space(spaces.observation, count, whole, cfg.id) for spaces in own]
        self.agent_spaces = tuple(Spaces(space, each.action) for space, each in zip(visible, own, strict=True))
        self.spaces = Spaces(joined(self.agent_names, visible, cfg.id), world.spaces.action)

    def initial(self, noise: AnyArray, p: Params, xp: Namespace) -> AnyArray:
        return cast(AnyArray, self._world.initial(noise, p, xp))

    def dynamics(self, states: AnyArray, actions: AnyArray, p: Params, xp: Namespace) -> Transition[AnyArray]:
        return cast("Transition[AnyArray]", self._world.dynamics(states, actions, p, xp))

    def observe(self, states: AnyArray, p: Params, xp: Namespace) -> AnyArray | dict[str, AnyArray]:
        views = cast(AnyArray, self._world.observe(states, p, xp))
        numbers = [self._number(views, agent, xp) for agent in range(self.agents)] if self._numbered else []
        own = [views[..., agent, :size] for agent, size in enumerate(self._sizes)]
        if not self._with_state:
            behind = [views[..., agent, size:] for agent, size in enumerate(self._sizes)]  # zeros
            return xp.stack(tuple(xp.concatenate(row, -1) for row in zip(own, numbers, behind, strict=True)), -2)
        whole = xp.concatenate(tuple(own), -1)
        entries = {OBSERVATION: views, STATE: xp.stack((whole,) * self.agents, -2)}
        return {**entries, AGENT_ID: xp.stack(tuple(numbers), -2)} if numbers else entries

    def _number(self, views: AnyArray, agent: int, xp: Namespace) -> AnyArray:
        """1 in the place of the agent, 0 in those of the others."""
        zero = xp.zeros_like(views[..., agent, :1])
        return xp.concatenate(tuple(zero + float(other == agent) for other in range(self.agents)), -1)


def _row(spaces: Spaces, id: str) -> int:
    space = spaces.observation
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise ConfigError(f"env.agent_id: {id} shows its agents no row of numbers; leave it out")
    return space.shape[0]
