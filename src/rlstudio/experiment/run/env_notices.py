"""What an epoch noticed of the environment: each replaced worker is an event, and their number is a metric; the first
observation far outside its space is an event, and so are the first bad row of an epoch, each change of the
curriculum and each source of a replay that was quarantined."""

from __future__ import annotations

from collections.abc import Mapping

from rlstudio.core.contracts import Runtime
from rlstudio.core.errors import LONGEST_MESSAGE, GateFailed
from rlstudio.experiment.folder.run_folder import ROLLOUT_WORKERS, RunFolder
from rlstudio.experiment.metrics.recorder import Recorder
from rlstudio.experiment.training.position import Report
from rlstudio.scale.workers.runtime import WorkersRuntime

METRIC = "env/restarts"
MOST_EVENTS = 20  # of one epoch; the metric counts all of them


def record_workers(runtime: Runtime, folder: RunFolder) -> None:
    """Where the rollout workers of this session are, if it has any."""
    if isinstance(runtime, WorkersRuntime):
        folder.event(ROLLOUT_WORKERS, **runtime.whereabouts())


def record_notices(report: Report, folder: RunFolder, recorder: Recorder) -> None:
    """Observations outside their space are learned from: the environment may know better than what it declares. Whether
    a worker dies is chance, so its metric is outside of what is promised; the trajectory is the same without it. A
    curriculum that does not get on raises GateFailed, where it is to end the run."""
    for change in report.curriculum.changes:
        folder.event(change.kind, **change.facts)
    if report.curriculum.failure is not None:
        raise GateFailed(report.curriculum.failure)
    if report.outside is not None:
        folder.event("observations_outside", env_steps=report.env_steps, reason=report.outside)
    if report.bad_row is not None:
        without = int(report.metrics.get("rollout/episodes_without_return", 0))
        folder.event("bad_rows", env_steps=report.env_steps, first=report.bad_row, episodes_without_return=without)
    for line in report.quarantined or ():
        folder.event("quarantined", env_steps=report.env_steps, source=line)
    if report.fragments:
        recorder.write_fragments(report.env_steps, report.fragments)
    if report.restarts is None:
        return
    for reason in report.restarts[:MOST_EVENTS]:
        folder.event("env_restarted", env_steps=report.env_steps, reason=reason[:LONGEST_MESSAGE])
    recorder.write_clock(report.env_steps, {METRIC: float(len(report.restarts))})


def record_lost_metrics(recorder: Recorder, offsets: Mapping[str, int], folder: RunFolder) -> None:
    """Cut the metrics back to a checkpoint; what is missing of them, or damaged, is an event."""
    for sink, amount in recorder.cut_back(offsets).items():
        folder.event("metrics_missing", sink=sink, amount=amount)
    if damaged := recorder.damaged_lines():
        folder.event("metrics_damaged", lines=damaged)
