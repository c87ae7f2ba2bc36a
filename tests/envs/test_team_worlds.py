"""Worlds with several agents as columns: who is active, when an episode ends for whom, and exact positions."""

import numpy as np
import pytest
import torch

from rlstudio.core.contracts import Acted
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.turns import decisions
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.worlds.kernel import NUMPY
from rlstudio.envs.worlds.team import TeamVecEnv
from support.worlds import CHOICES, LENGTH, ThreeAgents

B, AGENTS = 2, 3


def made(num_envs=B, seed=5, **fields):
    return make_vec_env(EnvConfig(id="toys/ThreeAgents-v0", **fields), num_envs, seed)


def right(observations):
    return observations[:, :CHOICES].argmax(-1)


def played(env, observations, steps):
    """Steps of agents that all do what they are shown, copied."""
    for _ in range(steps):
        step = env.step(right(observations))
        observations = step.observations
        yield type(step)(*(part.copy() for part in step[:5]), {}, step.active.copy())


class Repeating:
    """Does what it is shown."""

    acting, remembers = "none", False

    def noise(self, generator, steps, num_envs):
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations, carry=None, noise=None):
        return Acted(right(observations), {}, carry)


def test_columns_lie_side_by_side_env_by_env():
    env = made()
    assert isinstance(env, TeamVecEnv)
    assert env.vectorization == "native"
    assert env.num_envs == B * AGENTS
    observations = env.reset()
    assert observations.shape == (B * AGENTS, CHOICES + 3)
    assert observations[:, CHOICES:].argmax(-1).tolist() == [0, 1, 2] * B
    targets = right(observations).reshape(B, AGENTS)
    assert np.array_equal(targets, (targets[:, :1] + np.arange(3)) % CHOICES)


def test_turns_deaths_and_the_end_of_an_episode():
    env = made(1)
    steps = list(played(env, env.reset(), LENGTH + 2))
    turns = [[t % 2 == 0, t % 2 == 1, t < 3] for t in range(LENGTH)]
    assert [step.active.tolist() for step in steps[:LENGTH]] == turns
    assert [step.terminated.tolist() for step in steps[:LENGTH]] == [
        [t == LENGTH - 1, t == LENGTH - 1, t == 2] for t in range(LENGTH)
    ]
    assert steps[LENGTH].active.tolist() == [True, False, True]  # the next episode, agent 2 is back
    assert not any(step.truncated.any() for step in steps)
    for t, step in enumerate(steps):
        is_out = np.array([False, False, 3 <= t < LENGTH])
        assert np.array_equal(step.rewards, np.where(step.active, 1.0, np.where(is_out, 0.0, 0.25)))
    *_, last = played(crowd := made(8), crowd.reset(), LENGTH)
    assert not np.array_equal(last.successors, last.observations)


def test_a_time_limit_cuts_those_who_are_still_in():
    env = made(1, max_episode_steps=4)
    *_, last = played(env, env.reset(), 4)
    assert last.truncated.tolist() == [True, True, False]  # agent 2 was out before
    assert last.active.tolist() == [False, True, False]  # agent 0 waits: its last action ended the episode
    assert not last.terminated.any()


def test_what_a_team_is_paid_while_it_waits_is_the_outcome_of_its_last_action():
    """The vector and `decisions` speak of the same thing: every action of TwoTurns earns 1, at its own row."""
    env = make_vec_env(EnvConfig(id="toys/TwoTurns-v0"), 2, 5)
    rows = decisions(Collector(env, Repeating(), Rng(0)).collect(2 * LENGTH))
    first = [t % 2 == 0 for t in range(2 * LENGTH)]
    for agent in range(4):
        own = torch.tensor(first if agent % 2 == 0 else [not turn for turn in first])
        ends = own.nonzero().squeeze(1)[[LENGTH // 2 - 1, LENGTH - 1]]
        assert torch.equal(rows.active[:, agent], own)
        assert torch.equal(rows.rewards[:, agent], own.float())
        assert rows.terminated[:, agent].nonzero().squeeze(1).tolist() == ends.tolist()


def test_parameters_per_env():
    env = TeamVecEnv(ThreeAgents(), B, 5, params={"death": np.array([2.0, 5.0])})
    steps = list(played(env, env.reset(), 6))
    died = [[t for t, step in enumerate(steps) if step.terminated.reshape(B, AGENTS)[e, 2]] for e in range(B)]
    assert died == [[1], [4]]


@pytest.mark.parametrize("steps", [0, 3, 5, LENGTH + 4])
def test_a_position_is_continued_bit_for_bit(steps):
    env, other = made(), made(seed=5)
    observations = env.reset().copy()
    for step in played(env, observations, steps):
        observations = step.observations
    position = env.position()
    assert np.array_equal(other.seek(position), observations)
    for left, right_ in zip(played(env, observations, 20), played(other, observations, 20), strict=True):
        for mine, theirs in zip((*left[:5], left.active), (*right_[:5], right_.active), strict=True):
            assert np.array_equal(mine, theirs)
    with pytest.raises(Incompatible, match="2 envs does not fit 3"):
        made(3).seek(position)


def test_a_reset_starts_over():
    env = made()
    first = [step.rewards for step in played(env, env.reset().copy(), 5)]
    again = [step.rewards for step in played(env, env.reset().copy(), 5)]
    assert np.array_equal(first, again)


def test_the_world_itself_takes_any_leading_dimensions_on_numpy_and_torch():
    world, rng = ThreeAgents(), np.random.default_rng(0)
    states = world.initial(rng.random((4, 5, 1)), world.params, NUMPY)
    actions = rng.integers(0, CHOICES, (4, 5, AGENTS))
    ours = world.dynamics(states, actions, world.params, NUMPY)
    theirs = world.dynamics(torch.from_numpy(states), torch.from_numpy(actions), world.params, torch)
    for mine, other in zip(ours, theirs, strict=True):
        assert np.array_equal(mine, other.numpy())
    assert world.observe(states, world.params, NUMPY).shape == (4, 5, AGENTS, CHOICES + 3)


def test_what_cannot_be_done_with_several_agents_is_refused():
    with pytest.raises(UserError, match="has 3 agents, which no Gymnasium env has; use"):
        made(vectorization="sync")
