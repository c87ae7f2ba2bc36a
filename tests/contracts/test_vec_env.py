"""The contract of VecEnv, for every kind of world and every kind of vector."""

import numpy as np
import pytest

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from support.env_toys import register_toys

register_toys()

NATIVE = [
    "CartPole-v1",
    "Pendulum-v1",
    "rlstudio/Chain-v0",
    "rlstudio/GridWorld-v0",
    "rlstudio/Identity-v0",
    "rlstudio/IdentityBox-v0",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
]
PLAIN = [
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "FrozenLake-v1",
    "rlstudio/Identity-v0",
    "toys/Choices-v0",
    "toys/Views-v0",
    "toys/Offset-v0",
    "toys/Leftover-v0",
]
EXACT = [
    *((id, "native") for id in NATIVE),
    *((id, "sync") for id in PLAIN),
    ("toys/Views-v0", "async"),
    pytest.param(("CartPole-v1", "async"), marks=pytest.mark.slow),  # every env starts processes
]
INEXACT = [(id, "envpool") for id in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "LunarLander-v3")]
CASES = EXACT + INEXACT
B = 3


def named(case):
    return f"{case[1]}-{case[0]}"


def made(case, num_envs=B, seed=7, **fields):
    id, vectorization = case
    if id.startswith(("Acrobot", "MountainCar")):
        fields["max_episode_steps"] = 40  # random play does not end within their own limits
    return make_vec_env(EnvConfig(id=id, **fields), num_envs, seed, vectorization=vectorization)


@pytest.fixture(params=CASES, ids=named)
def case(request):
    return request.param


@pytest.fixture
def vec(case):
    env = made(case)
    yield env
    env.close()


def random_actions(env, steps, seed=0, num_envs=None):
    rng = np.random.default_rng(seed)
    num_envs = num_envs or env.num_envs
    match env.spaces.action:
        case Discrete(n=n):
            return rng.integers(0, n, (steps, num_envs))
        case MultiDiscrete(nvec=nvec):
            return rng.integers(0, nvec, (steps, num_envs, len(nvec)))
        case Box() as box:
            return rng.uniform(*box.bounds(), (steps, num_envs, *box.shape)).astype(np.float32)


def copied(rows):
    return {name: array.copy() for name, array in rows.items()} if isinstance(rows, dict) else rows.copy()


def equal(left, right):
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(np.array_equal(left[k], right[k]) for k in left)
    return np.array_equal(left, right)


def row(rows, index):
    return {k: v[index] for k, v in rows.items()} if isinstance(rows, dict) else rows[index]


def played(env, actions):
    """All steps, copied out of the reused arrays."""
    return [type(step)(*(copied(part) for part in step[:5]), dict(step.infos)) for step in map(env.step, actions)]


def test_shapes_kinds_and_bounds(vec):
    def check(rows, space):
        if isinstance(space, Dict):
            assert list(rows) == [name for name, _ in space.items()]
            for name, entry in space.items():
                check(rows[name], entry)
            return
        assert rows.shape == (B, *space.shape)
        assert rows.dtype == space.dtype
        if isinstance(space, Box):
            low, high = space.bounds()
            assert (rows >= low).all()
            assert (rows <= high).all()

    check(vec.reset(), vec.spaces.observation)
    for actions in random_actions(vec, 30):
        step = vec.step(actions)
        check(step.observations, vec.spaces.observation)
        check(step.successors, vec.spaces.observation)
        assert (step.rewards.shape, step.rewards.dtype) == ((B,), np.float32)
        assert (step.terminated.shape, step.terminated.dtype) == ((B,), bool)
        assert (step.truncated.shape, step.truncated.dtype) == ((B,), bool)


def test_the_same_seed_gives_the_same_numbers_and_another_does_not(case, vec):
    other, different = made(case), made(case, seed=8)
    first = [copied(env.reset()) for env in (vec, other, different)]
    actions = random_actions(vec, 60)
    trajectories = [played(env, actions) for env in (vec, other, different)]
    assert equal(first[0], first[1])
    for left, right in zip(*trajectories[:2], strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
        assert left.infos == right.infos
    if case[0] not in ("rlstudio/Chain-v0", "rlstudio/GridWorld-v0", "toys/Offset-v0"):  # these start alike always
        assert not all(
            equal(a.observations, b.observations) for a, b in zip(trajectories[0], trajectories[2], strict=True)
        )
    other.close()
    different.close()


def test_reset_starts_over(vec):
    actions = random_actions(vec, 25)
    first = copied(vec.reset())
    before = played(vec, actions)
    assert equal(vec.reset(), first)
    for left, right in zip(before, played(vec, actions), strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))


