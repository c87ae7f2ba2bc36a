"""The doctor: everything that can be known of a run before it begins, and what should be changed.

Nothing is written. No rule depends on how busy the machine is but those about time itself, which go by the clock that
is given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rlstudio.core.errors import RLStudioError
from rlstudio.core.spaces import Spaces, describe
from rlstudio.envs.check import check_env
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.doctor.advice import Advice
from rlstudio.experiment.doctor.config_rules import config_rules
from rlstudio.experiment.doctor.env_rules import env_rules
from rlstudio.experiment.doctor.forecast import SLOW_STEP, Forecast, forecast, forecast_of_slow_steps
from rlstudio.experiment.doctor.machine import Machine, core_rules, disk_needed, disk_rules, memory_rules
from rlstudio.experiment.doctor.random_play import Clock, Experience, PlayAmount, play_randomly
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.environments import spaces_of
from rlstudio.experiment.training.refusals import check_actions, check_dataset, row_memory
from rlstudio.experiment.training.run_curriculum import training_env

SEEDING = "draw every random number from self.np_random, and begin reset with super().reset(seed=seed)"
REMEDIES = {
    "raised": "repair the environment at the place that is named",
    "misfit": "let its spaces say what reset and step really return",
    "values": "return finite numbers, and choices of the space only",
    "bounds": "widen the bounds of observation_space, or clip what is returned",
    "reward": "return a finite float as the reward",
    "terminated": "return bool(terminated)",
    "truncated": "return bool(truncated)",
    "endless": "env.max_episode_steps=1000",
    "unseeded": SEEDING,
    "replay": SEEDING,
}
"""By the kind of a Finding of `rlctl check`."""

CAUSES = {"replay": {"unseeded"}, "raised": {"misfit"}, "": {"misfit", "raised", "unseeded"}}
"""Kinds that follow from others, which are then named alone."""

HANDLED = ("worn",)
"""Findings that cost nothing but time: such an environment is made anew for every episode."""


@dataclass
class Diagnosis:
    """`advice` is empty where nothing is to be changed; what is None or empty could not be found out."""

    env_id: str
    advice: list[Advice] = field(default_factory=list)
    spaces: Spaces | None = None
    met: Experience | None = None
    row_bytes: int | None = None  # of a full replay, or of the rows of an epoch
    row_field: str = ""  # the setting that decides it
    disk_bytes: int | None = None  # of all checkpoints that are kept
    forecast: Forecast | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not any(each.severity == "error" for each in self.advice)

    def to_json(self) -> dict[str, Any]:
        predicted = self.forecast and {**asdict(self.forecast), "seconds": self.forecast.seconds}
        return {
            "env": self.env_id,
            "ok": self.ok,
            "advice": [asdict(each) for each in self.advice],
            "observation": self.spaces and describe(self.spaces.observation),
            "action": self.spaces and describe(self.spaces.action),
            "step_seconds": self.met and self.met.seconds_per_step,
            "random_episode_length": self.met and self.met.mean_length,
            "memory_bytes": self.row_bytes,
            "disk_bytes": self.disk_bytes,
            "forecast": predicted,
            "notes": self.notes,
        }


def examine(
    cfg: ExperimentConfig,
    machine: Machine,
    *,
    clock: Clock = time.perf_counter,
    amount: PlayAmount | None = None,
    trial_seconds: float | None = 4.0,
) -> Diagnosis:
    """Look at everything. `trial_seconds`: how long a trial of the run learns, for its forecast; None: no trial."""
    diagnosis = Diagnosis(cfg.env.id, [*config_rules(cfg), *core_rules(cfg, machine)])
    try:
        diagnosis.spaces = spaces = spaces_of(cfg.env)
    except RLStudioError as error:
        diagnosis.advice.append(_refused("environment", error))
        return diagnosis
    diagnosis.advice += _unfit(cfg, spaces)
    diagnosis.advice += memory_rules(cfg, spaces, machine)
    rows = row_memory(cfg, spaces)
    diagnosis.row_bytes, diagnosis.row_field = rows.needed, rows.field
    _play(diagnosis, cfg, machine, clock, amount or PlayAmount())
    if diagnosis.ok:
        _try_out(diagnosis, cfg, machine, clock, trial_seconds)
    return diagnosis


def _unfit(cfg: ExperimentConfig, spaces: Spaces) -> Iterator[Advice]:
    """Settings and spaces that exclude each other; each team has its own, which only building finds out."""
    checks: dict[str, Callable[[ExperimentConfig, Spaces], None]] = {"dataset": check_dataset}
    if not cfg.teams:
        checks["algorithm"] = check_actions
    for mistake, check in checks.items():
        try:
            check(cfg, spaces)
        except RLStudioError as error:
            yield _refused(mistake, error)


def _play(diagnosis: Diagnosis, cfg: ExperimentConfig, machine: Machine, clock: Clock, amount: PlayAmount) -> None:
    """Random actions in the run's environments, then `rlctl check` on one of them."""
    failure: RLStudioError | None = None
    if cfg.teams or cfg.self_play is not None:
        diagnosis.notes.append("several policies play: scales, ends of episodes and steps were not looked at")
    else:
        try:
            diagnosis.met = play_randomly(training_env(cfg), clock, amount)
        except RLStudioError as error:
            failure = error
    if diagnosis.met is not None and diagnosis.met.seconds_per_step > SLOW_STEP:
        diagnosis.notes.append(
            f"its steps are too slow to repeat episodes here; do that with: rlctl check {cfg.env.id}"
        )
    else:
        diagnosis.advice += _checked(cfg)
    if failure is not None and diagnosis.ok:
        diagnosis.advice.append(_refused("environment", failure))
    if diagnosis.met is not None and diagnosis.spaces is not None:
        diagnosis.advice += env_rules(cfg, diagnosis.spaces, diagnosis.met, machine)


def _checked(cfg: ExperimentConfig) -> Iterator[Advice]:
    findings = [finding for finding in check_env(cfg.env).findings if finding.severity != "info"]
    kinds = {finding.kind for finding in findings}
    for finding in findings:
        if finding.kind not in HANDLED and not kinds & CAUSES.get(finding.kind, set()):
            mistake = finding.kind or "environment"
            remedy = REMEDIES.get(mistake, f"see: rlctl check {cfg.env.id}")
            yield Advice("error" if finding.severity == "error" else "warning", mistake, finding.text, remedy)


def _try_out(
    diagnosis: Diagnosis, cfg: ExperimentConfig, machine: Machine, clock: Clock, trial_seconds: float | None
) -> None:
    """What only the run itself tells: whether it can be built, what its checkpoints take, how fast it is."""
    assert diagnosis.spaces is not None
    try:
        built = build(cfg)
        try:
            diagnosis.disk_bytes = disk_needed(cfg, diagnosis.spaces, built.trainer)
        finally:
            built.close()
        diagnosis.advice += disk_rules(cfg, diagnosis.disk_bytes, machine)
        if diagnosis.met is not None:
            diagnosis.forecast = forecast_of_slow_steps(cfg, diagnosis.met)
        if diagnosis.forecast is None and trial_seconds is not None:
            diagnosis.forecast = forecast(cfg, diagnosis.met, clock, trial_seconds)
    except RLStudioError as error:
        diagnosis.advice.append(_refused("settings", error))


def _refused(mistake: str, error: RLStudioError) -> Advice:
    """Messages of refusals end with what to do."""
    text, _, remedy = str(error).rpartition("; ")
    return Advice("error", mistake, text or remedy, remedy if text else "change what is named")
