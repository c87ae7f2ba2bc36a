"""Gymnasium spaces as our plain ones, and what one plain env must deliver to fit them.

Observations are delivered in few kinds: floats (and whole numbers other than bytes) as float32, bytes as uint8, choices
as int64 counted from 0. Actions count from 0 as well: `Renumbered` shifts both where an env starts elsewhere, so no
agent ever sees an offset.
"""

from __future__ import annotations

from dataclasses import replace
from typing import SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium import spaces as gym_spaces
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FrameStackObservation

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, Leaf, MultiDiscrete, Space, Spaces, Stack

REMEDY = "add the wrapper FlattenObservation or convert it inside the env"


def convert_spaces(env: gymnasium.Env, id: str, infos: tuple[str, ...] = ()) -> Spaces:
    """The spaces of `env`, or a refusal that names the part that does not fit; and the keys of its info to keep."""
    return _converted(env.observation_space, env.action_space, id, infos, _stack(env))


def convert_vector_spaces(env: VectorEnv, id: str, infos: tuple[str, ...] = ()) -> Spaces:
    """Those of one of its copies."""
    observation = env.single_observation_space
    if np.any(_start(observation)):
        raise Incompatible(f"{id}: observation counts from {_start(observation)}; let it count from 0")
    return _converted(observation, env.single_action_space, id, infos)


def _converted(
    observation: gym_spaces.Space[object],
    action: gym_spaces.Space[object],
    id: str,
    infos: tuple[str, ...],
    stack: Stack | None = None,
) -> Spaces:
    observed = convert_observation(observation, id)
    if isinstance(observed, Box):
        observed = replace(observed, stack=stack)
    spaces = Spaces(observed, convert_action(action, id), infos)
    try:
        ActionMask.of(spaces)
    except Incompatible as error:
        raise Incompatible(f"{id}: {error}") from error
    return spaces


def convert_observation(space: gym_spaces.Space[object], id: str) -> Space:
    """What an env shows."""
    if isinstance(space, gym_spaces.Dict):
        _refuse_text(space, id)
        return Dict(tuple((name, _entry(space[name], f"{id}: observation {name!r}")) for name in sorted(space)))
    return _leaf(space, f"{id}: observation")


def _refuse_text(observation: gym_spaces.Dict, id: str) -> None:
    """No Model reads words. The usual case is MiniGrid's mission, which has a space class of its own."""
    text = [name for name, space in observation.items() if isinstance(space, gym_spaces.Text) or _is_mission(space)]
    if text:
        kept = ", ".join(sorted(observation.keys() - set(text)))
        shorter = " (of MiniGrid also ImgObsWrapper or FlatObsWrapper)" if _is_mission(observation[text[0]]) else ""
        raise Incompatible(
            f"{id}: observation {text[0]!r} is text; leave it out with"
            f" env.wrappers=[{{FilterObservation: {{filter_keys: [{kept}]}}}}]{shorter}"
        )


def _is_mission(space: gym_spaces.Space[object]) -> bool:
    return type(space).__name__ == "MissionSpace"


def _stack(env: gymnasium.Env) -> Stack | None:
    """How the outermost wrapper stacks frames, where storage can take the stack apart and build it again."""
    if isinstance(env, Renumbered):  # shifts actions; a Box it leaves alone
        env = env.env
    if not isinstance(env, FrameStackObservation) or env.padding_type not in ("reset", "zero"):
        return None
    frame = env.env.observation_space
    images = frame.dtype == np.uint8 and frame.shape is not None and len(frame.shape) in (2, 3)
    return Stack(env.stack_size, env.padding_type) if images and 1 < env.stack_size < 256 else None


def _entry(space: gym_spaces.Space[object], where: str) -> Leaf:
    if np.any(_start(space)):
        raise Incompatible(f"{where} counts from {_start(space)}; inside a Dict choices must count from 0, {REMEDY}")
    return _leaf(space, where)


