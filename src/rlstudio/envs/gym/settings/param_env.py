"""A plain env that begins each episode with parameters. They are in place before `reset`, with what the env derives
from them, so that it equals an env that was constructed with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces

from rlstudio.core.errors import ConfigError
from rlstudio.envs.gym.settings.attributes import Attribute, OwnSetter
from rlstudio.envs.gym.settings.derived import derived_of
from rlstudio.envs.gym.settings.mujoco_fields import MujocoField, recompute
from rlstudio.envs.params.draw import draw_from, sample
from rlstudio.envs.params.observed import ENTRY
from rlstudio.envs.params.parameters import Parameter

Build = Callable[[dict[str, float]], gymnasium.Env]


class ParamEnv(gymnasium.Wrapper):
    """`build` makes the env with arguments of its constructor. Values come with `assign`; an env that stands alone
    draws them by the seed of its `reset`."""

    def __init__(self, build: Build, parameters: Sequence[Parameter], env_id: str) -> None:
        self._build, self._parameters, self._env_id = build, parameters, env_id
        self._kwargs: dict[str, float] = {}
        self._assigned: Mapping[str, float] | None = None
        self._draw = draw_from(parameters)
        super().__init__(build({}))
        self._targets = Targets(self.env.unwrapped, parameters, env_id)
        self._observed = [each for each in parameters if each.observed]
        self._numbers = np.zeros(len(self._observed), np.float32)
        if self._observed:
            self.observation_space = _extended(self.env.observation_space, len(self._observed), env_id)

    def assign(self, values: Mapping[str, float]) -> None:
        """What the next episodes have, by the names of `env.params`."""
        self._assigned = values

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        values = self._values(seed)
        kwargs = {each.address: values[each.name] for each in self._of_kind("kwarg") if each.name in values}
        if kwargs != self._kwargs:
            self.env.close()
            self.env = self._build(kwargs)
            self._kwargs = kwargs
            self._targets = Targets(self.env.unwrapped, self._parameters, self._env_id)
        self._targets.write(values)
        given = {each.address: values[each.name] for each in self._of_kind("reset") if each.name in values}
        for place, each in enumerate(self._observed):
            self._numbers[place] = values[each.name] if each.name in values else self._targets.nominal(each)
        merged = {**(options or {}), **given}
        observation, info = self.env.reset(seed=seed, options=merged or None)
        return self._observation(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, *rest = self.env.step(action)
        return self._observation(observation), *rest

    def _values(self, seed: int | None) -> Mapping[str, float]:
        if self._assigned is not None or self._draw is None:
            return self._assigned or {}
        first = np.zeros(1, np.int64)
        return {name: float(value[0]) for name, value in sample(self._draw, seed or 0, first, first)[1].items()}

    def _of_kind(self, kind: str) -> list[Parameter]:
        return [each for each in self._parameters if each.kind == kind]

    def _observation(self, observation: Any) -> Any:
        if not self._observed:
            return observation
        if isinstance(observation, dict):
            return {**observation, ENTRY: self._numbers}
        return np.concatenate([np.asarray(observation, np.float32), self._numbers])


class Targets:
    """Where the parameters of one env object are."""

    def __init__(self, env: gymnasium.Env, parameters: Sequence[Parameter], env_id: str) -> None:
        self._env, self._env_id = env, env_id
        plain = [each for each in parameters if each.kind in ("", "attr")]
        self._setter = None
        if hasattr(env, "set_params"):
            own = [each for each in plain if not each.kind]
            self._setter, plain = OwnSetter(env, own, env_id), [each for each in plain if each.kind]
        self._by_setter = [each for each in parameters if not each.kind] if self._setter else []
        self._attributes = {each.name: Attribute(env, each, env_id) for each in plain}
        self._fields = {each.name: MujocoField(env, each, env_id) for each in parameters if each.kind == "mujoco"}
        self._parameters = parameters
        self._derived = derived_of(env) if self._attributes else {}
        for each in parameters:
            if each.scale and each.name not in self._fields:
                self.own(each)

    def write(self, values: Mapping[str, float]) -> None:
        """Those that are there; the others stay the env's own."""
        if self._setter is not None and (own := self._by_names(values)):
            self._setter.write(own)
        for each in self._parameters:
            if each.name not in values:
                continue
            value = values[each.name]
            if each.name in self._attributes:
                attribute = self._attributes[each.name]
                attribute.write(value * attribute.own if each.scale else value)
            elif each.name in self._fields:
                self._fields[each.name].write(value, each.scale)
        for name, compute in self._derived.items():
            setattr(self._env, name, compute(self._env))
        if self._fields:
            recompute(self._env)

    def own(self, each: Parameter) -> float:
        """The env's own value; ConfigError where it is not known."""
        own: float | None = None
        if each.name in self._attributes:
            own = self._attributes[each.name].own
        elif each.name in self._fields:
            own = self._fields[each.name].own
        elif self._setter is not None and not each.kind:
            own = self._setter.own[each.address]
        if own is None:
            raise ConfigError(
                f"env.params: the own value of {each.name} in {self._env_id} is not known as one number; give a number"
                " instead, or in eval.params"
            )
        return own

    def nominal(self, each: Parameter) -> float:
        """What is observed where nothing was drawn."""
        return 1.0 if each.scale else self.own(each)

    def _by_names(self, values: Mapping[str, float]) -> dict[str, float]:
        return {
            each.address: values[each.name] * (self.own(each) if each.scale else 1.0)
            for each in self._by_setter
            if each.name in values
        }


def _extended(space: gym_spaces.Space[Any], count: int, env_id: str) -> gym_spaces.Space[Any]:
    numbers = gym_spaces.Box(-np.inf, np.inf, (count,), np.float32)
    if isinstance(space, gym_spaces.Dict) and ENTRY not in space.spaces:
        return gym_spaces.Dict({**space.spaces, ENTRY: numbers})
    if isinstance(space, gym_spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
        low, high = (np.asarray(side, np.float32) for side in (space.low, space.high))
        return gym_spaces.Box(np.concatenate([low, numbers.low]), np.concatenate([high, numbers.high]))
    raise ConfigError(
        f"env.params: {env_id} shows {space}, where no parameter can be observed; leave `observed` out, or use"
        " env.wrappers=[FlattenObservation]"
    )
