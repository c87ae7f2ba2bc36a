"""Does a VectorEnv keep its contract? Random play in a few copies, and what can be seen of its autoreset and its seeds.

Whatever breaks the contract so that no row can be read is raised by the adapter, with its place; here is the rest:
numbers that are none, an autoreset that is another one than `metadata` says, seeds that decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, suppress
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.contracts import Array, Step
from rlstudio.core.spaces import Box, Dict, Spaces
from rlstudio.envs.check_play import BLOCK, Amount
from rlstudio.envs.check_report import EnvReport, Severity
from rlstudio.envs.gym.probe import PROBE_SEEDS, permitted, random_actions
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.rows import Misfit, is_number, leaves
from rlstudio.envs.vector.arrays import to_numpy
from rlstudio.envs.vector.vector_env import FINAL_INFO, FINAL_OBS, AdaptedVectorEnv

COPIES = 4
COMPARED = 60  # steps of two vectors with the same seed

ONLY_RESETS = "which by autoreset NEXT_STEP only resets; if it resets in the same step, its metadata must say SAME_STEP"
OVERWRITTEN = "the first observation of the next episode; copy the last one before the reset writes over it"
IGNORED = "the seed is ignored, or something random does not come from self.np_random"


def check_vector(recipe: Recipe, amount: Amount, report: EnvReport) -> None:
    watched: list[Watched] = []

    def watch(env: VectorEnv) -> VectorEnv:
        watched.append(Watched(env))
        return watched[0]

    with closing(AdaptedVectorEnv(recipe, COPIES, PROBE_SEEDS[0], watch)) as vec:
        play = _Play(vec, report)
        try:
            play.run(amount)
        finally:
            report.steps, report.episodes, report.seconds = play.steps, play.episodes, play.seconds
            for text in watched[0].errors():
                report.add("error", text)
    if not play.episodes and recipe.limit is None:
        text = f"no episode ended within {play.steps:,} random steps and there is no time limit"
        report.add("warning", text, "endless")
    if keys := sorted(watched[0].info_keys):
        report.add("info", f"numbers in its infos, for env.infos: {', '.join(keys)}")
    _check_seeds(recipe, report)
    report.add("info", f"a resumed run is not exact: {vec.exact}")


class Watched(VectorWrapper):
    """Notes what the adapter hides: whether the env resets as its mode says."""

    def __init__(self, env: VectorEnv) -> None:
        super().__init__(env)
        self.problems: dict[str, str] = {}
        self.info_keys: set[str] = set()
        self._mode = env.metadata["autoreset_mode"]
        self._ended: np.ndarray | None = None
        self._observations: Any = None
        self._finals_differ = False
        self._steps = 0

    def errors(self) -> list[str]:
        return [text for kind, text in self.problems.items() if not (kind == "final" and self._finals_differ)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        mask = (options or {}).get("reset_mask")
        kept = None if mask is None else ~to_numpy(mask, "reset_mask")
        observations, infos = self.env.reset(seed=seed, options=options)
        if kept is not None:
            with suppress(Misfit, ValueError, IndexError, TypeError):  # the adapter names what cannot be read
                pairs = zip(_arrays(observations), self._observations, strict=True)
                if any((new[kept] != old[kept]).any() for new, old in pairs):
                    self._note("reset", "reset(options={'reset_mask': ...}) changed copies that the mask leaves out")
        return observations, infos

    def step(self, actions: object) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result = self.env.step(actions)
        self._steps += 1
        self._observations = [array.copy() for array in _arrays(result[0])]
        with suppress(Misfit, ValueError, IndexError, TypeError):
            self._look(*result)
        return result

    def _look(
        self, observations: object, rewards: object, terminated: object, truncated: object, infos: Mapping[str, Any]
    ) -> None:
        ended = to_numpy(terminated, "terminated") | to_numpy(truncated, "truncated")
        self._note_keys(infos, len(ended))
        if self._mode is AutoresetMode.NEXT_STEP and self._ended is not None:
            paid = self._ended & (to_numpy(rewards, "reward") != 0)
            if paid.any():
                text = f"copy {int(paid.argmax())} was paid in the step after its episode's end, {ONLY_RESETS}"
                self._note("paid", text)
        if self._mode is AutoresetMode.SAME_STEP and ended.any() and FINAL_OBS in infos:
            self._look_at_final(infos[FINAL_OBS], observations, ended)
        self._ended = ended

    def _look_at_final(self, final: Any, observations: object, ended: np.ndarray) -> None:
        is_object = isinstance(final, np.ndarray) and final.dtype == object
        env = int(ended.argmax())
        last = _arrays(final[env]) if is_object else [array[env] for array in _arrays(final)]
        first = [array[env] for array in _arrays(observations)]
        differ = not all(np.array_equal(one, other) for one, other in zip(last, first, strict=True))
        self._finals_differ |= differ  # once is enough: an episode may end where another begins
        if not differ:
            self._note("final", f"infos[{FINAL_OBS!r}] of copy {env} is {OVERWRITTEN}")

    def _note_keys(self, infos: Mapping[str, Any], count: int) -> None:
        for key, value in infos.items():
            if key == FINAL_INFO and isinstance(value, Mapping):
                self._note_keys(value, count)
            elif key[0] != "_" and _is_column(value, count):
                self.info_keys.add(key)

    def _note(self, kind: str, text: str) -> None:
        self.problems.setdefault(kind, f"{text}; step {self._steps} of the vector")


class _Play:
    """Random actions through the adapter, and a finding for each kind of number that is none."""

    def __init__(self, vec: AdaptedVectorEnv, report: EnvReport) -> None:
        self.steps = self.episodes = 0
        self.seconds = 0.0
        self._vec, self._report = vec, report
        self._kinds: set[str] = set()

    def run(self, amount: Amount) -> None:
        began, block = time.monotonic(), 0
        observations = self._vec.reset()
        while True:
            for actions in _blocks(self._vec.spaces, block):
                is_enough = self.episodes >= amount.episodes and self.steps >= amount.steps
                self.seconds = time.monotonic() - began
                if is_enough or self.steps >= amount.most_steps or self.seconds >= amount.seconds:
                    return
                taken = _permitted(self._vec.spaces, observations, actions)
                step = self._vec.step(taken)
                self.steps += COPIES
                self._judge(step, taken)
                observations = step.observations
            block += 1

    def _judge(self, step: Step, actions: np.ndarray) -> None:
        ended = step.terminated | step.truncated
        self.episodes += int(ended.sum())
        self._note("reward", "error", ~np.isfinite(step.rewards), "a reward is not finite", actions, ended)
        space = self._vec.spaces.observation
        for name, leaf in space.items() if isinstance(space, Dict) else [("", space)]:
            rows = step.successors[name] if isinstance(step.successors, dict) else step.successors
            if isinstance(leaf, Box):
                label = f"observation {name!r}" if name else "observation"
                flat = rows.reshape(COPIES, -1)
                unreal = (~np.isfinite(flat)).any(1)
                self._note(f"{name} nan", "error", unreal, f"{label} is not finite", actions, ended)
                low, high = (bound.reshape(-1) for bound in leaf.bounds())
                beyond = ((flat < low) | (flat > high)).any(1) & ~unreal
                self._note(f"{name} bounds", "warning", beyond, f"{label} leaves its bounds", actions, ended)

    def _note(
        self, kind: str, severity: Severity, wrong: Any, text: str, actions: np.ndarray, ended: np.ndarray
    ) -> None:
        if kind in self._kinds or not wrong.any():
            return
        self._kinds.add(kind)
        env = int(wrong.argmax())
        place = self._vec.describe_episode(env, ago=int(ended[env]))
        self._report.add(severity, f"{text}; env {env}, {place}, action {actions[env].tolist()}")


def _check_seeds(recipe: Recipe, report: EnvReport) -> None:
    """Two vectors, equal seeds and equal actions; then another seed."""
    with (
        closing(AdaptedVectorEnv(recipe, COPIES, PROBE_SEEDS[1])) as one,
        closing(AdaptedVectorEnv(recipe, COPIES, PROBE_SEEDS[1])) as two,
        closing(AdaptedVectorEnv(recipe, COPIES, PROBE_SEEDS[2])) as other,
    ):
        first, again, elsewhere = (vec.reset() for vec in (one, two, other))
        same, alike = _all_equal(first, again), _all_equal(first, elsewhere)
        for actions in _blocks(one.spaces, 0)[:COMPARED]:
            if not same:
                break
            taken = _permitted(one.spaces, first, actions)  # its arrays are written again by each step
            left, right = one.step(taken), two.step(taken)
            paid_alike = np.array_equal(left.rewards, right.rewards, equal_nan=True)
            same = paid_alike and _all_equal(left.observations, right.observations)
    if not same:
        text = f"two vectors with the same reset(seed=...) and equal actions differ: {IGNORED}"
        report.add("error", text, "unseeded")
    elif alike:
        report.add("info", "another seed gives the same first observations")


def _all_equal(left: Array, right: Array) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(leaves(left), leaves(right), strict=True))


def _arrays(observations: object) -> list[np.ndarray]:
    values = observations.values() if isinstance(observations, Mapping) else [observations]
    return [to_numpy(value, "observation") for value in values]


def _is_column(value: object, count: int) -> bool:
    array = np.asarray(value, object) if isinstance(value, list | tuple) else value
    shape = getattr(array, "shape", None)
    return shape is not None and tuple(shape) == (count,) and is_number(np.asarray(to_numpy(array, "info")[0]))


def _blocks(spaces: Spaces, block: int) -> np.ndarray:
    """Actions [BLOCK, COPIES, ...]."""
    lanes = [random_actions(spaces, PROBE_SEEDS[0] + block * COPIES + env, BLOCK) for env in range(COPIES)]
    return np.stack([np.array(lane) for lane in lanes], 1)


def _permitted(spaces: Spaces, observations: Array, actions: np.ndarray) -> np.ndarray:
    mask = ActionMask.of(spaces)
    return np.array([permitted(mask, observations, env, action) for env, action in enumerate(actions)])
