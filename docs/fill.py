"""Fills in what these pages say of the code, so that the two cannot drift apart.

A page marks a place and `python docs/fill.py` rewrites what stands between; a test compares:

    <!-- fields module:Class --> <!-- /fields -->     the settings of a Config; of one that extends another only its own
    <!-- file path --> <!-- /file -->                 a file of the repository
    <!-- table rooms --> <!-- /table -->              one of `TABLES` below
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from runpy import run_path
from statistics import median
from typing import Any

from pydantic import BaseModel

FIELDS = re.compile(r"(<!-- fields ([\w.]+):(\w+) -->\n).*?(<!-- /fields -->)", re.DOTALL)
FILE = re.compile(r"(<!-- file (\S+) -->\n).*?(<!-- /file -->)", re.DOTALL)
TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- /table -->)", re.DOTALL)
DOCS = Path(__file__).parent
ROOT = DOCS.parent
SOURCE = ROOT / "src/rlstudio"


def render(page: str) -> str:
    """The page with every marked place as the code has it now."""
    page = FIELDS.sub(lambda m: f"{m[1]}\n{settings(getattr(import_module(m[2]), m[3]))}\n{m[4]}", page)
    page = FILE.sub(lambda m: f"{m[1]}\n```python\n{(ROOT / m[2]).read_text()}```\n\n{m[3]}", page)
    return TABLE.sub(lambda m: f"{m[1]}\n{TABLES[m[2]]()}\n{m[3]}", page)


def table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def first_line(path: Path) -> str:
    """Of the docstring of a module. One that goes on in the next line would be cut off."""
    line = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
    if not line.endswith((".", "?")):
        raise ValueError(f"{path}: its docstring must begin with a line that is a sentence: {line}")
    return line


def rooms() -> str:
    """Every package, a room above the rooms inside it, in the order of the layers."""
    found = [path.parent.relative_to(SOURCE).parts for path in SOURCE.rglob("__init__.py")]
    order = [room for layer in reversed(_layers("rooms see only lower rooms")) for room in layer]

    def rank(parts: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
        return order.index(parts[0]), parts[1:]

    def rows() -> Iterator[tuple[str, ...]]:
        for parts in sorted(filter(None, found), key=rank):
            folder = SOURCE.joinpath(*parts)
            files = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
            yield f"`{'/'.join(parts)}`", first_line(folder / "__init__.py"), str(files)

    return table(("room", "what it holds", "files"), rows())


def _layers(name: str) -> list[list[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["name"] == name)
    return [[room.strip().removeprefix("rlstudio.") for room in layer.split("|")] for layer in contract["layers"]]


def layers() -> str:
    """Who may import whom, as import-linter checks it."""
    drawn = [
        _drawing(_layers(name))
        for name in ("rooms see only lower rooms", "inside experiment", "inside control", "inside cli")
    ]
    titles = ("rlstudio", "experiment", "control", "cli")
    height = max(map(len, drawn))
    columns = []
    for title, lines in zip(titles, drawn, strict=True):
        cells = [title, "-" * len(title), *lines, *[""] * (height - len(lines))]
        width = max(map(len, cells)) + 4
        columns.append([cell.ljust(width) for cell in cells])
    return "```\n" + "".join("".join(row).rstrip() + "\n" for row in zip(*columns, strict=True)) + "```\n"


def _drawing(layered: list[list[str]]) -> list[str]:
    return [" | ".join(layer) for layer in layered]


def algorithms() -> str:
    from rlstudio.core.catalog import ALGOS

    def rows() -> Iterator[tuple[str, ...]]:
        for name, part in ALGOS.builtin.items():
            file = part.module.removeprefix("rlstudio.").replace(".", "/") + ".py"
            yield f"[`{name}`](algorithms/{name}.md)", f"`{file}`", ALGOS.summary(name)

    return table(("algo", "file", "what it is"), rows())


def commands() -> str:
    """Every command of `rlctl`, where its code lies, and the first sentence of its help."""
    from rlstudio.cli.app import SECTIONS

    def rows() -> Iterator[tuple[str, ...]]:
        for section, named in SECTIONS.items():
            for command, where in named.items():
                module, _, function = where.partition(":")
                path = f"cli/commands/{module.replace('.', '/')}.py"
                yield section, f"`{command}`", f"`{path}`", _help(SOURCE / path, function)

    return table(("for", "command", "file", "what it does"), rows())


def _help(path: Path, function: str) -> str:
    """The first sentence of a command's docstring; of a group that of its callback."""
    body = ast.parse(path.read_text()).body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    named = [node for node in functions if node.name == function]
    callbacks = [node for node in functions if any("callback" in ast.unparse(part) for part in node.decorator_list)]
    text = " ".join((ast.get_docstring((named or callbacks)[0]) or "").split())
    sentence = re.match(r".*?[^.]\.(?= |$)", text)  # one that ends in dots has no end of its own
    return sentence[0] if sentence else text


def python() -> str:
    """The public functions and the methods of a run, with signatures and docstrings, from the source."""
    folder = SOURCE / "orchestrator"
    actions, groups, handle = (
        ast.parse((folder / name).read_text()).body for name in ("actions.py", "groups.py", "handle.py")
    )
    (run,) = (node for node in handle if isinstance(node, ast.ClassDef) and node.name == "Run")
    sections = [("Functions of `rlstudio.orchestrator`", [*actions, *groups], ""), ("A `Run`", run.body, "run.")]
    return "\n".join(f"### {title}\n\n{''.join(_entries(body, prefix))}" for title, body, prefix in sections)


