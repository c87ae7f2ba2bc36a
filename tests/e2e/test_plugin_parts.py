"""One part of each kind from a package of its own, examples/my_parts, built and installed: RLStudio knows none of it.

A kind is added to the test by an entry point in that package, a class in its tests and a line in PARTS. What becomes
of its algorithm, Model, world and lane is in test_plugin_learning.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rlstudio.control.runs.start import enqueue
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import ConfigError
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.config.schema import experiment_schema
from support.cli_scenario import Rlctl, rlctl_in_process
from support.deadlines import PATIENCE
from support.experiments import tiny
from support.plugins import MY_PARTS, on_the_path
from support.rlctl_process import rlctl, served_actions, show, start, wait_until_trained

pytestmark = pytest.mark.real_process

PARTS = {
    ("algo", "plain_q"),
    ("model", "relu-values"),
    ("world", "Ledge-v0"),
    ("lane", "one_pass"),
    ("planner", "mirrored"),
    ("dynamics", "weaker"),
    ("score", "smooth"),
    ("sink", "lines"),
    ("launcher", "polite"),
    ("sampler", "halton"),
}
PLANS = {
    "env": {"id": "Pendulum-v1", "num_envs": 2},
    "policy": {"algo": "mpc"},
    "train": {
        "epochs": 1_000_000,
        "steps_per_epoch": 32,
        "rollout_steps": 8,
        "planner": {"kind": "mirrored", "pairs": 4, "horizon": 3, "score": {"kind": "smooth", "cost": 0.5}},
        "dynamics": {"kind": "weaker", "strength": 0.7},
    },
    "eval": {"every_epochs": 0, "final_episodes": 1},
    "ckpt": {"every_epochs": 1},
    "tracking": {"sinks": ["csv", {"kind": "lines", "file": "mine.txt"}]},
}
SWEEP = {
    "name": "spread",
    "experiment": PLANS,
    "overrides": ["train.epochs=1", "tracking.sinks=[]"],
    "trials": 2,
    "sampler": {"kind": "halton", "skip": 3},
    "space": {"train.dynamics.strength": {"low": 0.5, "high": 1.0}},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "plans.yaml").write_text(yaml.safe_dump(PLANS))
    (tmp_path / "spread.yaml").write_text(yaml.safe_dump(SWEEP))
    return tmp_path


@pytest.fixture
def here(
    site: Path, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rlctl]:
    """Commands in this process, where the package is installed too."""
    monkeypatch.chdir(place)
    with on_the_path(site):
        yield rlctl_in_process(capsys)


def lines_of(place: Path, runs: str = "runs") -> list[list[str]]:
    """What the sink of the newest run wrote, without what depends on the clock."""
    (file,) = (place / runs).glob("*/artifacts/mine.txt")
    rows = [line.split() for line in file.read_text().splitlines()]
    return [row for row in rows if row[1].startswith(("train/", "rollout/return", "eval/return"))]


def test_all_of_them_are_listed(installed: dict[str, str], place: Path) -> None:
    answer = rlctl(place, "plugins", "--check", "--json", env=installed)
    assert answer.returncode == 0, answer
    rows = json.loads(answer.stdout)
    assert {(row["kind"], row["name"]) for row in rows} == PARTS
    assert {(row["package"], row["version"], row["problem"]) for row in rows} == {("my-parts", "0.1.0", "")}
    assert all(len(row["summary"]) > 10 for row in rows)


def test_a_killed_run_of_them_goes_on_exactly(installed: dict[str, str], place: Path, here: Rlctl) -> None:
    """It plans with the planner, in the dynamics, by the score, and writes to the sink."""
    process = start(place, "launch", "-f", "plans.yaml", env=installed)
    wait_until_trained(place)
    process.kill()
    process.communicate(timeout=PATIENCE)
    epochs = show(place)["epoch"] + 3
    resumed = here("resume", "last", f"train.epochs={epochs}", "-q")
    assert (resumed.code, resumed.err) == (0, "")
    straight = here("launch", "-f", "plans.yaml", f"train.epochs={epochs}", "-q", "--runs-dir", "straight")
    assert (straight.code, straight.err) == (0, "")
    ended = show(place)
    assert (ended["state"], ended["epoch"]) == ("COMPLETED", epochs)
    assert ended["state_hash"] == show(place, "straight")["state_hash"]
    assert ended["config_hash"] == show(place, "straight")["config_hash"]
    assert lines_of(place) == lines_of(place, "straight") != []

    (stored,) = (place / "runs").glob("*/config.yaml")
    train = yaml.safe_load(stored.read_text())["train"]
    planner = train["planner"]
    assert (planner["pairs"], planner["score"]["cost"], train["dynamics"]["strength"]) == (4, 0.5, 0.7)

    again = here("eval", "last", "--episodes", 1, "--planner", "mirrored", "planner.pairs=2")
    assert (again.code, again.err) == (0, "")
    assert "mirrored" in again.out

    # On a machine without the package, the run says what it lacks and stays as it is.
    alone = rlctl(place, "resume", "last", f"train.epochs={epochs + 1}")
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "tracking.sinks[1].kind: unknown sink 'lines'" in alone.stderr
    assert show(place)["state_hash"] == ended["state_hash"]


def test_a_plan_of_them_is_served_once_their_modules_are_allowed(
    installed: dict[str, str], place: Path, here: Rlctl
) -> None:
    """A bundle names parts of a package and imports nothing by itself."""
    assert here("launch", "-f", "plans.yaml", "train.epochs=1", "-q").code == 0
    exported = here("export", "last", "-o", "bundle")
    assert (exported.code, exported.err) == (0, "")
    refused = rlctl(place, "serve-policy", "bundle", "--port", 0, env=installed)
    assert (refused.returncode, refused.stderr.count("\n")) == (4, 1)
    allowed = ["--import", "my_parts.planner", "--import", "my_parts.score", "--import", "my_parts.dynamics"]
    assert f"opening a bundle imports nothing; allow it with {' '.join(allowed)} (" in refused.stderr
    upright = [1.0, 0.0, 0.0]
    ((torque,),) = served_actions(place, [upright], *allowed, env=installed)
    assert -2.0 <= torque <= 2.0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("train.planner.pair=3", "train.planner.pair: unknown key; did you mean pairs?"),
        ("train.planner.score.costs=3", "train.planner.score.costs: unknown key; did you mean cost?"),
        ("train.dynamics.strength=2", "train.dynamics.strength: must be 1 or less, got 2"),
        ("train.planner.kind=mirored", "train.planner.kind: unknown planner 'mirored'; did you mean mirrored?"),
        ("tracking.sinks.1.fil=a.txt", "tracking.sinks[1].fil: unknown key; did you mean file?"),
    ],
)
def test_their_settings_are_checked_as_ours_are(site: Path, setting: str, message: str) -> None:
    with on_the_path(site), pytest.raises(ConfigError) as caught:
        experiment_from(PLANS, overrides=[setting])
    assert str(caught.value) == f"override {setting}: {message}"


def test_the_schema_knows_their_settings(site: Path) -> None:
    with on_the_path(site):
        definitions = experiment_schema("mpc")["$defs"]
    for section, setting in (
        ("PlannerConfig", "pairs"),
        ("DynamicsConfig", "strength"),
        ("ScorePartConfig", "cost"),
        ("SinkConfig", "file"),
    ):
        *ours, theirs = definitions[section]["anyOf"]
        assert setting in theirs["properties"]
        assert not any(setting in own["properties"] for own in ours)


def test_the_launcher_starts_runs_of_the_queue(installed: dict[str, str], place: Path, here: Rlctl) -> None:
    home = Workspace(place / "runs")
    run = enqueue(home, tiny("ppo", train={"epochs": 1}))
    command = ["worker", "--until-idle", "--launcher", "polite", "launcher.niceness=1"]
    served = rlctl(place, *command, env=installed)
    assert (served.returncode, served.stderr) == (0, "")
    assert home.store.get(run.id).state == "COMPLETED"
    niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 1)
    assert f"niceness {niceness}\n" in (place / "runs" / run.id / "stdout.log").read_text()
    home.store.database.close()
    wrong = here(*command[:-1], "launcher.nicenes=1")
    message = "launcher.nicenes: unknown key; did you mean niceness?"
    assert (wrong.code, wrong.err) == (2, f"rlctl: override launcher.nicenes=1: {message}\n")


def test_the_sampler_chooses_for_a_sweep(installed: dict[str, str], place: Path, here: Rlctl) -> None:
    swept = rlctl(place, "sweep", "-f", "spread.yaml", env=installed)
    assert swept.returncode == 0, swept
    trials = here("sweep", "show", "spread", "--json").document["trials"]
    chosen = [trial["params"]["train.dynamics.strength"] for trial in trials]
    assert chosen == [0.5 + 0.5 * share for share in (0.125, 0.625)]  # 4 and 5 in base 2, with their digits reversed


def test_they_keep_the_contracts_of_their_kinds(installed: dict[str, str], place: Path) -> None:
    shutil.copytree(MY_PARTS / "tests", place / "tests")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"]
    suites = subprocess.run(
        command, cwd=place, env=installed, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert suites.returncode == 0, suites.stdout
    assert " passed" in suites.stdout
