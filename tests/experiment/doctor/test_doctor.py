"""The doctor names each planted mistake, and it alone, with a remedy that cures it; of what is healthy it says nothing.
Time passes on a clock that only the environments move, so how busy the machine is decides nothing."""

from __future__ import annotations

import re
import shlex
import warnings
from typing import Any, NamedTuple

import pytest

from rlstudio.core.errors import Notice
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment
from rlstudio.experiment.doctor.advice import Advice
from rlstudio.experiment.doctor.examine import Diagnosis, examine
from rlstudio.experiment.doctor.forecast import Forecast
from rlstudio.experiment.doctor.machine import Machine
from rlstudio.experiment.doctor.random_play import PlayAmount
from support.mistaken_envs import CLOCK, ID, register_mistaken

MACHINE = Machine(cores=8, memory=16 << 30, disk=100 << 30)
SMALL_DISK = Machine(cores=8, memory=16 << 30, disk=100_000)
QUICK = PlayAmount(steps=1000, episodes=12, most_steps=4000, seconds=60.0)

PPO: dict[str, Any] = {
    "env": {"id": ID, "num_envs": 4},
    "policy": {"algo": "ppo", "network": {"normalize_observations": False}},
    "train": {"epochs": 20, "steps_per_epoch": 2048, "rollout_steps": 64, "normalize_rewards": False},
}
DQN: dict[str, Any] = {"env": {"id": ID}, "policy": {"algo": "dqn"}, "train": {"epochs": 10, "steps_per_epoch": 2000}}
SAC = {**DQN, "env": {"id": ID, "kwargs": {"actions": 1.0}}, "policy": {"algo": "sac"}}


class Planted(NamedTuple):
    """A healthy experiment, what spoils it, the name of the mistake, and what the remedy says."""

    base: dict[str, Any]
    spoilt: str
    mistake: str
    remedy: str
    machine: Machine = MACHINE


