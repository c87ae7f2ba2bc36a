"""Is this env fit to train on? Findings in plain words, before hours are spent on it.

An error breaks training or exact resume and a warning is worth a look. Each check works on env objects of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.core.errors import RLStudioError
from rlstudio.core.spaces import Spaces
from rlstudio.envs.check_params import param_findings
from rlstudio.envs.check_play import Amount, Play
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import PROBE_SEEDS, episode_digest, permitted, random_actions, used_differs
from rlstudio.envs.gym.recipe import Recipe, one_line
from rlstudio.envs.gym.spaces import convert_spaces
from rlstudio.envs.gym.sync import GymnasiumVecEnv
from rlstudio.envs.make import make_vec_env

STEPS = 200  # of the episodes that are compared with each other
USUAL = Amount()

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    severity: Severity
    text: str


@dataclass
class EnvReport:
    """`steps` and `episodes` are what was played on one object; further short episodes are compared with each other."""

    id: str
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def add(self, severity: Severity, text: str) -> None:
        self.findings.append(Finding(severity, text))


def check_env(cfg: EnvConfig, amount: Amount = USUAL) -> EnvReport:
    """Try the env out; whatever it does wrong becomes a finding, never an exception."""
    report = EnvReport(cfg.id)
    try:
        recipe = Recipe(cfg)
        with recipe.opened() as env:
            spaces = convert_spaces(env, cfg.id)
            play = Play(env, spaces, recipe.limit)
            play.run(amount)
        _report_play(play, recipe.limit, report)
        if not play.failed:
            _check_repetition(recipe, spaces, report)
            _check_replay(cfg, spaces, report)
            for severity, text in param_findings(cfg):
                report.add(severity, text)
    except RLStudioError as error:
        report.add("error", str(error))
    except (Exception, SystemExit) as error:
        report.add("error", f"raised {one_line(error)}")
    return report


def _report_play(play: Play, limit: int | None, report: EnvReport) -> None:
    report.steps, report.episodes, report.seconds = play.steps, play.episodes, play.seconds
    for text in sorted(play.findings.values()):
        severity, _, what = text.partition(": ")
        report.add(severity, what)  # type: ignore[arg-type]
    if not play.episodes and limit is None and not play.failed:
        report.add(
            "warning", f"no episode ended within {play.steps:,} random steps and there is no env.max_episode_steps"
        )
    if play.info_keys:
        report.add("info", f"numbers in its info, for env.infos: {', '.join(sorted(play.info_keys))}")


def _check_repetition(recipe: Recipe, spaces: Spaces, report: EnvReport) -> None:
    for seed in PROBE_SEEDS:
        first, second = (_digest(recipe, spaces, seed) for _ in range(2))
        if first != second:
            report.add("error", f"two fresh envs with seed {seed} and equal actions differ: resume cannot be exact")
            return
    if used_differs(recipe, spaces):
        report.add("warning", "a used env differs from a fresh one after reset(seed): it is rebuilt for every episode")


def _digest(recipe: Recipe, spaces: Spaces, seed: int) -> int:
    """Of a fresh env."""
    with recipe.opened() as env:
        return episode_digest(env, spaces, seed, STEPS)


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
