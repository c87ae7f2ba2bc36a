"""`record` and back: episodes of a run become a dataset, a policy is cloned from it, a run without steps resumes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.cli_scenario import Rlctl
from support.experiments import tiny_yaml


@pytest.fixture(autouse=True)
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def test_a_dataset_that_is_missing_is_refused_before_a_run_appears(rlctl: Rlctl, place: Path) -> None:
    """Newcomer S3: it left a FAILED run, though exit code 2 says that nothing was written."""
    refused = rlctl("launch", "--algo", "bc", "--env", "CartPole-v1", "train.dataset=nowhere/cart-v0")
    assert refused.code == 2
    assert (
        "train.dataset: there is no dataset nowhere/cart-v0 here; run `minari download nowhere/cart-v0`" in refused.err
    )
    assert not (place / "runs").exists()


def test_what_is_recorded_is_what_an_evaluation_plays(rlctl: Rlctl, trained: Path) -> None:
    import minari

    done = rlctl("record", "tiny", "--runs-dir", trained, "--episodes", "5", "--dataset", "cart/tiny-v0", "--json")
    assert done.code == 0
    judged = rlctl("eval", "tiny", "--runs-dir", trained, "--episodes", "5", "--json").document
    dataset = minari.load_dataset("cart/tiny-v0")
    returns = [float(np.sum(episode.rewards)) for episode in dataset]
    assert returns == judged["returns"]
    assert done.document["return_mean"] == pytest.approx(np.mean(returns))
    assert done.document["steps"] == sum(returns)
    known = dataset.storage.metadata
    assert dataset.env_spec.id == "CartPole-v1"
    assert known["algorithm_name"] == "ppo"
    assert "greedy episodes of 2" in known["description"]
    assert [row["seed"] for row in dataset.storage.get_episode_metadata(range(5))] == judged["seeds"]


def test_a_name_that_is_taken_is_refused(rlctl: Rlctl, trained: Path) -> None:
    command = ("record", "tiny", "--runs-dir", trained, "--episodes", "1", "--dataset", "cart/tiny-v0")
    assert rlctl(*command).out.startswith("cart/tiny-v0: 1 episodes, ")
    again = rlctl(*command)
    assert again.code == 2
    assert "is there already" in again.err


@pytest.mark.parametrize("name", ["p/two-v0", "two", "../two-v0", "a b-v0"])
def test_a_name_that_minari_would_refuse_is_told_before_anything_is_played(
    rlctl: Rlctl, trained: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rlstudio.experiment.analysis.dataset.recorded_episodes", lambda *_, **__: pytest.fail("played")
    )
    done = rlctl("record", "tiny", "--runs-dir", trained, "--episodes", "1", "--dataset", name)
    assert done.code == 2
    assert done.err.startswith("rlctl: --dataset ")
    assert "cartpole/expert-v0" in done.err


def test_a_run_on_a_dataset_with_a_hole_says_where(rlctl: Rlctl, trained: Path, place: Path) -> None:
    import h5py

    assert rlctl("record", "tiny", "--runs-dir", trained, "--episodes", "3", "--dataset", "cart/tiny-v0").code == 0
    with h5py.File(place / "datasets/cart/tiny-v0/data/main_data.hdf5", "a") as file:
        file["episode_1/observations"][4, 2] = np.nan
    (place / "clone.yaml").write_text(tiny_yaml("bc", train={"dataset": "cart/tiny-v0"}))
    done = rlctl("launch", "-f", "clone.yaml", "--quiet")
    assert done.code == 2
    assert "train.dataset: cart/tiny-v0, episode 1, step 4: observation" in done.err
    assert done.err.count("\n") == 1


def test_a_clone_trains_without_a_step_and_resumes_exactly(rlctl: Rlctl, trained: Path, place: Path) -> None:
    assert rlctl("record", "tiny", "--runs-dir", trained, "--episodes", "3", "--dataset", "cart/tiny-v0").code == 0
    (place / "clone.yaml").write_text(tiny_yaml("bc", train={"dataset": "cart/tiny-v0"}))
    for name, epochs in (("short", 2), ("straight", 4)):
        assert rlctl("launch", "-f", "clone.yaml", f"name={name}", f"train.epochs={epochs}", "--quiet").code == 0
    assert rlctl("resume", "short", "train.epochs=4", "--quiet").code == 0
    shown = [rlctl("show", name, "--json").document for name in ("short", "straight")]
    assert shown[0]["env_steps"] == shown[1]["env_steps"] == 4 * 64
    from rlstudio.experiment.run.load import load_agent

    ids = [document["run_id"] if "run_id" in document else document["id"] for document in shown]
    weights = [load_agent(f"runs/{run_id}").model.state_dict() for run_id in ids]
    assert all(np.array_equal(weights[0][key], weights[1][key]) for key in weights[0])