PLANTED = {
    "a reward of 1e6": Planted(PPO, "env.kwargs={reward: 1e6}", "reward_scale", "train.normalize_rewards=true"),
    "a reward of 1e6 for values of choices": Planted(
        DQN, "env.kwargs={reward: 1e6}", "reward_scale", "divide the reward by 1e6"
    ),
    "a reward of 1e-7": Planted(DQN, "env.kwargs={reward: 1e-7}", "reward_tiny", "multiply the reward by 1e7"),
    "observations of 1e4": Planted(
        PPO, "env.kwargs={shown: 1e4}", "observation_scale", "policy.network.normalize_observations=true"
    ),
    "observations of 1e4 where nothing can normalise": Planted(
        SAC, "env.kwargs={shown: 1e4, actions: 1.0}", "observation_scale", "env.wrappers=.*RescaleObservation"
    ),
    "observations of 1e-5": Planted(PPO, "env.kwargs={shown: 1e-5}", "observation_tiny", "normalize_observations=true"),
    "an observation that never changes": Planted(
        PPO, "env.kwargs={fault: blind}", "observation_constant", "return what changes"
    ),
    "bounds that lie": Planted(PPO, "env.kwargs={bound: 0.5}", "bounds", "widen the bounds"),
    "a shape that lies": Planted(PPO, "env.kwargs={fault: shape}", "misfit", "let its spaces say"),
    "an env that ignores its seed": Planted(PPO, "env.kwargs={fault: unseeded}", "unseeded", r"self\.np_random"),
    "a reward that is none": Planted(PPO, "env.kwargs={fault: nan}", "reward", "finite float"),
    "a time limit as a termination": Planted(
        PPO, "env.kwargs={length: 100}", "time_limit_as_termination", "env.max_episode_steps=100"
    ),
    "episodes without an end": Planted(PPO, "env.kwargs={fault: endless}", "endless", "env.max_episode_steps=1000"),
    "a step of two seconds": Planted(PPO, "env.kwargs={seconds: 2.0}", "slow_steps", "env.vectorization=async"),
    "a timeout below the time of a step": Planted(
        PPO, "env.kwargs={seconds: 0.05} rollout.step_timeout=0.1", "step_timeout", "rollout.step_timeout=2"
    ),
    "a buffer larger than the memory": Planted(
        DQN, "buffer.capacity=900000000", "memory", r"buffer.capacity=\d+0000000$"
    ),
    "checkpoints larger than the disk": Planted(PPO, "ckpt.keep_last=50", "disk", "ckpt.keep_last=1", SMALL_DISK),
    "an algorithm for other actions": Planted(DQN, "env.kwargs={actions: 1.0}", "algorithm", "choose one of .*sac"),
    "a dataset that is not there": Planted(
        {**PPO, "policy": {"algo": "bc"}, "train": {"dataset": "none/here-v0"}}, "", "dataset", "rlctl record"
    ),
    "more threads than cores": Planted(PPO, "runtime.threads=64", "threads", "runtime.threads=1"),
    "more worker processes than cores": Planted(
        PPO, "env.num_envs=32 env.vectorization=async env.workers=32", "workers", "env.workers=8"
    ),
    "a learning rate of 0.5": Planted(PPO, "train.lr=0.5", "learning_rate", "train.lr=0.0003"),
    "a clip of 2": Planted(PPO, "train.clip=2", "clip", "train.clip=0.2"),
    "an entropy bonus of 1": Planted(PPO, "train.entropy_coef=1", "entropy", "train.entropy_coef=0.01"),
    "learning that starts too late": Planted(DQN, "train.learning_starts=15000", "late_start", "learning_starts=1000"),
    "a target that stands still": Planted(DQN, "train.target_every=100000", "target_stands_still", "target_every=118"),
    "random to the end": Planted(DQN, "train.epsilon_end=0.9", "random_to_the_end", "train.epsilon_end=0.05"),
    "no checkpoint": Planted(PPO, "ckpt.every_seconds=null", "no_checkpoints", "ckpt.every_seconds=30"),
    "no evaluation": Planted(PPO, "eval.every_epochs=200", "never_evaluated", "eval.every_epochs=2"),
    "mostly evaluation": Planted(
        PPO, "eval.every_epochs=1 eval.episodes=500", "mostly_evaluation", r"eval.episodes=\d+"
    ),
    "no discount where nothing ends": Planted(
        PPO, "train.gamma=1 env.max_episode_steps=25", "no_discount", "train.gamma=0.99"
    ),
    "a horizon of one step": Planted(
        PPO,
        "train.gamma=0.05 env.kwargs={fault: endless} env.max_episode_steps=200",
        "short_horizon",
        "train.gamma=0.99",
    ),
    "rewards outside their range": Planted(
        PPO, "guardrails.reward_range=[0,0.5]", "reward_range", "guardrails.reward_range="
    ),
    "actions up to 100": Planted(PPO, "env.kwargs={actions: 100.0}", "action_scale", "env.wrappers=.*RescaleAction"),
}
SETTINGS = re.compile(r"(\w+\.[\w.]+=('[^']*'|\S+) ?)+")


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_mistaken()


def experiment(base: dict[str, Any], overrides: str) -> ExperimentConfig:
    return experiment_from(base, overrides=re.findall(r"[\w.]+=(?:\{[^}]*\}|\S+)", overrides))


def diagnosis(cfg: ExperimentConfig, machine: Machine = MACHINE) -> Diagnosis:
    return examine(cfg, machine, clock=CLOCK, amount=QUICK, trial_seconds=None)


@pytest.mark.parametrize("base", [PPO, DQN, SAC], ids=["ppo", "dqn", "sac"])
def test_what_is_not_spoilt_is_healthy(base: dict[str, Any]) -> None:
    assert diagnosis(experiment_from(base)).advice == []


@pytest.mark.parametrize("planted", PLANTED.values(), ids=PLANTED)
def test_a_planted_mistake_is_named_alone_and_its_remedy_cures_it(planted: Planted) -> None:
    (advice,) = diagnosis(experiment(planted.base, planted.spoilt), planted.machine).advice
    assert advice.mistake == planted.mistake, advice
    assert re.search(planted.remedy, advice.remedy), advice
    if SETTINGS.fullmatch(advice.remedy):
        cured = [*re.findall(r"[\w.]+=(?:\{[^}]*\}|\S+)", planted.spoilt), *shlex.split(advice.remedy)]
        assert diagnosis(experiment_from(planted.base, overrides=cured), planted.machine).advice == []


def test_most_remedies_are_settings_to_type() -> None:
    assert len(PLANTED) >= 20
    assert sum("=" in planted.remedy for planted in PLANTED.values()) >= 20


