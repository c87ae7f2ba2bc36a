"""What the workers of an environment went through: each replaced one is an event, and their number is a metric."""

from __future__ import annotations

from rlstudio.core.errors import LONGEST_MESSAGE
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.training.loop import Report

METRIC = "env/restarts"
MOST_EVENTS = 20  # of one epoch; the metric counts all of them


def record_restarts(report: Report, folder: RunFolder, recorder: Recorder) -> None:
    """Of an environment in processes. Whether a worker dies is chance, so the metric is outside of what is promised;
    the trajectory is the same with and without it."""
    if report.restarts is None:
        return
    for reason in report.restarts[:MOST_EVENTS]:
        folder.event("env_restarted", env_steps=report.env_steps, reason=reason[:LONGEST_MESSAGE])
    recorder.write_clock(report.env_steps, {METRIC: float(len(report.restarts))})