def _leaf(space: gym_spaces.Space[object], where: str) -> Leaf:
    match space:
        case gym_spaces.Box():
            dtype = "uint8" if space.dtype == np.uint8 else "float32"
            return Box(tuple(space.shape), dtype, bounds_of(space.low, dtype), bounds_of(space.high, dtype))
        case gym_spaces.Discrete():
            return Discrete(int(space.n))
        case gym_spaces.MultiDiscrete() if space.nvec.ndim == 1:
            return MultiDiscrete(tuple(int(n) for n in space.nvec))
        case gym_spaces.MultiBinary() if len(space.shape) == 1:
            return MultiDiscrete((2,) * space.shape[0])
        case gym_spaces.Dict():
            raise Incompatible(f"{where} is a Dict inside a Dict; only one level is supported, {REMEDY}")
    raise Incompatible(
        f"{where} is a {space}; supported are Box, Discrete, MultiDiscrete and one Dict of them, {REMEDY}"
    )


def convert_action(space: gym_spaces.Space[object], id: str) -> Leaf:
    """What an env takes."""
    where = f"{id}: action"
    match space:
        case gym_spaces.Box() if space.dtype.kind == "f":
            return Box(tuple(space.shape), "float32", bounds_of(space.low, "float32"), bounds_of(space.high, "float32"))
        case gym_spaces.Discrete():
            return Discrete(int(space.n), int(space.start))  # added by `act`; inside, choices count from 0
        case gym_spaces.MultiDiscrete() if space.nvec.ndim == 1:
            start = tuple(int(first) for first in space.start) if np.any(space.start) else ()
            return MultiDiscrete(tuple(int(n) for n in space.nvec), start)
        case gym_spaces.MultiDiscrete() | gym_spaces.MultiBinary():
            return _leaf(space, where)
    raise Incompatible(f"{where} is {space}; supported are Box of floats, Discrete, MultiDiscrete and MultiBinary")


def bounds_of(values: np.ndarray, dtype: str) -> tuple[float, ...]:
    """One bound for all elements where they agree: an image has as many as it has pixels."""
    flat = np.asarray(values, dtype).ravel()
    if flat.size and (flat == flat[0]).all():
        return (float(flat[0]),)
    return tuple(float(value) for value in flat)


def _start(space: gym_spaces.Space[object]) -> int | np.ndarray:
    start: int | np.ndarray = getattr(space, "start", 0)
    return start


class Renumbered(gymnasium.Wrapper):
    """Choices counted from 0 for an env that counts from elsewhere."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._action_start = _start(env.action_space)
        self._observation_start = _start(env.observation_space)

    @staticmethod
    def needed(env: gymnasium.Env) -> bool:
        return any(np.any(_start(space)) for space in (env.action_space, env.observation_space))

    def step(self, action: np.ndarray) -> tuple[object, SupportsFloat, bool, bool, dict[str, object]]:
        observation, reward, terminated, truncated, info = self.env.step(action + self._action_start)
        return self._from_zero(observation), reward, terminated, truncated, info

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[object, dict[str, object]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._from_zero(observation), info

    def _from_zero(self, observation: object) -> object:
        """Where only the actions start elsewhere, the observation may be anything, a dict too."""
        if not np.any(self._observation_start):
            return observation
        return cast(np.ndarray, observation) - self._observation_start


def to_gymnasium(space: Space) -> gym_spaces.Space[object]:
    """Our space as Gymnasium has it."""
    match space:
        case Box():
            low, high = space.bounds()
            return gym_spaces.Box(low, high, space.shape, np.dtype(space.dtype).type)
        case Discrete():
            return gym_spaces.Discrete(space.n, start=space.start)
        case MultiDiscrete():
            return gym_spaces.MultiDiscrete(list(space.nvec), start=list(space.start) or None)
        case Dict():
            return gym_spaces.Dict({name: to_gymnasium(entry) for name, entry in space.items()})
