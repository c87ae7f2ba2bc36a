"""A run that is forked from a bundle begins with its weights and normalizers, and with nothing else of it."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstudio.control.runs.fork_bundle import fork_bundle
from rlstudio.control.runs.start import has_checkpoints, resume_session, start_session
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Diverged, Incompatible, NoValidCheckpoint, UserError
from rlstudio.data.collect.reward_scale import RewardScale
from rlstudio.data.collect.stream import StreamSource
from rlstudio.delivery.bundle import Bundle
from rlstudio.delivery.export import export_run
from rlstudio.delivery.sb3.importer import import_sb3
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.run.session import Session
from support.experiments import tiny

GOLDEN = Path(__file__).parents[2] / "golden" / "sb3"
SHORT = ("train.epochs=2", "train.steps_per_epoch=64", "train.rollout_steps=8", "train.batch_size=16", "env.num_envs=4")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs")


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bundle]:
    """Of trained runs: PPO with both normalizers, and DQN."""
    place = tmp_path_factory.mktemp("bundles")
    workspace = Workspace(place / "runs")
    ppo = tiny(
        env={"id": "Pendulum-v1"},
        policy={"network": {"normalize_observations": True}},
        train={"normalize_rewards": True, "rollout_steps": 8, "batch_size": 16},
    )
    made = {}
    for name, cfg in {"ppo": ppo, "dqn": tiny("dqn")}.items():
        with start_session(workspace, cfg) as session:
            for _ in session:
                pass
        made[name] = export_run(session.folder, place / name, formats=("bundle",))
    return made


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A model of Stable-Baselines3 that was trained behind VecNormalize."""
    name = GOLDEN / "normalized" / "ppo_pendulum"
    target = tmp_path_factory.mktemp("imported") / "bundle"
    statistics = name.with_suffix(".pkl")
    return import_sb3(
        name.with_suffix(".zip"), target, env_id="Pendulum-v1", formats=("bundle",), vec_normalize=statistics
    )


def model_of(session: Session) -> dict[str, np.ndarray]:
    model = session.trainer.stateful()["model"]
    return {name: np.array(value) for name, value in model.state_dict().items()}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_weights_and_normalizers_come_along_and_the_rest_is_new(
    workspace: Workspace, bundles: dict[str, Bundle]
) -> None:
    bundle = bundles["ppo"]
    with fork_bundle(workspace, bundle, ["train.epochs=4"]) as session:
        assert same(model_of(session), bundle.weights())
        scale = session.trainer.stateful()["reward_scale"]
        assert isinstance(scale, RewardScale)
        assert bundle.spec.returns is not None
        assert float(scale.count) == bundle.spec.returns.count == 192
        assert float(scale.std) == pytest.approx(bundle.spec.reward_scale)
        assert (session.status.env_steps, session.status.epoch, session.trainer.gradient_steps) == (0, 0, 0)
        for _ in session:
            pass
    assert session.status.env_steps == 4 * 64
    assert session.status.exact


def test_it_has_a_name_of_its_own_and_is_in_nobodys_group(workspace: Workspace, bundles: dict[str, Bundle]) -> None:
    """Newcomer S1: the child had its parent's name, was compared with its group, and went when that was removed."""
    parent = bundles["dqn"].experiment().name
    names = []
    for overrides in ([], [], ["name=mine"]):
        with fork_bundle(workspace, bundles["dqn"], overrides) as session:
            names.append(session.cfg.name)
    assert names == [f"{parent}-fork", f"{parent}-fork2", "mine"]
    assert [run.name for run in workspace.store.runs()].count(parent) == 0


def test_it_is_what_an_imported_model_begins_with_too(workspace: Workspace, imported: Bundle) -> None:
    known = json.loads((GOLDEN / "normalized" / "ppo_pendulum.statistics.json").read_text())
    assert imported.experiment().train.model_dump()["gamma"] == 0.95
    with fork_bundle(workspace, imported, SHORT) as session:
        model = model_of(session)
        assert same(model, imported.weights())
        assert np.allclose(model["encoder.normalizer.running_mean"], known["observations"]["mean"])
        assert float(model["encoder.normalizer.count"]) == known["observations"]["count"]
        scale = session.trainer.stateful()["reward_scale"]
        assert isinstance(scale, RewardScale)
        assert float(scale.std) == pytest.approx(np.sqrt(known["returns"]["var"]))
        for _ in session:
            pass
        assert float(model_of(session)["encoder.normalizer.count"]) > known["observations"]["count"]
    assert session.status.state == "COMPLETED"


