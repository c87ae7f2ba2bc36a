"""Environments of many agents, for tests. Workers import them by name: `support.pettingzoo_toys:Shift`."""

import os

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.classic.tictactoe.tictactoe import raw_env  # noqa: F401 - a forbidden move is an error in it

LAST = 6


class Shift(ParallelEnv):
    """Three workers: `early` leaves after three steps, `late` comes after two, `whole` stays for six. Each is paid its
    action, and shown who it is, the step, and a random number.

    `fault` is what it does wrong: `vanish` (leaves without an end), `stay` (ends and stays), `nobody` (an agent that
    nobody knows), `shape`, `text`, `repeat` (draws from the operating system), `used` (remembers earlier episodes).
    """

    metadata = {"render_modes": ["rgb_array"], "name": "shift", "render_fps": 5}

    def __init__(self, fault: str = "", render_mode: str | None = None) -> None:
        self.fault, self.render_mode, self.episodes = fault, render_mode, 0
        self.possible_agents = ["early_0", "late_0", "whole_0"]
        self.state_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation_space(self, agent):
        return spaces.Box(-10, 10, (3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(4, start=1)

    def _shown(self, agent):
        who = self.possible_agents.index(agent) + 1
        return np.array([who, self.steps, self.number], np.float32)

    def _draw(self):
        draws = os.urandom(1)[0] / 256 if self.fault == "repeat" else self.random.random()
        self.number = draws + (self.episodes if self.fault == "used" else 0)

    def state(self):
        return np.array([self.steps, self.number], np.float32)

    def reset(self, seed=None, options=None):
        self.random, _ = seeding.np_random(seed)
        self.steps, self.episodes = 0, self.episodes + 1
        self._draw()
        self.agents = ["early_0", "whole_0"]
        return {agent: self._shown(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        assert actions.keys() == set(self.agents)
        acting = self.agents
        self.steps += 1
        self._draw()
        ends = {agent: agent == "early_0" and self.steps == 3 for agent in acting}
        cut = {agent: self.steps == LAST for agent in acting}
        self.agents = [agent for agent in acting if not (ends[agent] or cut[agent])]
        if self.steps == 2:
            self.agents = [*self.agents, "late_0"]
        observations = {agent: self._shown(agent) for agent in {*acting, *self.agents}}
        rewards = {agent: float(action) for agent, action in actions.items()}
        infos = {agent: {"steps": self.steps} for agent in acting}
        if self.fault == "vanish":
            self.agents = ["whole_0"]
        elif self.fault == "stay" and self.steps == 3:
            self.agents = [*self.agents, "early_0"]
        elif self.fault == "nobody":
            observations["ghost"] = observations["whole_0"]
            self.agents = [*self.agents, "ghost"]
        elif self.fault == "shape":
            observations["whole_0"] = np.zeros(2, np.float32)
        elif self.fault == "unseen":
            del observations["whole_0"]
        elif self.fault == "text":
            rewards["whole_0"] = "1.0"
        return observations, rewards, ends, cut, infos

    def render(self):
        return np.full((16, 16, 3), 40 * self.steps, np.uint8)


class Told(ParallelEnv):
    """Two agents whose masks stand in the info; a forbidden choice is an error."""

    metadata = {"name": "told"}

    def __init__(self) -> None:
        self.possible_agents = ["a", "b"]

    def observation_space(self, agent):
        return spaces.Box(0, 1, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def _now(self):
        self.allowed = {agent: self.random.permutation(3)[0] for agent in self.possible_agents}
        masks = {agent: np.eye(3, dtype=np.int8)[choice] for agent, choice in self.allowed.items()}
        shown = {agent: self.random.random(2, np.float32) for agent in self.possible_agents}
        return shown, {agent: {"action_mask": mask} for agent, mask in masks.items()}

    def reset(self, seed=None, options=None):
        self.random, _ = seeding.np_random(seed)
        self.steps, self.agents = 0, self.possible_agents[:]
        return self._now()

    def step(self, actions):
        assert {agent: int(action) for agent, action in actions.items()} == self.allowed
        self.steps += 1
        over = dict.fromkeys(self.possible_agents, self.steps == 4)
        observations, infos = self._now()
        self.agents = [] if self.steps == 4 else self.agents
        return observations, dict.fromkeys(over, 1.0), over, dict.fromkeys(over, False), infos


class Auction(AECEnv):
    """Three bidders in turn. Each bid costs its bidder 1 at once and pays the others a half; the second bidder is out
    after its second bid, and is paid 5 for that by the third bid of the first. The game ends after eight bids."""

    metadata = {"name": "auction"}

    def __init__(self) -> None:
        self.possible_agents = ["x_0", "x_1", "x_2"]

    def observation_space(self, agent):
        return spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.bids, self.agent_selection = 0, "x_0"

    def observe(self, agent):
        return np.array([self.possible_agents.index(agent), self.bids], np.float32)

    def step(self, action):
        agent = self.agent_selection
        following = self.possible_agents[(self.possible_agents.index(agent) + 1) % 3]
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)  # which chooses among those who are done, if there are more
            if not any(self.truncations.values()):
                self.agent_selection = following
            return
        self._clear_rewards()
        self._cumulative_rewards[agent] = 0.0
        self.bids += 1
        for other in self.agents:
            self.rewards[other] = -1.0 if other == agent else 0.5
        if self.bids == 5:
            self.terminations["x_1"] = True  # it hears of it when its turn would come
        if self.bids == 7:
            self.rewards["x_1"] += 5.0
        if self.bids == 8:
            self.truncations = dict.fromkeys(self.agents, True)
        self._accumulate_rewards()
        self.agent_selection = following if following in self.agents else "x_2"


class NotMany(gymnasium.Env):
    """One agent."""


def make_env():
    """Makes none of PettingZoo's."""
    return NotMany()
