"""A run once more: the same to the last bit, or named what it was not the same by."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.runs.fork import fork
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import GateFailed, UserError
from rlstudio.envs.own_modules import IMPORTED, OwnModule
from rlstudio.experiment.analysis.repeat.comparison import Verdict
from rlstudio.experiment.config.experiment import experiment_from, load_experiment
from rlstudio.experiment.config.presets import presets, shipped_name
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.lineage import lineage as lineage_module
from rlstudio.orchestrator import Run
from support.experiments import tiny
from support.known_once import commit_asked_anew
from support.repetition import few

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _code_as_it_is_now() -> Iterator[None]:
    with commit_asked_anew():
        yield


def trained(runs_dir: Path, *overrides: str, **sections: Any) -> Run:
    return orchestrator.run(tiny(**sections), *overrides, runs_dir=runs_dir, progress=False)


def reproduced(run: Run, *overrides: str, **more: Any) -> Verdict:
    return run.reproduce(*overrides, progress=False, **more)


def slower(config: str) -> str:
    return config.replace("lr: 0.0003", "lr: 0.0001")


def named(verdict: Verdict) -> set[tuple[str, str]]:
    return {(change.what, change.name) for change in verdict.changes}


# -- the same ---------------------------------------------------------------------------------------------------------


def test_a_run_once_more_is_the_same(tmp_path: Path) -> None:
    run = trained(tmp_path, ckpt={"history": 1})
    verdict = reproduced(run)
    assert (verdict.word, verdict.first, verdict.changes, verdict.reasons) == ("identical", None, (), ())
    assert [one.step for one in verdict.hashes] == [64, 128, 192]
    assert verdict.metrics.equal
    again = orchestrator.get(verdict.repetition, runs_dir=tmp_path)
    assert again.lineage["reproduces"] == run.id
    assert again.status.name == "tiny-again"
    assert (again.state, again.status.state_hash) == ("COMPLETED", run.status.state_hash)
    assert json.dumps(verdict.to_json(), allow_nan=False)


def test_only_its_first_epochs(tmp_path: Path) -> None:
    run = trained(tmp_path, train={"lr_schedule": "linear"}, ckpt={"history": 1})
    verdict = reproduced(run, epochs=2)
    assert (verdict.word, verdict.is_whole, verdict.env_steps) == ("identical", False, 128)
    assert [one.step for one in verdict.hashes] == [64, 128]


def test_a_run_that_was_cut_and_extended(tmp_path: Path) -> None:
    schedule = {"epochs": 4, "lr_schedule": "linear"}
    with orchestrator.session(tiny(train=schedule), runs_dir=tmp_path) as session:
        for tick in session:
            if tick.epoch == 2:
                break
    run = orchestrator.get(session.folder.id, runs_dir=tmp_path)
    partly = reproduced(run)
    assert (partly.word, partly.is_whole, partly.env_steps) == ("identical", False, 128)
    run.resume("train.epochs=5", progress=False).resume("train.epochs=7", progress=False)
    whole = reproduced(run)
    assert (whole.word, whole.env_steps, whole.changes) == ("identical", 448, ())


def test_a_run_that_reached_its_goal(tmp_path: Path) -> None:
    run = trained(tmp_path, eval={"every_epochs": 1}, gates={"stop_at": 1.0}, train={"epochs": 9})
    assert run.status.reason == "goal"
    verdict = reproduced(run)
    assert (verdict.word, verdict.is_whole) == ("identical", True)


def test_a_run_that_was_rolled_back(tmp_path: Path, monkeypatch: Patch) -> None:
    judge = Guardrails.judge

    def judged(self, report, trainer):
        first = "attempt" not in trainer.source.collector._noise.rng.path
        return "a made-up reason" if report.epoch == 4 and first else judge(self, report, trainer)

    monkeypatch.setattr(Guardrails, "judge", judged)
    run = trained(tmp_path, train={"epochs": 6}, guardrails={"rollback_every_epochs": 2}, ckpt={"history": 1})
    verdict = reproduced(run)
    assert verdict.word == "identical"
    assert len(verdict.hashes) == 6


def test_a_run_that_failed_fails_again(tmp_path: Path) -> None:
    with pytest.raises(GateFailed):
        trained(tmp_path, gates={"min_return": 1e6})
    run = orchestrator.get("last", runs_dir=tmp_path)
    verdict = reproduced(run)
    assert verdict.word == "identical"
    assert orchestrator.get(verdict.repetition, runs_dir=tmp_path).status.reason == "gate_failed"


def test_a_fork_begins_where_it_did(tmp_path: Path) -> None:
    run = trained(tmp_path, "train.epochs=4", ckpt={"history": 1})
    workspace = Workspace(tmp_path)
    with fork(workspace, known_run(workspace, run.id), "128", ["train.epochs=6"]) as session:
        for _ in session:
            pass
    child = orchestrator.get(session.folder.id, runs_dir=tmp_path)
    assert reproduced(child).word == "identical"
    for path in [*run.path.glob("checkpoints/step-*128"), *child.path.glob("checkpoints/step-*128")]:
        path.rename(path.parent / f".away-{path.name}")
    with pytest.raises(UserError, match=f"it began with run {run.id} at 128 steps, and nobody has that checkpoint"):
        reproduced(child)


def test_a_run_that_is_not_exact_cannot_be_the_same(tmp_path: Path, monkeypatch: Patch) -> None:
    with orchestrator.session(tiny(train={"epochs": 4}), runs_dir=tmp_path) as session:
        next(tick for tick in session if tick.epoch == 2)
    config = session.folder.config_path
    config.write_text(slower(config.read_text()))
    assert main(["resume", session.folder.id, "--allow-inexact", "-q", "--runs-dir", str(tmp_path)]) == 0
    verdict = reproduced(orchestrator.get(session.folder.id, runs_dir=tmp_path))
    assert (verdict.word, verdict.reasons) == ("cannot be identical", ("config.yaml was edited",))
    assert verdict.changes[0] == ("config", "train.lr", 0.0003, 0.0001)


# -- every shipped config ---------------------------------------------------------------------------------------------

QUICK = {f"configs/{name}.yaml" for name in ("ppo/quickstart", "ppo/tictactoe", "a2c/cartpole", "ppo/cartpole_adr")}


@pytest.mark.parametrize("preset", few(sorted(map(shipped_name, presets())), QUICK.__contains__))
def test_every_shipped_config_says_that_it_is_the_same(preset: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """Cut to three epochs, of at most 4,096 steps, or 1,024 where pictures are looked at."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    cfg = load_experiment(preset)
    if preset == "configs/bc/cartpole.yaml":
        teacher = trained(tmp_path)
        name = cfg.train.model_dump()["dataset"]
        words = ["record", teacher.id, "--dataset", name, "--episodes", "20", "--runs-dir", str(tmp_path)]
        assert main(words) == 0
    data = cfg.model_dump(mode="json")
    steps = min(cfg.train.steps_per_epoch, 1024 if "pong" in preset else 4096)
    if "simple_" in preset:  # of several agents an epoch is whole rollouts of all of them
        steps = cfg.train.steps_per_epoch
    cuts = {"epochs": 3, "steps_per_epoch": steps}
    if "learning_starts" in data["train"]:
        cuts["learning_starts"] = min(data["train"]["learning_starts"], steps)
    few_episodes = {"every_epochs": 2, "episodes": 2, "final_episodes": 2}
    data |= {"train": data["train"] | cuts, "eval": data["eval"] | few_episodes}
    run = orchestrator.run(experiment_from(data, stored=True), runs_dir=tmp_path, progress=False)
    verdict = reproduced(run)
    print(preset, verdict.word, verdict.metrics.same_values, *verdict.reasons)
    assert verdict.first is None or verdict.reasons
    assert verdict.word == "identical" or "envpool" in verdict.reasons[0].lower()


