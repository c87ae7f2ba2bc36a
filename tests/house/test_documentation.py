"""The pages say what the code does: links lead somewhere, tables and examples are those of the code."""

from __future__ import annotations

import importlib
import importlib.util
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml

from rlstudio.core import errors
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.rng import Rng
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.cartpole import CartPole
from rlstudio.envs.worlds.native import NativeVecEnv
from rlstudio.experiment.checkpoint.state_hash import state_hash
from rlstudio.experiment.config.experiment import experiment_from, load_experiment
from rlstudio.experiment.training.build import build
from rlstudio.models.config import NetworkConfig
from support.experiments import tiny
from support.pages import BLOCK, DOCS, EXAMPLES, PAGES, ROOT, blocks
from support.plugins import install_package, on_the_path
from support.typed_commands import of_blocks

NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names a heading can be linked by, made the way GitHub and mkdocs make them."""
    prose = BLOCK.sub("", page.read_text())
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(BLOCK.sub("", page.read_text())):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.is_file(), f"{target} is not there"
        assert not anchor or anchor in anchors(linked), f"{target}: no such heading"


def test_the_site_has_every_page_once() -> None:
    def leaves(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [leaf for part in (entry.values() if isinstance(entry, dict) else entry) for leaf in leaves(part)]

    nav = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    beside = [leaf.removeprefix("repository/") for leaf in nav if leaf.startswith("repository/")]
    assert [name for name in beside if not (ROOT / name).is_file()] == []
    listed = [leaf for leaf in nav if not leaf.startswith("repository/")]
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_decision_is_in_the_index() -> None:
    index = (DOCS / "decisions/README.md").read_text()
    records = sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))
    assert [name for name in records if f"]({name})" not in index] == []
    numbers = [name[:4] for name in records]  # one that is missing is taken by a change that is still being written
    assert len(set(numbers)) == len(numbers)


def load(path: Path) -> ModuleType:
    """A module from a file, known by its name while it is loaded, as an imported one is."""
    spec = importlib.util.spec_from_file_location(f"shown_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MARKED = re.compile(r"<!-- (fields|file|table) ")
FILLED = [page for page in (ROOT / "README.md", *DOCS.rglob("*.md")) if MARKED.search(page.read_text())]


@pytest.mark.parametrize("page", FILLED, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_field_tables_and_files_are_those_of_the_code(page: Path) -> None:
    assert load(DOCS / "fill.py").render(page.read_text()) == page.read_text(), "run: .venv/bin/python docs/fill.py"


def test_every_exit_code_is_documented() -> None:
    def tree(kind: type[errors.RLStudioError]) -> set[int]:
        return {kind.exit_code}.union(*(tree(child) for child in kind.__subclasses__()))

    rows = re.findall(r"^\| (\d+) \|", (DOCS / "reference/exit-codes.md").read_text(), re.MULTILINE)
    assert tree(errors.RLStudioError) <= {int(row) for row in rows}


YAML_BLOCKS = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate(blocks(page, "yaml"))
    if not text.startswith("# yaml-language-server")
]


@pytest.fixture
def my_parts(tmp_path: Path) -> Iterator[None]:
    """The package of plug-ins that the pages speak of, as if it were installed."""
    project = tomllib.loads((EXAMPLES / "my_parts/pyproject.toml").read_text())["project"]
    install_package(tmp_path, project["name"], project["version"], project["entry-points"], {})
    with on_the_path(EXAMPLES / "my_parts"), on_the_path(tmp_path):
        yield


@pytest.mark.usefixtures("my_parts")
@pytest.mark.parametrize("text", YAML_BLOCKS)
def test_every_configuration_shown_is_valid(text: str) -> None:
    """A whole experiment as it stands; single sections inside a small one."""
    data = read_text(text, "docs").data
    whole = {"env": {"id": "CartPole-v1"}, "policy": {"algo": "ppo"}} | data
    given = experiment_from(whole).model_dump(mode="json")
    assert all(given[section] for section in data)


IMPORTS = sorted(
    {
        (module, name.strip())
        for page in PAGES
        for body in blocks(page, "python")
        for module, names in re.findall(r"^from (rlstudio[\w.]*) import ([\w, ]+)$", body, re.MULTILINE)
        for name in names.split(",")
    }
)


@pytest.mark.parametrize(("module", "name"), IMPORTS, ids=lambda part: part)
def test_every_import_shown_works(module: str, name: str) -> None:
    imported = importlib.import_module(module)
    assert hasattr(imported, name) or importlib.import_module(f"{module}.{name}")


def test_the_algorithm_shown_learns_and_resumes_exactly() -> None:
    module = load(EXAMPLES / "reinforce.py")

    def build() -> Any:
        runtime = LocalRuntime(NativeVecEnv(CartPole(), 8, seed=3))
        return module.Reinforce(module.ReinforceConfig(rollout_steps=64), runtime, NetworkConfig(), Rng(3))

    def state(trainer: Any) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in trainer.stateful().items()}

    def hashed(trainer: Any) -> str:
        empty: dict[str, Any] = {}
        parts = {"module_state": empty, "trainer_state": state(trainer), "replay_meta": empty, "rng_state": empty}
        return state_hash({"version": 1, **parts, "meta": {}})

    trainer = build()
    start = hashed(trainer)
    assert set(trainer.train_step()) == {"loss", "entropy", "grad_norm"}
    assert hashed(trainer) != start
    before = hashed(trainer)
    trainer.eval_step()
    assert hashed(trainer) == before
    other = build()
    for name, part in other.stateful().items():
        part.load_state_dict(trainer.stateful()[name].state_dict())
    assert hashed(other) == before
    trainer.train_step()
    other.train_step()
    assert hashed(other) == hashed(trainer)


def test_the_environment_shown_is_fit_to_train_on_and_to_film() -> None:
    load(EXAMPLES / "my_worlds.py")
    assert check_env(EnvConfig(id="Corridor-v0", kwargs={"length": 20})).findings == []
    env = gymnasium.make("Corridor-v0", length=20, render_mode="rgb_array")
    env.reset(seed=1)
    assert sum(env.step(1)[1] for _ in range(20)) > 0
    picture: Any = env.render()
    assert (picture.dtype, picture.ndim) == (np.uint8, 3)
    env.close()


@pytest.mark.learning
def test_the_scripts_of_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Newcomer S3: as they stand, so each is short: `swap_planner` took three minutes for two lines of six."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", ["script"])
    outputs = {}
    for name in ("bare_loop", "notebook_loop", "orchestrate", "load_agent", "swap_planner"):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        outputs[name] = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in outputs["bare_loop"]] == [["epoch", str(n)] for n in range(1, 31)]
    assert outputs["notebook_loop"][-1].startswith("COMPLETED evaluation ")
    left = f"INTERRUPTED {tmp_path / 'runs'}/"
    assert any(line.startswith(left) for line in outputs["notebook_loop"]), "it left the loop and went on"
    assert outputs["orchestrate"][-1].startswith("100 greedy episodes: ")
    assert float(outputs["load_agent"][-1].split()[1]) > 20
    assert [line.split()[-3:] for line in outputs["swap_planner"]] == [["50", "of", "50"]] * 6


LAUNCHES = [
    pytest.param(typed.words, id=f"{typed.place}-{number}")
    for number, typed in enumerate(of_blocks())
    if typed.words[:3] == ["rlctl", "launch", "-f"] and typed.words[3].startswith("configs/")
]


@pytest.mark.parametrize("words", LAUNCHES)
def test_every_override_shown_changes_something(words: list[str]) -> None:
    """Newcomer S3: `train.lr=1e-3` was the value of the file already."""
    for override in (word for word in words[4:] if re.match(r"[a-z_.]+=", word)):
        assert load_experiment(words[3], [override]) != load_experiment(words[3]), override


def test_no_line_of_the_readme_needs_a_checkpoint_of_what_was_just_queued() -> None:
    """Newcomer S3: `fork last --at best` stood below `--detach`, and the newest run had not begun."""
    lines = [typed.line for typed in of_blocks() if typed.place == "README.md"]
    queued = next(number for number, line in enumerate(lines) if "--detach" in line)
    assert [line for line in lines[queued + 1 :] if " last" in line] == []


def test_the_home_of_the_site_begins_as_the_readme_does() -> None:
    """What it is and the two commands, which the test of the wheel types."""
    of_readme, of_home = (text.read_text().split("\n\n") for text in (ROOT / "README.md", DOCS / "README.md"))
    assert of_home[:2] == of_readme[:2]
    typed = {place: [typed.line for typed in of_blocks() if typed.place == place] for place in NAMES}
    assert typed["docs/README.md"] == typed["README.md"][:2]


@pytest.mark.parametrize("algo", ["ppo", "dqn", "qrdqn"])
def test_the_metrics_that_gates_md_limits_are_those_of_its_algorithms(algo: str) -> None:
    """Newcomer S3: it set a limit on `train/q`, which PPO has not, and the run failed."""
    (line,) = re.findall(r"^  limits: (.+)$", (DOCS / "howto/gates.md").read_text(), re.MULTILINE)
    of_ppo, of_q_learning = line.split("#")
    limited = re.findall(r"train/(\w+):", of_ppo if algo == "ppo" else of_q_learning)
    built = build(tiny(algo))
    while not (metrics := built.trainer.train_step()):
        pass
    built.close()
    assert limited
    assert set(limited) <= metrics.keys()


def test_every_example_is_listed() -> None:
    listed = {target for target in LINK.findall((EXAMPLES / "README.md").read_text()) if target.endswith(".py")}
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}


def test_the_answer_to_a_typo_is_the_one_shown() -> None:
    message = next(body for body in blocks(DOCS / "tutorial.md", "") if body.startswith("rlctl: override"))
    override = message.split()[2].rstrip(":")
    with pytest.raises(errors.ConfigError) as refused:
        load_experiment("configs/ppo/cartpole.yaml", [override])
    assert message == f"rlctl: {refused.value}\n"


@pytest.mark.learning
def test_the_python_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"observation": [0.0, 0.0, 0.05, 0.0]}
    for body in blocks(DOCS / "tutorial.md", "python"):
        exec(compile(body, "tutorial.md", "exec", dont_inherit=True), names)
    assert names["session"].status.state == "COMPLETED"
    assert names["action"] in (0, 1)
    assert names["tick"].epoch == names["cfg"].train.epochs
