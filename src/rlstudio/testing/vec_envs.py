"""What every vector of environments promises, of every world: seeds decide everything, autoreset is hidden, and a
position is continued bit for bit or it says why not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from rlstudio.core.contracts import Array, Step, VecEnv
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Space
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env

B = 3


EXACT_ONLY = (
    "test_a_position_is_continued_bit_for_bit_in_a_fresh_object",
    "test_seek_of_the_position_one_is_at_changes_nothing",
)
INEXACT_ONLY = ("test_who_cannot_repeat_itself_says_so_and_goes_on_with_new_episodes",)


class VecEnvContract:
    """The contract of a vector of environments as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Id of the environment."""

    vectorization: ClassVar[str] = "native"
    """How it is made into a vector."""

    fields: ClassVar[Mapping[str, Any]] = {}
    """Of `env:`; random play must end an episode within 260 steps."""

    exact: ClassVar[bool] = True
    """Whether it promises to go on bit for bit."""

    is_random: ClassVar[bool] = True
    """Whether the seed decides anything."""

    starts_alike: ClassVar[bool] = False
    """Whether every episode starts at the same observation."""

    def __init_subclass__(cls) -> None:
        """What the environment does not promise is not tested."""
        for name in INEXACT_ONLY if cls.exact else EXACT_ONLY:
            setattr(cls, name, None)

    def make(self, num_envs: int = B, seed: int = 7) -> VecEnv:
        return make_vec_env(EnvConfig(id=self.part, **self.fields), num_envs, seed, vectorization=self.vectorization)

    @pytest.fixture
    def vec(self) -> Iterator[VecEnv]:
        env = self.make()
        yield env
        env.close()

    def test_shapes_kinds_and_bounds(self, vec: VecEnv) -> None:
        check(vec.reset(), vec.spaces.observation)
        for actions in random_actions(vec, 30):
            step = vec.step(actions)
            check(step.observations, vec.spaces.observation)
            check(step.successors, vec.spaces.observation)
            for rows, kind in ((step.rewards, np.float32), (step.terminated, np.bool_), (step.truncated, np.bool_)):
                assert rows.shape == (B,)
                assert rows.dtype == kind
            assert tuple(step.infos) == vec.spaces.infos
            assert all(column.shape == (B,) and column.dtype == np.float32 for column in step.infos.values())

    def test_the_same_seed_gives_the_same_numbers_and_another_does_not(self, vec: VecEnv) -> None:
        other, different = self.make(), self.make(seed=8)
        first = [copied(env.reset()) for env in (vec, other, different)]
        actions = random_actions(vec, 60)
        trajectories = [played(env, actions) for env in (vec, other, different)]
        assert equal(first[0], first[1])
        assert same_steps(*trajectories[:2])
        if self.is_random:
            pairs = zip(trajectories[0], trajectories[2], strict=True)
            assert not all(equal(a.observations, b.observations) for a, b in pairs)
        other.close()
        different.close()

    def test_reset_starts_over(self, vec: VecEnv) -> None:
        actions = random_actions(vec, 25)
        first = copied(vec.reset())
        before = played(vec, actions)
        assert equal(vec.reset(), first)
        for left, right in zip(before, played(vec, actions), strict=True):
            assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))

    def test_an_env_depends_on_nobody_else(self, vec: VecEnv) -> None:
        """Env 0 of a vector of one, and of three whose other envs act differently, live the same life."""
        alone = self.make(1)
        assert equal(row(copied(vec.reset()), 0), row(alone.reset(), 0))
        lonely = random_actions(alone, 80, seed=1)
        crowd = random_actions(vec, 80, seed=2)
        crowd[:, 0] = lonely[:, 0]
        for a, b in zip(played(vec, crowd), played(alone, lonely), strict=True):
            for left, right in zip(a[:5], b[:5], strict=True):
                assert equal(row(left, 0), row(right, 0))
        alone.close()

    def test_successors_are_true_successors(self, vec: VecEnv) -> None:
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

    @pytest.mark.parametrize("steps", [0, 61])
    def test_a_position_is_continued_bit_for_bit_in_a_fresh_object(self, vec: VecEnv, steps: int) -> None:
        vec.reset()
        actions = random_actions(vec, steps + 40)
        now = copied(vec.step(actions[0]).observations) if steps else copied(vec.reset())
        for step in played(vec, actions[1:steps]):
            now = step.observations
        position = vec.position()
        assert vec.exact is None
        other = self.make()
        assert equal(other.seek(position), now)
        assert other.exact is None
        assert not other.restarted
        assert other.position().keys() == position.keys()
        assert same_steps(played(vec, actions[steps:]), played(other, actions[steps:]))
        other.close()

    @pytest.mark.parametrize("num_envs", [1, B])
    def test_a_position_does_not_change_when_the_env_goes_on(self, num_envs: int) -> None:
        vec = self.make(num_envs)
        vec.reset()
        actions = random_actions(vec, 20)
        played(vec, actions[:5])
        position = vec.position()
        before = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in position.items()}
        played(vec, actions[5:])
        assert all(np.array_equal(before[name], position[name]) for name in before)
        vec.close()

    def test_who_cannot_repeat_itself_says_so_and_goes_on_with_new_episodes(self, vec: VecEnv) -> None:
        """Not the same bits, but a run that is right: fresh starts, all told, and the same from the same position."""
        vec.reset()
        actions = random_actions(vec, 100)
        earlier = [step.observations for step in played(vec, actions[:61])]
        position = vec.position()
        open_episodes = [env for env in range(B) if position["elapsed"][env]]
        assert open_episodes, "no episode was open: the test saw nothing"
        first, second = self.make(), self.make()
        starts = copied(first.seek(position))
        assert first.exact
        assert list(first.restarted) == open_episodes
        assert equal(starts, second.seek(position))
        if not self.starts_alike:
            assert not any(equal(row(starts, env), row(old, env)) for old in earlier for env in range(B))
        for left, right in zip(played(first, actions[61:]), played(second, actions[61:]), strict=True):
            assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
        assert (first.position()["episodes"] > position["episodes"]).all()
        first.reset()
        assert not first.restarted
        for env in (first, second):
            env.close()

    def test_seek_of_the_position_one_is_at_changes_nothing(self, vec: VecEnv) -> None:
        vec.reset()
        now = played(vec, random_actions(vec, 30)[:20])[-1].observations
        assert equal(vec.seek(vec.position()), now)
        assert vec.exact is None

    def test_a_foreign_position_is_refused(self, vec: VecEnv) -> None:
        vec.reset()
        other = self.make(B + 1)
        with pytest.raises(Incompatible, match=f"{B} envs"):
            other.seek(vec.position())
        other.close()
        with pytest.raises(Incompatible):
            vec.seek({"kind": "elsewhere"})

    def test_close_again_is_nothing(self) -> None:
        env = self.make(1)
        env.reset()
        env.close()
        env.close()
        assert env.num_envs == 1  # still an object one can ask

    def test_it_says_what_it_is(self, vec: VecEnv) -> None:
        assert vec.vectorization == self.vectorization
        assert vec.agents >= 1
        assert vec.num_envs % vec.agents == 0
        assert vec.restart_reasons in (None, []), "a worker was replaced"
        assert (vec.exact is None) == self.exact
        assert not vec.restarted
        assert vec.num_envs == B
        vec.reset()
        assert vec.describe_episode(B - 1).startswith("episode 0")


def check(rows: Array, space: Space) -> None:
    """Rows are of the space: shape, kind, bounds."""
    if isinstance(space, Dict):
        assert isinstance(rows, dict)
        assert list(rows) == [name for name, _ in space.items()]
        for name, entry in space.items():
            check(rows[name], entry)
        return
    assert isinstance(rows, np.ndarray)
    assert rows.shape == (B, *space.shape)
    assert rows.dtype == space.dtype
    if isinstance(space, Box):
        low, high = space.bounds()
        assert (rows >= low).all()
        assert (rows <= high).all()


def random_actions(env: VecEnv, steps: int, seed: int = 0, num_envs: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    num_envs = num_envs or env.num_envs
    match env.spaces.action:
        case Discrete(n=n):
            return rng.integers(0, n, (steps, num_envs))
        case MultiDiscrete(nvec=nvec):
            return rng.integers(0, nvec, (steps, num_envs, len(nvec)))
        case Box() as box:
            return rng.uniform(*box.bounds(), (steps, num_envs, *box.shape)).astype(np.float32)
    raise AssertionError(f"no random actions of {env.spaces.action}")


def copied(rows: Array) -> Array:
    return {name: array.copy() for name, array in rows.items()} if isinstance(rows, dict) else rows.copy()


def equal(left: Array, right: Array) -> bool:
    if isinstance(left, dict) or isinstance(right, dict):
        both = isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys()
        return both and all(np.array_equal(left[k], right[k]) for k in left)
    return np.array_equal(left, right)


def row(rows: Array, index: int) -> Array:
    return {k: v[index] for k, v in rows.items()} if isinstance(rows, dict) else rows[index]


def played(env: VecEnv, actions: np.ndarray) -> list[Step]:
    """All steps, copied out of the reused arrays."""
    return [_copied_step(step) for step in map(env.step, actions)]


def _copied_step(step: Step) -> Step:
    flags = (step.rewards.copy(), step.terminated.copy(), step.truncated.copy())
    return Step(
        copied(step.observations),
        copied(step.successors),
        *flags,
        {name: column.copy() for name, column in step.infos.items()},
    )


def same_steps(left: list[Step], right: list[Step]) -> bool:
    """Of two environments: every array equal, every info too."""
    pairs = zip(left, right, strict=True)
    return all(all(map(equal, a[:5], b[:5])) and same_infos(a.infos, b.infos) for a, b in pairs)


def same_infos(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    """Equal numbers in the same places; the others were not given in either."""
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key], equal_nan=True) for key in left)
