"""Chosen keys of the infos in datasets: written as Minari keeps them, read back exactly, refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.data.datasets.episodes import RecordedEpisode
from rlstudio.data.datasets.minari_files import read_episodes, read_replay, write_dataset
from rlstudio.data.datasets.minari_infos import read_infos
from rlstudio.data.datasets.minari_source import DatasetSource
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.analysis.dataset import recorded_episodes
from support.env_toys import register_toys
from support.experiments import tiny
from support.sessions import start

NAME = "toys/errands-v0"
KEYS = ("is_success", "ones")
CFG = EnvConfig(id="toys/Errand-v0", infos=KEYS)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    register_toys()


class Alternating:
    def step(self, observations: Any, carry: Any = None, noise: Any = None) -> Acted:
        return Acted((observations[:, 0] % 2 == 0).astype(np.int64), {}, None)


@pytest.fixture
def spaces() -> Spaces:
    return make_vec_env(CFG, 1).spaces


def written(spaces: Spaces, cfg: EnvConfig = CFG) -> list[RecordedEpisode]:
    episodes = recorded_episodes(Alternating(), cfg, episodes=9, seed=3)
    write_dataset(NAME, episodes, spaces, None, algorithm="", code="", description="")
    return episodes


def test_what_is_recorded_is_what_the_steps_gave_and_is_read_back(spaces: Spaces) -> None:
    for wrote, read in zip(written(spaces), read_episodes(NAME, spaces), strict=True):
        assert np.array_equal(wrote.infos["ones"], wrote.observations[1:, 1])
        success = 2 * wrote.observations[-1, 1] > len(wrote.rewards)
        expected = [np.nan] * (len(wrote.rewards) - 1) + [float(success)]
        assert np.array_equal(wrote.infos["is_success"], expected, equal_nan=True)
        assert tuple(read.infos) == KEYS
        assert all(np.array_equal(wrote.infos[key], read.infos[key], equal_nan=True) for key in KEYS)
        assert all(values.dtype == np.float32 for values in read.infos.values())


def test_minari_reads_them_as_infos_with_one_for_the_reset(spaces: Spaces) -> None:
    import minari

    wrote = written(spaces)
    for episode, ours in zip(minari.load_dataset(NAME), wrote, strict=True):
        assert set(episode.infos) == set(KEYS)
        assert len(episode.infos["ones"]) == len(episode) + 1
        assert np.array_equal(episode.infos["ones"], [np.nan, *ours.infos["ones"]], equal_nan=True)


def test_samples_of_a_dataset_carry_the_columns(spaces: Spaces) -> None:
    written(spaces)
    for horizon in (None, 3):
        source = DatasetSource(NAME, spaces, Rng(1), batch_size=32, horizon=horizon)
        batch = source.next()
        assert torch.equal(batch.info["ones"], batch.next_observations[..., 1])
        assert torch.equal(~batch.info["is_success"].isnan(), batch.terminated)
    assert "info" not in read_replay(NAME, replace(spaces, infos=())).all()  # nobody asked


def test_a_key_that_it_has_not_is_refused_with_those_it_has(spaces: Spaces) -> None:
    written(spaces)
    with pytest.raises(UserError) as caught:
        read_replay(NAME, replace(spaces, infos=("is_succes",)))
    assert str(caught.value) == (
        "train.dataset: toys/errands-v0, episode 0: has no info 'is_succes' for env.infos; did you mean is_success?"
        " it has: is_success, ones"
    )


def test_a_dataset_without_infos_says_so(spaces: Spaces) -> None:
    written(spaces, CFG.model_copy(update={"infos": ()}))
    with pytest.raises(UserError, match=r"has no info 'ones' for env.infos; it has no infos; leave env.infos out$"):
        read_replay(NAME, replace(spaces, infos=("ones",)))


@pytest.mark.parametrize(
    "stored",
    [np.array([b"a"] * 5, object), np.ones((5, 2)), np.ones(3), {"inner": np.ones(5)}],
    ids=["text", "rows", "short", "group"],
)
def test_what_is_not_a_number_per_step_is_refused(stored: Any) -> None:
    with pytest.raises(UserError, match=r"^here: info 'x' is not one number per step; leave it out of env.infos$"):
        read_infos({"x": stored}, ("x",), 4, "here")


def test_infos_without_one_for_the_reset_are_read_too() -> None:
    for stored in (np.arange(1, 5), np.arange(5)):
        assert read_infos({"x": stored}, ("x",), 4, "here")["x"].tolist() == [1, 2, 3, 4]


def test_a_policy_is_cloned_from_a_dataset_with_infos(spaces: Spaces, tmp_path: Path) -> None:
    written(spaces)
    cfg = tiny("bc", env={"id": CFG.id, "infos": list(KEYS)}, train={"dataset": NAME})
    with start(cfg, tmp_path / "runs") as session:
        for _ in session:
            assert set(session.trainer.source.last.info) == set(KEYS)
        assert set(session.evaluation.infos) == set(KEYS)
