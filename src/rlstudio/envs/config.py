"""The env section of an experiment: which world, how many copies, how they run. Free of torch and of Gymnasium."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pydantic import Field, JsonValue, ValidationInfo, field_validator

from rlstudio.core.config import Config
from rlstudio.core.errors import suggest
from rlstudio.core.parsing.problems import value_text
from rlstudio.envs.own_modules import class_id
from rlstudio.envs.params.parameters import Parameter, ParamValue
from rlstudio.envs.params.section import evaluated_params, fit_params, parse_params

Vectorization = Literal["auto", "native", "sync", "async", "envpool", "vector"]

WRAPPERS = (
    "AtariPreprocessing",
    "ClipAction",
    "ClipReward",
    "DelayObservation",
    "DiscretizeAction",
    "DiscretizeObservation",
    "FilterObservation",
    "FlattenObservation",
    "FrameStackObservation",
    "GrayscaleObservation",
    "MaxAndSkipObservation",
    "RepeatAction",
    "RescaleAction",
    "RescaleObservation",
    "ReshapeObservation",
    "ResizeObservation",
    "StickyAction",
    "TimeAwareObservation",
)
"""Wrappers of `gymnasium.wrappers` that take plain values, write nothing and whose state ends with the episode."""

MINIGRID_WRAPPERS = (
    "DictObservationSpaceWrapper",
    "DirectionObsWrapper",
    "FlatObsWrapper",
    "FullyObsWrapper",
    "ImgObsWrapper",
    "OneHotPartialObsWrapper",
    "RGBImgObsWrapper",
    "RGBImgPartialObsWrapper",
    "SymbolicObsWrapper",
    "ViewSizeWrapper",
)
"""The same of `minigrid.wrappers`: how a MiniGrid world is shown."""

LARGEST_IN_WRAPPER = 10_000
"""A wrapper makes as many frames or pixels as it is told to, before anything could look at its spaces."""

ELSEWHERE = {
    "TimeLimit": "set env.max_episode_steps instead",
    "NormalizeObservation": "set policy.network.normalize_observations instead; statistics belong to the Model",
    "RecordVideo": "use `rlctl play RUN --video FILE` instead",
    "RecordEpisodeStatistics": "leave it out: episode returns and lengths are always recorded",
}

ID_PATTERN = re.compile(r"[A-Za-z0-9_./-]+")
INFO_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")

METRIC_NAMES = (
    "episodes",
    "length_mean",
    *(f"return_{name}" for name in ("mean", "std", "median", "iqm", "ci_low", "ci_high", "min", "max")),
)
"""Metrics of `rollout/` and `eval/` that every run has: no key of an info may take their place."""


Kwargs = dict[str, JsonValue]
Wrappers = tuple[str | dict[str, Kwargs], ...]


class EnvConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("workers", "params", "infos", "agent_id", "state")

    id: str = Field(max_length=200)
    """A registered environment, for example `CartPole-v1` (`rlctl envs` lists them); a multi-agent one, for example
    `pettingzoo/classic/tictactoe-v3` or `mpe2/simple_spread_v3`; or a class of yours, for example `drone_env:Drone`,
    with `--import drone_env.py`."""

    num_envs: int = Field(8, ge=1, le=65536)
    """Copies that step together."""

    seed: int = Field(42, ge=0, le=2**32 - 1)
    """Master seed of the run; every episode is seeded by (seed, env, episode)."""

    vectorization: Vectorization = "auto"
    """`native`: our own NumPy world; `sync`: Gymnasium envs in this process; `async`: in worker processes; `envpool`:
    EnvPool's C++ worlds, which resume but not bit for bit; `vector`: a `gymnasium.vector.VectorEnv`, likewise; `auto`:
    the native world if there is one and no field below rules it out, `vector` if there is nothing else, otherwise
    `sync`."""

    workers: int | None = Field(None, ge=1)
    """Worker processes of `async`, at most one per copy; by default as many as there are processor cores. Any number
    gives the same results."""

    kwargs: Kwargs = {}
    """Arguments of the environment's constructor."""

    params: dict[str, ParamValue] = {}
    """Environment parameters by name. A value is a number, `{gravity: 9.0}`, or what each episode draws it from,
    `{length: {uniform: [0.25, 1.5]}}` (also `log_uniform`, `normal`, `choice`), with `every`, `observed`, `op` and
    `target` as in [how to randomise](../howto/randomise.md). A name is a parameter of a native world; for a Gymnasium
    environment it is an attribute, `kwarg:NAME`, `reset:NAME` or `mujoco:FIELD`. If a native world gets only numbers,
    training and evaluation both use that world, never Gymnasium's, and a planner that uses its equations has the same
    numbers."""

    wrappers: Wrappers = Field((), max_length=32)
    """Wrappers of Gymnasium and MiniGrid from the inside out: names, or `{name: {argument: value}}`."""

    action_mask: Literal["none", "info", "method"] = "none"
    """Where the environment says which actions are allowed: in its `info`, or by its method `action_masks()`. The mask
    becomes the entry `action_mask` of the observation. `none`: the observation already has that entry, or there is no
    mask."""

    infos: tuple[str, ...] = Field((), max_length=16)
    """Keys of the environment's `info` whose numbers are kept, for example `[is_success]`. Each becomes a column of
    every Batch and of the replay, and two metrics, `rollout/is_success` and `eval/is_success`: the mean over episodes
    of the last value of each."""

    agent_id: bool = False
    """Add the number of an agent to its observation, as a one-hot vector, so that a shared policy can act differently
    for each agent; PettingZoo environments only."""

    state: bool = False
    """Add the state of the whole environment to the observation, as the entry `state`, for a central critic; only
    PettingZoo environments with a `state_space`."""

    max_episode_steps: int | None = Field(None, ge=1)
    """Truncate episodes after this many steps instead of the registered limit."""

    @property
    def task(self) -> tuple[object, ...]:
        """What decides how much can be earned."""
        rewards = [call for call in self.wrapper_calls() if "Reward" in call[0]]
        return self.id, self.kwargs, self.params, self.max_episode_steps, rewards

    @field_validator("id")
    @classmethod
    def _registered_form(cls, value: str) -> str:
        if ":" in value:
            return class_id(value)
        if not ID_PATTERN.fullmatch(value):
            raise ValueError(f"{value!r} is not an environment id; use letters, digits and _ . / - only")
        return value

    @field_validator("workers")
    @classmethod
    def _workers_of_async(cls, value: int | None, info: ValidationInfo) -> int | None:
        kind, num_envs = info.data.get("vectorization"), info.data.get("num_envs")
        if value is None or kind is None or num_envs is None:  # a field that was refused itself is not there
            return value
        if kind != "async":
            raise ValueError(
                f"only async has worker processes, and env.vectorization is {kind}; set that to async or leave this out"
            )
        if value > num_envs:
            raise ValueError(f"{value} worker processes for {num_envs} copies; use {num_envs} or fewer")
        return value

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The entries of `params`, read."""
        return parse_params(self.params)

    def evaluated(self, params: Mapping[str, ParamValue]) -> EnvConfig:
        """The environments of an evaluation with these `eval.params`: what training draws is at its own value there."""
        if not self.params and not params:
            return self
        return self.model_copy(update={"params": evaluated_params(self.params, params)})

    @field_validator("params", mode="before")
    @classmethod
    def _readable_params(cls, value: object) -> object:
        return fit_params(value)

    @field_validator("infos")
    @classmethod
    def _plain_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for place, key in enumerate(value):
            if not INFO_KEY.fullmatch(key):
                raise ValueError(f"{value_text(key)} is no plain key; use letters, digits, _ and -, at most 64 of them")
            if key in METRIC_NAMES:
                raise ValueError(f"{key} is a metric of every run; let the env give that number under another key")
            if key in value[:place]:
                raise ValueError(f"{key} is listed twice; leave one out")
        return value

    @field_validator("wrappers")
    @classmethod
    def _known_wrappers(cls, value: Wrappers) -> Wrappers:
        for name, arguments in _pairs(value):
            if name in ELSEWHERE:
                raise ValueError(f"wrapper {name}: {ELSEWHERE[name]}")
            known = WRAPPERS + MINIGRID_WRAPPERS
            if name not in known:
                raise ValueError(f"unknown wrapper {name!r}{suggest(name, known) or '; known: ' + ', '.join(known)}")
            for key, number in _integers(arguments):
                if number > LARGEST_IN_WRAPPER:
                    raise ValueError(f"wrapper {name}: {key} is {number:,}; at most {LARGEST_IN_WRAPPER:,}")
        return value

    def wrapper_calls(self) -> list[tuple[str, Kwargs]]:
        """The wrappers as (name, arguments), from the inside out."""
        return _pairs(self.wrappers)


def _integers(arguments: Kwargs) -> Iterator[tuple[str, int]]:
    """Those among the arguments, alone or in a list: how many frames, pixels, steps."""
    for key, value in arguments.items():
        for entry in value if isinstance(value, list | tuple) else [value]:
            if type(entry) is int:
                yield key, entry


def _pairs(wrappers: Wrappers) -> list[tuple[str, Kwargs]]:
    pairs: list[tuple[str, Kwargs]] = []
    for wrapper in wrappers:
        if isinstance(wrapper, str):
            pairs.append((wrapper, {}))
        elif len(wrapper) == 1:
            pairs.extend(wrapper.items())
        else:
            raise ValueError(f"a wrapper is a name or one {{name: arguments}}, got {len(wrapper)} names")
    return pairs
