"""Which ids are PettingZoo's, and what makes their environments.

`pettingzoo/classic/tictactoe-v3` is an id of PettingZoo's own registry, `mpe2/simple_spread_v3` a module of MPE2, which
registers nothing, and `my_game:parallel_env` a class or function of a module that the user allowed. Nothing is imported
to tell them from others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any, NamedTuple

from rlstudio.core.errors import ConfigError, UnknownName, UserError, suggest
from rlstudio.envs import extras
from rlstudio.envs.python_envs import FACTORIES, is_of_python

REGISTERED, PARTICLES = "pettingzoo/", "mpe2/"
FUNCTIONS = ("parallel_env", "env", "raw_env", "make_env")
"""What a module of PettingZoo calls the functions that make its environment. Others are not called: an id in a file
must not be able to run anything else."""

ATARI = "multi_agent_ale_py"


class Source(NamedTuple):
    """What makes an environment."""

    creator: str | Callable[..., Any]  # `module:name`, or the class or function itself
    kwargs: dict[str, Any]  # of the registry


def is_pettingzoo(id: str) -> bool:
    if ":" not in id:
        return id.startswith((REGISTERED, PARTICLES))
    return _own(id) is not None


def source_of(id: str) -> Source:
    """What makes the environment of an id; of those with both kinds the one in which agents act at once."""
    if id.startswith(PARTICLES):
        module = f"mpe2.{id.removeprefix(PARTICLES)}"
        if id not in _particle_ids():
            raise _unknown(id, _particle_ids())
        return Source(f"{module}:parallel_env", {})
    if id.startswith(REGISTERED):
        from pettingzoo import aec_registry, parallel_registry

        name = id.removeprefix(REGISTERED)
        spec = parallel_registry.get(name) or aec_registry.get(name)
        if spec is None:
            raise _unknown(id, _registered_ids())
        limit = {} if spec.max_cycles in (None, -1) else {"max_cycles": spec.max_cycles}
        return Source(spec.entry_point, {**limit, **spec.kwargs})
    creator = _own(id)
    if creator is None:
        raise ConfigError(f"env.id: {id} is no class of PettingZoo's ParallelEnv or AECEnv; let it inherit from one")
    return Source(creator if is_of_python(id) else id, {})


def known_ids() -> list[str]:
    """All that can be named, of what is installed; a broken package has none."""
    ids: list[str] = []
    if extras.PETTINGZOO.installed:
        with suppress(UserError):
            extras.PETTINGZOO.load("env.id", extras.PETTINGZOO.example_ids)
            ids += _registered_ids()
    if extras.MPE2.installed:
        ids += _particle_ids()
    return ids


def _registered_ids() -> list[str]:
    """PettingZoo also registers games that need an emulator of Atari; those are left out where it is missing."""
    from pettingzoo import aec_registry, parallel_registry

    names = sorted({*parallel_registry, *aec_registry})
    playable = [name for name in names if not name.startswith("atari/") or find_spec(ATARI) is not None]
    return [REGISTERED + name for name in playable]


def _particle_ids() -> list[str]:
    import mpe2

    names = [module.name for module in iter_modules(mpe2.__path__)]
    return [PARTICLES + name for name in names if name.rpartition("_v")[2].isdigit()]


def _own(id: str) -> Callable[..., Any] | None:
    """The class or function that the user's module has under this name, if it can make an environment of PettingZoo."""
    if "pettingzoo" not in sys.modules:
        return None
    from pettingzoo import AECEnv, ParallelEnv

    module, _, name = id.partition(":")
    value = FACTORIES.get(id) if is_of_python(id) else getattr(sys.modules.get(module), name, None)
    if isinstance(value, type):
        return value if issubclass(value, AECEnv | ParallelEnv) else None
    return value if callable(value) and name in FUNCTIONS else None


def same_name(id: str, known: list[str]) -> str | None:
    """The id that ends alike, however the version is written: `pettingzoo/classic/tictactoe-v3` of `tictactoe_v3`."""

    def name(text: str) -> str:
        return text.rpartition("/")[2].replace("_v", "-v")

    return next((other for other in known if name(other) == name(id)), None)


def _unknown(id: str, known: list[str]) -> UnknownName:
    near = same_name(id, known)
    hint = f"; did you mean {near}?" if near else suggest(id, known) or "; `rlctl envs` lists them"
    return UnknownName(f"env.id: unknown {id!r}{hint}")