def http() -> str:
    """Every route of the API, as its OpenAPI document has it."""
    from rlstudio.server.api.routers import routers
    from rlstudio.server.http.access import Access
    from rlstudio.server.http.app import create_app, decisions

    app = create_app(*routers(), title="RLStudio", access=Access(), hosts=())
    roles = {
        (path.replace(":path}", "}"), method): getattr(decision, "role", None)
        for path, method, decision in decisions(app)
    }

    def rows() -> Iterator[tuple[str, ...]]:
        for path, operations in app.openapi()["paths"].items():
            for method, operation in operations.items():
                role = roles[path, method.upper()]
                meaning = " ".join(operation["description"].split()).partition(". ")[0].rstrip(".")
                yield f"`{method.upper()}`", f"`{path.removeprefix('/api/v1')}`", role or "anyone", meaning

    return table(("method", "path below `/api/v1`", "role", "what"), rows())


def _entries(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        node.args.args = [argument for argument in node.args.args if argument.arg != "self"]
        is_property = any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)
        arguments = "" if is_property else f"({ast.unparse(node.args)})"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        yield f"- `{prefix}{node.name}{arguments}{returns}`: {' '.join((ast.get_docstring(node) or '').split())}\n"


SHARED_DEFAULTS = (
    "env.num_envs",
    *(f"policy.network.{name}" for name in ("hidden_sizes", "activation", "normalize_observations")),
    "buffer.capacity",
)
TRAIN_DEFAULTS = (
    *("steps_per_epoch", "rollout_steps", "passes", "batch_size", "lr", "lr_schedule", "max_grad_norm", "gamma"),
    *("gae_lambda", "normalize_rewards", "learning_starts", "train_every", "gradient_steps", "target_every", "tau"),
    *("double", "epsilon_end", "epsilon_fraction", "quantiles"),
)


def defaults() -> str:
    """What a config means that names only the algorithm, for those that bring defaults for shared sections."""
    from rlstudio.core.catalog import ALGOS
    from rlstudio.experiment.config.algorithm import algorithm, train_section
    from rlstudio.experiment.config.experiment import experiment_from

    named = [name for name in ALGOS.builtin if train_section(name).section_defaults]
    data = {
        name: experiment_from({"env": {"id": "any"}, "policy": {"algo": name}}).model_dump(mode="json")
        for name in named
    }

    def rows() -> Iterator[tuple[str, ...]]:
        for field in (*SHARED_DEFAULTS, *(f"train.{name}" for name in TRAIN_DEFAULTS)):
            yield f"`{field}`", *(_default(data[name], field, algorithm(name).off_policy) for name in named)

    return table(("field", *(f"`{name}`" for name in named)), rows())


def _default(data: Any, field: str, off_policy: bool) -> str:
    if field == "buffer.capacity" and not off_policy:
        return "-"
    for part in field.split("."):
        if part not in data:
            return "-"
        data = data[part]
    return f"`{_plain(data)}`"


SPEED_ROWS = {
    "ppo": "PPO, CartPole-v1",
    "ppo_wide": "PPO, CartPole-v1, 64 environments",
    "ppo_pendulum": "PPO, Pendulum-v1",
    "a2c": "A2C, CartPole-v1",
    "dqn": "DQN, CartPole-v1",
    "qrdqn": "QR-DQN, CartPole-v1",
    "sac": "SAC, Pendulum-v1",
    "td3": "TD3, Pendulum-v1",
}


def peers() -> str:
    """Steps per second of every library that was measured, and how many times as fast RLStudio is."""
    sides = {"rlstudio": "RLStudio", "sb3": "SB3", "skrl": "skrl", "tianshou": "Tianshou", "torchrl": "TorchRL"}

    def rows() -> Iterator[tuple[str, ...]]:
        for row, title in SPEED_ROWS.items():
            best = _fastest(json.loads((ROOT / f"benchmarks/results/speed_{row}.json").read_text())["measurements"])
            ours = best["rlstudio"]
            others = [best.get(side) for side in sides if side != "rlstudio"]
            yield title, f"{ours:,.0f}", *("-" if x is None else f"{x:,.0f} ({ours / x:.2g}x)" for x in others)

    return table(("steps per second", *sides.values()), rows())


def _fastest(measurements: list[dict[str, Any]]) -> dict[str, float]:
    """Of each library the best of its ways and numbers of threads, each by its median."""
    rates: dict[tuple[str, int], list[float]] = {}
    for line in measurements:
        if "steps_per_second" in line:
            rates.setdefault((line["entry"], line["threads"]), []).append(line["steps_per_second"])
    best: dict[str, float] = {}
    for (entry, _), values in rates.items():
        side = entry.partition("/")[0]
        best[side] = max(best.get(side, 0.0), median(values))
    return best


TABLES: dict[str, Callable[[], str]] = {
    "peers": peers,
    "defaults": defaults,
    "rooms": rooms,
    "layers": layers,
    "algorithms": algorithms,
    "commands": commands,
    "python": python,
    "http": http,
    **run_path(str(DOCS / "reference/fill.py"))["TABLES"],
}


def settings(config: type[BaseModel]) -> str:
    from rlstudio.experiment.config.settings import values_text

    own = [name for name in config.model_fields if name in config.__annotations__]
    properties = config.model_json_schema()["properties"]
    lines = ["| field | default | values | meaning |", "|---|---|---|---|"]
    for name in own:
        field, schema = config.model_fields[name], properties[name]
        default = "required" if field.is_required() else f"`{_plain(schema.get('default'))}`"
        default = "its own" if field.default_factory is not None else default
        meaning = " ".join((field.description or "").split())
        lines.append(f"| `{name}` | {default} | {values_text(schema, '`')} | {meaning} |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


if __name__ == "__main__":
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]:
        path.write_text(render(path.read_text()))
