"""Chosen keys of the infos as columns: in rollouts, in replay, and per episode; and nothing of them where none is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import ReplayPlan
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces, Stack
from rlstudio.data.collect.collector import Collector
from rlstudio.data.collect.episodes import EpisodeLog
from rlstudio.data.collect.turns import OpenDecisions, decisions
from rlstudio.data.replay.buffer import ReplayBuffer, row_bytes
from rlstudio.data.replay.rows import row_dtype
from rlstudio.data.replay.source import ReplaySource
from rlstudio.data.replay.windows import transitions
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.policy_value import PolicyValue
from support.env_toys import register_toys

KEYS = ("is_success", "ones")
LINE = Spaces(Box((2,), "float32", (0.0,), (6.0,)), Discrete(2), KEYS)


@pytest.fixture(autouse=True)
def _toys() -> None:
    register_toys()


def collector(infos: tuple[str, ...] = KEYS, num_envs: int = 3) -> Collector:
    env = make_vec_env(EnvConfig(id="toys/Errand-v0", num_envs=num_envs, seed=5, infos=infos))
    model = build_model(PolicyValue, env.spaces, NetworkConfig(hidden_sizes=(4,)), Rng(5))
    return Collector(env, PolicyAgent(model, env.spaces), Rng(5).fork("collector"))


def true_infos(batch: Batch) -> dict[str, torch.Tensor]:
    """What the env gives, read off what it shows."""
    taken, ones = batch.next_observations.unbind(-1)
    return {"is_success": torch.where(batch.terminated, (2 * ones > taken).float(), torch.nan), "ones": ones}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[key].nan_to_num(-9), right[key].nan_to_num(-9)) for key in left
    )


# -- rollouts ----------------------------------------------------------------------------------------------------------


def test_a_rollout_has_a_column_for_each_key() -> None:
    rollout = collector().collect(30)
    assert rollout.info["is_success"].shape == (30, 3)
    assert same(rollout.info, true_infos(rollout))
    assert rollout.terminated.any()


def test_without_keys_there_is_no_column_and_the_rest_is_the_same() -> None:
    plain, chosen = collector(()), collector()
    left, right = plain.collect(30), chosen.collect(30)
    assert "info" not in left
    assert {*right.names} == {*left.names, "info"}
    assert all(torch.equal(getattr(left, name), getattr(right, name)) for name in left.names)


def test_the_state_is_what_it_was_without_keys_and_holds_the_open_episodes_with_them() -> None:
    plain, chosen = collector(()), collector()
    for one in (plain, chosen):
        one.collect(31)
    before = {"open_returns", "open_lengths", "returns", "lengths"}
    assert set(plain.inspection.episodes.state_dict()) == before
    assert set(chosen.inspection.episodes.state_dict()) == {*before, "infos"}
    assert plain.take().infos == {}


@pytest.mark.parametrize("at", [1, 17])
def test_a_restored_collector_reports_the_same_episodes(at: int) -> None:
    straight, cut, resumed = collector(), collector(), collector()
    straight.collect(at)
    cut.collect(at)
    resumed.load_state_dict(cut.state_dict())
    assert same(straight.collect(23).info, resumed.collect(23).info)
    left, right = straight.take(), resumed.take()
    assert left == right
    assert len(left.infos["ones"]) == len(left.returns) > 3


def test_a_key_that_is_chosen_later_begins_without_numbers() -> None:
    earlier, later = collector(()), collector(("ones",))
    earlier.collect(20)
    later.load_state_dict(earlier.state_dict())
    ended = len(earlier.take().returns)
    assert np.isnan(later.take().infos["ones"]).tolist() == [True] * ended
    assert ended


# -- episodes ----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 4), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(0, 10**6), st.booleans())
def test_the_last_number_of_each_episode_equals_a_slow_search(envs, chunks, seed, turns):
    """With and without agents that wait; cut into blocks anywhere."""
    g = np.random.default_rng(seed)
    log, expected, newest, open_lengths = EpisodeLog(envs, ("x",)), [], [np.nan] * envs, [0] * envs
    for steps in chunks:
        values = np.where(g.random((steps, envs)) < 0.3, g.integers(0, 100, (steps, envs)), np.nan).astype(np.float32)
        dones = g.random((steps, envs)) < 0.3
        active = g.random((steps, envs)) < 0.5 if turns else np.ones((steps, envs), bool)
        log.add(np.zeros_like(values), dones, np.zeros_like(dones), active if turns else None, {"x": values})
        for t in range(steps):
            for b in range(envs):
                open_lengths[b] += active[t, b]
                if not open_lengths[b]:
                    continue
                newest[b] = newest[b] if np.isnan(values[t, b]) else values[t, b]
                if dones[t, b]:
                    expected.append(newest[b])
                    newest[b], open_lengths[b] = np.nan, 0
    restored = EpisodeLog(envs, ("x",))
    restored.load_state_dict(log.state_dict())
    for one in (log, restored):
        returns, _, infos = one.take()
        assert len(returns) == len(expected)
        assert np.array_equal(infos["x"], expected, equal_nan=True)
        assert np.array_equal(one.infos["x"].open, newest, equal_nan=True)


def test_an_episode_that_never_ends_is_forgotten() -> None:
    log = EpisodeLog(2, ("x",))
    nothing = np.zeros((1, 2), bool)
    log.add(np.zeros((1, 2)), nothing, nothing, None, {"x": np.array([[3.0, 4.0]], np.float32)})
    log.forget(np.array([0]))
    silent = {"x": np.full((1, 2), np.nan, np.float32)}
    log.add(np.zeros((1, 2)), ~nothing, nothing, None, silent)
    _, _, infos = log.take()
    assert np.array_equal(infos["x"], [np.nan, 4.0], equal_nan=True)


# -- replay ------------------------------------------------------------------------------------------------------------


def filled(spaces: Spaces = LINE, steps: int = 40) -> tuple[ReplayBuffer, Batch]:
    rollout = collector().collect(steps)
    replay = ReplayBuffer(spaces, 300, 3)
    replay.add(rollout)
    return replay, rollout


def test_samples_of_replay_carry_the_columns() -> None:
    replay, rollout = filled()
    assert same(replay.all().info, rollout.flatten().info)
    sample = replay.sample(64, np.random.default_rng(0))
    assert same(sample.info, true_infos(sample))


def test_an_n_step_row_has_the_info_of_the_step_that_it_ends_with() -> None:
    replay, _ = filled()
    sample = replay.sample(64, np.random.default_rng(0), horizon=3)
    assert same(sample.info, true_infos(sample))
    windows = replay.windows(64, np.random.default_rng(1), horizon=3)
    assert same(windows.info, true_infos(windows))
    ends = transitions(windows, 0.9)
    assert same(ends.info, true_infos(ends))
    assert ends.terminated.any()
    assert not ends.terminated.all()


def test_a_replay_source_gives_them_and_its_state_brings_them_back() -> None:
    plan = ReplayPlan(batch_size=16, warmup=30, every=6)
    sources = [ReplaySource(collector(), ReplayBuffer(LINE, 120, 3), Rng(1), plan) for _ in range(2)]
    for _ in range(5):
        sources[0].next()
    sources[1].load_state_dict(sources[0].state_dict())
    for _ in range(3):
        left, right = (source.next() for source in sources)
        assert same(left.info, true_infos(left))
        assert same(left.info, right.info)


def test_rows_from_before_a_key_was_chosen_have_no_number() -> None:
    plain = ReplayBuffer(replace(LINE, infos=()), 300, 3)
    plain.add(collector(()).collect(10))
    later = ReplayBuffer(LINE, 300, 3)
    later.load_state_dict(plain.state_dict())
    assert torch.equal(later.all().rewards, plain.all().rewards)
    assert all(column.isnan().all() for column in later.all().info.values())


def test_records_without_keys_are_laid_out_as_ever() -> None:
    plain = replace(LINE, infos=())
    names = ["observations", "next_observations", "actions", "rewards", "weights", "terminated", "truncated"]
    assert [*row_dtype(plain).names] == names
    assert [*row_dtype(LINE).names] == [*names, "info.is_success", "info.ones"]
    assert row_bytes(plain) == 40
    replay = ReplayBuffer(plain, 300, 3)
    replay.add(collector(()).collect(10))
    assert "info" not in replay.all()
    (rows,) = replay.state_dict()["ends"].values()
    assert set(rows) == set(names)


def test_frames_carry_them_too() -> None:
    """Stacks of two frames, each frame full of its number in the episode, which the key repeats."""
    spaces = Spaces(Box((2, 3, 3), "uint8", (0,), (255,), Stack(2, "reset")), Discrete(2), ("frame",))
    newest = torch.arange(12, dtype=torch.uint8)
    stacks = torch.stack([(newest - 1).clamp(min=0), newest], 1)[:, None, :, None, None].expand(12, 1, 2, 3, 3)
    rows = 11
    nothing = torch.zeros(rows, 1, dtype=torch.bool)
    replay = ReplayBuffer(spaces, 32, 1)
    replay.add(
        Batch(
            lead=2,
            observations=stacks[:-1].contiguous(),
            next_observations=stacks[1:].contiguous(),
            actions=nothing.long(),
            rewards=torch.zeros(rows, 1),
            terminated=nothing,
            truncated=nothing,
            info={"frame": newest[1:, None].float()},
        )
    )
    sample = replay.sample(20, np.random.default_rng(0))
    assert torch.equal(sample.info["frame"], sample.next_observations[:, -1, 0, 0].float())


# -- turns -------------------------------------------------------------------------------------------------------------


def turns(info: bool = True) -> Batch:
    """One agent that acts at steps 0 and 3 of five; its episode ends at the last one."""
    steps = torch.arange(5.0)[:, None]
    columns = {"info": {"x": steps}} if info else {}
    return Batch(
        lead=2,
        observations=steps[..., None],
        next_observations=steps[..., None] + 1,
        actions=steps.long(),
        rewards=torch.ones(5, 1),
        terminated=steps == 4,
        truncated=torch.zeros(5, 1, dtype=torch.bool),
        active=(steps == 0) | (steps == 3),
        **columns,
    )


def test_the_info_of_an_action_is_that_of_the_last_step_before_the_next_one() -> None:
    rollout = decisions(turns())
    assert rollout.info["x"][:, 0].tolist()[0] == 2
    assert rollout.info["x"][:, 0].tolist()[3] == 4
    assert "info" not in decisions(turns(info=False))


def test_open_decisions_hold_it_over_from_one_rollout_to_the_next() -> None:
    whole, pieces = OpenDecisions().complete(turns()), OpenDecisions()
    kept = [pieces.complete(turns().select(part)) for part in (slice(0, 2), slice(2, 5))]
    expected = whole.info["x"][whole.active].tolist()
    assert expected == [2.0, 4.0]
    assert [x for part in kept for x in part.info["x"][part.active].tolist()] == expected
    assert "info" not in OpenDecisions().complete(turns(info=False))
