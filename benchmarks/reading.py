"""What must be read to understand PPO, and how large the parts of `src` are: `python -m benchmarks.reading`.

`READING` below lists the files and definitions of each step of PPO. Its lines are counted in this tree: of a whole file
all lines, otherwise the module's docstring and the named definitions with their decorators and docstrings. A module or
name that is gone is an error (exit status 2), so the list cannot go stale. Then come the static import closure of PPO's
file, the folders with the most files, and the promises about sizes and cycles, with exit status 1 where one is broken.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.import_graph import Module, closure, cycles, import_graph, modules_below
from benchmarks.page import table
from benchmarks.venvs import ROOT

SOURCE = ROOT / "src"
PACKAGE = "rlstudio"
MOST_FILES = 15
"""Of one folder, without `__init__.py`."""
MOST_LINES = 300
"""Of one file."""


class Part(NamedTuple):
    """A module below the package, and the names needed: `function`, `Class` or `Class.method`; none: the whole file."""

    module: str
    names: tuple[str, ...] = ()


START = "algos.ppo"
COLLECTOR = ("Collector.__init__", "Collector.collect")
PACKER = tuple(
    f"Packer.{name}"
    for name in ("__init__", "write_before", "write_carry", "_add_carry", "write_after", "_write_active", "batch")
)
STATE = ("state_dict", "load_state_dict")

# The one place that knows where PPO's parts lie: update it when a module moves or a definition is renamed.
READING: dict[str, tuple[Part, ...]] = {
    "mathematics": (
        Part(START),
        Part("ops.returns", ("advantages", "Estimates", "discounted_sums", "value_errors")),
        Part("ops.means"),
        Part("core.model.policies", ("Categorical", "Gaussian")),
        Part("models.policies.distributions", ("log_prob", "entropy", "_parts", "_gaussian_log_prob")),
    ),
    "plumbing, hot path": (
        Part("algos.parts.trainer"),
        Part("algos.parts.on_policy"),
        Part("algos.parts.config", ("RunLength", "Learning", "TrainConfig")),
        Part("ops.schedules"),
        Part("ops.optimizer", ("Optimizer",)),
        Part("ops.flat"),
        Part("data.runtime", tuple(f"LocalRuntime.{name}" for name in ("__init__", "stream", "_collector"))),
        Part("data.env_facts"),
        Part("data.collect.collector", ("VectorActor.__init__", "VectorActor.fill", "VectorActor._forget", *COLLECTOR)),
        Part("data.collect.packer", (*PACKER, "_allocate", "_leaf", "_write")),
        Part("data.collect.noise"),
        Part("data.collect.stream", ("StreamSource",)),
        Part("data.collect.batcher", ("Batcher",)),
        Part("agents.policy"),
        Part("models.build"),
        Part("models.policies.policy_value"),
        Part("models.policies.head"),
        Part("models.networks.encoder", ("flat_size", "flat_features", "FlatEncoder", "build_encoder")),
        Part("models.networks.mlp"),
        Part("models.networks.initialize", ("linear", "orthogonal")),
        Part("models.config", ("NetworkConfig",)),
        Part("experiment.training.loop"),
        Part("experiment.training.position", ("Position.__init__", "Position.add")),
        Part("experiment.training.build"),
    ),
    # Run as well, most of it in every step, but what it does can be believed: one sentence of each is enough to go on.
    "plumbing, black boxes": (
        Part("core.batch"),
        Part("core.rng", ("Rng",)),
        Part("core.contracts.data", ("Tally", "DataSource")),
        Part("agents.agent", ("Agent",)),
        Part("agents.kernels", ("NumpyKernel", "acting_kernel", "numpy_layers", "view")),
        Part("algos.parts.run_facts"),
        Part("data.collect.inspection"),
        Part("data.collect.episodes", ("EpisodeLog",)),
        Part("data.checks.guard"),
        Part("data.checks.range_watch"),
        Part("data.collect.reward_scale"),
        Part("ops.adam"),
        Part("ops.group"),
        Part("models.policies.distributions", ("policy_change",)),
        Part("models.policies.masking"),
        Part("models.policies.policy_model"),
        Part("models.networks.normalizer"),
        Part("models.networks.tanh_on_cpu"),
        Part("experiment.training.position", ("Report", "Position.report", "Position._means")),
        # What is saved of collecting, and what another process fills.
        Part("data.runtime", tuple(f"LocalRuntime.{name}" for name in ("replay", "set_draw", "topology", "close"))),
        Part("data.collect.collector", tuple(f"VectorActor.{name}" for name in ("progress", "state_at", *STATE))),
        Part("data.collect.collector", tuple(f"Collector.{name}" for name in ("env_steps", "take", *STATE))),
        Part("data.collect.packer", ("Packer.write_columns", "Packer.columns")),
    ),
}


class StaleList(Exception):
    """`READING` names something that the tree does not have."""


def needed_lines(part: Part, modules: Mapping[str, Module]) -> int:
    """How many lines of the module a reader needs."""
    module = modules.get(f"{PACKAGE}.{part.module}")
    if module is None:
        raise StaleList(f"{PACKAGE}.{part.module}: no such module below src; update READING in benchmarks/reading.py")
    if not part.names:
        return module.lines
    body = module.tree.body
    lines = _length(body[0]) if ast.get_docstring(module.tree) is not None else 0
    return lines + sum(_length(_definition(name, module)) for name in part.names)


def _definition(name: str, module: Module) -> ast.stmt:
    body = module.tree.body
    for word in name.split("."):
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        match = next((node for node in body if isinstance(node, kinds) and node.name == word), None)
        if match is None:
            raise StaleList(f"{module.name}: no definition {name}; update READING in benchmarks/reading.py")
        body = match.body
    return match


def _length(node: ast.stmt) -> int:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return (node.end_lineno or node.lineno) - first + 1


def reading(modules: Mapping[str, Module]) -> dict[str, int]:
    """Lines of each step."""
    return {step: sum(needed_lines(part, modules) for part in parts) for step, parts in READING.items()}


def folder_sizes(modules: Mapping[str, Module]) -> Counter[str]:
    """Files of each folder, without `__init__.py` and without those of folders in it."""
    paths = [module.path.relative_to(SOURCE) for module in modules.values()]
    return Counter(str(path.parent) for path in paths if path.name != "__init__.py")


def promises(modules: Mapping[str, Module]) -> list[tuple[str, str, bool]]:
    """What is promised, how it is now, whether it holds."""
    folders = _largest(folder_sizes(modules), MOST_FILES)
    files = _largest({str(module.path.relative_to(SOURCE)): module.lines for module in modules.values()}, MOST_LINES)
    groups = cycles(import_graph(modules, lazy=True))
    circular = "; ".join(" <-> ".join(group) for group in groups)
    return [
        (f"no folder above {MOST_FILES} files", *folders),
        (f"no file above {MOST_LINES} lines", *files),
        ("no import cycles, imports inside functions counted", circular or "0", not groups),
    ]


def _largest(sizes: Mapping[str, int], most: int) -> tuple[str, bool]:
    """All above the limit or, if there are none, the largest; and whether there are none."""
    above = [(name, size) for name, size in Counter(sizes).most_common() if size > most]
    return ", ".join(f"{name} {size}" for name, size in above or Counter(sizes).most_common(1)), not above


def report(modules: Mapping[str, Module], folders: int) -> str:
    rows = []
    for step, parts in READING.items():
        rows += [[step, part.module, ", ".join(part.names), f"{needed_lines(part, modules):,}"] for part in parts]
        rows.append([f"**{step}**", f"{len(parts)} files", "", f"**{reading(modules)[step]:,}**"])
    # Empty `__init__.py` files are nothing to read.
    imported = [modules[name] for name in closure(import_graph(modules, lazy=False), f"{PACKAGE}.{START}")]
    imported = [module for module in imported if module.lines]
    total = sum(module.lines for module in imported)
    largest = folder_sizes(modules).most_common(folders)
    verdicts = [[promise, now, "yes" if kept else "no"] for promise, now, kept in promises(modules)]
    return "\n\n".join(
        [
            table(["step of PPO", "module", "needed (nothing: the whole file)", "lines"], rows),
            f"Static import closure of {PACKAGE}.{START}: {len(imported)} files, {total:,} lines.",
            table(["folder of src", "files"], [[folder, str(files)] for folder, files in largest]),
            table(["promise", "now", "kept"], verdicts),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description="What a reader of PPO must read.")
    parser.add_argument("--folders", type=int, default=10, help="how many of the largest folders to list (default: 10)")
    args = parser.parse_args()
    modules = modules_below(SOURCE)
    try:
        print(report(modules, args.folders))
    except StaleList as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(kept for _, _, kept in promises(modules)) else 1


if __name__ == "__main__":
    sys.exit(main())