# -- what has changed -------------------------------------------------------------------------------------------------


def scaled(monkeypatch: Patch, factor: float = 1.001) -> None:
    """Some code learns otherwise than it did."""
    from rlstudio.algos import ppo

    loss = ppo.ppo_loss

    def changed(*args: Any) -> Any:
        total, *others = loss(*args)
        return total * factor, *others

    monkeypatch.setattr(ppo, "ppo_loss", changed)


def git(root: Path, *words: str) -> None:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *settings, "-C", root, *words], check=True, capture_output=True)


def checkout(root: Path) -> Path:
    """A repository with one file of the package in it."""
    file = root / "src/rlstudio/algos/ppo.py"
    file.parent.mkdir(parents=True)
    file.write_text("clip = 0.2\n")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    return file


def installed(folder: Path, monkeypatch: Patch, name: str, version: str) -> Path:
    """A distribution that is found before any other of its name."""
    metadata = folder / f"{name}-{version}.dist-info"
    metadata.mkdir(parents=True)
    # Read in place of the folder's name once another test has imported `importlib_metadata`, whose finder comes first.
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))
    return metadata


def a_library(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    before = installed(tmp_path / "site", monkeypatch, "toy_physics", "1.0")

    def plant() -> None:
        shutil.rmtree(before)
        installed(tmp_path / "site", monkeypatch, "toy_physics", "2.0")
        scaled(monkeypatch)

    return plant


def torch(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    def plant() -> None:
        installed(tmp_path / "site", monkeypatch, "torch", "9.9")
        scaled(monkeypatch)

    return plant


def a_source_line(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    file = checkout(tmp_path / "checkout")
    monkeypatch.setattr(lineage_module, "_PACKAGE", file.parents[1])

    def plant() -> None:
        file.write_text("clip = 0.3\n")
        scaled(monkeypatch)

    return plant


def a_source_line_in_another_commit(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    edit = a_source_line(tmp_path, monkeypatch)

    def plant() -> None:
        edit()
        git(tmp_path / "checkout", "commit", "--quiet", "-am", "second")

    return plant


def a_line_where_it_is_installed(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    package = tmp_path / "site-packages/rlstudio"
    package.mkdir(parents=True)
    (package / "ppo.py").write_text("clip = 0.2\n")
    monkeypatch.setattr(lineage_module, "_PACKAGE", package)

    def plant() -> None:
        (package / "ppo.py").write_text("clip = 0.3\n")
        scaled(monkeypatch)

    return plant


def a_line_of_the_users_module(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    file = tmp_path / "drone_env.py"
    file.write_text("wind = 1\n")
    monkeypatch.setitem(IMPORTED, "os", OwnModule(str(file), (), False))

    def plant() -> None:
        file.write_text("wind = 2\n")
        scaled(monkeypatch)

    return plant


def rlstudio(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    def plant() -> None:
        monkeypatch.setattr(lineage_module, "__version__", "9.9")
        scaled(monkeypatch)

    return plant


def the_processor(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    """Of another make, which computes otherwise."""
    from rlstudio.experiment.training import machine

    def plant() -> None:
        monkeypatch.setattr(lineage_module, "_cpu", lambda: "Another CPU")
        monkeypatch.setattr(machine, "fingerprint", lambda device: "1-0123456789abcdef")
        scaled(monkeypatch)

    return plant


def the_config_file(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    def plant() -> None:
        (file,) = (tmp_path / "runs").glob("2*/config.yaml")
        file.write_text(slower(file.read_text()))

    return plant


def nothing(tmp_path: Path, monkeypatch: Patch) -> Callable[[], None]:
    return lambda: None


PLANTED: dict[str, tuple[Callable[[Path, Patch], Callable[[], None]], tuple[str, ...], set[tuple[str, str]]]] = {
    "a library": (a_library, (), {("library", "toy-physics")}),
    "torch": (torch, (), {("library", "torch")}),
    "a source line": (a_source_line, (), {("code", "src/rlstudio/algos/ppo.py")}),
    "a commit": (a_source_line_in_another_commit, (), {("code", "src/rlstudio/algos/ppo.py")}),
    "an installed file": (a_line_where_it_is_installed, (), {("code", "the files of the installed rlstudio")}),
    "the user's module": (a_line_of_the_users_module, (), {("code", "drone_env.py")}),
    "rlstudio": (rlstudio, (), {("code", "rlstudio")}),
    "the processor": (the_processor, (), {("topology", "numerics"), ("machine", "cpu")}),
    "config.yaml": (the_config_file, (), {("config", "train.lr")}),
    "a setting": (nothing, ("train.lr=1e-2",), {("config", "train.lr")}),
    "the seed": (nothing, ("env.seed=8",), {("config", "env.seed")}),
    "copies": (nothing, ("env.num_envs=4",), {("config", "env.num_envs")}),
}


@pytest.mark.parametrize("change", PLANTED)
def test_what_was_changed_is_named(change: str, tmp_path: Path, monkeypatch: Patch) -> None:
    prepare, overrides, expected = PLANTED[change]
    plant = prepare(tmp_path, monkeypatch)
    run = trained(tmp_path / "runs")
    plant()
    verdict = reproduced(run, *overrides)
    assert verdict.word == "different"
    assert {(what, name.rpartition(str(tmp_path) + "/")[2]) for what, name in named(verdict)} == expected
    assert verdict.first is not None
    assert verdict.first.step <= 64


def test_what_changed_without_effect_is_named_too(tmp_path: Path) -> None:
    verdict = reproduced(trained(tmp_path), "runtime.threads=2")
    assert verdict.word == "identical"
    assert ("config", "runtime.threads") in named(verdict)


def test_where_nothing_has_changed_it_says_so(tmp_path: Path, monkeypatch: Patch) -> None:
    """Code that asks the clock, for example."""
    run = trained(tmp_path)
    scaled(monkeypatch, factor=1 + random.random() / 100)
    verdict = reproduced(run)
    assert (verdict.word, verdict.changes) == ("different", ())


def test_it_ends_at_the_first_difference(tmp_path: Path, monkeypatch: Patch) -> None:
    run = trained(tmp_path, train={"epochs": 20})
    scaled(monkeypatch)
    verdict = reproduced(run)
    again = orchestrator.get(verdict.repetition, runs_dir=tmp_path)
    assert (again.state, again.status.epoch, verdict.is_whole) == ("INTERRUPTED", 1, False)
