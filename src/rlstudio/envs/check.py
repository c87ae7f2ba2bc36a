"""Is this env fit to train on? Findings in plain words, before hours are spent on it.

An error breaks training or exact resume and a warning is worth a look. Each check works on env objects of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import gymnasium
import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.errors import RLStudioError
from rlstudio.core.spaces import Box, Discrete, Leaf, MultiDiscrete, Spaces
from rlstudio.core.spaces import Dict as DictSpace
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import PROBE_SEEDS, episode_digest, permitted, random_actions, used_differs
from rlstudio.envs.gym.recipe import Recipe, one_line
from rlstudio.envs.gym.rows import Buffers, Misfit, deliverer, is_number
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.gym.sync import GymnasiumVecEnv
from rlstudio.envs.make import make_vec_env

STEPS = 200


@dataclass(frozen=True)
class Finding:
    severity: Literal["error", "warning", "info"]
    text: str


@dataclass
class EnvReport:
    id: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def add(self, severity: Literal["error", "warning", "info"], text: str) -> None:
        self.findings.append(Finding(severity, text))


def check_env(cfg: EnvConfig) -> EnvReport:
    """Try the env out; whatever it does wrong becomes a finding, never an exception."""
    report = EnvReport(cfg.id)
    try:
        recipe = Recipe(cfg)
        env = recipe.build()
        spaces = convert_spaces(env, cfg.id)
    except RLStudioError as error:
        report.add("error", str(error))
        return report
    try:
        _check_episode(env, spaces, recipe.limit, report)
        _check_repetition(recipe, spaces, report)
        _check_replay(cfg, spaces, report)
    except RLStudioError as error:
        report.add("error", str(error))
    except (Exception, SystemExit) as error:
        report.add("error", f"raised {one_line(error)}")
    return report


def _check_episode(env: gymnasium.Env, spaces: Spaces, limit: int | None, report: EnvReport) -> None:
    """Shapes, kinds, bounds and finite values over some episodes, how they end, and what numbers their infos have."""
    rows = Buffers(spaces, 1)
    deliver = deliverer(spaces.observation, rows.observations, 0)
    findings: set[str] = set()
    given: set[str] = set()
    elapsed, ends = 0, 0

    def look(observation: object) -> None:
        try:
            deliver(observation)
        except Misfit as misfit:
            findings.add(f"error: {misfit}")
            return
        findings.update(_out_of_bounds(spaces, rows))

    mask = ActionMask.of(spaces)
    look(env.reset(seed=PROBE_SEEDS[0])[0])
    for action in random_actions(spaces, PROBE_SEEDS[0], STEPS):
        observation, reward, terminated, truncated, info = env.step(permitted(mask, rows.observations, 0, action))
        elapsed += 1
        given.update(key for key, value in info.items() if is_number(value))
        look(observation)
        findings.update(_oddities(reward, terminated, truncated))
        if truncated and not terminated and limit is None:
            findings.add("info: the env truncates by itself; make sure it is a time limit and not a failure")
        if terminated or truncated:
            ends, elapsed = ends + 1, 0
            look(env.reset(seed=PROBE_SEEDS[0] + ends)[0])
    if not ends and limit is None:
        findings.add(f"warning: no episode ended within {STEPS} random steps and there is no env.max_episode_steps")
    for text in sorted(findings):
        severity, _, what = text.partition(": ")
        report.add(severity, what)  # type: ignore[arg-type]
    if given:
        report.add("info", f"numbers in its info, for env.infos: {', '.join(sorted(map(str, given)))}")


def _oddities(reward: object, terminated: object, truncated: object) -> set[str]:
    findings = set()
    if not isinstance(reward, int | float | np.integer | np.floating):
        findings.add(f"error: the reward is a {type(reward).__name__}, not a number")
    elif not np.isfinite(reward):
        findings.add("error: a reward is not finite")
    for name, flag in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(flag, bool | np.bool):
            findings.add(f"warning: {name} is a {type(flag).__name__}, not a bool")
    return findings


def _out_of_bounds(spaces: Spaces, rows: Buffers) -> set[str]:
    space = spaces.observation
    if isinstance(space, DictSpace):
        assert isinstance(rows.observations, dict)
        named = [(f"observation {name!r}", leaf, rows.observations[name][0]) for name, leaf in space.items()]
    else:
        assert isinstance(rows.observations, np.ndarray)
        named = [("observation", space, rows.observations[0])]
    return {text for name, leaf, value in named if (text := _outside(name, leaf, value))}


def _outside(name: str, leaf: Leaf, value: np.ndarray) -> str | None:
    match leaf:
        case Box():
            if value.dtype == np.float32 and not np.isfinite(value).all():
                return f"error: {name} is not finite"
            low, high = leaf.bounds()
            # Bounds are rounded to float32 like the values, so no tolerance is needed.
            return f"warning: {name} leaves its bounds" if (value < low).any() or (value > high).any() else None
        case Discrete(n=n):
            return f"error: {name} is not among its {n} choices" if not 0 <= value < n else None
        case MultiDiscrete(nvec=nvec):
            inside = (value >= 0).all() and (value < np.array(nvec)).all()
            return None if inside else f"error: {name} is not among its choices"


def _check_repetition(recipe: Recipe, spaces: Spaces, report: EnvReport) -> None:
    for seed in PROBE_SEEDS:
        first, second = (episode_digest(recipe.build(), spaces, seed, STEPS) for _ in range(2))
        if first != second:
            report.add("error", f"two fresh envs with seed {seed} and equal actions differ: resume cannot be exact")
            return
    if used_differs(recipe, spaces):
        report.add("warning", "a used env differs from a fresh one after reset(seed): it is rebuilt for every episode")


def _check_replay(cfg: EnvConfig, spaces: Spaces, report: EnvReport) -> None:
    """Leave an episode in the middle and find the place again in another object."""
    first, second = (make_vec_env(cfg, 2, vectorization="sync") for _ in range(2))
    assert isinstance(first, GymnasiumVecEnv)
    try:
        observations, mask = first.reset(), ActionMask.of(spaces)
        lanes = [random_actions(spaces, seed, STEPS) for seed in PROBE_SEEDS[:2]]
        for actions in zip(*lanes, strict=True):
            taken = [permitted(mask, observations, row, action) for row, action in enumerate(actions)]
            observations = first.step(np.array(taken)).observations
        second.seek(first.position())
        if second.exact:
            report.add("error", f"replaying an episode does not lead to the same place: {second.exact}")
    finally:
        first.close()
        second.close()