HEALTHY = (
    "a2c/acrobot",
    "a2c/cartpole",
    "a2c/lunarlander",
    "a2c/mountaincar",
    "a2c/pendulum",
    "dqn/cartpole",
    "dqn/lunarlander",
    "dqn/mountaincar",
    "ipd/ppo",
    "mbmpc/cartpole",
    "mbmpc/pendulum_guided",
    "mpc/cartpole",
    "mpc/pendulum",
    "ppo/acrobot",
    "ppo/cartpole",
    "ppo/cartpole_adr",
    "ppo/cartpole_randomised",
    "ppo/connect_four",
    "ppo/grid_levels",
    "ppo/mountaincar",
    "ppo/pendulum",
    "ppo/tictactoe",
    "qrdqn/cartpole",
    "sac/pendulum",
    "td3/mountaincar_continuous",
)


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_healthy_presets_nor_with_another_seed_and_number_of_envs(name: str) -> None:
    file = f"configs/{name}.yaml"
    cfg = load_experiment(file)
    assert diagnosis(cfg).advice == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # an epoch is rounded up to whole rollouts
        other = load_experiment(file, ["env.seed=7", f"env.num_envs={2 * cfg.env.num_envs}"])
    assert diagnosis(other).advice == []


def test_an_experiment_of_an_unknown_environment_is_one_error() -> None:
    (advice,) = diagnosis(experiment(PPO, "env.id=CartPoel-v1")).advice
    assert (advice.severity, advice.mistake) == ("error", "environment")
    assert "did you mean CartPole-v1" in advice.text + advice.remedy


def test_the_forecast_is_of_the_run_as_it_is_and_counts_its_evaluations() -> None:
    """On a clock that moves 1 ms each time it is read: the numbers mean nothing, their make-up does."""
    readings = iter(range(10**9))
    cfg = experiment(DQN, "eval.every_epochs=2 train.learning_starts=4000")
    found = examine(cfg, MACHINE, clock=lambda: next(readings) / 1000, amount=QUICK, trial_seconds=0.2)
    assert found.forecast is not None
    assert found.forecast.env_steps == 20_000
    assert found.forecast.evaluation_seconds > 0
    assert found.forecast.seconds > found.forecast.evaluation_seconds
    document = found.to_json()
    assert document["forecast"]["seconds"] == found.forecast.seconds
    assert document["ok"] is True
    assert cfg.train.learning_starts == 4000  # the trial began sooner, on a copy


def test_a_reset_that_takes_long_is_no_slow_step() -> None:
    """Of episodes of some 30 steps, each falls on 30 of them."""
    found = diagnosis(experiment(PPO, "env.kwargs={reset_seconds: 1.0}"))
    assert found.advice == []
    assert found.met is not None
    assert found.met.seconds_per_step == pytest.approx(1 / 30, rel=0.4)


def test_the_forecast_of_slow_steps_is_of_those_that_go_at_once_and_counts_evaluations() -> None:
    def predicted(settings: str) -> Forecast:
        slow = f"env.kwargs={{seconds: 0.2, length: 30}} eval.every_epochs=0 eval.final_episodes=10 {settings}"
        found = diagnosis(experiment(PPO, slow)).forecast
        assert found is not None
        return found

    alone, async_, workers = (
        predicted(""),
        predicted("env.vectorization=async env.workers=4"),
        predicted("rollout.workers=2"),
    )
    assert alone.training_seconds == pytest.approx(0.2 * alone.env_steps, rel=0.01)
    assert async_.training_seconds == pytest.approx(alone.training_seconds / 4)
    assert workers.training_seconds == pytest.approx(alone.training_seconds / 2)
    assert alone.evaluation_seconds == pytest.approx(10 * 30 * 0.2, rel=0.01)


def test_no_trial_is_made_where_one_rollout_would_take_minutes() -> None:
    cfg = experiment(PPO, "env.kwargs={seconds: 0.09}")  # 64 steps of 4 environments are 23 s
    found = examine(cfg, MACHINE, clock=CLOCK, amount=QUICK, trial_seconds=4.0)
    assert found.forecast is not None
    assert found.forecast.training_seconds == pytest.approx(0.09 * cfg.train.planned_steps, rel=0.01)


def test_an_error_is_not_ok_and_a_warning_is() -> None:
    assert Diagnosis("x", [Advice("warning", "a", "b", "c")]).ok
    assert not Diagnosis("x", [Advice("error", "a", "b", "c")]).ok
