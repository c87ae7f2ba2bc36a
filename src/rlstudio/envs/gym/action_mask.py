"""An env's action mask as an entry `action_mask` of its observation, where every part of RLStudio looks for it.

Envs that show the mask there need no wrapper. Others tell it beside the observation: in `info["action_mask"]`
(Gymnasium's Taxi does) or by a method `action_masks()` (as sb3-contrib asks for it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces

from rlstudio.core.action_mask import ACTION_MASK, choices
from rlstudio.core.errors import ConfigError
from rlstudio.core.spaces import Space, describe
from rlstudio.envs.gym.spaces import convert_action

OBSERVATION = "observation"
METHOD = "action_masks"


class ActionMaskObservation(gymnasium.Wrapper):
    """The outermost wrapper: a plain observation becomes `{"observation": ..., "action_mask": ...}`, a dict one entry
    richer."""

    def __init__(self, env: gymnasium.Env, source: str, id: str) -> None:
        super().__init__(env)
        self._id = id
        self._method = _method(env, id) if source == "method" else None
        self._actions = convert_action(env.action_space, id)
        size = mask_size(self._actions, id)
        space = env.observation_space
        self._nested = isinstance(space, gym_spaces.Dict)
        entries: dict[str, gym_spaces.Space[object]] = (
            dict(space.items()) if isinstance(space, gym_spaces.Dict) else {OBSERVATION: space}
        )
        if ACTION_MASK in entries:
            raise ConfigError(f"env.action_mask: {id} shows its mask in the observation already; set it to none")
        self.observation_space = gym_spaces.Dict({**entries, ACTION_MASK: gym_spaces.Box(0, 1, (size,), np.uint8)})

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[object, dict[str, object]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info), info

    def step(self, action: object) -> tuple[object, SupportsFloat, bool, bool, dict[str, object]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: object, info: dict[str, object]) -> dict[str, object]:
        entries = observation if isinstance(observation, dict) and self._nested else {OBSERVATION: observation}
        return {**entries, ACTION_MASK: self._mask(info)}

    def _mask(self, info: dict[str, object]) -> np.ndarray:
        if self._method is not None:
            given = self._method()
        elif ACTION_MASK in info:
            given = info[ACTION_MASK]
        else:
            raise ConfigError(
                f"env.action_mask: {self._id} has no {ACTION_MASK!r} in its info; set it to method or none"
            )
        return as_mask(given, self._actions, self._id)


def mask_size(actions: Space, id: str) -> int:
    """How many choices a mask tells of."""
    nvec = choices(actions)
    if nvec is None:
        raise ConfigError(f"env.action_mask: {id} takes {describe(actions)}, which no mask fits; set it to none")
    return sum(nvec)


def as_mask(given: object, actions: Space, id: str) -> np.ndarray:
    """What an env tells, as one number per choice."""
    if isinstance(given, tuple | list):  # one mask per part, as `MultiDiscrete.sample(mask=...)` takes them
        given = np.concatenate([np.ravel(part) for part in given])
    mask: np.ndarray = (np.asarray(given) != 0).astype(np.uint8)
    size = sum(choices(actions) or ())
    if mask.shape != (size,):
        raise ConfigError(
            f"env.action_mask: {id} gives a mask of shape {mask.shape}; {describe(actions)} needs"
            f" {size} numbers, one per choice"
        )
    return mask


def _method(env: gymnasium.Env, id: str) -> Callable[[], object]:
    try:
        method: Callable[[], object] = env.get_wrapper_attr(METHOD)
        return method
    except AttributeError as error:
        raise ConfigError(f"env.action_mask: {id} has no method {METHOD}(); set it to info or none") from error
