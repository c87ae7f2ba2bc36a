"""An env that counts its choices from elsewhere: steps take choices from 0, `act` gives the env's own numbers."""

import gymnasium
import numpy as np

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import from_json, to_json
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyValue


class FromFive(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(3, start=5)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        assert action in self.action_space
        return np.zeros(2, np.float32), float(action), False, True, {}


class TwoFromElsewhere(FromFive):
    action_space = gymnasium.spaces.MultiDiscrete([3, 2], start=[5, -1])

    def step(self, action):
        assert action in self.action_space
        return np.zeros(2, np.float32), float(action.sum()), False, True, {}


gymnasium.register("FromFive-v0", FromFive)
gymnasium.register("TwoFromElsewhere-v0", TwoFromElsewhere)


def test_act_speaks_the_numbers_of_the_env():
    vec = make_vec_env(EnvConfig(id="FromFive-v0", num_envs=2))
    vec.reset()
    assert vec.step(np.array([0, 2])).rewards.tolist() == [5.0, 7.0]
    agent = PolicyAgent(build_model(PolicyValue, vec.spaces, NetworkConfig(), Rng(0)), vec.spaces)
    observation = np.zeros(2, np.float32)
    assert agent.act(observation) == 5 + agent.step(observation[None]).actions[0]
    assert agent.act(observation) in FromFive.action_space


def test_each_part_of_a_multi_discrete_action_has_a_start_of_its_own():
    vec = make_vec_env(EnvConfig(id="TwoFromElsewhere-v0", num_envs=2))
    vec.reset()
    assert vec.step(np.array([[0, 0], [2, 1]])).rewards.tolist() == [4.0, 7.0]
    assert from_json(to_json(vec.spaces.action)) == vec.spaces.action
    agent = PolicyAgent(build_model(PolicyValue, vec.spaces, NetworkConfig(), Rng(0)), vec.spaces)
    observations = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(np.float32)
    assert np.array_equal(agent.act(observations), agent.step(observations).actions + np.array([5, -1]))
    assert agent.act(observations[0]) in TwoFromElsewhere.action_space
