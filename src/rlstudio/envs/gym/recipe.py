"""One plain `gymnasium.Env` from a config: registered ids only, wrappers by name, and one line when it cannot be made.

A `Recipe` is that config with the registry's entry written out, so that a worker process that imported nothing of the
user's can still build the same env.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError, EnvFault, UnknownName, UserError, message_of, origin_of, suggest
from rlstudio.core.host.installation import remedy
from rlstudio.envs import extras
from rlstudio.envs.config import MINIGRID_WRAPPERS, EnvConfig, Kwargs
from rlstudio.envs.gym.action_mask import ActionMaskObservation
from rlstudio.envs.gym.own_class import class_spec, not_registered
from rlstudio.envs.gym.settings.arguments import check_arguments, fitting
from rlstudio.envs.gym.settings.param_env import ParamEnv
from rlstudio.envs.gym.spaces import Renumbered
from rlstudio.envs.params.draw import Draw, draw_from
from rlstudio.envs.params.section import numbers_of, numbers_only
from rlstudio.envs.worlds.catalog import exists_only_here, make_world


class Recipe:
    """How to make one env; the same in every process."""

    def __init__(self, cfg: EnvConfig, spec: EnvSpec | None = None) -> None:
        self.cfg = cfg
        extras.prepare(cfg.id)
        self.spec = spec if spec is not None or exists_only_here(cfg) else find_spec(cfg.id)

    @property
    def limit(self) -> int | None:
        """Steps after which an episode is truncated."""
        if self.cfg.max_episode_steps is not None:
            return self.cfg.max_episode_steps
        return make_world(self.cfg.id, self.cfg.kwargs).limit if self.spec is None else self.spec.max_episode_steps

    @property
    def sets_params(self) -> bool:
        """Whether parameters are set at every reset; numbers alone are part of our own world's env."""
        return bool(self.cfg.params) and not (self.spec is None and numbers_only(self.cfg.params))

    @property
    def draw(self) -> Draw | None:
        """What parameters are drawn from; None: there is nothing to set."""
        return draw_from(self.cfg.parameters) if self.sets_params else None

    def build(self, render_mode: str | None = None, time_limit: bool = True) -> gymnasium.Env:
        """A fresh env. Without `time_limit` the caller counts steps itself; only allowed without wrappers."""
        if not self.sets_params:
            return self._wrapped(render_mode, time_limit, self.cfg.kwargs)
        creator = _creator(self.spec) if self.spec is not None else WORLDS.load(self.cfg.id)
        check_arguments(creator, self.cfg.parameters, self.cfg.id)

        def build_with(values: dict[str, float]) -> gymnasium.Env:
            return self._wrapped(render_mode, time_limit, {**self.cfg.kwargs, **fitting(creator, values)})

        return ParamEnv(build_with, self.cfg.parameters, self.cfg.id)

    def _wrapped(self, render_mode: str | None, time_limit: bool, arguments: Kwargs) -> gymnasium.Env:
        env = self._made(render_mode, arguments)
        if time_limit and self.limit is not None:
            env = gymnasium.wrappers.TimeLimit(env, self.limit)
        for name, kwargs in self.cfg.wrapper_calls():
            try:
                env = _wrapper(name)(env, **kwargs)
            except UserError:
                raise
            except gymnasium.error.DependencyNotInstalled as error:  # they all mean OpenCV
                hint = remedy("atari", "opencv-python-headless")
                raise UserError(f"env.wrappers: {name} needs OpenCV; {hint}") from error
            except Exception as error:
                setting = "; set env.kwargs.frameskip=1" if "Disable frame-skipping" in str(error) else ""
                raise ConfigError(
                    f"env.wrappers: {name} does not fit {self.cfg.id}: {one_line(error)}{setting}"
                ) from error
        env = Renumbered(env) if Renumbered.needed(env) else env
        return env if self.cfg.action_mask == "none" else ActionMaskObservation(env, self.cfg.action_mask, self.cfg.id)

    @contextlib.contextmanager
    def opened(self) -> Iterator[gymnasium.Env]:
        """A fresh env that is closed in the end, however that comes."""
        env = self.build()
        try:
            yield env
        finally:
            close_quietly(env)

    def _made(self, render_mode: str | None, arguments: Kwargs) -> gymnasium.Env:
        id = self.cfg.id
        kwargs: dict[str, Any] = dict(arguments)
        if self.spec is None:
            from rlstudio.envs.worlds.world_env import WorldEnv

            numbers = {} if self.sets_params else numbers_of(self.cfg.params)
            return WorldEnv(make_world(id, kwargs, numbers), numbers, render_mode)
        spec = copy.deepcopy(self.spec)
        spec.order_enforce = False  # the vector env keeps the order itself; the wrapper costs time on every step
        spec.max_episode_steps = None
        try:
            if render_mode is not None:
                extras.require_renderer(id)
                kwargs["render_mode"] = render_mode
                _check_renders(spec, render_mode)
            return gymnasium.make(spec, disable_env_checker=True, **kwargs)
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise UserError(f"env.id: {id} needs a package that is not installed: {_missing(id, error)}") from error
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            if arguments:
                raise ConfigError(f"env.kwargs: {id} refuses {arguments}: {_reason(error)}") from error
            raise EnvFault(f"env {id} cannot be created: {_reason(error)}") from error

    def to_json(self) -> State:
        """Plain values from which `from_json` makes the same recipe in a process that registered nothing."""
        if self.spec is None:
            return {"cfg": self.cfg.model_dump(mode="json"), "spec": None, "world": WORLDS.find(self.cfg.id).target}
        spec = copy.deepcopy(self.spec)
        spec.entry_point = _importable(spec.entry_point, self.cfg.id)
        spec.vector_entry_point = None
        return {"cfg": self.cfg.model_dump(mode="json"), "spec": spec.to_json()}

    @classmethod
    def from_json(cls, value: State) -> Recipe:
        cfg = EnvConfig.model_validate(value["cfg"])
        if value["spec"] is None:
            if cfg.id not in WORLDS:
                WORLDS.register(cfg.id, value["world"])
            return cls(cfg)
        return cls(cfg, EnvSpec.from_json(value["spec"]))


