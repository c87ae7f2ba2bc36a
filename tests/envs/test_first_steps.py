"""An env that does not repeat itself is found at the first checkpoint, and a sound one is not accused."""

import random
import re
from types import SimpleNamespace

import numpy as np
import pytest

from rlstudio.cli.app import main
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.env_block import EnvBlock
from rlstudio.envs.gym.process_env import ProcessVecEnv
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.replay import first_steps
from rlstudio.envs.gym.replay.replay_log import FIRST_STEPS
from rlstudio.envs.gym.sync import GymnasiumVecEnv
from rlstudio.experiment.checkpoint.manifest import read_manifests
from rlstudio.storage.folder import Folder
from support.env_toys import Shared
from support.experiments import tiny
from support.sessions import resume, start

REASON = r"env 0, episode \d+, step \d+: it gave something else when its first steps were replayed"


def vector(name, kind=GymnasiumVecEnv, **kwargs):
    vec = kind(Recipe(EnvConfig(id=name, kwargs=kwargs)), 2, 1)
    vec.reset()
    return vec


def stepped(vec, steps):
    for step in range(steps):
        vec.step(np.array([step % 2, 0]))
    return vec


@pytest.mark.parametrize("kind", ["sync", pytest.param("async", marks=pytest.mark.real_process)])
def test_row_32_an_env_with_entropy_of_the_system_is_not_exact_from_the_first_checkpoint(tmp_path, kind, capsys):
    env = {"id": "toys/Entropy-v0", "kwargs": {"what": "observation"}, "vectorization": kind}
    with start(tiny(env=env, ckpt={"every_epochs": 1, "keep_last": 9}), tmp_path / "runs") as session:
        assert session.status.exact
        for tick in session:
            if tick.epoch == 1 and tick.report:
                break
    folder = session.folder
    (info,) = read_manifests(Folder(folder.path), folder.id)
    assert info.fields["exact"] is False
    assert re.match(REASON, info.fields["exact_reason"])
    assert [event["reason"] for event in folder.events() if event["kind"] == "inexact"] == [info.fields["exact_reason"]]
    main(["show", folder.id, "--runs-dir", str(tmp_path / "runs")])
    assert re.search(f"exact resume +no, {REASON}", capsys.readouterr().out)
    with resume(folder) as session:
        assert session.status.exact_reason == info.fields["exact_reason"]


@pytest.mark.parametrize("what", ["observation", "reward", "end"])
def test_whatever_the_entropy_is_in(what):
    vec = stepped(vector("toys/Entropy-v0", what=what), 40)
    assert vec.exact is None
    vec.position()
    assert re.match(REASON, vec.exact)


def test_the_reason_names_the_step():
    vec = stepped(vector("toys/Entropy-v0", what="observation", at=5), 9)
    vec.position()
    assert "episode 0, step 5:" in vec.exact


def test_the_generators_of_the_process_are_left_alone():
    vec = stepped(vector("toys/Shared-v0"), 7)
    before = random.getstate(), np.random.get_state()[1].tolist()
    vec.position()
    assert "step 0:" in vec.exact  # but it cannot be resumed exactly, and that is said
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_an_env_that_cannot_be_opened_once_more_is_not_accused(monkeypatch):
    vec = stepped(vector("toys/Shared-v0"), 7)
    monkeypatch.setattr(Shared, "is_full", True)
    vec.position()
    assert vec.exact is None


def test_it_is_played_once_and_briefly(monkeypatch):
    vec = stepped(vector("CartPole-v1"), 2 * FIRST_STEPS)
    played = []
    block_step = EnvBlock.step
    monkeypatch.setattr(EnvBlock, "step", lambda *given: played.append(1) or block_step(*given))
    vec.position()
    assert len(played) == FIRST_STEPS
    stepped(vec, 3).position()
    assert len(played) == FIRST_STEPS + 3
    assert vec.exact is None


def test_a_slow_env_is_not_played_to_the_end(monkeypatch):
    """The second look at the clock, after step 1, finds that a second is over."""
    looks = iter([0.0, 0.5, first_steps.SECONDS])
    vec = stepped(vector("toys/Entropy-v0", what="observation", at=2), 9)
    monkeypatch.setattr(first_steps, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    vec.position()
    assert (vec.exact, list(looks)) == (None, [])


@pytest.mark.real_process
def test_a_worker_that_dies_of_the_replay_is_replaced_and_not_asked_again(tmp_path):
    calm, once = vector("toys/Faulty-v0"), tmp_path / "once"
    once.touch()
    vec = stepped(vector("toys/Faulty-v0", ProcessVecEnv, fault="kill", at=3, once=str(once)), 5)
    once.unlink()  # the next env that comes to step 3 kills its process, and that is the replay's
    position = vec.position()
    assert ["killed by SIGKILL" in reason for reason in vec.restart_reasons] == [True]
    assert vec.exact is None
    assert np.array_equal(position["digests"], stepped(calm, 5).position()["digests"])
    assert np.array_equal(vec.step(np.zeros(2, int)).observations, calm.step(np.zeros(2, int)).observations)
    vec.close()
