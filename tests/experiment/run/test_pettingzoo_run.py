"""Runs in PettingZoo environments: one policy for all agents, by actions that are allowed, resumed exactly."""

import numpy as np
import pytest

import support.pettingzoo_toys
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.judging import attendance
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.judging.video import film
from rlstudio.experiment.training.build import build
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end

SPREAD, TOYS = "mpe2/simple_spread_v3", "support.pettingzoo_toys"
SIZES = {
    ("ppo", SPREAD): {"steps_per_epoch": 180, "rollout_steps": 30, "batch_size": 60},
    ("dqn", f"{TOYS}:raw_env"): {"steps_per_epoch": 88, "train_every": 4, "n_step": 2},
    ("ppo", f"{TOYS}:raw_env"): {"steps_per_epoch": 44, "rollout_steps": 11, "batch_size": 22},
    ("dqn", SPREAD): {"steps_per_epoch": 180, "train_every": 6},
}
"""A forbidden move in the toy's tic-tac-toe is an error. Rollouts are cut in the middle of its games."""


@pytest.mark.parametrize(
    ("algo", "id"),
    [case if number < 2 else pytest.param(*case, marks=pytest.mark.slow) for number, case in enumerate(SIZES)],
)
def test_a_run_of_many_agents_is_cut_and_goes_on_bit_for_bit(algo, id, tmp_path):
    agent_id = {"agent_id": True} if id == SPREAD else {}
    cfg = tiny(algo, env={"id": id, "num_envs": 2, **agent_id}, train=SIZES[algo, id], ckpt={"every_epochs": 1})
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "left") as session:
        for number, tick in enumerate(session):
            if number and tick.report is None:
                break
    run_to_the_end(cfg, tmp_path / "left")
    assert_same_result(only_run(tmp_path / "left"), whole)


class Still:
    """Always the first choice that is allowed."""

    def step(self, observations, carry=None, noise=None):
        from rlstudio.core.contracts import Acted

        masked = isinstance(observations, dict)
        rows = observations["action_mask"] if masked else observations
        return Acted(rows.argmax(-1) if masked else np.zeros(len(rows), np.int64), {}, None)


def test_an_evaluation_has_an_episode_for_each_agent():
    result = evaluate(Still(), EnvConfig(id=f"{TOYS}:raw_env"), episodes=6, seed=1)
    assert result.returns == (1.0, -1.0) * 3  # the first player fills the squares in order, and wins
    assert result.lengths == (4, 3) * 3
    assert len(set(result.seeds)) == 3
    assert result.vectorization == "sync"


def test_a_film_shows_the_whole_world(tmp_path):
    filmed = film(Still(), EnvConfig(id=f"{TOYS}:Shift"), tmp_path / "shift.webp", seed=1, episodes=3)
    assert filmed.lengths == (6,)  # one world, whose three agents have an episode each
    assert filmed.returns == pytest.approx(((3 + 4 + 6) / 3,))
    assert filmed.path.stat().st_size > 100
    with pytest.raises(Exception, match="takes no render_mode; to be filmed it needs rgb_array"):
        film(Still(), EnvConfig(id=f"{TOYS}:Auction"), tmp_path / "auction.webp", seed=1)


def test_what_one_policy_cannot_do_is_refused_with_both_names():
    with pytest.raises(Incompatible, match=r"speaker_0 has .*\(3,\).*, listener_0 has .*\(11,\).*; one policy for all"):
        build(tiny("ppo", env={"id": "mpe2/simple_speaker_listener_v4"}))
    with pytest.raises(Incompatible, match="has 3 agents, and a dataset has the steps of one"):
        recorded_episodes(Still(), EnvConfig(id=SPREAD), episodes=2, seed=0)


class Haunted(support.pettingzoo_toys.Shift):
    """One of its possible agents is never there."""

    def __init__(self):
        super().__init__()
        self.possible_agents = [*self.possible_agents, "ghost_0"]


@pytest.mark.parametrize(
    ("opponents", "reason"),
    [
        ((), "ghost_0 took no part in 300 episodes"),
        (("random",), "the agent that is evaluated took no part in 50 steps"),
    ],
)
def test_an_evaluation_does_not_wait_for_an_agent_that_never_comes(opponents, reason, monkeypatch):
    monkeypatch.setattr(attendance, "LONGEST", 50 if opponents else 10_000)
    cfg = EnvConfig(id=f"{__name__}:Haunted")
    with pytest.raises(ConfigError, match=rf"env\.id: .*:Haunted: {reason} of the evaluation"):
        evaluate(Still(), cfg, episodes=8, seed=1, opponents=opponents)


class Rare(support.pettingzoo_toys.Shift):
    """One of its agents is there in about half of the episodes."""

    def reset(self, seed=None, options=None):
        super().reset(seed)
        if seed % 2:
            self.agents.remove("whole_0")
        return {agent: self._shown(agent) for agent in self.agents}, {agent: {} for agent in self.agents}


def test_an_evaluation_waits_for_an_agent_that_comes_sometimes(monkeypatch):
    monkeypatch.setattr(attendance, "ABSENT", 8)
    assert len(evaluate(Still(), EnvConfig(id=f"{__name__}:Rare"), episodes=120, seed=1).returns) == 120
