"""Catalogs: names of code. Our own parts are listed here as text, plug-ins come from the entry points of packages.

A catalog imports a part only when it is loaded: listing names and what they do reads source files and never runs them,
so `rlctl algos` does not pay for torch. Another package adds a part without a change here:

    [project.entry-points."rlstudio.algos"]
    my_algo = "my_package.my_algo:MyAlgo"
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

    @cached_property
    def _plugins(self) -> dict[str, list[Part]]:
        parts_by_name: dict[str, list[Part]] = {}
        for entry in importlib.metadata.entry_points(group=self.group):
            package = entry.dist.name if entry.dist else "an unknown package"
            parts = parts_by_name.setdefault(entry.name, [])
            if (part := Part(entry.value, package)) not in parts:
                parts.append(part)
        return parts_by_name

    def names(self) -> list[str]:
        """All names, in order."""
        return sorted({*self.builtin, *self._plugins})

    def find(self, name: str) -> Part:
        """Where a name's code lies. A name that two packages offer is refused: chance must not decide which runs."""
        parts = [*filter(None, [self.builtin.get(name)]), *self._plugins.get(name, [])]
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
        all_parts = [*self.builtin.values(), *(part for parts in self._plugins.values() for part in parts)]
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
SINKS = Catalog(
    "sink",
    {
        "csv": "rlstudio.experiment.metrics.sinks:CsvSink",
        "tensorboard": "rlstudio.experiment.metrics.sinks:TensorBoardSink",
    },
)
MODELS = Catalog(
    "model",
    {
        "deterministic-policy": "rlstudio.models.policies.continuous:DeterministicPolicy",
        "policy-only": "rlstudio.models.policies.policy_value:PolicyOnly",
        "policy-value": "rlstudio.models.policies.policy_value:PolicyValue",
        "q-value": "rlstudio.models.policies.q_values:QValue",
        "quantile-value": "rlstudio.models.policies.q_values:QuantileValue",
        "recurrent-policy-value": "rlstudio.models.policies.recurrent:RecurrentPolicyValue",
        "squashed-policy": "rlstudio.models.policies.continuous:SquashedPolicy",
    },
)
