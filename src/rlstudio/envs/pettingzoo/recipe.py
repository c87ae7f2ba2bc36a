"""One PettingZoo environment from a config: made with PettingZoo's own API, the same in every process."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError, EnvFault, RLStudioError, UserError, raised
from rlstudio.envs import extras
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.recipe import close_quietly, importable, one_line
from rlstudio.envs.params.draw import Draw
from rlstudio.envs.pettingzoo.agent_spaces import TeamSpaces, convert_team
from rlstudio.envs.pettingzoo_ids import Source, source_of

PettingZooEnv = Any
"""`pettingzoo.ParallelEnv | pettingzoo.AECEnv`; PettingZoo is not imported to say so."""


class PettingZooRecipe:
    """How to make one env; the same in every process. What it does here for many agents, `envs.gym.recipe.Recipe` does
    for one."""

    draw: Draw | None = None  # env.params are refused

    def __init__(self, cfg: EnvConfig, source: Source | None = None) -> None:
        self.cfg = cfg
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # read when pygame is imported: no display is needed
        extras.prepare(cfg.id)
        _refuse_settings(cfg)
        self.source = source or source_of(cfg.id)

    @property
    def limit(self) -> int | None:
        """Steps after which an episode is truncated; the environment's own `max_cycles` is its own affair."""
        return self.cfg.max_episode_steps

    def build(self, render_mode: str | None = None) -> PettingZooEnv:
        """A fresh env."""
        from pettingzoo import AECEnv, ParallelEnv

        kwargs = {**self.source.kwargs, **self.cfg.kwargs}
        if render_mode is not None:
            kwargs["render_mode"] = render_mode
        env = self._made(kwargs)
        if not isinstance(env, AECEnv | ParallelEnv):
            raise ConfigError(
                f"env.id: {self.cfg.id} makes a {type(env).__name__}, which is neither a ParallelEnv nor an AECEnv of"
                " PettingZoo; name a class or a function that makes one"
            )
        return env

    def _made(self, kwargs: dict[str, Any]) -> PettingZooEnv:
        id, creator = self.cfg.id, self.source.creator
        try:
            return (_loaded(creator) if isinstance(creator, str) else creator)(**kwargs)
        except ImportError as error:
            extra = extras.extra_of(id)
            ours = extra is not None and not id.startswith(("pettingzoo/atari/", "pettingzoo/sisl/"))
            said = extra.remedy if extra is not None and ours else f"the environment says {one_line(error)}"
            raise UserError(f"env.id: {id} needs a package that is not installed: {said}") from error
        except (Exception, SystemExit) as error:
            if isinstance(error, RLStudioError):
                raise
            if isinstance(error, TypeError) and "render_mode" in kwargs and "render_mode" in str(error):
                raise UserError(f"env.id: {id} takes no render_mode; to be filmed it needs rgb_array") from error
            reason = raised(error)
            if self.cfg.kwargs:
                raise ConfigError(f"env.kwargs: {id} refuses {self.cfg.kwargs}: {reason}") from error
            raise EnvFault(f"env {id} cannot be created: {reason}") from error

    @contextlib.contextmanager
    def opened(self) -> Iterator[PettingZooEnv]:
        """A fresh env that is closed in the end, however that comes."""
        env = self.build()
        try:
            yield env
        finally:
            close_quietly(env)

    @cached_property
    def team(self) -> TeamSpaces:
        """Its agents, and what each of them is shown and takes; an env is made for that, and closed."""
        with self.opened() as env:
            return convert_team(env, self.cfg)

    def to_json(self) -> State:
        """Plain values from which `from_json` makes the same recipe in a process that imported nothing."""
        creator = importable(self.source.creator, self.cfg.id)
        cfg = self.cfg.model_dump(mode="json", exclude={"workers"})  # a worker has none of its own
        return {"cfg": cfg, "creator": creator, "kwargs": self.source.kwargs}

    @classmethod
    def from_json(cls, value: State) -> PettingZooRecipe:
        return cls(EnvConfig.model_validate(value["cfg"]), Source(value["creator"], value["kwargs"]))


def _loaded(creator: str) -> Callable[..., PettingZooEnv]:
    module, _, name = creator.partition(":")
    made: Callable[..., PettingZooEnv] = getattr(import_module(module), name)
    return made


def _refuse_settings(cfg: EnvConfig) -> None:
    """What is for environments of one agent."""
    if cfg.wrappers:
        raise ConfigError(
            f"env.wrappers: {cfg.id} is PettingZoo's, and these wrap Gymnasium's; wrap it in a function of your own,"
            " my_game.py:make_env"
        )
    if cfg.action_mask == "method":
        raise ConfigError(
            f"env.action_mask: {cfg.id} is PettingZoo's, whose masks are in the observation (none) or in the info"
            " (info)"
        )
