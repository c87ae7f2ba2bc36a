"""A world that no policy without memory can solve, and every memory does. Seconds each, seeds fixed."""

import pytest

from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from support.repetition import few, first_of_each

pytestmark = pytest.mark.learning

TRAIN = {
    "ppo": {"epochs": 10, "steps_per_epoch": 640, "rollout_steps": 20, "batch_size": 160, "passes": 6, "lr": 5e-3},
    "a2c": {"epochs": 10, "steps_per_epoch": 1280, "rollout_steps": 20, "lr": 5e-3, "optimizer": "adam"},
}


def experiment(algo: str, memory: str, seed: int = 1, **fields):
    return experiment_from(
        {
            "env": {"id": "rlstudio/Recall-v0", "num_envs": 8, "seed": seed},
            "policy": {"algo": algo, "network": {"hidden_sizes": [32], "memory": memory, "memory_size": 32}},
            "train": {**TRAIN[algo], "gamma": 0.9, "gae_lambda": 0.95, **fields},
        }
    )


def score(algo: str, memory: str, **fields) -> float:
    cfg = experiment(algo, memory, **fields)
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    for _ in train(trainer, cfg.train, Position()):
        pass
    return evaluate(trainer.agent, cfg.env, episodes=100, seed=9).summary.mean


RECALLING = [("a2c", "gru"), ("ppo", "lstm"), ("a2c", "lstm"), ("ppo", "gru")]


@pytest.mark.parametrize(("algo", "memory"), few(RECALLING, first_of_each(lambda case: case[0], lambda case: case[1])))
def test_memories_recall(algo, memory):
    assert score(algo, memory) > 0.95


def test_short_sequences_reach_back_as_far_as_they_are():
    """The cue lies four steps back: sequences of ten hold it in most cases, and all start from stored carries."""
    assert score("ppo", "gru", sequence_length=10, epochs=12) > 0.95


@pytest.mark.parametrize("algo", sorted(TRAIN))
def test_without_memory_there_is_nothing_but_luck(algo):
    assert score(algo, "none") < 0.7


def test_what_does_not_fit_is_refused_in_one_line():
    cases = [
        (
            "gru",
            {"sequence_length": 8},
            r"train\.sequence_length: must divide the 20 steps of a rollout; leave it out",
        ),
        ("none", {"sequence_length": 8}, r"train\.sequence_length: policy\.network\.memory is none; leave it out"),
    ]
    for memory, fields, text in cases:
        cfg = experiment("ppo", memory, **fields)
        with pytest.raises(ConfigError, match=text):
            build_trainer(cfg, build_runtime(cfg))
    data = {"env": {"id": "CartPole-v1"}, "policy": {"algo": "dqn", "network": {"memory": "gru"}}}
    cfg = experiment_from(data)
    with pytest.raises(Incompatible, match=r"policy\.network\.memory: a q-value Model has no gru"):
        build_trainer(cfg, build_runtime(cfg))
