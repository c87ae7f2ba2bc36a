"""What a worker is told once: which slice of which environments it has, and which algorithm's agent acts there."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rlstudio.core.catalog import ALGOS, LANES, WORLDS
from rlstudio.core.contracts import State, VecEnv
from rlstudio.core.spaces import Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env, resolve_vectorization


@dataclass(frozen=True)
class RolloutJob:
    """The part that all workers share. Everything is JSON: a worker on another machine reads it too."""

    env: State  # the section, and
    vectorization: str  # what it means by `auto`
    recipe: State | None  # of Gymnasium envs: enough to make one where nothing was registered
    world: str | None  # of a world in array code: where its class is
    algo: str
    train: State
    network: State
    lane: str
    imports: tuple[str, ...]  # modules of the user,
    path: tuple[str, ...]  # and where they are

    @classmethod
    def of(cls, env: EnvConfig, **settings: Any) -> RolloutJob:
        kind = resolve_vectorization(env)
        recipe = None
        if kind == "sync":
            from rlstudio.envs.gym.recipe import Recipe

            recipe = Recipe(env).to_json()
        world = WORLDS.find(env.id).target if kind == "native" else None
        section = env.model_dump(mode="json", exclude={"workers"})
        path = tuple(os.path.abspath(place) for place in sys.path)  # in a notebook the first is empty: where we are
        return cls(section, kind, recipe, world, path=path, **settings)

    def to_json(self) -> State:
        return asdict(self)

    @classmethod
    def from_json(cls, value: State) -> RolloutJob:
        return cls(**{**value, "imports": tuple(value["imports"]), "path": tuple(value["path"])})

    @property
    def env_config(self) -> EnvConfig:
        return EnvConfig.model_validate(self.env)

    @property
    def own_modules(self) -> list[str]:
        """Of RLStudio, which every worker imports. What other packages do when they are imported is for each worker
        alone: it may fail, or start threads."""
        parts = [ALGOS.find(self.algo), LANES.find(self.lane)]
        modules = [part.module for part in parts if part.package == "rlstudio"]
        return modules if self.recipe is None else [*modules, "rlstudio.envs.gym.sync"]

    def spaces(self) -> Spaces:
        """What one environment shows and takes. A Gymnasium env is made for that and not tried out: it may crash."""
        if self.recipe is None:
            return self.make_envs(0, 1).spaces
        from rlstudio.envs.gym.recipe import Recipe
        from rlstudio.envs.gym.spaces import convert_spaces

        recipe = Recipe.from_json(self.recipe)
        with recipe.opened() as env:
            return convert_spaces(env, recipe.cfg.id, recipe.cfg.infos)

    def prepare(self) -> None:
        """In a process that was started for it: the user's modules are there as in the learner's."""
        sys.path.extend(place for place in self.path if place not in sys.path)
        for name in self.imports:
            importlib.import_module(name)

    def make_envs(self, first: int, count: int) -> VecEnv:
        """The environments `first`, `first` + 1, ... of the run."""
        cfg = self.env_config
        if self.recipe is not None:
            from rlstudio.envs.gym.recipe import Recipe
            from rlstudio.envs.gym.sync import GymnasiumVecEnv

            return GymnasiumVecEnv(Recipe.from_json(self.recipe), count, cfg.seed, first)
        if self.world is not None and cfg.id not in WORLDS:
            WORLDS.register(cfg.id, self.world)
        return make_vec_env(cfg, count, vectorization="native", first_env=first)


def slices(num_envs: int, workers: int) -> list[range]:
    """Which environments each worker has: as many each as can be, one after the other."""
    bounds = np.linspace(0, num_envs, workers + 1).astype(int).tolist()
    return [range(low, high) for low, high in pairwise(bounds)]
