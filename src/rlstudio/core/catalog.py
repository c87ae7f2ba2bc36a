"""Catalogs: names of code. Our own parts are listed here as text, plug-ins come from the entry points of packages.

A catalog imports a part only when it is loaded: listing names and what they do reads source files and never runs them,
so `rlctl algos` does not pay for torch. Another package adds a part without a change here:

    [project.entry-points."rlstudio.algos"]
    my_algo = "my_package.my_algo:MyAlgo"

and a module that is only imported calls `register`. A part is called with its settings first, then with what its kind
gives it (`core/parts.py`).
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from rlstudio.core.errors import RLStudioError, UnknownName, UserError, suggest
from rlstudio.core.module_source import bound_names, parsed

GROUPS = "rlstudio."
DEFINITIONS = (ast.ClassDef, ast.FunctionDef)


class Part(NamedTuple):
    """Where the code behind a name lies: `target` is `module:Attribute`, `package` is who offers it."""

    target: str
    package: str
    version: str = ""  # of that package; ours are of this one

    @property
    def module(self) -> str:
        return self.target.partition(":")[0].strip()

    @property
    def attribute(self) -> str:
        return self.target.partition(":")[2].strip()


class Catalog:
    def __init__(self, kind: str, builtin: Mapping[str, str], *, group: str = "", marks: Sequence[str] = ()) -> None:
        """`kind` is the word for one part ("algo"); plug-ins come from the entry points `group`, by default
        `rlstudio.<kind>s`. A class with all these `marks` can be named without being registered, as `module:Class` of a
        module that is imported."""
        self.kind = kind
        self.builtin = {name: Part(target, "rlstudio") for name, target in builtin.items()}
        self.group = group or f"{GROUPS}{kind}s"
        self._registered: dict[str, Part] = {}
        self._marks = marks

    @cached_property
    def plugins(self) -> dict[str, list[Part]]:
        """The parts of other packages by name: one each, or more where packages clash."""
        parts_by_name: dict[str, list[Part]] = {}
        for entry in importlib.metadata.entry_points(group=self.group):
            parts = parts_by_name.setdefault(entry.name, [])
            if (part := _offered(entry)) not in parts:
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

    def registered(self) -> dict[str, str]:
        """What modules registered in this process, so that another one can do the same."""
        return {name: part.target for name, part in self._registered.items()}

    def __contains__(self, name: str) -> bool:
        known = name in self.builtin or name in self.plugins or name in self._registered
        return known or self._class_of(name) is not None

    def fits(self, value: object) -> bool:
        """Whether it is a class that can be named without being registered."""
        return bool(self._marks) and isinstance(value, type) and all(hasattr(value, mark) for mark in self._marks)

    def _class_of(self, name: str) -> Part | None:
        """A class of a module that is imported already: naming one imports nothing, nor can it call anything else."""
        module, colon, attribute = name.partition(":")
        if not colon or not self.fits(getattr(sys.modules.get(module), attribute, None)):
            return None
        return Part(name, module.partition(".")[0])

    def names(self) -> list[str]:
        """All names, in order."""
        return sorted({*self.builtin, *self.plugins, *self._registered})

    def find(self, name: str) -> Part:
        """Where a name's code lies. A name that two packages offer is refused: chance must not decide which runs."""
        parts = [*filter(None, [self.builtin.get(name)]), *self.plugins.get(name, [])]
        registered = self._registered.get(name)
        if registered and all(part.target != registered.target for part in parts):  # a package may do both
            parts.append(registered)
        if not parts and (named := self._class_of(name)):
            return named
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
            loaded: object = importlib.import_module(part.module)
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
        where the module holds several parts. For a part that cannot be used: why."""
        return self.problem(name) or self.summary_of(self.find(name))

    def problem(self, name: str) -> str:
        """Why a part cannot be used, as far as its source tells without being run; empty where it tells of nothing."""
        try:
            part = self.find(name)
        except UserError as error:
            return str(error)
        try:
            known = {name for node in ast.walk(parsed(part.module)) for name in bound_names(node)}
        except (OSError, SyntaxError, ValueError) as error:
            return f"cannot be read: {' '.join(str(error).split())} (package {part.package})"
        first = part.attribute.partition(".")[0]
        if first in known or "*" in known or "__getattr__" in known:
            return ""
        return f"{part.module} has no {first or 'part, for its entry point names none'} (package {part.package})"

    def summary_of(self, part: Part) -> str:
        tree = parsed(part.module)
        own = [node for node in tree.body if isinstance(node, DEFINITIONS) and node.name == part.attribute]
        text = ast.get_docstring(own[0] if own and self._shares_module(part) else tree) or ""
        return text.partition("\n")[0]

    def source(self, name: str) -> ast.Module:
        """The source of a part's module, read and not run."""
        return parsed(self.find(name).module)

    def _shares_module(self, part: Part) -> bool:
        """Whether the part's module offers another part too, of whatever kind."""
        parts = {other for catalog in (self, *catalogs()) for other in catalog.every_part()}
        return sum(other.module == part.module for other in parts) > 1

    def every_part(self) -> list[Part]:
        plugins = (part for parts in self.plugins.values() for part in parts)
        return [*self.builtin.values(), *self._registered.values(), *plugins]


