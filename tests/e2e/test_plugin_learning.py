"""An algorithm, a Model, a world and a lane of another package (examples/my_parts), from a run that is killed to a
policy that is evaluated, exported, served and planned with. What needs no process of its own runs in this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import yaml

from rlstudio import load_agent, open_bundle
from rlstudio.cli.app import main
from rlstudio.control.workspace import Workspace
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.kernel import NUMPY
from rlstudio.experiment.analysis.compare_runs import topology_of
from support.cli_scenario import Rlctl, rlctl_in_process
from support.deadlines import PATIENCE
from support.plugins import on_the_path
from support.rlctl_process import end_all, served_actions, show, start, wait_until_trained

pytestmark = pytest.mark.real_process

EPOCHS = 40
LEARNS: dict[str, Any] = {
    "name": "ledge",
    "env": {"id": "Ledge-v0", "num_envs": 4, "params": {"fall": 3.0}},
    "policy": {"algo": "plain_q"},
    "train": {"epochs": EPOCHS, "steps_per_epoch": 64, "gamma": 0.9},
    "buffer": {"capacity": 1024},
    "eval": {"every_epochs": 0, "final_episodes": 4},
    "ckpt": {"every_epochs": 1},
}


class Learned(NamedTuple):
    place: Path  # the folder that commands are given in
    run: str  # that was killed and went on


@pytest.fixture(scope="module")
def learned(site: Path, shell: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """A run that was killed in the middle and went on."""
    place = tmp_path_factory.mktemp("learning")
    (place / "ledge.yaml").write_text(yaml.safe_dump(LEARNS))
    process = start(place, "launch", "-f", "ledge.yaml", "train.epochs=1000000", env=shell)
    try:
        wait_until_trained(place)
        process.kill()
        process.communicate(timeout=PATIENCE)
    finally:
        end_all()
    epochs = max(EPOCHS, show(place)["epoch"] + 3)
    with on_the_path(site):
        assert main(["resume", "last", f"train.epochs={epochs}", "-q", "--runs-dir", str(place / "runs")]) == 0
    return Learned(place, show(place)["id"])


@pytest.fixture
def rlctl(
    site: Path, learned: Learned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rlctl]:
    """Commands where the run is, with the package installed."""
    monkeypatch.chdir(learned.place)
    with on_the_path(site):
        yield rlctl_in_process(capsys)


def everywhere() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What the world shows at every place with every lamp, and the choices that are allowed there."""
    states = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0)), -1).reshape(-1, 2)
    observed = make_world("Ledge-v0", {}).observe(states, {}, NUMPY)
    assert isinstance(observed, dict)
    rows = {"action_mask": observed["action_mask"].astype(np.uint8), "numbers": observed["numbers"].astype(np.float32)}
    return rows, rows["action_mask"] > 0


def test_the_killed_run_went_on_exactly(rlctl: Rlctl, learned: Learned) -> None:
    ended = show(learned.place, run=learned.run)
    straight = rlctl(*("launch", "-f", "ledge.yaml", f"train.epochs={ended['epoch']}", "-q", "--runs-dir", "straight"))
    assert (straight.code, straight.err) == (0, "")
    other = show(learned.place, "straight")
    assert (ended["state"], ended["exact"]) == ("COMPLETED", True)
    assert (ended["state_hash"], ended["config_hash"]) == (other["state_hash"], other["config_hash"])
    stored = yaml.safe_load((Path(ended["path"]) / "config.yaml").read_text())
    assert (stored["env"]["params"], stored["train"]["width"]) == ({"fall": 3.0}, 16)


def test_its_policy_acts_alike_from_the_run_the_bundle_the_graph_and_the_server(
    rlctl: Rlctl, learned: Learned, shell: dict[str, str]
) -> None:
    exported = rlctl("export", learned.run, "-o", "bundle", "--format", "bundle,onnx", "--json")
    assert (exported.code, exported.document["formats"]) == (0, {"onnx": "policy.onnx"})
    rows, allowed = everywhere()
    bundle = open_bundle(learned.place / "bundle")
    actions = load_agent(show(learned.place, run=learned.run)["path"]).act(rows)
    assert allowed[np.arange(len(actions)), actions].all()
    assert len(set(actions.tolist())) > 1
    assert np.array_equal(bundle.agent().act(rows), actions)
    assert np.array_equal(bundle.policy().act(rows), actions)  # the graph
    observed = {name: entry.tolist() for name, entry in rows.items()}
    assert served_actions(learned.place, observed, env=shell) == actions.tolist()

    played = [rlctl("eval", what, "--episodes", 8, "--seed", 5, "--json") for what in (learned.run, "bundle")]
    assert [answer.code for answer in played] == [0, 0]
    assert played[0].document["returns"] == played[1].document["returns"]


def test_the_lane_trains_it_and_without_the_mask_it_plans(rlctl: Rlctl, learned: Learned) -> None:
    """Planners know no masks and refuse a world that shows one, so this run leaves it out."""
    lane = ["runtime.lane=one_pass", "-q", "--runs-dir", "lane"]
    launched = rlctl("launch", "-f", "ledge.yaml", "env.kwargs.mask=false", *lane)
    assert (launched.code, launched.err) == (0, "")
    workspace = Workspace(learned.place / "lane")
    topology = topology_of(workspace.find("last").folder)
    assert topology is not None
    assert topology["lane"] == "one_pass"
    planned = rlctl(
        *("eval", "last", "--runs-dir", "lane", "--planner", "guided", "planner.horizon=4", "planner.candidates=16"),
        *("--episodes", 20, "--json"),
    )
    assert planned.code == 0, planned.err
    own, with_plan = planned.document["summary"]["mean"], planned.document["planner"]["summary"]["mean"]
    assert own > -3.0, "random choices earn -4.7, who knows the way -0.5"
    assert with_plan > -1.5

    refused = rlctl("eval", learned.run, "--planner", "guided")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a planner knows no action mask" in refused.err


def test_a_checkpoint_of_the_algorithm_goes_on_in_the_lane(rlctl: Rlctl, learned: Learned) -> None:
    parent = Workspace(learned.place / "runs").find(learned.run)
    before = parent.status.epoch
    child = rlctl("fork", learned.run, "runtime.lane=one_pass", f"train.epochs={before + 2}", "-q")
    assert (child.code, child.err) == (0, "")
    entry = Workspace(learned.place / "runs").find("last")
    assert entry.status.epoch == before + 2
    assert (topology_of(parent.folder) or {}).get("lane") is None
    assert (topology_of(entry.folder) or {})["lane"] == "one_pass"


def test_without_the_package_the_run_says_what_it_lacks(
    learned: Learned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(learned.place)
    alone = rlctl_in_process(capsys)("resume", learned.run, "train.epochs=2000000")
    assert (alone.code, alone.err.count("\n")) == (2, 1)
    assert "unknown algo 'plain_q'" in alone.err
