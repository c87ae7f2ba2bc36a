"""ExperienceWatch: whether the environments still answer. Looked at now and then in the newest rows, never per step.

    broken_rows     an observation does not follow from the row before it: rows are repeated, left out or shifted
    frozen_env      one environment shows the same for `STILL_STEPS` steps, whatever is done in it, although it moved
                    before or the others move
    stuck_reward    its reward stays the same number for as long while its observations change, although rewards were
                    all different before
    reward_scale    most rewards of one environment are over `NEW_SCALE` times as large as any before, or
                    the newest one of most environments
    reward_outliers rewards over `OUTLIER` times as large as any before, in few rows that end no episode

Worlds with one observation, one reward or a bonus at the goal are healthy; each rule says what it needs to have seen
before. All is read from rows that learning has anyway.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import DataSource, ReplayBuffer, State
from rlstudio.experiment.judging.incidents import Symptom

LOOK_STEPS = 61
"""Vector steps between two looks at a replay, a prime: no episode repeats in its rhythm."""

MOST_ROWS = 64
"""Of one environment, per look at a replay."""

STILL_STEPS = 300
MOVED = 3
"""Looks in which something changed, before it can stand still."""

NEW_SCALE, HALF = 1e4, 0.5
MANY_ENVS = 4
"""So many that one step of most of them is no accident."""

OUTLIER, FEW = 20.0, 0.2
SETTLED_ROWS = 1000
MOST_OUTLIERS = 3


@runtime_checkable
class FillsReplay(Protocol):
    """A source that keeps what it collects. A dataset is kept too, but warms up for nothing."""

    replay: ReplayBuffer

    @property
    def is_warming(self) -> bool: ...


class NewestRows(NamedTuple):
    """The newest rows of all environments, [T, B, ...]."""

    observations: list[np.ndarray]  # of each entry
    successors: list[np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    dones: np.ndarray
    sound: np.ndarray | None  # rows that were not left out; None: all


class Lanes:
    """What is remembered of each environment."""

    FIELDS = ("still_since", "same_since", "moved", "dense", "picture", "reward", "action", "varied")

    def __init__(self, count: int) -> None:
        self.still_since = np.full(count, -1, np.int64)  # vector step since which it shows the same; -1: it moves
        self.same_since = np.full(count, -1, np.int64)  # likewise of its reward
        self.moved = np.zeros(count, np.int64)  # looks in which its observation changed,
        self.dense = np.zeros(count, np.int64)  # and in which all its rewards were different
        self.picture = np.zeros(count, np.int64)  # checksum of what it showed last
        self.reward = np.zeros(count, np.float64)
        self.action = np.zeros(count, np.int64)
        self.varied = np.zeros(count, np.int64)  # whether it was acted on differently while it stood still


class ExperienceWatch:
    def __init__(self) -> None:
        self.largest_reward = 0.0
        self.typical = 0.0  # the largest |r| of rows that end no episode, outliers apart
        self.rows = 0
        self.outliers = 0
        self.looked_at = 0  # vector steps
        self._lanes: Lanes | None = None

    def look(self, source: DataSource, *, at_once: bool = False) -> Iterator[Symptom]:
        """`at_once`: also where it is not time yet."""
        block = self._newest(source, at_once)
        if block is None or block.rewards.shape[1] == 0:
            return
        if self._lanes is None or len(self._lanes.moved) != block.rewards.shape[1]:
            self._lanes = Lanes(block.rewards.shape[1])
        yield from self._broken(block)
        yield from self._rewards(block)
        yield from self._still(block, self._lanes)

    def _newest(self, source: DataSource, at_once: bool) -> NewestRows | None:
        """None where there is nothing new, or where rows are not steps of environments side by side."""
        if not isinstance(source, FillsReplay):
            rollout = source.last
            if (
                at_once
                or rollout is None
                or rollout.lead != 2
                or "active" in rollout
                or "next_observations" not in rollout
            ):
                return None
            self.looked_at += len(rollout)
            return _block(rollout, *rollout.shape)
        replay = source.replay
        counts, envs = replay.counts, replay.num_envs
        now = int(counts.min())
        self.looked_at = min(self.looked_at, now)  # a replay may have been emptied
        if now != int(counts.max()) or now < self.looked_at + (1 if at_once else LOOK_STEPS):
            return None
        rows = min(now - self.looked_at, MOST_ROWS, replay.capacity // envs)
        self.looked_at = now
        numbers = (now - rows + np.arange(rows))[:, None] * envs + np.arange(envs)
        return _block(replay.at(numbers.reshape(-1)), rows, envs)

    def _broken(self, block: NewestRows) -> Iterator[Symptom]:
        if not block.successors or len(block.rewards) < 2:  # no row has one after it
            return
        goes_on = ~block.dones[:-1]
        wrong = np.zeros(goes_on.shape, bool)
        for before, after in zip(block.successors, block.observations, strict=True):
            differs = before[:-1] != after[1:]
            wrong |= differs.reshape(*goes_on.shape, -1).any(-1)
        if block.sound is not None:  # the numbers of a row that was left out are gone
            goes_on &= block.sound[:-1] & block.sound[1:]
        wrong &= goes_on
        if wrong.any():
            env = int(np.argwhere(wrong)[0][1])
            share = f"{wrong.sum()} of {goes_on.sum()} rows"
            yield Symptom("broken_rows", f"env {env}: the observation is not the one before it led to; {share}")

    def _rewards(self, block: NewestRows) -> Iterator[Symptom]:
        sizes = np.abs(block.rewards)
        inner = np.where(block.terminated, 0.0, sizes)  # a bonus at the goal, or a crash, may be of any size
        before = self.typical
        settled = self.rows >= SETTLED_ROWS and before > 0.0
        self.rows += sizes.size
        if settled:
            is_new = inner > NEW_SCALE * before
            share, newest = is_new.mean(0), is_new[-1] & ~block.dones[-1]
            env = int(share.argmax())
            if share[env] > HALF or (len(newest) >= MANY_ENVS and newest.mean() > HALF):
                clip = f"guardrails.reward_clip={before:.4g}"
                size = np.median(inner[is_new[:, env], env])
                what = f"env {env}: rewards of {size:.4g}, where {before:.4g} was the largest"
                yield Symptom("reward_scale", what, (clip,))
                return  # not to be taken for usual
            far = inner > OUTLIER * before
            if far.any() and far.mean() < FEW:
                self.outliers += int(far.sum())
                if self.outliers >= MOST_OUTLIERS:
                    time, env = np.argwhere(far)[0]
                    most = max(self.largest_reward, 2 * before)  # what ends an episode may be larger
                    what = f"env {env}: a reward of {block.rewards[time, env]:.4g}, where {before:.4g} was the largest"
                    settings = f"guardrails.reward_range=[{-most:.4g}, {most:.4g}]", "guardrails.max_bad_rows=0.1"
                    yield Symptom("reward_outliers", f"{what}; {self.outliers} of {self.rows:,} rows", settings)
                inner = np.where(far, 0.0, inner)
                sizes = np.where(far, 0.0, sizes)
            inner = np.where(is_new, 0.0, inner)  # perhaps the first ones of another unit: the next look says so
        self.typical = max(before, float(inner.max()))
        self.largest_reward = max(self.largest_reward, float(sizes.max()))

    def _still(self, block: NewestRows, lanes: Lanes) -> Iterator[Symptom]:
        steps, envs = block.rewards.shape
        if steps < 2:
            return
        begins = self.looked_at - steps
        same = np.ones(envs, bool)
        for column in block.observations:
            if column.dtype.kind != "f":  # a choice of few may stay the same for long
                return
            same &= (column[1:] == column[:-1]).reshape(steps - 1, envs, -1).all((0, 2))
        flat = block.rewards[1:] == block.rewards[:-1]
        equal, dense = flat.all(0), ~flat.any(0)
        lanes.moved += ~same
        lanes.dense += dense
        moves = (lanes.moved >= MOVED) | (~same).any()
        varies = (lanes.dense >= MOVED) | (lanes.dense >= MOVED).any()
        for env in np.flatnonzero(same | (equal & varies) | (lanes.still_since >= 0) | (lanes.same_since >= 0)):
            actions = block.actions[:, env].reshape(steps, -1)
            kinds = len(np.unique(actions, axis=0)) if same[env] or equal[env] else 0
            if self._stands(lanes, int(env), block, bool(same[env]), begins, actions, kinds) and moves[env]:
                lasted = self.looked_at - int(lanes.still_since[env])
                yield Symptom("frozen_env", f"env {env}: shows the same for {lasted} steps of different actions")
            acts = kinds >= steps / 2 if actions.dtype.kind == "f" else True
            value = float(block.rewards[-1, env])
            if not equal[env] or same[env] or not acts or (lanes.same_since[env] >= 0 and value != lanes.reward[env]):
                lanes.same_since[env] = -1
            elif lanes.same_since[env] < 0:
                lanes.same_since[env] = begins
            lanes.reward[env] = value
            lasted = self.looked_at - int(lanes.same_since[env])
            if lanes.same_since[env] >= 0 and lasted >= STILL_STEPS and varies[env]:
                yield Symptom("stuck_reward", f"env {env}: every reward is {value:.6g} for {lasted} steps")

    def _stands(
        self, lanes: Lanes, env: int, block: NewestRows, same: bool, begins: int, actions: np.ndarray, kinds: int
    ) -> bool:
        """Whether the environment has shown the same for long enough, whatever was done in it."""
        picture = 0
        for column in block.observations:
            picture = zlib.crc32(np.ascontiguousarray(column[-1, env]).tobytes(), picture)
        action = zlib.crc32(np.ascontiguousarray(actions[-1]).tobytes())
        if not same or (lanes.still_since[env] >= 0 and picture != lanes.picture[env]):
            lanes.still_since[env], lanes.varied[env] = -1, 0
        elif lanes.still_since[env] < 0:
            lanes.still_since[env], lanes.varied[env] = begins, kinds > 1
        elif kinds > 1 or action != lanes.action[env]:
            lanes.varied[env] = 1
        lanes.picture[env], lanes.action[env] = picture, action
        is_long = lanes.still_since[env] >= 0 and self.looked_at - lanes.still_since[env] >= STILL_STEPS
        return bool(is_long and lanes.varied[env])

    def state_dict(self) -> State:
        lanes = self._lanes
        return {
            "rewards": [self.largest_reward, self.typical],
            "counts": [self.rows, self.outliers, self.looked_at],
            "lanes": None if lanes is None else {name: getattr(lanes, name).tolist() for name in Lanes.FIELDS},
        }

    def load_state_dict(self, state: State) -> None:
        self.largest_reward, self.typical = state["rewards"]
        self.rows, self.outliers, self.looked_at = state["counts"]
        self._lanes = None
        if state["lanes"] is not None:
            self._lanes = Lanes(len(state["lanes"]["moved"]))
            for name, values in state["lanes"].items():
                getattr(self._lanes, name)[:] = values


def _block(batch: Batch, steps: int, envs: int) -> NewestRows:
    def column(name: str) -> list[np.ndarray]:
        given = getattr(batch, name)
        tensors = given.values() if isinstance(given, dict) else (given,)
        return [
            (array := tensor.numpy(force=True)).reshape(steps, envs, *_inner(array, batch.lead)) for tensor in tensors
        ]

    terminated, truncated = column("terminated")[0], column("truncated")[0]
    return NewestRows(
        column("observations"),
        column("next_observations"),
        column("actions")[0],
        column("rewards")[0],
        terminated,
        terminated | truncated,
        None if batch.weights is None else batch.weights.numpy(force=True).reshape(steps, envs) > 0,
    )


def _inner(array: np.ndarray, lead: int) -> tuple[int, ...]:
    return array.shape[lead:]
