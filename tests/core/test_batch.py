"""Batch: the rules of the architecture document, one by one."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.batch import Batch


def rows(n: int, **extra) -> Batch:
    base = torch.arange(n, dtype=torch.float32)
    return Batch(
        observations=base[:, None].repeat(1, 3),
        actions=torch.arange(n),
        rewards=base,
        terminated=base % 2 == 0,
        truncated=base % 3 == 0,
        next_observations=base[:, None].repeat(1, 3) + 1,
        **extra,
    )


def test_dones_is_terminated_or_truncated_and_cannot_be_given():
    batch = rows(6)
    assert batch.dones.tolist() == [True, False, True, True, True, False]
    with pytest.raises(ValueError, match="dones is derived"):
        Batch(rewards=torch.zeros(2), dones=torch.zeros(2))


def test_columns_must_share_their_leading_dimensions():
    with pytest.raises(ValueError, match=r"observations \(2,\), rewards \(3,\)"):
        Batch(observations=torch.zeros(2, 4), rewards=torch.zeros(3))
    with pytest.raises(ValueError, match=r"first 2 dimension"):
        Batch(lead=2, observations=torch.zeros(2, 4, 3), rewards=torch.zeros(2, 5))
    with pytest.raises(ValueError, match="at least one column"):
        Batch()


def test_a_missing_column_fails_by_naming_it_and_those_present():
    with pytest.raises(AttributeError, match=r"no column 'advantages'; it has: observations, actions"):
        rows(2).advantages


def test_next_observations_may_be_absent():
    batch = Batch(observations=torch.zeros(2, 1), next_observations=None)
    assert "next_observations" not in batch


def test_with_gives_a_new_batch_that_shares_the_other_columns():
    batch = rows(4)
    more = batch.with_(values=torch.ones(4))
    assert "values" not in batch
    assert more.rewards is batch.rewards
    assert batch.without("actions").names == tuple(n for n in batch.names if n != "actions")


def test_dict_observations_are_selected_flattened_and_merged_leaf_by_leaf():
    observations = {"position": torch.arange(6.0).view(3, 2, 1), "image": torch.zeros(3, 2, 4, 4, dtype=torch.uint8)}
    rollout = Batch(lead=2, observations=observations, rewards=torch.arange(6.0).view(3, 2))
    flat = rollout.flatten()
    assert flat.observations["position"].shape == (6, 1)
    assert flat.observations["image"].shape == (6, 4, 4)
    picked = flat.select(torch.tensor([5, 0]))
    assert picked.observations["position"].flatten().tolist() == [5.0, 0.0]
    assert Batch.merge([picked, picked]).observations["position"].shape == (4, 1)


def test_infos_follow_the_rows_in_both_forms():
    listed = rows(3, infos=[{"i": 0}, {"i": 1}, {"i": 2}])
    assert listed.select(torch.tensor([2, 0])).infos == [{"i": 2}, {"i": 0}]
    columns = rows(3, infos={"i": [0, 1, 2]})
    assert columns.select(torch.tensor([True, False, True])).infos == {"i": [0, 2]}
    assert Batch.merge([columns, columns]).infos == {"i": [0, 1, 2, 0, 1, 2]}
    with pytest.raises(ValueError, match="2 entries for 3 rows"):
        rows(3, infos=[{}, {}])


def test_merge_refuses_nothing_and_different_columns():
    with pytest.raises(ValueError, match="at least one"):
        Batch.merge([])
    with pytest.raises(ValueError, match="columns differ"):
        Batch.merge([rows(2), rows(2).without("actions")])


@given(st.integers(1, 20), st.data())
def test_select_equals_indexing_every_column(n, data):
    batch = rows(n)
    indices = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=30)))
    picked = batch.select(indices)
    for name in batch.names:
        assert torch.equal(getattr(picked, name), getattr(batch, name)[indices])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_merge_then_select_gives_the_parts_back(sizes):
    parts = [rows(n) for n in sizes]
    whole = Batch.merge(parts)
    assert len(whole) == sum(sizes)
    start = 0
    for part in parts:
        again = whole.select(slice(start, start + len(part)))
        assert all(torch.equal(getattr(again, name), getattr(part, name)) for name in part.names)
        start += len(part)


def test_to_keeps_columns_that_are_already_there():
    batch = rows(2)
    assert batch.to("cpu").rewards is batch.rewards


def test_only_gives_keyword_arguments():
    assert list(rows(2).only(("observations", "actions"))) == ["observations", "actions"]


def test_a_batch_can_be_copied():
    batch = rows(3)
    for again in (copy.copy(batch), copy.deepcopy(batch)):
        assert again.names == batch.names
        assert torch.equal(again.rewards, batch.rewards)


def test_arrays_are_the_memory_of_their_column_also_in_a_copy():
    batch = rows(3, carry={"h": torch.zeros(3)})
    assert batch.array("rewards") is batch.array("rewards")
    for one in (batch, copy.deepcopy(batch)):
        one.rewards[1] = 7.0
        one.carry["h"][1] = 8.0
        assert (one.array("rewards")[1], one.array("carry")["h"][1]) == (7.0, 8.0)
