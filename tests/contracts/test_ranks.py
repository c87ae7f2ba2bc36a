"""Algorithms in ranks: several processes that learn one policy, each from environments of its own.

Ranks are threads here, and their group notices a call that not all of them make: in earnest that rank waits for ever.
"""

import numpy as np
import pytest
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import ReplayPlan, Step
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Discrete
from rlstudio.data.runtime import LocalRuntime
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.normalizer import Normalizer
from rlstudio.models.planning.value import LearnedValue
from rlstudio.ops.group import ALONE, Alone
from rlstudio.testing.trainers import as_loaded
from support.runtimes import (
    STAND_IN_ALGOS,
    Game,
    Idle,
    Marking,
    SlicedRuntime,
    in_ranks,
    run_through,
    trainer_over,
    weights,
    world,
)


class NotFinite:
    """An environment whose rewards are no numbers for a while: the rows do not count, in one rank only."""

    def __init__(self, env) -> None:
        self.env, self.steps = env, 0

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, actions: np.ndarray) -> Step:
        step, self.steps = self.env.step(actions), self.steps + 1
        if self.steps in (5, 6, 40):
            return step._replace(rewards=np.full_like(step.rewards, np.nan))
        return step


SETTINGS = {
    "ppo": {"target_kl": 1e-3, "passes": 4, "normalize_rewards": True, "lr": 3e-2},
    "a2c": {"normalize_advantages": True, "normalize_rewards": True},
    "mbmpc": {"n_step": 2, "policy_loss": "advantage"},
}


@pytest.mark.parametrize("algo", STAND_IN_ALGOS)
def test_ranks_that_see_different_rows_call_the_same_and_hold_the_same_weights(algo):
    def learn(group):
        env = world(algo, seed=3 + group.rank)
        runtime = LocalRuntime(NotFinite(env) if group.rank else env, replay_capacity=256, group=group)
        trainer = trainer_over(runtime, algo, **SETTINGS.get(algo, {}))
        run_through(trainer, 2)
        return trainer

    (first, second), meeting = in_ranks(2, learn)
    assert "mean" in meeting.calls
    assert torch.equal(weights(first), weights(second))
    for name, tensor in first.agent.model.state_dict().items():
        assert torch.equal(tensor, second.agent.model.state_dict()[name]), name
    assert first.source.last is not None
    assert not torch.equal(first.source.last.observations, second.source.last.observations)
    if "normalize_rewards" in SETTINGS.get(algo, {}):
        assert torch.equal(first.reward_scale.std, second.reward_scale.std)
    if algo == "ppo":
        assert "any" in meeting.calls
        assert first.gradient_steps < first.batcher.count * first.cfg.passes, "the stop was never reached"


class OneRolloutAhead:
    """A rank that has collected one rollout more than the others, so that its new rows come at other moments."""

    def __init__(self, collector) -> None:
        self.collector, self.begun = collector, False

    def __getattr__(self, name):
        return getattr(self.collector, name)

    def fragments(self, steps):
        more, self.begun = 0 if self.begun else 4, True
        return self.collector.fragments(steps + more)


class SecondOfTwo(Alone):
    """The group of a rank that is asked for nothing here."""

    rank, size = 1, 2


def test_exploration_in_a_rank_goes_by_the_steps_and_environments_of_the_whole_run():
    runtime = LocalRuntime(world("dqn"), replay_capacity=64, group=SecondOfTwo())
    assert (runtime.num_envs, runtime.run_envs) == (2, 4)
    explore = Marking(24)
    source = runtime.replay(Idle(), Rng(0), ReplayPlan(4, warmup=24, every=8, updates=2), explore)
    for samples in range(1, 6):
        source.next()
        assert source.env_steps == 24 + (samples - 1) // 2 * 8
    assert [place.env_steps for place in explore.places] == list(range(4, 44, 4))
    assert {place.num_envs for place in explore.places} == {4}
    assert all(place.envs.tolist() == [2, 3] for place in explore.places)
    assert source.replay.counts.tolist() == [10, 10], "rows go into the columns of this rank"


def test_slices_in_a_rank_have_numbers_of_the_run_and_columns_of_the_rank():
    runtime = SlicedRuntime([world("dqn", 2, 3), world("dqn", 1, 4)], group=SecondOfTwo())
    source = runtime.replay(Idle(), Rng(0), ReplayPlan(4, warmup=24, every=12), Marking(24))
    for _ in range(3):
        source.next()
    first, second = (part.exploration.explore.places for part in source.collector.slices)
    assert {tuple(place.envs.tolist()) for place in first} == {(3, 4)}
    assert {tuple(place.envs.tolist()) for place in second} == {(5,)}
    assert {place.num_envs for place in (*first, *second)} == {6}
    assert source.replay.counts.tolist() == [len(first), len(first), len(second)]


@pytest.mark.parametrize("kind", ["alone", "rank", "slices", "turns", "slices of turns"])
def test_a_source_knows_which_rows_are_of_the_random_start(kind):
    """By the steps of the whole run: not by the numbers of rows, which are this rank's and pass over those who wait."""
    games = [Game(count, Discrete(3), garbage=0.0) for count in (1, 2)]
    runtime = {
        "alone": lambda: LocalRuntime(world("dqn"), replay_capacity=256),
        "rank": lambda: LocalRuntime(world("dqn"), replay_capacity=256, group=SecondOfTwo()),
        "slices": lambda: SlicedRuntime([world("dqn", 2, 3), world("dqn", 2, 4)]),
        "turns": lambda: LocalRuntime(games[1], replay_capacity=256),
        "slices of turns": lambda: SlicedRuntime(games),
    }[kind]()
    steps = 12 * runtime.run_envs
    plan = ReplayPlan(4, warmup=steps, every=4 * runtime.run_envs)
    source = runtime.replay(Idle(), Rng(0), plan, Marking(steps))
    for _ in range(6):
        source.next()
    resumed = runtime.replay(Idle(), Rng(0), plan, Marking(steps))
    resumed.load_state_dict(as_loaded(source.state_dict()))
    for one in (source, resumed):
        rows = one.replay.all()
        random = rows.actions == 0
        assert random.any()
        assert not random.all()
        assert torch.equal(one.after_warmup(rows.rows), ~random)