def test_an_env_depends_on_nobody_else(case, vec):
    """Env 0 of a vector of one, and of three whose other envs act differently, live the same life."""
    alone = made(case, 1)
    assert equal(row(copied(vec.reset()), 0), row(alone.reset(), 0))
    lonely = random_actions(alone, 80, seed=1)
    crowd = random_actions(vec, 80, seed=2)
    crowd[:, 0] = lonely[:, 0]
    for a, b in zip(played(vec, crowd), played(alone, lonely), strict=True):
        for left, right in zip(a[:5], b[:5], strict=True):
            assert equal(row(left, 0), row(right, 0))
    alone.close()


def test_successors_are_true_successors(vec):
    """Equal rows where the episode goes on; where it ended the observation is the next episode's first one."""
    vec.reset()
    ends = 0
    for step in played(vec, random_actions(vec, 260)):
        for index in range(B):
            ended = step.terminated[index] or step.truncated[index]
            ends += ended
            if not ended:
                assert equal(row(step.successors, index), row(step.observations, index))
    assert ends, "no episode ended: the test saw nothing"


@pytest.mark.parametrize("case", EXACT, ids=named)
@pytest.mark.parametrize("steps", [0, 61])
def test_a_position_is_continued_bit_for_bit_in_a_fresh_object(case, vec, steps):
    vec.reset()
    actions = random_actions(vec, steps + 40)
    now = copied(vec.step(actions[0]).observations) if steps else copied(vec.reset())
    for step in played(vec, actions[1:steps]):
        now = step.observations
    position = vec.position()
    other = made(case)
    assert equal(other.seek(position), now)
    assert other.exact is None
    assert not other.restarted
    assert {
        k: copied(v) if isinstance(v, np.ndarray) else v for k, v in other.position().items()
    }.keys() == position.keys()
    for left, right in zip(played(vec, actions[steps:]), played(other, actions[steps:]), strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
        assert left.infos == right.infos
    other.close()


@pytest.mark.parametrize("num_envs", [1, B])
def test_a_position_does_not_change_when_the_env_goes_on(case, num_envs):
    vec = made(case, num_envs)
    vec.reset()
    actions = random_actions(vec, 20)
    played(vec, actions[:5])
    position = vec.position()
    before = {k: copied(v) if isinstance(v, np.ndarray) else v for k, v in position.items()}
    played(vec, actions[5:])
    assert all(np.array_equal(before[name], position[name]) for name in before)
    vec.close()


@pytest.mark.parametrize("case", INEXACT, ids=named)
def test_who_cannot_repeat_itself_says_so_and_goes_on_with_new_episodes(case, vec):
    """Not the same bits, but a run that is right: fresh starts, all told, and the same from the same position."""
    vec.reset()
    actions = random_actions(vec, 100)
    seen = [step.observations for step in played(vec, actions[:61])]
    position = vec.position()
    open_episodes = [env for env in range(B) if position["elapsed"][env]]
    assert open_episodes, "no episode was open: the test saw nothing"
    first, second = made(case), made(case)
    starts = copied(first.seek(position))
    assert "EnvPool" in first.exact
    assert list(first.restarted) == open_episodes
    assert equal(starts, second.seek(position))
    if case[0] != "FrozenLake-v1":  # it starts alike always
        assert not any(equal(row(starts, env), row(old, env)) for old in seen for env in range(B))
    for left, right in zip(played(first, actions[61:]), played(second, actions[61:]), strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
    assert (first.position()["episodes"] > position["episodes"]).all()
    first.reset()
    assert not first.restarted
    for env in (first, second):
        env.close()


@pytest.mark.parametrize("case", EXACT, ids=named)
def test_seek_of_the_position_one_is_at_changes_nothing(vec):
    vec.reset()
    actions = random_actions(vec, 30)
    for step in played(vec, actions[:20]):
        now = step.observations
    assert equal(vec.seek(vec.position()), now)
    assert vec.exact is None


def test_a_foreign_position_is_refused(case, vec):
    vec.reset()
    other = made(case, B + 1)
    with pytest.raises(Incompatible, match=f"{B} envs"):
        other.seek(vec.position())
    other.close()
    with pytest.raises(Incompatible):
        vec.seek({"kind": "elsewhere"})


def test_close_again_is_nothing(case):
    env = made(case, 1)
    env.reset()
    env.close()
    env.close()
    assert env.num_envs == 1  # still an object one can ask


def test_it_says_what_it_is(case, vec):
    assert vec.vectorization == case[1]
    assert (vec.exact is None) == (case in EXACT)
    assert not vec.restarted
    assert vec.num_envs == B


@pytest.mark.parametrize(
    "id",
    [
        "toys/Choices-v0",
        "toys/Views-v0",
        "toys/Leftover-v0",
        pytest.param("CartPole-v1", marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", marks=pytest.mark.slow),
    ],
)
def test_workers_give_the_same_bits_as_one_process(id):
    here, there = made((id, "sync"), 5), made((id, "async"), 5)
    assert equal(here.reset(), there.reset())
    actions = random_actions(here, 250)
    for left, right in zip(played(here, actions), played(there, actions), strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
        assert left.infos == right.infos
    assert all(np.array_equal(here.position()[k], there.position()[k]) for k in here.position())
    there.close()
