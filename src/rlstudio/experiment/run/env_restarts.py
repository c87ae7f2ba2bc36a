"""What the workers of an environment went through: each replaced one is an event, and their number is a metric."""

from __future__ import annotations

from rlstudio.core.contracts import VecEnv
from rlstudio.core.errors import LONGEST_MESSAGE
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.recorder import Recorder

METRIC = "env/restarts"
MOST_EVENTS = 20  # of one epoch; the metric counts all of them


def record_restarts(env: VecEnv, folder: RunFolder, recorder: Recorder, step: int) -> None:
    """Of an environment in processes. Whether a worker dies is chance, so the metric is outside of what is promised;
    the trajectory is the same with and without it."""
    reasons: list[str] | None = getattr(env, "restart_reasons", None)
    if reasons is None:
        return
    for reason in reasons[:MOST_EVENTS]:
        folder.event("env_restarted", env_steps=step, reason=reason[:LONGEST_MESSAGE])
    recorder.write_clock(step, {METRIC: float(len(reasons))})
    reasons.clear()
