import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.ops.means import explained_variance, standardize, weighted_mean
from rlstudio.ops.running import merge_moments
from rlstudio.ops.schedules import learning_rate, linear

seeds = st.integers(0, 10**6)


def draw(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(seeds, st.integers(2, 30))
def test_rows_of_weight_zero_do_not_count(seed, n):
    values = draw(seed, n)
    weights = (draw(seed + 1, n) > 0).float()
    kept = values[weights > 0]
    if len(kept) > 1:
        assert torch.allclose(weighted_mean(values, weights), kept.mean(), atol=1e-5)
        poisoned = torch.where(weights > 0, values, 1e3)
        inside = standardize(poisoned, weights)[weights > 0]
        expected = (kept - kept.mean()) / (kept.std(correction=0) + 1e-8)
        assert torch.allclose(inside, expected, atol=1e-3)


def test_no_weights_means_all_the_same():
    values = draw(3, 17)
    ones = torch.ones(17)
    assert torch.allclose(weighted_mean(values, None), weighted_mean(values, ones))
    assert abs(standardize(values, None).mean().item()) < 1e-6
    assert weighted_mean(values, torch.zeros(17)).item() == 0.0


def test_explained_variance_closed_forms():
    targets = draw(1, 100)
    assert explained_variance(targets, targets).item() == 1.0
    assert abs(explained_variance(torch.zeros(100), targets).item()) < 1e-6
    assert torch.isnan(explained_variance(targets, torch.ones(100)))


@given(seeds, st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_moments_merged_by_blocks_equal_those_of_the_whole(seed, sizes):
    count, mean, square = torch.zeros((), dtype=torch.float64), torch.zeros(2).double(), torch.zeros(2).double()
    blocks = [draw(seed + i, n, 2).double() * 3 + 5 for i, n in enumerate(sizes)]
    for block in blocks:
        count, mean, square = merge_moments(count, mean, square, block)
    whole = torch.cat(blocks)
    assert count.item() == len(whole)
    assert torch.allclose(mean, whole.mean(0))
    assert torch.allclose(square / count, whole.var(0, correction=0), atol=1e-9)


@given(seeds)
def test_moments_leave_out_rows_of_weight_zero(seed):
    rows = draw(seed, 10, 3).double()
    weights = torch.tensor([1.0, 0, 1, 1, 0, 1, 1, 0, 1, 1])
    start = torch.zeros((), dtype=torch.float64), torch.zeros(3).double(), torch.zeros(3).double()
    count, mean, square = merge_moments(*start, rows, weights)
    kept = rows[weights > 0]
    assert count.item() == len(kept)
    assert torch.allclose(mean, kept.mean(0))
    assert torch.allclose(square / count, kept.var(0, correction=0))


def test_schedules():
    assert [linear(1.0, 0.1, f, until=0.5) for f in (0.0, 0.25, 0.5, 1.0)] == [1.0, 0.55, 0.1, 0.1]
    assert learning_rate(1e-3, "constant", 0.7) == 1e-3
    assert learning_rate(1e-3, "linear", 0.75) == 0.25e-3


def test_a_lone_row_stands_at_its_own_mean():
    assert standardize(torch.tensor([3.0]), None).item() == 0.0
    assert standardize(torch.tensor([3.0]), torch.ones(1)).item() == 0.0
