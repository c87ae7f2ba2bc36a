"""What the newest rows say: environments that hang or lie are found, worlds that are merely dull are not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.replay.buffer import ReplayBuffer
from rlstudio.experiment.judging.experience_watch import ExperienceWatch

ENVS, STEPS = 3, 64


@dataclass
class Rollouts:
    last: Batch | None = None


@dataclass
class Replayed:
    replay: ReplayBuffer
    is_warming: bool = False
    last: Batch | None = None


def columns(steps: int = STEPS, seed: int = 0, numbers: bool = False) -> dict[str, np.ndarray]:
    """Moving environments with dense rewards; none ends."""
    rng = np.random.default_rng(seed)
    path = rng.standard_normal((steps + 1, ENVS, 2)).astype(np.float32)
    actions = rng.uniform(-1, 1, (steps, ENVS, 1)).astype(np.float32) if numbers else rng.integers(0, 2, (steps, ENVS))
    return {
        "observations": path[:-1].copy(),
        "next_observations": path[1:].copy(),
        "actions": actions,
        "rewards": rng.uniform(0.5, 1.0, (steps, ENVS)).astype(np.float32),
        "terminated": np.zeros((steps, ENVS), bool),
        "truncated": np.zeros((steps, ENVS), bool),
    }


def looks(*blocks: dict[str, Any], watch: ExperienceWatch | None = None) -> list[str]:
    watch = watch or ExperienceWatch()
    source, found = Rollouts(), []
    for block in blocks:
        source.last = Batch(lead=2, **{name: torch.from_numpy(np.asarray(array)) for name, array in block.items()})
        found += [f"{symptom.rule}: {symptom.what}" for symptom in watch.look(source)]  # type: ignore[arg-type]
    return found


def frozen(block: dict[str, np.ndarray], env: int = 1) -> dict[str, np.ndarray]:
    for name in ("observations", "next_observations"):
        block[name][:, env] = 0.25
    return block


def wide(block: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of twice as many environments."""
    return {name: np.concatenate([array, array], 1) for name, array in block.items()}


HEALTHY = [columns(seed=seed) for seed in range(20)]


def test_environments_that_move_are_healthy() -> None:
    assert not looks(*HEALTHY)


def test_one_that_shows_the_same_whatever_is_done() -> None:
    found = looks(*HEALTHY[:4], *(frozen(columns(seed=seed)) for seed in range(6)))
    assert found[0] == "frozen_env: env 1: shows the same for 320 steps of different actions"


@pytest.mark.parametrize("why", ["the same action", "all do", "it moves in between"])
def test_standing_still_may_be_healthy(why: str) -> None:
    blocks = [frozen(columns(seed=seed)) for seed in range(12)]
    for number, block in enumerate(blocks):
        if why == "the same action":  # a wall that is run into
            block["actions"][:] = 1
        elif why == "all do":  # a world with one observation
            for env in range(ENVS):
                frozen(block, env)
        elif number % 3 == 0:
            blocks[number] = columns(seed=number)
    assert not looks(*blocks)


def test_a_reward_that_stays_where_all_were_different() -> None:
    stuck = [columns(seed=seed) for seed in range(8)]
    for block in stuck:
        block["rewards"][:, 2] = 0.75
    assert looks(*HEALTHY[:4], *stuck)[0] == "stuck_reward: env 2: every reward is 0.75 for 320 steps"
    for block in stuck:
        block["rewards"][:] = 1.0  # a point for each step
    assert not looks(*stuck)
    saturated = [columns(seed=seed, numbers=True) for seed in range(8)]
    for block in saturated:  # a reward for small actions, under a policy that takes none but the largest
        block["actions"][:] = np.sign(block["actions"])
        block["rewards"][:, 2] = -0.1
    assert not looks(*(columns(seed=seed, numbers=True) for seed in range(4)), *saturated)


def test_rewards_of_another_unit() -> None:
    larger = columns()
    larger["rewards"] *= np.float32(1e6)
    (found,) = looks(*HEALTHY, larger)
    assert found.startswith("reward_scale: env 0: rewards of ")


