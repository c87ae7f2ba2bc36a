"""Evaluation: the episodes that are counted, that they are the same each time, and that nothing else is touched."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.contracts import Acted, State, Step
from rlstudio.core.errors import ConfigError, EnvFault
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.seeds import EpisodeNoise
from rlstudio.experiment.judging import evaluate as evaluation
from rlstudio.experiment.judging.evaluate import WIDTH, Evaluator, evaluate
from support.examples import examples

CFG = EnvConfig(id="Fake-v0")


@cache
def length_of(seed: int, env: int, episode: int) -> int:
    """Mostly short episodes and a few long ones: whoever counts the first to finish is far off."""
    draw = EpisodeNoise(seed, WIDTH, 1).seed(env, episode)
    return 1 + draw % 5 if draw % 3 else 60 + draw % 50


class FakeVecEnv:
    """Pays 1 per step, or what `reward` says, for a number of steps that only the episode decides."""

    spaces = Spaces(Box((3,), "float32", (-1e9,), (1e9,)), Discrete(2))

    def __init__(self, num_envs: int, seed: int, *, exact: str | None = None, reward: float = 1.0) -> None:
        self.num_envs, self.seed, self.exact, self.reward = num_envs, seed, exact, reward
        self.episodes, self.clock = np.zeros(num_envs, int), np.zeros(num_envs, int)
        self.closed = False

    def reset(self) -> np.ndarray:
        self.episodes[:], self.clock[:] = 0, 0
        return self._observe()

    def step(self, actions: np.ndarray) -> Step:
        assert actions.shape == (self.num_envs,)
        self.clock += 1
        successors = self._observe()
        lengths = [length_of(self.seed, i, int(e)) for i, e in enumerate(self.episodes)]
        ended = self.clock >= lengths
        self.episodes += ended
        self.clock[ended] = 0
        rewards = np.full(self.num_envs, self.reward, np.float32)
        return Step(self._observe(), successors, rewards, ended, np.zeros(self.num_envs, bool), {})

    def position(self) -> State:
        return {"episodes": self.episodes, "clock": self.clock}  # its own arrays: the evaluator must not trust them

    def seek(self, position: State) -> np.ndarray:
        self.episodes[:], self.clock[:] = position["episodes"], position["clock"]
        return self._observe()

    def close(self) -> None:
        self.closed = True

    def _observe(self) -> np.ndarray:
        return np.stack([np.arange(self.num_envs), self.episodes, self.clock], axis=-1).astype(np.float32)


class FakeAgent:
    """Remembers what it saw; its carry counts the steps since the episode started."""

    acting = "numpy"

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []
        self._buffer: dict[str, Any] | None = None

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        raise AssertionError("evaluation draws no noise")

    def step(self, observations: Any, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
        assert noise is None
        count = np.zeros(len(observations)) if carry is None else carry["count"][0]
        np.testing.assert_array_equal(count, observations[:, 2])
        self.seen.append(observations.copy())
        return Acted(np.zeros(len(observations), np.int64), {}, {"count": (count + 1,)})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeVecEnv]:
    """The environments made during a test; `Fake-v0` is known to nobody else."""
    envs: list[FakeVecEnv] = []

    def make(cfg: EnvConfig, *, num_envs: int, seed: int, vectorization: str) -> FakeVecEnv:
        envs.append(FakeVecEnv(num_envs, seed))
        return envs[-1]

    monkeypatch.setattr(evaluation, "make_vec_env", make)
    return envs


# -- which episodes are counted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("episodes", [1, 2, 5, 16, 17, 20, 33, 50])
def test_every_episode_is_counted_once_whatever_its_length(made: list[FakeVecEnv], episodes: int) -> None:
    result = evaluate(FakeAgent(), CFG, episodes=episodes, seed=7)
    (env,) = made
    expected = [length_of(env.seed, k % env.num_envs, k // env.num_envs) for k in range(episodes)]
    assert list(result.lengths) == expected
    assert list(result.returns) == expected
    assert result.summary.n == episodes
    assert result.summary.mean == pytest.approx(np.mean(expected))
    assert env.num_envs <= min(WIDTH, episodes)


def test_taking_the_first_to_finish_would_be_biased(made: list[FakeVecEnv]) -> None:
    """The test world tells the two apart: long episodes are missing among the first to finish."""
    result = evaluate(FakeAgent(), CFG, episodes=32, seed=7)
    (env,) = made
    first: list[int] = []
    raced = FakeVecEnv(env.num_envs, env.seed)
    raced.reset()
    started, clock = np.zeros(env.num_envs, int), 0
    while len(first) < 32:
        clock += 1
        (ended,) = raced.step(np.zeros(env.num_envs, int)).terminated.nonzero()
        first += (clock - started[ended]).tolist()
        started[ended] = clock
    assert np.mean(first) < 0.5 * result.summary.mean


@examples(30)
@given(st.integers(1, 100))
def test_no_environment_is_without_an_episode(episodes: int) -> None:
    evaluator = Evaluator(CFG, episodes=episodes, seed=0, vectorization="sync")
    rounds = -(-episodes // evaluator.num_envs)
    assert evaluator.num_envs <= WIDTH
    assert (rounds - 1) * evaluator.num_envs < episodes <= rounds * evaluator.num_envs
    assert rounds == -(-episodes // WIDTH)


@pytest.mark.usefixtures("made")
def test_carry_starts_afresh_with_each_episode() -> None:
    """FakeAgent asserts it at every step; here, that episodes did follow each other."""
    agent = FakeAgent()
    evaluate(agent, CFG, episodes=40, seed=1)
    assert max(seen[:, 1].max() for seen in agent.seen) >= 2


# -- the same each time ---------------------------------------------------------------------------------------------


def test_twice_gives_the_same_with_kept_and_with_new_environments(made: list[FakeVecEnv]) -> None:
    with Evaluator(CFG, episodes=20, seed=3) as kept:
        first, second = kept.run(FakeAgent()), kept.run(FakeAgent())
    assert len(made) == 1
    assert made[0].closed
    assert first == second == evaluate(FakeAgent(), CFG, episodes=20, seed=3)


def test_an_interrupted_evaluation_leaves_no_trace(made: list[FakeVecEnv]) -> None:
    class Failing(FakeAgent):
        def step(self, observations: Any, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
            if len(self.seen) == 9:
                raise KeyboardInterrupt
            return super().step(observations, carry, noise)

    with Evaluator(CFG, episodes=20, seed=3) as kept:
        with pytest.raises(KeyboardInterrupt):
            kept.run(Failing())
        after = kept.run(FakeAgent())
    assert after == evaluate(FakeAgent(), CFG, episodes=20, seed=3)


def test_environments_that_cannot_go_back_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeVecEnv] = []

    def make(cfg: EnvConfig, *, num_envs: int, seed: int, vectorization: str) -> FakeVecEnv:
        made.append(FakeVecEnv(num_envs, seed, exact="cannot be seeded"))
        return made[-1]

    monkeypatch.setattr(evaluation, "make_vec_env", make)
    with Evaluator(CFG, episodes=4, seed=3) as kept:
        assert kept.run(FakeAgent()) == kept.run(FakeAgent())
    assert [env.closed for env in made] == [True, True]


def test_seed_and_purpose_choose_the_episodes(made: list[FakeVecEnv]) -> None:
    results = [
        evaluate(FakeAgent(), CFG, episodes=20, seed=seed, purpose=purpose)  # type: ignore[arg-type]
        for seed in (1, 2)
        for purpose in ("selection", "report")
    ]
    assert len({env.seed for env in made}) == 4
    assert len(set().union(*(result.seeds for result in results))) == 80
    assert evaluate(FakeAgent(), CFG, episodes=20, seed=1, purpose="selection") == results[0]


def test_seeds_are_those_of_the_environments(made: list[FakeVecEnv]) -> None:
    result = evaluate(FakeAgent(), CFG, episodes=20, seed=1)
    noise = EpisodeNoise(made[0].seed, 10, 1)
    assert result.seeds == tuple(noise.seed(k % 10, k // 10) for k in range(20))


# -- what comes out -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("made")
def test_best_worst_metrics_and_json() -> None:
    result = evaluate(FakeAgent(), CFG, episodes=20, seed=5)
    assert result.returns[result.best] == max(result.returns)
    assert result.returns[result.worst] == min(result.returns)
    metrics = result.metrics()
    assert metrics["eval/return_mean"] == result.summary.mean
    assert metrics["eval/return_iqm"] == result.summary.iqm
    assert metrics["eval/return_ci_low"] <= metrics["eval/return_mean"] <= metrics["eval/return_ci_high"]
    assert metrics["eval/length_mean"] == np.mean(result.lengths)
    assert json.loads(json.dumps(result.to_json()))["summary"]["n"] == 20


def test_bad_input_is_told(monkeypatch: pytest.MonkeyPatch, made: list[FakeVecEnv]) -> None:
    with pytest.raises(ConfigError, match=r"eval\.episodes: must be at least 1, got 0"):
        evaluate(FakeAgent(), CFG, episodes=0, seed=0)
    monkeypatch.setattr(evaluation, "LONGEST", 5)
    with pytest.raises(ConfigError, match=r"env\.max_episode_steps.*Fake-v0.*within 5 steps"):
        evaluate(FakeAgent(), CFG, episodes=20, seed=0)
    longer = CFG.model_copy(update={"max_episode_steps": 1_000})
    assert len(evaluate(FakeAgent(), longer, episodes=20, seed=0).returns) == 20, "asked for, so it may take longer"
    assert all(env.closed for env in made)


def test_a_reward_that_is_not_finite_is_a_fault_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(cfg: EnvConfig, *, num_envs: int, seed: int, vectorization: str) -> FakeVecEnv:
        return FakeVecEnv(num_envs, seed, reward=float("nan"))

    monkeypatch.setattr(evaluation, "make_vec_env", make)
    with pytest.raises(EnvFault, match=r"Fake-v0: evaluation episode \d+ \(env \d+, seed \d+\) returned nan"):
        evaluate(FakeAgent(), CFG, episodes=3, seed=0)


# -- real environments ----------------------------------------------------------------------------------------------


class Chaser:
    """Pushes CartPole's cart under the falling pole."""

    acting = "numpy"

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> np.ndarray:
        raise AssertionError("evaluation draws no noise")

    def step(self, observations: Any, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
        return Acted((observations[:, 2] > 0).astype(np.int64), {}, None)


@pytest.mark.parametrize("vectorization", ["auto", "native"])
def test_cartpole_evaluates_alike_with_kept_and_new_environments(vectorization: Any) -> None:
    cfg = EnvConfig(id="CartPole-v1")
    with Evaluator(cfg, episodes=20, seed=3, vectorization=vectorization) as kept:
        runs = [kept.run(Chaser()) for _ in range(3)]
    assert runs[0] == runs[1] == runs[2] == evaluate(Chaser(), cfg, episodes=20, seed=3, vectorization=vectorization)
    assert 20 < runs[0].summary.mean < 100


def test_auto_is_the_real_environment_and_its_seeds_replay_it() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    result = evaluate(Chaser(), EnvConfig(id="CartPole-v1", vectorization="native"), episodes=18, seed=3)
    assert result.vectorization == "sync"
    for seed, length in zip(result.seeds, result.lengths, strict=True):
        env = gymnasium.make("CartPole-v1")
        observation, _ = env.reset(seed=seed)
        steps, over = 0, False
        while not over:
            observation, _, terminated, truncated, _ = env.step(int(observation[2] > 0))
            steps, over = steps + 1, terminated or truncated
        assert steps == length


def test_native_and_real_cartpole_agree_in_distribution() -> None:
    cfg = EnvConfig(id="CartPole-v1")
    real, native = (evaluate(Chaser(), cfg, episodes=200, seed=3, vectorization=v).summary for v in ("sync", "native"))  # type: ignore[arg-type]
    assert max(real.ci_low, native.ci_low) < min(real.ci_high, native.ci_high)


def test_worlds_of_our_own_are_their_own_truth() -> None:
    class Down(Chaser):
        def step(self, observations: Any, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
            return Acted(np.ones(len(observations), np.int64), {}, None)

    cfg = EnvConfig(id="rlstudio/GridWorld-v0", max_episode_steps=10)
    wrapped = cfg.model_copy(update={"wrappers": ("FlattenObservation",)})
    for case, kind in ((cfg, "native"), (wrapped, "sync")):
        result = evaluate(Down(), case, episodes=3, seed=0)
        assert result.vectorization == kind
        assert result.returns == (-10.0, -10.0, -10.0)
