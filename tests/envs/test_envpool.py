"""EnvPool behind the vector contract: what the contract suite cannot see from outside."""

import sys

import numpy as np
import pytest

from rlstudio.core.errors import ConfigError, Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete
from rlstudio.data.collect.collector import Collector
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import random_actions
from rlstudio.envs.make import make_vec_env

ATARI = ["AtariPreprocessing", {"FrameStackObservation": {"stack_size": 4}}]
PONG = {"id": "ALE/Pong-v5", "kwargs": {"frameskip": 1}, "wrappers": ATARI}


def pool(num_envs=3, seed=7, **fields):
    return make_vec_env(EnvConfig(**{"id": "CartPole-v1", **fields}), num_envs, seed, vectorization="envpool")


def fallen(observations):
    """CartPole's own rule, from what it shows."""
    return (np.abs(observations[:, 0]) > 2.4) | (np.abs(observations[:, 2]) > 12 * 2 * np.pi / 360)


@pytest.mark.parametrize("limit", [6, 8, 9, 10, 200])
def test_every_row_is_a_transition_and_ends_are_told_apart(limit):
    """Falling in the very last step is both a death and a truncation; EnvPool alone would only tell the latter."""
    env = pool(16, max_episode_steps=limit)
    before = env.reset().copy()
    elapsed = np.zeros(16, int)
    both = 0
    for _ in range(120):
        step = env.step(np.zeros(16, np.int64))
        elapsed += 1
        # One Euler step: the successor follows from the row before it, so no row is a reset in disguise.
        assert step.successors[:, 0] == pytest.approx(before[:, 0] + 0.02 * before[:, 1], abs=1e-5)
        assert (step.rewards == 1).all()
        assert (step.terminated == fallen(step.successors)).all()
        assert (step.truncated == (elapsed >= limit)).all()
        both += (step.terminated & step.truncated).sum()
        ended = step.terminated | step.truncated
        assert (np.abs(step.observations[ended]) <= 0.05).all()  # where episodes begin
        elapsed[ended] = 0
        before = step.observations.copy()
    assert both or limit in (6, 200)


def test_the_reward_and_dynamics_are_those_of_the_plain_env():
    """The same force from the same place leads to the same place: Pendulum shows its whole state."""
    env = pool(4, id="Pendulum-v1")
    plain = make_vec_env(EnvConfig(id="Pendulum-v1", vectorization="native"), 4)
    before = env.reset().copy()
    actions = np.array(random_actions(env.spaces, 0, 4 * 50), np.float32).reshape(50, 4, 1)
    for action in actions:
        position = plain.position() | {"states": np.stack((np.arctan2(before[:, 1], before[:, 0]), before[:, 2]), 1)}
        plain.seek(position)
        here, there = env.step(action), plain.step(action)
        assert here.successors == pytest.approx(there.successors, abs=1e-4)
        assert here.rewards == pytest.approx(there.rewards, abs=1e-4)
        before = here.observations.copy()


def test_observations_and_actions_come_in_our_kinds():
    cheetah = pool(2, id="HalfCheetah-v5")
    assert cheetah.reset().dtype == np.float32
    assert cheetah.spaces.action.dtype == "float32"
    lake = pool(2, id="FrozenLake-v1")
    assert lake.spaces.observation == Discrete(16)
    assert lake.reset().dtype == np.int64


def test_atari_is_prepared_inside_as_the_wrappers_do_outside():
    env = pool(2, **PONG)
    before = env.reset().copy()
    assert before.shape == (2, 4, 84, 84)
    assert (before == before[:, :1]).all()  # the first frame fills the stack
    for action in ([2, 3], [0, 5], [1, 1]):
        step = env.step(np.array(action))
        assert np.array_equal(step.observations[:, :3], before[:, 1:])
        before = step.observations.copy()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"wrappers": ["FlattenObservation"]}, ConfigError, "takes no env.wrappers, use sync or async"),
        ({"kwargs": {"gravity": 1}}, ConfigError, "env.kwargs: CartPole-v1 refuses {'gravity': 1}"),
        ({"kwargs": {"sutton_barto_reward": True}}, ConfigError, "env.kwargs: EnvPool's CartPole-v1 refuses"),
        ({"id": "rlstudio/Chain-v0"}, ConfigError, "EnvPool has no rlstudio/Chain-v0; use sync or async"),
        ({"id": "Blackjack-v1"}, Incompatible, "Blackjack-v1: observation is a Tuple"),
        ({"id": "ALE/Pong-v5"}, ConfigError, "AtariPreprocessing and FrameStackObservation, no more and no less"),
        ({**PONG, "wrappers": ATARI[:1]}, ConfigError, "no more and no less"),
        ({**PONG, "max_episode_steps": 10}, ConfigError, "without env.max_episode_steps"),
        (
            {**PONG, "wrappers": [{"AtariPreprocessing": {"terminal_on_life_loss": True}}, ATARI[1]]},
            ConfigError,
            "envpool has no terminal_on_life_loss for Atari",
        ),
        ({**PONG, "kwargs": {"frameskip": 1, "obs_type": "ram"}}, ConfigError, "envpool has no obs_type for Atari"),
    ],
)
def test_refusals_are_one_line(fields, error, message):
    with pytest.raises(error, match=message) as caught:
        pool(1, **fields)
    assert "\n" not in str(caught.value)


def test_another_world_than_the_plain_one_is_refused(monkeypatch):
    from rlstudio.envs.envpool import envpool_env

    task = envpool_env.pool_task
    monkeypatch.setattr(envpool_env, "pool_task", lambda recipe: envpool_env.Task("Acrobot-v1", {}, task(recipe).limit))
    with pytest.raises(
        Incompatible, match=r"Acrobot-v1 has Box\(6,\).*evaluation uses has Box\(4,\).*use sync or async"
    ):
        pool(1)


def test_a_missing_envpool_is_told_with_its_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(UserError) as caught:
        pool(1)
    assert str(caught.value) == 'env.vectorization: envpool needs envpool; run `pip install "envpool>=1.2.5,<2"`'


class Still:
    """An agent that remembers how often it acted."""

    acting = "numpy"
    remembers = True

    def noise(self, generator, steps, num_envs):
        return generator.random((steps, num_envs))

    def step(self, observations, carry=None, noise=None):
        from rlstudio.core.contracts import Acted

        count = np.zeros((len(observations), 1), np.float32) if carry is None else carry["count"]
        return Acted(np.zeros(len(observations), np.int64), {}, {"count": count + 1})


def test_a_resumed_collector_forgets_the_episodes_that_were_cut():
    first, second = (Collector(pool(), Still(), Rng(0)) for _ in range(2))
    first.collect(21)
    state = first.state_dict()
    assert state["episodes"]["open_lengths"].any()
    second.load_state_dict(state)
    assert second.vector_steps == 21
    assert not second.inspection.episodes.open_lengths.any()
    assert not second.carry["count"].any()
    second.collect(60)
    _, lengths, _ = second.inspection.episodes.take()
    assert min(lengths[-5:]) >= 8  # as long as the pole takes to fall, no longer and no shorter
    assert max(lengths) <= 12