def test_another_unit_is_noticed_where_it_begins_within_a_look() -> None:
    """At its end most environments have it; in one environment the next look has, for it was not taken for usual."""
    newest, limit = wide(columns()), wide(columns())
    newest["rewards"][-1] *= np.float32(1e6)
    before = [wide(block) for block in HEALTHY]
    (found,) = looks(*before, newest)
    assert found.startswith("reward_scale: env 0: rewards of ")
    one, then = columns(), columns()
    one["rewards"][-STEPS // 3 :, 1] *= np.float32(1e6)
    then["rewards"][:, 1] *= np.float32(1e6)
    assert [text.split(":")[0] for text in looks(*HEALTHY, one)] == ["reward_outliers"]
    assert "reward_scale: env 1" in looks(*HEALTHY, one, then)[-1]
    limit["rewards"][-1] *= np.float32(1e6)
    limit["truncated"][-1] = True  # a bonus at the time limit, which all reach at once
    assert not [text for text in looks(*before, limit) if text.startswith("reward_scale")]


def test_rare_large_rewards_are_told_unless_they_end_an_episode() -> None:
    rare, goal = columns(), columns()
    rare["rewards"][[3, 20, 40], 1] = 100.0
    (found,) = looks(*HEALTHY, rare)
    assert found.startswith("reward_outliers: env 1: a reward of 100, where 0.9998 was the largest; 3 of ")
    goal["rewards"][[3, 20, 40], 1] = 100.0
    goal["terminated"][[3, 20, 40], 1] = True
    assert not looks(*HEALTHY, goal)


def test_rows_that_do_not_follow_from_each_other() -> None:
    shifted, ended, left_out = columns(), columns(), columns()
    for block in (shifted, ended, left_out):
        block["next_observations"][10, 0] += 1
    assert looks(shifted) == ["broken_rows: env 0: the observation is not the one before it led to; 1 of 189 rows"]
    ended["truncated"][10, 0] = True
    assert not looks(ended)
    weights = np.ones((STEPS, ENVS), np.float32)
    weights[11, 0] = 0
    assert not looks({**left_out, "weights": weights})


def test_a_replay_is_looked_at_as_it_fills() -> None:
    spaces = Spaces(Box((2,), "float32", (-9,), (9,)), Discrete(2))
    source, watch, found = Replayed(ReplayBuffer(spaces, 3000, ENVS)), ExperienceWatch(), []
    for number in range(12):
        block = columns(seed=number) if number < 4 else frozen(columns(seed=number))
        source.replay.add(Batch(lead=2, **{name: torch.from_numpy(array) for name, array in block.items()}))
        found += [symptom.rule for symptom in watch.look(source)]  # type: ignore[arg-type]
        found += [symptom.rule for symptom in watch.look(source)]  # type: ignore[arg-type]
    assert set(found) == {"frozen_env"}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_replay_may_be_looked_at_after_every_step(steps: int) -> None:
    spaces = Spaces(Box((2,), "float32", (-9,), (9,)), Discrete(2))
    source, watch = Replayed(ReplayBuffer(spaces, 3000, ENVS)), ExperienceWatch()
    whole = columns()
    for begin in range(0, STEPS - steps, steps):
        rows = {name: torch.from_numpy(array[begin : begin + steps]) for name, array in whole.items()}
        source.replay.add(Batch(lead=2, **rows))
        assert not list(watch.look(source, at_once=True))  # type: ignore[arg-type]
        assert watch.looked_at == begin + steps


def test_its_state_is_plain_and_goes_on_as_if_it_had_not_been_cut() -> None:
    blocks = [*HEALTHY[:4], *(frozen(columns(seed=seed)) for seed in range(5))]
    whole, cut = ExperienceWatch(), ExperienceWatch()
    told = looks(*blocks, watch=whole)
    assert not looks(*blocks[:7], watch=cut)
    later = ExperienceWatch()
    later.load_state_dict(json.loads(json.dumps(cut.state_dict())))
    assert looks(*blocks[7:], watch=later) == told
    assert later.state_dict() == whole.state_dict()