def catalogs() -> list[Catalog]:
    """Every kind of part that there is."""
    return [value for value in globals().values() if isinstance(value, Catalog)]


def misplaced() -> dict[str, list[tuple[str, Part]]]:
    """Parts that no catalog reads, by the group their package gives them: its name is not one of ours."""
    known = {catalog.group for catalog in catalogs()}
    groups = importlib.metadata.entry_points().groups
    return {
        group: [(entry.name, _offered(entry)) for entry in importlib.metadata.entry_points(group=group)]
        for group in sorted(groups)
        if group.startswith(GROUPS) and group not in known
    }


def _offered(entry: importlib.metadata.EntryPoint) -> Part:
    if entry.dist is None:
        return Part(entry.value, "an unknown package")
    return Part(entry.value, entry.dist.name, entry.dist.version)


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
        "csv": "rlstudio.experiment.metrics.sinks:csv_sink",
        "mlflow": "rlstudio.experiment.metrics.sending.mlflow_sink:MlflowSink",
        "tensorboard": "rlstudio.experiment.metrics.sinks:tensorboard_sink",
        "wandb": "rlstudio.experiment.metrics.sending.wandb_sink:WandbSink",
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
        "mpe2/simple_speaker_listener_v4": "rlstudio.envs.worlds.particles.speaker_listener:SpeakerListener",
        "mpe2/simple_spread_v3": "rlstudio.envs.worlds.particles.spread:SimpleSpread",
        "mpe2/simple_tag_v3": "rlstudio.envs.worlds.particles.tag:SimpleTag",
        "rlstudio/CartPoleNoVel-v1": "rlstudio.envs.worlds.cartpole:CartPoleNoVel",
        "rlstudio/Chain-v0": "rlstudio.envs.worlds.chain:Chain",
        "rlstudio/ConnectFour-v0": "rlstudio.envs.worlds.games.board:ConnectFour",
        "rlstudio/GridLevels-v0": "rlstudio.envs.worlds.levels.grid_levels:GridLevels",
        "rlstudio/GridWorld-v0": "rlstudio.envs.worlds.gridworld:GridWorld",
        "rlstudio/IPD-v0": "rlstudio.envs.worlds.ipd.world:IPD",
        "rlstudio/IPDDuel-v0": "rlstudio.envs.worlds.ipd.world:IPDDuel",
        "rlstudio/Identity-v0": "rlstudio.envs.worlds.identity:Identity",
        "rlstudio/IdentityBox-v0": "rlstudio.envs.worlds.identity:IdentityBox",
        "rlstudio/Recall-v0": "rlstudio.envs.worlds.recall:Recall",
        "rlstudio/TicTacToe-v0": "rlstudio.envs.worlds.games.board:TicTacToe",
    },
    marks=("initial", "dynamics", "observe"),
)
PLANNERS = Catalog(
    "planner",
    {
        "annealed": "rlstudio.planners.build:annealed",
        "cem": "rlstudio.planners.build:cem",
        "diffusion": "rlstudio.planners.build:diffusion",
        "guided": "rlstudio.planners.build:guided",
        "icem": "rlstudio.planners.build:icem",
        "mcts": "rlstudio.planners.build:mcts",
        "mppi": "rlstudio.planners.build:mppi",
        "random_shooting": "rlstudio.planners.build:random_shooting",
    },
)
SCORES = Catalog("score", {"returns": "rlstudio.planners.score:returns"})
DYNAMICS = Catalog(
    "dynamics",
    {
        "analytic": "rlstudio.algos.parts.dynamics:analytic",
        "ensemble": "rlstudio.algos.parts.dynamics:ensemble",
        "mlp": "rlstudio.algos.parts.dynamics:mlp",
    },
    group="rlstudio.dynamics",
)
SAMPLERS = Catalog(
    "sampler",
    {
        "cmaes": "rlstudio.control.sweep.samplers:CmaEs",
        "grid": "rlstudio.control.sweep.samplers:Grid",
        "pbt": "rlstudio.control.sweep.samplers:Members",
        "random": "rlstudio.control.sweep.samplers:Random",
        "tpe": "rlstudio.control.sweep.samplers:Tpe",
    },
)
LAUNCHERS = Catalog(
    "launcher",
    {
        "ray": "rlstudio.control.queue.ray_launcher:ray_launcher",
        "slurm": "rlstudio.control.queue.slurm:slurm_launcher",
        "subprocess": "rlstudio.control.queue.launchers:subprocess_launcher",
    },
)
MODELS = Catalog(
    "model",
    {
        "central-policy-value": "rlstudio.models.policies.central:CentralPolicyValue",
        "deterministic-policy": "rlstudio.models.policies.continuous:DeterministicPolicy",
        "policy-only": "rlstudio.models.policies.policy_value:PolicyOnly",
        "policy-value": "rlstudio.models.policies.policy_value:PolicyValue",
        "q-value": "rlstudio.models.policies.q_values:QValue",
        "quantile-value": "rlstudio.models.policies.q_values:QuantileValue",
        "recurrent-policy-value": "rlstudio.models.policies.recurrent:RecurrentPolicyValue",
        "squashed-policy": "rlstudio.models.policies.continuous:SquashedPolicy",
    },
)
