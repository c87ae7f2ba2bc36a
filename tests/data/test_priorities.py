"""Prioritised replay: the tree against plain sums, sampling against its stated distribution, weights by the formula."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.contracts import PriorityPlan, ReplayPlan
from rlstudio.core.rng import Rng
from rlstudio.data.replay.numbering import Numbering
from rlstudio.data.replay.priorities import Priorities, SumTree
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import QValue


@given(st.integers(1, 70), st.lists(st.tuples(st.integers(0, 69), st.floats(0, 1e6)), max_size=60), st.integers(1, 9))
def test_a_tree_holds_the_sums_of_its_leaves_and_is_the_same_when_built_again(slots, writes, chunk):
    tree, expected = SumTree(slots), np.zeros(slots)
    for at in range(0, len(writes), chunk):
        some = {slot % slots: value for slot, value in writes[at : at + chunk]}
        expected[list(some)] = list(some.values())
        tree.set(np.array(list(some), np.int64), np.array(list(some.values())))
    assert np.array_equal(tree.leaves, expected)
    assert tree.total == pytest.approx(expected.sum())
    again = SumTree(slots)
    again.set(np.arange(slots), expected)
    assert np.array_equal(again.nodes, tree.nodes)


@given(st.lists(st.sampled_from([0.0, 1e-30, 0.1, 1 / 3, 1.0, 1e9]), min_size=1, max_size=40), st.integers(0, 1000))
def test_found_leaves_are_those_of_a_cumulative_sum_and_never_empty(values, seed):
    tree = SumTree(len(values))
    tree.set(np.arange(len(values)), np.array(values))
    if tree.total == 0:
        return
    mass = np.r_[np.random.default_rng(seed).random(50) * tree.total, 0.0, tree.total, np.nextafter(tree.total, 0)]
    found = tree.find(mass)
    assert (tree.leaves[found] > 0).all()
    edges = np.cumsum(values)
    before = edges[found] - np.array(values)[found]
    slack = 1e-9 * tree.total
    assert (mass >= before - slack).all()
    assert (mass <= edges[found] + slack).all()


def of_ring(slots: int, alpha: float = 0.6, beta: float = 0.4, eps: float = 1e-6, horizon: int = 1, envs: int = 1):
    return Priorities(Numbering(slots, envs), horizon, PriorityPlan(alpha, beta, 1.0, eps))


def grow(priorities: Priorities, added: int) -> None:
    """The ring now counts so many rows."""
    numbering = priorities.numbering
    numbering.extend((added - numbering.added) // numbering.num_envs)
    priorities.extend()


def counted(priorities: Priorities, draws: int, size: int) -> np.ndarray:
    numbers = [priorities.draw(64, np.random.default_rng(seed))[0] for seed in range(draws)]
    return np.bincount(np.concatenate(numbers), minlength=size)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_rows_are_drawn_in_proportion_to_their_priorities(alpha):
    errors = np.linspace(0.1, 4.0, 40) * np.where(np.arange(40) % 2, -1, 1)
    priorities = of_ring(40, alpha)
    grow(priorities, 40)
    priorities.feedback(np.arange(40), errors)
    seen = counted(priorities, 2000, 40)

    def chi_square(power: float) -> float:
        shares = (np.abs(errors) + 1e-6) ** power
        expected = seen.sum() * shares / shares.sum()
        return float(((seen - expected) ** 2 / expected).sum())

    # 72 is the 0.1 % point with 39 degrees of freedom; drawing from stretches keeps well below it.
    assert chi_square(alpha) < 72
    assert chi_square(alpha + 0.05) > 72
    assert chi_square(alpha - 0.05) > 72


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_weights_are_those_of_the_formula(beta):
    rng = np.random.default_rng(3)
    errors = rng.standard_normal(30)
    priorities = of_ring(30, 0.7, beta, 1e-3)
    grow(priorities, 30)
    priorities.feedback(np.arange(30), errors)
    numbers, weights = priorities.draw(16, rng)
    shares = (np.abs(errors) + 1e-3) ** 0.7
    raw = (30 * shares / shares.sum())[numbers] ** -beta
    assert weights.dtype == np.float32
    assert weights == pytest.approx(raw / raw.max(), rel=1e-6)


def test_a_new_row_has_the_highest_priority_so_far():
    priorities = of_ring(8, 0.5)
    grow(priorities, 4)
    assert priorities.tree.leaves.tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    priorities.feedback(np.array([0, 1]), np.array([9.0, 0.25]))
    priorities.feedback(np.array([0]), np.array([0.0]))
    grow(priorities, 5)
    assert priorities.tree.leaves[4] == pytest.approx(3.0)
    assert priorities.tree.leaves[0] == pytest.approx(1e-3)


def test_of_a_row_drawn_twice_the_larger_error_counts_whatever_the_order():
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        priorities = of_ring(4, 1.0)
        grow(priorities, 4)
        priorities.feedback(np.array([2, 2, 2])[order], np.array([0.5, -3.0, 1.0])[order])
        assert priorities.tree.leaves[2] == pytest.approx(3.0)
        assert priorities.tree.total == pytest.approx(6.0)


def test_errors_that_are_no_numbers_and_rows_that_are_gone_are_passed_over():
    priorities = of_ring(4, 1.0)
    grow(priorities, 4)
    priorities.feedback(np.array([1, 2]), np.array([np.nan, np.inf]))
    assert priorities.tree.leaves.tolist() == [1, 1, 1, 1]
    grow(priorities, 6)  # rows 0 and 1 were overwritten by 4 and 5
    priorities.feedback(np.array([0, 3]), np.array([50.0, 7.0]))
    assert priorities.tree.leaves.tolist() == pytest.approx([1, 1, 1, 7])
    assert priorities.highest == pytest.approx(7)


@given(st.integers(1, 3), st.integers(1, 4), st.integers(4, 9), st.lists(st.integers(1, 7), min_size=1, max_size=12))
def test_exactly_the_rows_whose_window_is_held_are_drawn(envs, horizon, steps, chunks):
    slots, window = steps * envs, (horizon - 1) * envs
    priorities = of_ring(slots, horizon=horizon, envs=envs)
    added = 0
    for chunk in chunks:
        added += chunk * envs
        grow(priorities, added)
        allowed = set(range(max(added - slots, 0), added - window))
        held = np.flatnonzero(priorities.tree.leaves)
        assert {added - 1 - (added - 1 - slot) % slots for slot in held.tolist()} == allowed
        if allowed:
            numbers, _ = priorities.draw(32, np.random.default_rng(added))
            assert set(numbers.tolist()) <= allowed
            priorities.feedback(numbers, np.random.default_rng(added).standard_normal(32))


def test_an_empty_ring_cannot_be_drawn_from():
    priorities = of_ring(10, horizon=4)
    grow(priorities, 3)
    with pytest.raises(ValueError, match="replay holds 3 rows, no window of 4 steps among them"):
        priorities.draw(2, np.random.default_rng(0))


def test_restored_priorities_draw_the_same_rows_with_the_same_weights():
    one = of_ring(50, horizon=3)
    generator = np.random.default_rng(0)
    for added in range(10, 130, 7):
        grow(one, added)
        numbers, _ = one.draw(16, generator)
        one.feedback(numbers, generator.standard_normal(16))
    state = one.state_dict()
    assert state["values"].dtype == np.float32
    assert len(state["values"]) == 50
    other = of_ring(50, horizon=3)
    grow(other, 20)  # whatever was there before is forgotten
    other.numbering.set(one.numbering.counts)
    other.load_state_dict(state)
    assert np.array_equal(one.tree.nodes, other.tree.nodes)
    for seed in range(5):
        for priorities in (one, other):
            grow(priorities, 130 + seed)
        mine, theirs = (p.draw(16, np.random.default_rng(seed)) for p in (one, other))
        assert np.array_equal(mine[0], theirs[0])
        assert np.array_equal(mine[1], theirs[1])


def source(horizon: int = 1) -> ReplaySource:
    runtime = LocalRuntime(make_vec_env(EnvConfig(id="CartPole-v1", num_envs=2, seed=3)), replay_capacity=40)
    model = build_model(QValue, runtime.spaces, NetworkConfig(hidden_sizes=(8,)), Rng(0))
    plan = ReplayPlan(16, warmup=10, every=2, horizon=horizon, gamma=0.9, priorities=PriorityPlan(0.6, 0.4, 1.0, 1e-6))
    made = runtime.replay(QValueAgent(model, runtime.spaces), Rng(1), plan)
    assert isinstance(made, ReplaySource)
    return made


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_source_with_priorities_yields_the_rows_it_says_and_hears_of_their_errors(horizon):
    drawn = source(horizon)
    for _ in range(40):
        batch = drawn.next()
        again = drawn.replay.at(batch.rows.numpy(), horizon, 0.9)
        assert torch.equal(again.observations, batch.observations)
        assert torch.equal(again.discounts, batch.discounts)
        assert batch.weights.max() == 1
        drawn.feedback(batch.rows, batch.observations[:, 0])
    expected = (batch.observations[:, 0].abs().double() + 1e-6) ** 0.6
    held = torch.from_numpy(drawn.priorities.tree.leaves[batch.rows.numpy() % 40])
    assert torch.allclose(held, expected, rtol=1e-5)


def test_importance_multiplies_the_weights_of_the_rows_themselves():
    drawn = source()
    drawn.next()
    drawn.replay.store.columns["weights"][::2] = 0.0
    drawn.replay.store.weighted = True
    drawn.priorities.feedback(np.arange(10), np.linspace(0.1, 2.0, 10))
    batch = drawn.next()
    assert torch.equal(batch.weights == 0, (batch.rows % 2 == 0) & (batch.rows < 10))
    assert len(set(batch.weights[batch.weights > 0].tolist())) > 2
