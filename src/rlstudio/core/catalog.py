"""Catalogs: names of code. Our own parts are listed here as text, plug-ins come from the entry points of packages.

A catalog imports a part only when it is loaded: listing names and what they do reads source files and never runs them,
so `rlctl algos` does not pay for torch. Another package adds a part without a change here:

    [project.entry-points."rlstudio.algos"]
    my_algo = "my_package.my_algo:MyAlgo"

and a module that is only imported calls `register`.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
import tokenize
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rlstudio.core.errors import RLStudioError, UnknownName, UserError, suggest


class Part(NamedTuple):
    """Where the code behind a name lies: `target` is `module:Attribute`, `package` is who offers it."""

    target: str
    package: str

    @property
    def module(self) -> str:
        return self.target.partition(":")[0].strip()

    @property
    def attribute(self) -> str:
        return self.target.partition(":")[2].strip()


class Catalog:
    def __init__(self, kind: str, builtin: Mapping[str, str]) -> None:
        """`kind` is the word for one part ("algo"); plug-ins come from the entry points `rlstudio.<kind>s`."""
        self.kind = kind
        self.builtin = {name: Part(target, "rlstudio") for name, target in builtin.items()}
        self.group = f"rlstudio.{kind}s"
        self._registered: dict[str, Part] = {}

    @cached_property
    def _plugins(self) -> dict[str, list[Part]]:
        parts_by_name: dict[str, list[Part]] = {}
        for entry in importlib.metadata.entry_points(group=self.group):
            package = entry.dist.name if entry.dist else "an unknown package"
            parts = parts_by_name.setdefault(entry.name, [])
            if (part := Part(entry.value, package)) not in parts:
                parts.append(part)
        return parts_by_name

    def register(self, name: str, part: type | str) -> None:
        """Make a part known in this process, for a module that is named by `--import`: a class at the top level of a
        module, or `module:Attribute`. It is kept as text, so that other processes can load it too."""
        target = part if isinstance(part, str) else f"{part.__module__}:{part.__qualname__}"
        if "<" in target:
            raise UserError(f"{self.kind} {name!r}: {target} cannot be imported; define it at the top of a module")
        entry = Part(target, target.partition(".")[0].partition(":")[0])
        if self._registered.setdefault(name, entry) != entry:
            raise UserError(f"{self.kind} {name!r} is registered as {self._registered[name].target}; rename {target}")

    def __contains__(self, name: str) -> bool:
        return name in self.builtin or name in self._plugins or name in self._registered

    def names(self) -> list[str]:
        """All names, in order."""
        return sorted({*self.builtin, *self._plugins, *self._registered})

    def find(self, name: str) -> Part:
        """Where a name's code lies. A name that two packages offer is refused: chance must not decide which runs."""
        parts = [*filter(None, [self.builtin.get(name)]), *self._plugins.get(name, [])]
        registered = self._registered.get(name)
        if registered and all(part.target != registered.target for part in parts):  # a package may do both
            parts.append(registered)
        if not parts:
            hint = suggest(name, self.names()) or f"; known: {', '.join(self.names())}"
            raise UnknownName(f"unknown {self.kind} {name!r}{hint}")
        if len(parts) > 1:
            owners = " and ".join(f"{part.package} ({part.target})" for part in parts)
            raise UserError(f"{self.kind} {name!r} is offered by {owners}; uninstall or rename one of them")
        return parts[0]

    def load(self, name: str) -> Any:
        """Import the code behind a name. A plug-in that does not import is named in one line; ours keeps its trace."""
        part = self.find(name)
        try:
            loaded: Any = importlib.import_module(part.module)
            for attribute in part.attribute.split("."):
                loaded = getattr(loaded, attribute)
        except RLStudioError:
            raise
        except Exception as error:
            if name in self.builtin:
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(
                f"{self.kind} {name!r} of package {part.package} cannot be loaded from {part.target}: {reason}; "
                "repair or uninstall that package"
            ) from error
        return loaded

    def summary(self, name: str) -> str:
        """What a part is, in one line, without importing it: the first line of its module's docstring, or of its own
        where the module holds several parts of this catalog. For a part that cannot be used: why."""
        try:
            part = self.find(name)
            path = _source(part.module)
            with tokenize.open(path) as stream:
                tree = ast.parse(stream.read())
        except UserError as error:
            return str(error)
        except (OSError, SyntaxError, ValueError) as error:
            return f"cannot be read: {' '.join(str(error).split())} (package {part.package})"
        plugins = (part for parts in self._plugins.values() for part in parts)
        all_parts = [*self.builtin.values(), *self._registered.values(), *plugins]
        shared = sum(other.module == part.module for other in all_parts) > 1
        own = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == part.attribute]
        text = ast.get_docstring(own[0] if shared and own else tree) or ""
        return text.partition("\n")[0]


def _source(module: str) -> str:
    """The source file of a module. `importlib.util.find_spec` would import its parents; this asks the finders."""
    search: Sequence[str] | None = None
    spec = None
    name = ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        specs = (finder.find_spec(name, search) for finder in sys.meta_path if hasattr(finder, "find_spec"))
        spec = next((candidate for candidate in specs if candidate), None)
        if spec is None:
            raise ValueError(f"no module {name}")
        search = spec.submodule_search_locations or ()
    if spec is None or not spec.origin or not spec.has_location:
        raise ValueError(f"no source file of {module}")
    return spec.origin


ALGOS = Catalog(
    "algo",
    {
        "a2c": "rlstudio.algos.a2c:A2C",
        "bc": "rlstudio.algos.bc:Cloning",
        "diffusion": "rlstudio.algos.diffusion:Diffusion",
        "dqn": "rlstudio.algos.dqn:DQN",
        "mbmpc": "rlstudio.algos.mbmpc:MBMPC",
        "mpc": "rlstudio.algos.mpc:MPC",
        "ppo": "rlstudio.algos.ppo:PPO",
        "qrdqn": "rlstudio.algos.qrdqn:QRDQN",
        "sac": "rlstudio.algos.sac:SAC",
        "td3": "rlstudio.algos.td3:TD3",
    },
)
LANES = Catalog("lane", {"eager": "rlstudio.algos.parts.eager:Eager"})
SINKS = Catalog(
    "sink",
    {
        "csv": "rlstudio.experiment.metrics.sinks:CsvSink",
        "tensorboard": "rlstudio.experiment.metrics.sinks:TensorBoardSink",
    },
)
WORLDS = Catalog(
    "world",
    {
        "Acrobot-v1": "rlstudio.envs.worlds.acrobot:Acrobot",
        "CartPole-v1": "rlstudio.envs.worlds.cartpole:CartPole",
        "MountainCar-v0": "rlstudio.envs.worlds.mountaincar:MountainCar",
        "MountainCarContinuous-v0": "rlstudio.envs.worlds.mountaincar:MountainCarContinuous",
        "Pendulum-v1": "rlstudio.envs.worlds.pendulum:Pendulum",
        "rlstudio/CartPoleNoVel-v1": "rlstudio.envs.worlds.cartpole:CartPoleNoVel",
        "rlstudio/Chain-v0": "rlstudio.envs.worlds.chain:Chain",
        "rlstudio/GridWorld-v0": "rlstudio.envs.worlds.gridworld:GridWorld",
        "rlstudio/Identity-v0": "rlstudio.envs.worlds.identity:Identity",
        "rlstudio/IdentityBox-v0": "rlstudio.envs.worlds.identity:IdentityBox",
        "rlstudio/Recall-v0": "rlstudio.envs.worlds.recall:Recall",
    },
)
