"""Games that are played side by side, and what goes on where one is over."""

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

from rlstudio.core.rng import Rng
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import single_spaces
from rlstudio.envs.seats.player import RandomPlayer
from rlstudio.experiment.analysis.tournament import meet, play_tournament


class Strict(AECEnv):
    """Two in turn; choice 0 is forbidden and ends everything, choice 1 wins, choice 2 goes on."""

    metadata = {"name": "strict"}

    def __init__(self):
        self.possible_agents = ["x", "o"]

    def observation_space(self, agent):
        mask = spaces.Box(0, 1, (3,), np.int8)
        return spaces.Dict({"observation": spaces.Box(0.0, np.inf, (1,), np.float32), "action_mask": mask})

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        mask = np.array([0, 1, 1], np.int8) * (agent == self.agent_selection)
        return {"observation": np.array([self.moves], np.float32), "action_mask": mask}

    def reset(self, seed=None, options=None):
        self.agents, self.moves, self.agent_selection = self.possible_agents[:], 0, "x"
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        assert action != 0, "a forbidden choice was made"
        mover, self.agent_selection = self.agent_selection, "o" if self.agent_selection == "x" else "x"
        self._cumulative_rewards[mover] = 0.0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self.moves += 1
        if action == 1:
            self.rewards = {agent: 1.0 if agent == mover else -1.0 for agent in self.agents}
            self.terminations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()


def test_where_a_game_is_over_nothing_forbidden_is_done_while_others_go_on():
    cfg = EnvConfig(id=f"{__name__}:Strict")
    player = RandomPlayer(single_spaces(cfg))
    lead = meet(player, player, cfg, games=16, rng=Rng(0))
    assert set(lead.tolist()) == {-2.0, 2.0}


class Always:
    """Cooperates (1) or defects (0) in every round."""

    def __init__(self, choice):
        self.choice = choice

    def choose(self, observations, uniform):
        return np.full(len(uniform), self.choice)


def test_a_game_in_which_both_gain_is_won_by_who_gains_more():
    """In the prisoner's dilemma two that cooperate are both paid; neither of them won."""
    cfg = EnvConfig(id="rlstudio/IPDDuel-v0", max_episode_steps=10)
    table = play_tournament({"one": Always(1), "other": Always(1), "mean": Always(0)}, cfg, games=4, seed=0)
    assert table.draws[0, 1] == 4
    assert table.wins[2].tolist() == [4, 4, 0]
