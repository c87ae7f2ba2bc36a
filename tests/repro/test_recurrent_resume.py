"""The promise of exact resume for policies with memory: killed in the midst of episodes, the end is the same bits."""

import pytest

from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.run.load import load_agent
from support.kills import kill_and_compare, uninterrupted
from support.tiny_runs import TRAIN, config, run_to_the_end

pytestmark = pytest.mark.real_process


def recurrent(memory: str, algo: str = "ppo", epochs: int = 6, **sections):
    network = {"hidden_sizes": [16], "normalize_observations": True, "memory": memory, "memory_size": 8}
    train = {**TRAIN[algo], "epochs": epochs} | ({"sequence_length": 8} if algo == "ppo" else {})
    env = {"id": "rlstudio/CartPoleNoVel-v1", "num_envs": 2, "seed": 7}
    return config(algo, "native", env=env, policy={"algo": algo, "network": network}, train=train, **sections)


@pytest.mark.parametrize(("kills", "epochs"), [(2, 6), pytest.param(3, 12, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("algo", "memory"), [("ppo", "gru"), ("a2c", "lstm")])
def test_random_kills(algo, memory, kills, epochs, tmp_path):
    cfg = recurrent(memory, algo, epochs, ckpt={"every_seconds": 0.03, "keep_last": 2})  # also in the middle of epochs
    twin = uninterrupted(cfg, tmp_path / "whole")
    assert len(kill_and_compare(cfg, twin, tmp_path, kills=kills, seed=1)) == kills


def test_a_checkpoint_in_the_midst_of_an_episode_holds_the_memory_of_it(tmp_path):
    run = run_to_the_end(recurrent("lstm"), tmp_path)
    content = Checkpoints(run.path, run.id, None).newest_good().loaded.content
    acting = content["trainer_state"]["source"]["collector"]
    open_episodes = acting["episodes"]["open_lengths"] > 0
    assert open_episodes.any()
    for part in ("h", "c"):
        assert acting["carry"][part].shape == (2, 2, 8)
        assert acting["carry"][part][open_episodes].any()
    assert load_agent(run.path).episode().act([0.0, 0.0]) in (0, 1)