def test_a_target_network_begins_as_a_copy_of_the_weights(workspace: Workspace, bundles: dict[str, Bundle]) -> None:
    with fork_bundle(workspace, bundles["dqn"]) as session:
        target = session.trainer.stateful()["target"]
        assert torch.equal(target.flat.data, target.source.data)
        assert same(model_of(session), bundles["dqn"].weights())


def test_the_lineage_says_what_it_began_with(
    workspace: Workspace, bundles: dict[str, Bundle], imported: Bundle
) -> None:
    bundle = bundles["ppo"]
    with fork_bundle(workspace, bundle, version="pendulum:3") as session:
        pass
    run = workspace.store.get(session.folder.id)
    assert (run.parent_id, run.parent_step) == (bundle.spec.origin.run_id, bundle.spec.origin.checkpoint)
    weights = workspace.find(run.id).lineage()["weights"]
    assert weights["bundle"] == str(bundle.path)
    assert (weights["sha256"], weights["kind"], weights["version"]) == (bundle.sha256, "run", "pendulum:3")
    with resume_session(workspace, run):
        pass
    assert workspace.find(run.id).lineage()["weights"] == weights
    with fork_bundle(workspace, imported, SHORT) as session:
        pass
    run = workspace.store.get(session.folder.id)
    assert (run.parent_id, workspace.find(run.id).lineage()["weights"]["kind"]) == (None, "sb3")


def test_a_run_that_lost_its_beginning_does_not_begin_by_chance(workspace: Workspace, imported: Bundle) -> None:
    with fork_bundle(workspace, imported, SHORT) as session:
        pass
    run = workspace.store.get(session.folder.id)
    assert has_checkpoints(workspace, run)
    for file in sorted((session.folder.path / "checkpoints").rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.raises(NoValidCheckpoint, match="its checkpoints are gone"):
        resume_session(workspace, run)


def test_it_resumes_and_rolls_back_to_the_weights(
    workspace: Workspace, bundles: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, following = bundles["ppo"], StreamSource.next
    with fork_bundle(workspace, bundle) as session:
        pass
    with resume_session(workspace, workspace.store.get(session.folder.id)) as session:
        assert same(model_of(session), bundle.weights())
        monkeypatch.setattr(Guardrails, "judge", lambda *_: "on purpose")
        begun = []
        monkeypatch.setattr(StreamSource, "next", lambda source: begun.append(model_of(session)) or following(source))
        with pytest.raises(Diverged):
            deque(session, maxlen=0)
    epoch = len(begun) // (1 + session.attempt)
    assert session.attempt == bundle.experiment().guardrails.max_rollbacks > 0
    assert all(same(first, bundle.weights()) for first in begun[::epoch])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("env.id=MountainCarContinuous-v0", r"its observation is .*, that of env.id MountainCarContinuous-v0 is"),
        ("policy.network.hidden_sizes=[16]", r"policy\.network\.hidden_sizes \[8\], the run would have \[16\]; leave"),
        ("policy.network.activation=relu", r"policy\.network\.activation tanh, the run would have relu"),
        ("policy.network.normalize_observations=false", r"normalize_observations true, the run would have false"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field_and_leaves_nothing(
    workspace: Workspace, bundles: dict[str, Bundle], change: str, said: str
) -> None:
    with pytest.raises(Incompatible, match=said) as refused:
        fork_bundle(workspace, bundles["ppo"], [change])
    assert str(refused.value).startswith(f"{bundles['ppo'].path}: ")
    assert workspace.is_empty
    assert not workspace.runs_dir.exists()


def test_a_policy_with_a_central_critic_goes_on_with_it(workspace: Workspace, tmp_path: Path) -> None:
    """Its bundle shows what the policy sees, and holds the critic too."""
    central = tiny(
        env={"id": "mpe2/simple_spread_v3", "num_envs": 1, "state": True},
        policy={"network": {"critic": "central"}},
        train={"epochs": 1, "steps_per_epoch": 24, "rollout_steps": 8, "batch_size": 8},
    )
    with start_session(workspace, central) as session:
        deque(session, maxlen=0)
    bundle = export_run(session.folder, tmp_path / "bundle", formats=("bundle",))
    with fork_bundle(workspace, bundle) as session:
        assert same(model_of(session), bundle.weights())
    with pytest.raises(Incompatible, match=r"its observation is .*, that of env.id mpe2/simple_spread_v3 is"):
        fork_bundle(workspace, bundle, ["env.kwargs.N=2", "train.steps_per_epoch=16"])


def test_what_names_no_environment_says_how_to_get_one(workspace: Workspace, tmp_path: Path) -> None:
    bundle = import_sb3(GOLDEN / "dqn_cartpole.zip", tmp_path / "b", formats=("bundle",))
    with pytest.raises(UserError, match="names no environment; import it again with --env"):
        fork_bundle(workspace, bundle)
