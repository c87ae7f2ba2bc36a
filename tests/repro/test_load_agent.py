"""From a run to its agent: on a machine too small to train it, without its environment, from older checkpoints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlstudio.agents.policy import PolicyAgent
from rlstudio.control.runs.adopt import known_run
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import CheckpointError, ConfigError
from rlstudio.delivery.export import export_run
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import folder_name, manifest_bytes
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run import checkpoint_agent
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.load import load_agent, load_run
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.orchestrator.handle import Run
from support.export_toys import Case, config
from support.sessions import start

GOLDEN = Path(__file__).parent.parent / "golden" / "run-v1"
OBSERVATIONS = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)


def trained(algo: str, runs: Path, **train) -> RunFolder:
    cfg = config(Case(algo, "CartPole-v1", {}, train), eval={"final_episodes": 2})
    with start(cfg.model_copy(update={"train": cfg.train.model_copy(update={"epochs": 3})}), runs) as session:
        for _ in session:
            pass
        return session.folder


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    return {algo: trained(algo, tmp_path_factory.mktemp(algo)) for algo in ("dqn", "ppo")}


@pytest.fixture
def run(parents, tmp_path):
    """A run of our own, to change: of ppo, or of what the test asks for."""

    def copied(algo: str = "ppo") -> RunFolder:
        folder = parents[algo]
        shutil.copytree(folder.path, tmp_path / folder.id)
        return RunFolder(tmp_path / folder.id)

    return copied


def rewritten(run: RunFolder, change) -> None:
    """The manifest of the newest checkpoint, as `change` makes its fields, with a hash that fits."""
    info = Checkpoints(run.path, run.id, lease=None).list()[0]
    fields = {name: value for name, value in info.fields.items() if name != "sha256"}
    change(fields)
    (run.path / folder_name(info.step) / "MANIFEST.json").write_bytes(manifest_bytes(fields))


def refuse_to_build(monkeypatch):
    for name in ("build_runtime", "build_trainer"):
        monkeypatch.setattr(checkpoint_agent, name, lambda *_, name=name: pytest.fail(f"{name} was called"))


def test_a_run_whose_replay_does_not_fit_this_machine_is_evaluated_and_exported(run, tmp_path, eight_gigabytes):
    huge = run("dqn")
    before = load_run(huge)
    text, changed = re.subn(r"capacity: \d+", "capacity: 1000000000", huge.config_path.read_text())
    assert changed == 1
    huge.config_path.write_text(text)
    loaded = load_run(huge)
    env = build_runtime(loaded.cfg)
    try:  # it cannot be trained here
        with pytest.raises(ConfigError, match=r"^buffer.capacity: .* need .* GiB"):
            build_trainer(loaded.cfg, env)
    finally:
        env.close()
    played = [evaluate(each.agent, each.cfg.env, episodes=3, seed=1) for each in (before, loaded)]
    assert played[0] == played[1]
    bundle = export_run(huge, tmp_path / "b", formats=("bundle",))
    assert np.array_equal(bundle.agent().act(OBSERVATIONS), before.agent.act(OBSERVATIONS))


def test_a_run_whose_environment_is_not_there_is_loaded(run, monkeypatch):
    orphan = run()
    acted = load_agent(orphan.path).act(OBSERVATIONS)
    orphan.config_path.write_text(orphan.config_path.read_text().replace("CartPole-v1", "Nowhere-v7"))
    refuse_to_build(monkeypatch)
    assert np.array_equal(load_agent(orphan.path).act(OBSERVATIONS), acted)


def test_every_checkpoint_of_a_run_says_what_acts(parents):
    for folder in parents.values():
        infos = Checkpoints(folder.path, folder.id, lease=None).list()
        assert infos
        for info in infos:
            assert info.fields["agent"]["model"]["network"]["hidden_sizes"] == [8]
            assert info.fields["agent"]["action"] == {"kind": "discrete", "n": 2, "start": 0}


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_checkpoint_without_the_description_is_loaded_through_the_trainer(algo, run, monkeypatch):
    older = run(algo)
    acted = load_run(older).agent.act(OBSERVATIONS)
    rewritten(older, lambda fields: fields.pop("agent"))
    assert np.array_equal(load_run(older).agent.act(OBSERVATIONS), acted)
    built = []
    make = checkpoint_agent.build_trainer
    monkeypatch.setattr(checkpoint_agent, "build_trainer", lambda *given: built.append(given) or make(*given))
    load_run(older)
    assert len(built) == 1


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_of_version_1_is_loaded(algo):
    (path,) = GOLDEN.glob(f"*-{algo}-*")
    assert set(load_agent(path).act(OBSERVATIONS).tolist()) <= {0, 1}


@pytest.mark.parametrize("described", [True, False])
def test_the_scale_of_rewards_comes_along(described, tmp_path):
    folder = trained("ppo", tmp_path, normalize_rewards=True)
    if not described:
        rewritten(folder, lambda fields: fields.pop("agent"))
    loaded = load_run(folder)
    state = loaded.checkpoint.content["trainer_state"]["reward_scale"]
    expected = np.float32(np.sqrt(state["square"][0] / state["count"] + 1e-8))
    assert loaded.reward_scale == pytest.approx(float(expected), rel=1e-6)
    assert loaded.reward_scale != 1.0


def wider(fields):
    fields["agent"]["model"]["network"]["hidden_sizes"] = [9]


def another_kind(fields):
    fields["agent"]["model"]["variant"] = "q-value"


def no_such_space(fields):
    fields["agent"]["action"]["n"] = -1


def more_than_known(fields):
    fields["agent"]["model"]["colour"] = "red"


def not_an_object(fields):
    fields["agent"] = 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (wider, r"step-\d+: its weights are not of the agent that its MANIFEST.json describes: .* the Model has .*\[9"),
        (another_kind, r"step-\d+: its weights are not of the agent that its MANIFEST.json describes: "),
        (no_such_space, r"step-\d+/MANIFEST.json: agent: not a description of an agent: ValueError impossible sizes"),
        (more_than_known, r"step-\d+/MANIFEST.json: agent.model.colour: Extra inputs are not permitted"),
        (not_an_object, r"step-\d+/MANIFEST.json: agent: Input should be an object"),
    ],
)
def test_a_description_that_does_not_fit_is_told_in_one_line(change, reason, run):
    damaged = run()
    rewritten(damaged, change)
    with pytest.raises(CheckpointError, match=reason) as caught:
        load_run(damaged)
    assert "\n" not in str(caught.value)


def test_an_agent_of_somebody_elses_is_built_by_its_own_trainer(tmp_path, monkeypatch):
    """A class that extends ours may act otherwise: what the manifest could say of it would be wrong."""

    class Contrary(PolicyAgent):
        def step(self, observations, carry=None, noise=None):
            acted = super().step(observations, carry, noise)
            return acted._replace(actions=1 - acted.actions)

    monkeypatch.setattr("rlstudio.algos.parts.on_policy.PolicyAgent", Contrary)
    folder = trained("ppo", tmp_path)
    agent = load_run(folder).agent
    assert type(agent) is Contrary
    assert Checkpoints(folder.path, folder.id, lease=None).list()[0].fields["agent"]["model"] is None


def test_a_forked_run_begins_with_the_description_of_its_parent(parents, tmp_path):
    parent = parents["dqn"]
    text = parent.config_path.read_text()
    child = RunFolder.create(tmp_path, NewRun("child", "dqn", "CartPole-v1", text))
    with FileLease(child.path) as lease:
        info = copy_checkpoint(parent, "last", child, lease)
    assert info.fields["agent"] == Checkpoints(parent.path, parent.id, lease=None).list()[0].fields["agent"]
    assert np.array_equal(load_agent(child.path).act(OBSERVATIONS), load_agent(parent.path).act(OBSERVATIONS))


def test_a_handle_acts_and_evaluates_without_a_trainer(run, monkeypatch):
    folder = run()
    workspace = Workspace(folder.path.parent)
    known_run(workspace, folder.id)
    refuse_to_build(monkeypatch)
    handle = Run(workspace, folder.id)
    assert np.array_equal(handle.agent().act(OBSERVATIONS), load_agent(folder.path).act(OBSERVATIONS))
    assert handle.evaluate(episodes=2, seed=4).summary.n == 2
