"""Guardrails: safety rules on what every epoch reports. Bad rows and bad steps were already kept out of learning.

The row guard gives bad rows no weight and the optimizer skips bad steps, on the device, as they happen. Here the counts
are read once per epoch: too many bad rows are the environment's fault and end the run, unless the policy itself gave
actions that are not finite; those, too many skipped steps, non-finite weights or a metric beyond its limit mean that
training has diverged, and the session rolls back.
"""

from __future__ import annotations

from math import isfinite

from rlstudio.core.contracts import Trainer
from rlstudio.core.errors import ConfigError, EnvFault, suggest
from rlstudio.core.own_metrics import GROUP
from rlstudio.experiment.config.sections import GuardrailsConfig
from rlstudio.experiment.training.position import Report


class Guardrails:
    def __init__(self, cfg: GuardrailsConfig) -> None:
        self.cfg = cfg

    def judge(self, report: Report, trainer: Trainer) -> str | None:
        """None for a healthy epoch, else why it has diverged."""
        bad = report.metrics["guard/bad_row_share"]
        if bad > self.cfg.max_bad_rows:
            if self._is_policys_fault(report, trainer):
                return f"{bad:.0%} of the rows have actions of the policy that are not finite or do not exist"
            raise EnvFault(self._too_many_bad_rows(bad, report))
        skipped = report.metrics["guard/skipped_share"]
        if skipped > self.cfg.max_skipped:
            return f"{skipped:.0%} of the updates were skipped (limit {self.cfg.max_skipped:.0%})"
        if not trainer.weights_are_finite():
            return "the weights are not finite"
        self._check_limits(report)
        for name, value in report.metrics.items():
            if reason := self._beyond(name, value):
                return reason
        return None

    def _too_many_bad_rows(self, share: float, report: Report) -> str:
        listing = ", ".join(f"{reason}: {count}" for reason, count in report.bad.items() if count)
        percent, limit = _percentages(share, self.cfg.max_bad_rows)
        first = "" if report.bad_row is None else f"; the first: {report.bad_row}"
        return (
            f"{percent} of epoch {report.epoch}'s rows were bad ({listing} since the start), more than"
            f" guardrails.max_bad_rows = {limit}{first}; correct the environment, and try it out with: rlctl check"
        )

    def _is_policys_fault(self, report: Report, trainer: Trainer) -> bool:
        """A bad observation makes a bad action, and counts at least as often: what is left over is the policy's own. An
        environment that answers a bad action with a bad observation hides that, but not the state of the policy."""
        counts = report.bad
        if counts.get("actions", 0) > counts.get("observations", 0):
            return True
        learned = (value for name, value in report.metrics.items() if name.startswith("train/"))
        return bool(counts.get("actions")) and not (trainer.weights_are_finite() and all(map(isfinite, learned)))

    def _check_limits(self, report: Report) -> None:
        """Which metrics there are is known only now; a limit on none of them would guard nothing."""
        if report.warming:
            return
        wanted = {name for name in self.cfg.limits if not name.startswith(GROUP)}  # logged in some epochs only
        for name in sorted(wanted - report.metrics.keys()):
            hint = suggest(name, report.metrics) or f"; there are: {', '.join(sorted(report.metrics))}"
            raise ConfigError(f"guardrails.limits: no metric {name!r}{hint}")

    def _beyond(self, name: str, value: float) -> str | None:
        learned = name.startswith("train/") and not name.endswith("/explained_variance")
        if learned and not isfinite(value):
            return f"{name} is {value}"
        limit = self.cfg.limits.get(name)
        if limit is not None and abs(value) > limit:
            return f"{name} is {value:.4g}, beyond guardrails.limits ({limit:g})"
        return None


def _percentages(share: float, limit: float) -> tuple[str, str]:
    """Two shares as percentages with as many digits as it takes to see which is larger."""
    texts = ((f"{share:.{digits}%}", f"{limit:.{digits}%}") for digits in range(1, 12))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{share}", f"{limit}"))
