"""The journal finds every open episode's actions again, through growth, trimming and a round trip."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.gym.replay.replay_log import Journal
from rlstudio.envs.gym.rows import Buffers
from support.examples import examples

SPACES = Spaces(Box((2,), "float32", (0.0,), (1.0,)), Discrete(1000))


@examples(40)
@given(st.integers(0, 2**31), st.integers(1, 4), st.floats(0.0, 0.3))
def test_actions_episodes_and_digests_follow_a_plain_list(seed, num_envs, end_rate):
    rng = np.random.default_rng(seed)
    rows = Buffers(SPACES, num_envs)
    journal = Journal(rows)
    journal.restart()
    expected = [[] for _ in range(num_envs)]
    episodes = [0] * num_envs
    for _ in range(700):
        actions = rng.integers(0, 1000, num_envs)
        rows.observations[:] = rng.random((num_envs, 2))
        ended = rng.random(num_envs) < end_rate
        journal.record(actions, ended if ended.any() else None)
        for index in range(num_envs):
            expected[index] = [] if ended[index] else [*expected[index], int(actions[index])]
            episodes[index] += int(ended[index])
    assert [journal.actions_of(index).tolist() for index in range(num_envs)] == expected
    assert journal.episodes.tolist() == episodes
    assert [journal.elapsed(index) for index in range(num_envs)] == [len(history) for history in expected]
    other = Journal(Buffers(SPACES, num_envs))
    other.adopt(journal.position())
    for name, value in journal.position().items():
        assert np.array_equal(other.position()[name], value)
    for _ in range(300):
        actions = rng.integers(0, 1000, num_envs)
        for each in (journal, other):
            each.record(actions, None)
    assert np.array_equal(journal.position()["actions"], other.position()["actions"])


def test_the_log_stays_small_while_episodes_end():
    journal = Journal(Buffers(SPACES, 2))
    for step in range(20000):
        journal.record(np.array([step % 1000, 1]), np.array([step % 90 == 0, step % 70 == 0]))
    assert len(journal._log) == 256