def find_spec(id: str) -> EnvSpec:
    if ":" in id:
        return class_spec(id)
    if id not in gymnasium.registry:
        extras.register_installed()  # a name of theirs that does not look like one, or one to suggest
    if id in gymnasium.registry:
        return gymnasium.registry[id]
    known = [*gymnasium.registry, *WORLDS.names()]
    if id.endswith(".py"):
        raise UnknownName(f"env.id: {id} is a file; name the class in it too: {id}:YourEnv")
    if reason := not_registered(id, known):
        raise UnknownName(f"env.id: {reason}")
    raise UnknownName(f"env.id: unknown {id!r}{suggest(id, known) or '; `rlctl envs` lists them'}")


def _wrapper(name: str) -> Callable[..., gymnasium.Env]:
    """The class of an allowed name."""
    if name in MINIGRID_WRAPPERS:
        extras.MINIGRID.load("env.wrappers", name)
    module = importlib.import_module("minigrid.wrappers" if name in MINIGRID_WRAPPERS else "gymnasium.wrappers")
    wrapper: Callable[..., gymnasium.Env] = getattr(module, name)
    return wrapper


def _creator(spec: EnvSpec) -> Callable[..., object]:
    """The class or function that makes it."""
    creator: Any = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    return cast(Callable[..., object], creator)


def _check_renders(spec: EnvSpec, render_mode: str) -> None:
    """Gymnasium would only warn, and the constructor then refuse an argument that the user never gave."""
    modes = getattr(_creator(spec), "metadata", {}).get("render_modes")
    if modes is not None and render_mode not in modes:
        offered = ", ".join(map(str, modes)) or "none"
        raise UserError(f"env.id: {spec.id} has render_modes {offered}; to be filmed it needs {render_mode}")


def _importable(entry_point: object, id: str) -> str:
    """`module:name` of an entry point, since a worker must import what it builds."""
    if isinstance(entry_point, str):
        return entry_point
    module, name = getattr(entry_point, "__module__", "__main__"), getattr(entry_point, "__qualname__", "<lambda>")
    if module == "__main__" or "<" in name:
        raise UserError(
            f"env.vectorization: {id} is registered with an object that a worker cannot import; register it as "
            "'module:Class' or use vectorization=sync"
        )
    return f"{module}:{name}"


def close_quietly(env: gymnasium.Env) -> None:
    """Closing is a courtesy: an env that fails at it is gone either way."""
    with contextlib.suppress(Exception, SystemExit):
        env.close()


def one_line(error: BaseException) -> str:
    text = message_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _reason(error: BaseException) -> str:
    origin = origin_of(error)
    return one_line(error).split(" was raised from the environment creator")[0] + (f" at {origin}" if origin else "")


def _missing(id: str, error: Exception) -> str:
    """How to install it, where it comes with an extra of ours; otherwise the environment's own words. The name of the
    missing module would be no remedy: the package of that name may be somebody else's."""
    extra = extras.extra_of(id)
    if extra is not None and isinstance(error, (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError)):
        return extra.remedy
    return f"the environment says {one_line(error)}"
