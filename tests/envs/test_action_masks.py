"""Masks told in the observation, in info or by a method: the same numbers, the same faults, and agents that learn."""

import gymnasium
import numpy as np
import pytest
import torch

from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, UserError
from rlstudio.core.spaces import Dict, Discrete, MultiDiscrete
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env, resolve_vectorization
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import Position, train
from support.mask_toys import LENGTH, register_mask_toys
from support.repetition import few

pytestmark = pytest.mark.usefixtures("_mask_toys")


@pytest.fixture(scope="module")
def _mask_toys():
    register_mask_toys()


def ranked(where="observation", **kwargs) -> EnvConfig:
    source = "none" if where == "observation" else where
    return EnvConfig(id="toys/Ranked-v0", num_envs=2, kwargs={"where": where, **kwargs}, action_mask=source)


def best(observations, key) -> np.ndarray:
    return np.where(observations["action_mask"] != 0, observations[key], -2).argmax(-1)


def test_a_mask_is_shown_the_same_wherever_it_is_told():
    recorded = {}
    for where, key in (("observation", "numbers"), ("info", "observation"), ("method", "observation")):
        env = make_vec_env(ranked(where))
        assert isinstance(env.spaces.observation, Dict)
        observations, seen = env.reset(), []
        for _ in range(2 * LENGTH):
            actions = best(observations, key)
            step = env.step(actions)
            assert (step.rewards == 1).all()
            observations = step.observations
            seen.append(
                (
                    observations["action_mask"].astype(np.float32),
                    observations[key].copy(),
                    step.successors["action_mask"].sum(),
                )
            )
        recorded[where] = seen
    for other in ("info", "method"):
        for one, two in zip(recorded["observation"], recorded[other], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert any(left == 0 for _, _, left in recorded["info"])  # an episode's last mask may be empty


def test_multi_discrete_masks_may_come_part_by_part():
    env = make_vec_env(ranked("method", parts=2))
    assert env.spaces.action == MultiDiscrete((4, 4))
    observations = env.reset()
    assert observations["action_mask"].shape == (2, 8)
    mask, numbers = (observations[name].reshape(2, 2, 4) for name in ("action_mask", "observation"))
    assert (env.step(np.where(mask != 0, numbers, -2).argmax(-1)).rewards == 1).all()


def test_masks_travel_from_worker_processes():
    env = make_vec_env(ranked("info"), vectorization="async")
    try:
        observations = env.reset()
        for _ in range(LENGTH + 2):
            step = env.step(best(observations, "observation"))
            assert (step.rewards == 1).all()
            observations = step.observations
    finally:
        env.close()


@pytest.mark.parametrize("where", ["observation", "info", "method"])
def test_a_mask_that_allows_nothing_names_env_and_remedy(where):
    env = make_vec_env(ranked(where, empty=2))
    observations = env.reset()
    key = "numbers" if where == "observation" else "observation"
    observations = env.step(best(observations, key)).observations
    with pytest.raises(EnvFault, match=r"env 0 \(toys/Ranked-v0\): .*'action_mask' allows no action; end such.*step 2"):
        env.step(best(observations, key))


def test_a_mask_of_the_wrong_size_is_refused_with_the_name():
    with pytest.raises(
        Incompatible, match=r"toys/Ranked-v0: observation 'action_mask' is .*Discrete\(4\) needs.* of 4"
    ):
        make_vec_env(ranked("observation", extra=1))
    with pytest.raises(ConfigError, match=r"env.action_mask: toys/Ranked-v0 gives a mask of shape \(5,\).*needs 4"):
        make_vec_env(ranked("info", extra=1)).reset()


def test_what_the_field_cannot_mean_is_refused():
    cases = [
        (EnvConfig(id="CartPole-v1", action_mask="info"), "has no 'action_mask' in its info; set it to method or none"),
        (EnvConfig(id="CartPole-v1", action_mask="method"), r"has no method action_masks\(\); set it to info or none"),
        (EnvConfig(id="Pendulum-v1", action_mask="info"), "which no mask fits; set it to none"),
        (ranked().model_copy(update={"action_mask": "info"}), "shows its mask in the observation already"),
    ]
    for cfg, text in cases:
        with pytest.raises(UserError, match=text):
            make_vec_env(cfg).reset()
    with pytest.raises(ConfigError, match=r"native worlds tell no env\.action_mask; use sync"):
        resolve_vectorization(EnvConfig(id="CartPole-v1", action_mask="info", vectorization="native"))
    assert resolve_vectorization(EnvConfig(id="CartPole-v1", action_mask="info")) == "sync"


def test_a_gymnasium_env_that_tells_its_mask_in_info():
    env = make_vec_env(EnvConfig(id="Taxi-v4", num_envs=3, action_mask="info"))
    observations = env.reset()
    assert env.spaces.action == Discrete(6)
    assert 0 < observations["action_mask"].sum() < 18
    plain = gymnasium.make("Taxi-v4").unwrapped
    assert np.array_equal(observations["action_mask"][1], plain.action_mask(int(observations["observation"][1])))


@pytest.mark.parametrize("where", ["observation", "info"])
def test_a_masked_env_passes_the_check(where):
    report = check_env(ranked(where))
    assert report.ok, report.findings


TRAIN = {
    "ppo": {"epochs": 8, "steps_per_epoch": 512, "batch_size": 128, "passes": 8, "lr": 5e-3},
    "a2c": {"epochs": 8, "steps_per_epoch": 640, "rollout_steps": 8, "lr": 5e-3},
    "dqn": {"epochs": 5, "steps_per_epoch": 512, "batch_size": 64, "learning_starts": 200, "lr": 5e-3, "gamma": 0.0},
    "qrdqn": {"epochs": 5, "steps_per_epoch": 512, "batch_size": 64, "learning_starts": 200, "lr": 5e-3, "gamma": 0.0},
}


def trained(algo: str, env: dict, network: dict | None = None, **fields):
    policy = {"algo": algo, "network": {"hidden_sizes": [32], "activation": "tanh", **(network or {})}}
    cfg = experiment_from({"env": env, "policy": policy, "train": {**TRAIN[algo], **fields}})
    vector = build_runtime(cfg)
    trainer = build_trainer(cfg, vector)
    for _ in train(trainer, cfg.train, Position()):
        pass
    vector.close()
    return trainer, cfg


@pytest.mark.learning
@pytest.mark.parametrize(
    ("algo", "where"),
    few([*((algo, "info") for algo in sorted(TRAIN)), ("ppo", "observation")], lambda case: case != ("ppo", "info")),
)
def test_algorithms_learn_without_ever_taking_a_forbidden_choice(algo, where):
    """The env raises at a forbidden choice, so a run that ends took none: sampling, exploring or greedy."""
    env = {"id": "toys/Ranked-v0", "num_envs": 4, "kwargs": {"where": where}}
    env |= {} if where == "observation" else {"action_mask": "info"}
    trainer, cfg = trained(algo, env)
    assert trainer.agent.acting == "numpy"
    evaluation = evaluate(trainer.agent, cfg.env, episodes=20, seed=9)
    assert evaluation.summary.mean > 0.7 * LENGTH  # by chance: 0.47


def test_targets_look_at_allowed_choices_only():
    trainer, _ = trained("dqn", {"id": "toys/Ranked-v0", "num_envs": 2}, epochs=1, gamma=0.9)
    batch = trainer.source.last
    with torch.no_grad():
        q = trainer.target.model(batch.next_observations)
    going_on = ~batch.terminated
    best_next = q.argmax(-1)
    mask = batch.next_observations["action_mask"]
    assert mask.gather(1, best_next[:, None])[going_on].bool().all()
    assert torch.isfinite(trainer.losses(batch)["loss"])
    assert trainer.losses(batch)["target"].abs() < 100  # a forbidden value would be -1e8


@pytest.mark.learning
def test_multi_discrete_masks_and_a_memory_work_together():
    env = {"id": "toys/Ranked-v0", "num_envs": 4, "kwargs": {"where": "method", "parts": 2}, "action_mask": "method"}
    trainer, cfg = trained("ppo", env, {"memory": "gru", "memory_size": 32}, epochs=8, rollout_steps=16, batch_size=64)
    assert evaluate(trainer.agent, cfg.env, episodes=10, seed=9).summary.mean > 0.6 * LENGTH  # by chance: 0.47


@pytest.mark.learning
@pytest.mark.parametrize("algo", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_pictures_and_numbers_are_learned_together(algo):
    """Neither entry alone tells the answer; the small picture goes flat beside the number."""
    fields = {"epochs": 4, "steps_per_epoch": 256, "lr": 3e-3, "gamma": 0.0, "batch_size": 64, "passes": 8}
    if algo == "dqn":
        fields = {"epochs": 4, "steps_per_epoch": 256, "lr": 1e-3, "gamma": 0.0, "batch_size": 32}
    trainer, cfg = trained(algo, {"id": "toys/Pictures-v0", "num_envs": 4}, **fields)
    assert trainer.model.encoder.size == 1 + 16 + 512
    assert evaluate(trainer.agent, cfg.env, episodes=10, seed=9).summary.mean > 0.9 * LENGTH


def test_the_single_env_shows_what_the_vector_shows():
    env = make_single(ranked("info"))
    observation, _ = env.reset(seed=1)
    assert set(observation) == {"action_mask", "observation"}
    assert observation["action_mask"].dtype == np.uint8
