"""Runs of a World with several agents: one policy for all of them, learned from their own actions."""

import numpy as np
import pytest

import support.worlds  # noqa: F401 - registers its toys
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end
from support.worlds import LENGTH

TURNS, THREE = "toys/TwoTurns-v0", "toys/ThreeAgents-v0"
OWN_ACTIONS = LENGTH // 2
SETTINGS = {
    "ppo": {"passes": 4, "rollout_steps": 16, "batch_size": 64},
    "dqn": {"learning_starts": 256, "train_every": 16, "gradient_steps": 2, "batch_size": 64, "target_every": 20},
}


@pytest.mark.parametrize("algo", SETTINGS)
def test_agents_that_take_turns_learn_what_is_paid_while_they_wait(algo):
    """Nothing is paid in the rows in which they act, but for the last: chance earns a quarter of it all."""
    more = {"epochs": 3, "steps_per_epoch": 768, "lr": 1e-2, "gamma": 0.5, **SETTINGS[algo]}
    cfg = tiny(algo, env={"id": TURNS, "num_envs": 8}, train=more, policy={"network": {"hidden_sizes": [32]}},
               buffer={"capacity": 4096})  # fmt: skip
    built = build(cfg)
    reports = [tick.report for tick in train(built.trainer, cfg.train, Position()) if tick.report]
    assert reports[0].metrics["rollout/length_mean"] == OWN_ACTIONS
    result = evaluate(built.trainer.agent, cfg.env, episodes=20, seed=1)
    assert result.summary.mean > 0.9 * OWN_ACTIONS
    assert set(result.lengths) == {OWN_ACTIONS}
    assert result.vectorization == "native"


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_cut_while_agents_wait_goes_on_bit_for_bit(algo, tmp_path):
    train_more = {"rollout_steps": 3, "batch_size": 12} if algo == "ppo" else {"train_every": 4, "n_step": 2}
    sizes = {"epochs": 3, "steps_per_epoch": 72, **train_more}
    cfg = tiny(algo, env={"id": THREE, "num_envs": 4}, train=sizes, ckpt={"every_epochs": 1})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "left") as session:
        for number, tick in enumerate(session):
            if number and tick.report is None:
                break
    run_to_the_end(cfg, tmp_path / "left")
    assert_same_result(only_run(tmp_path / "left"), whole)


class Right:
    """Does what it is shown."""

    def step(self, observations, carry=None, noise=None):
        from rlstudio.core.contracts import Acted

        return Acted(observations[:, :4].argmax(-1), {}, None)


def test_an_evaluation_has_an_episode_for_each_agent():
    """Agent 0 is paid 1 in its 4 turns and a quarter in 4 waits; agent 1 waits first, which is not its own; agent 2
    acts three times and is out."""
    result = evaluate(Right(), EnvConfig(id=THREE), episodes=20, seed=1)
    agents = np.arange(20) % 3
    assert result.lengths == tuple(np.array([4, 4, 3])[agents])
    assert result.returns == tuple(np.array([5.0, 4.75, 3.0])[agents])
    assert len(set(result.seeds[:3])) == 1
    assert len(set(result.seeds)) == 7


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"train": {"steps_per_epoch": 64}}, r"train\.steps_per_epoch: 64 is not a multiple of 6 \(2 environments of 3"
         r" agents\); 66 is"),
        ({"train": {"steps_per_epoch": 66, "rollout_steps": 3, "batch_size": 6}}, r"66 is not a multiple of 18 \(3"),
        ({"train": {"steps_per_epoch": 66}, "policy": {"network": {"memory": "gru"}}}, r"policy\.network\.memory: "),
    ],
)  # fmt: skip
def test_what_does_not_fit_several_agents_is_refused_in_one_line(changes, reason):
    with pytest.raises((ConfigError, Incompatible), match=reason):
        build(tiny("ppo", env={"id": THREE}, **changes))


def test_a_dataset_of_several_agents_is_refused():
    with pytest.raises(Incompatible, match="has 3 agents, and a dataset has the steps of one"):
        recorded_episodes(Right(), EnvConfig(id=THREE), episodes=2, seed=0)