OUT_OF_STEP = {
    "mbmpc": {"n_step": 2, "train_every": 8, "gradient_steps": 2, "policy_loss": "advantage"},
    "diffusion": {
        "train_every": 8,
        "gradient_steps": 3,
        "gamma": 0.9,
        "dynamics": {"kind": "mlp", "hidden_sizes": [4]},
        "planner": {"horizon": 3, "candidates": 4, "levels": 2, "value": "own"},
    },
}


@pytest.mark.parametrize("algo", OUT_OF_STEP)
def test_ranks_whose_new_rows_come_at_different_moments_call_the_same(algo):
    """The statistics are of the rows of all ranks, and every rank takes part with those it has, even none."""

    def learn(group):
        trainer = trainer_over(LocalRuntime(world(algo, seed=3), replay_capacity=256, group=group), algo, **settings)
        if group.rank:
            trainer.source.collector = OneRolloutAhead(trainer.source.collector)
        held = []
        for _ in range(6):
            trainer.train_step()
            held.append(trainer.source.size)
        return trainer, np.diff(held) > 0

    settings = OUT_OF_STEP[algo]
    ((first, rows), (second, others)), _ = in_ranks(2, learn)
    assert (rows != others).any(), "the ranks were in step"
    for name, tensor in first.agent.model.state_dict().items():
        assert torch.equal(tensor, second.agent.model.state_dict()[name]), name


def test_statistics_of_ranks_are_those_of_all_their_rows():
    """One rank has three rows and the other two, or none: the same as one process with all of them."""
    rows = torch.tensor([[1.0], [2.0], [4.0], [8.0], [9.0]])

    def learn(group, parts):
        learned = Normalizer(1), LearnedValue(1, NetworkConfig(hidden_sizes=(4,)), Rng(0), gamma=0.9)
        for part in parts:
            own = part[group.rank]
            batch = Batch(
                observations=own,
                next_observations=own + 1.0,
                rewards=own[:, 0],
                discounts=own[:, 0],
                terminated=own[:, 0] > 8,
                truncated=own[:, 0] > 99,
            )
            learned[0].update(own, group=group)
            learned[1].learn_statistics(batch, group)
            learned[1].judge(batch, group)
        return [part.state_dict() for part in learned]

    none = rows[:0]
    parts = [(rows[:3], none), (none, none), (rows[3:4], rows[4:])]
    (first, second), _ = in_ranks(2, lambda group: learn(group, parts))
    alone = learn(ALONE, [(rows[:3],), (none,), (rows[3:],)])
    for states in zip(first, second, alone, strict=True):
        for name, tensor in states[2].items():
            torch.testing.assert_close(states[0][name], tensor)
            assert torch.equal(states[0][name], states[1][name])


def test_a_normalizer_that_has_seen_no_row_changes_nothing():
    learned, _ = in_ranks(2, _normalizer_of_no_rows)
    for normalizer in (*learned, _normalizer_of_no_rows(ALONE)):
        assert normalizer(torch.tensor([[0.5]])).item() == 0.5


def _normalizer_of_no_rows(group):
    normalizer = Normalizer(1)
    normalizer.update(torch.zeros(0, 1), group=group)
    return normalizer


def test_a_group_notices_a_call_that_only_one_rank_makes():
    def differ(group):
        group.any(torch.tensor(True)) if group.rank else group.sum(torch.tensor(1.0))

    with pytest.raises(AssertionError, match="the ranks called different things"):
        in_ranks(2, differ)


@pytest.mark.parametrize("bad", [False, True])
def test_the_gradient_of_two_ranks_is_that_of_all_their_rows(bad):
    """A2C updates with a whole rollout at once: two ranks move as one process with both halves does."""
    rollouts = []

    def learn(group):
        runtime = LocalRuntime(world("a2c", seed=3 + group.rank), replay_capacity=256, group=group)
        trainer = trainer_over(runtime, "a2c", normalize_advantages=True)
        rollout = trainer.source.next()
        if bad and group.rank:
            rollout = rollout.with_(weights=torch.tensor([[1.0, 0.0]]).expand(rollout.shape).clone())
        rollouts.append((group.rank, rollout))
        trainer.update(rollout)
        return trainer

    (first, _), _ = in_ranks(2, learn)
    both = [rollout for _, rollout in sorted(rollouts, key=lambda pair: pair[0])]
    both = [one if "weights" in one else one.with_(weights=torch.ones(one.shape)) for one in both]
    whole = Batch(lead=2, **{name: torch.cat([getattr(one, name) for one in both], 1) for name in both[0].names})
    alone = trainer_over(LocalRuntime(world("a2c", 4), replay_capacity=256), "a2c", normalize_advantages=True)
    alone.update(whole)
    torch.testing.assert_close(weights(first), weights(alone), atol=1e-5, rtol=1e-4)
