"""Where a second of training goes: from the metrics of the clock, and from the trace where there is one. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from statistics import median

from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.indexed.index import Series, read_snapshot
from rlstudio.experiment.metrics.trace_file import FILE, SpanSum, read_trace

SPEED = "time/steps_per_second"
PHASES = ("collect", "update", "evaluate", "checkpoint")
FINAL = "final"
"""The evaluation and the checkpoint after the last epoch, which no epoch reports."""

OTHER = "other"


@dataclass(frozen=True)
class TimeProfile:
    run: str
    env_steps: int
    seconds: float  # from the first step to the end, without the start of the process
    phases: dict[str, float]  # seconds of each; `other` is what belongs to none of them
    marks: dict[str, float]  # medians over epochs: of train steps and updates in ms, of what the process uses
    trace: Path | None
    spans: tuple[SpanSum, ...]

    @property
    def steps_per_second(self) -> float:
        return self.env_steps / self.seconds if self.seconds else 0.0

    def share(self, phase: str) -> float:
        return self.phases[phase] / self.seconds if self.seconds else 0.0

    def to_json(self) -> dict[str, object]:
        spans = [{**span._asdict(), "mean_ms": span.mean_ms} for span in self.spans]
        trace = None if self.trace is None else str(self.trace)
        return {**asdict(self), "steps_per_second": self.steps_per_second, "trace": trace, "spans": spans}


def profile_of(folder: RunFolder) -> TimeProfile:
    """Reads only; the run may be training meanwhile."""
    snapshot = read_snapshot(folder.path)
    series = {key: (curve.steps.tolist(), curve.values.tolist()) for key, curve in snapshot.series().points.items()}
    if SPEED not in series:
        raise UserError(f"run {folder.id}: it has no metric {SPEED} yet; let it train for an epoch")
    seconds = _seconds(series)
    phases = {name: _total(series, f"time/{name}_share", seconds) for name in PHASES if f"time/{name}_share" in series}
    whole = sum(seconds.values())
    phases[OTHER] = max(whole - sum(phases.values()), 0.0)
    if final := _final(folder, float(snapshot.points(SPEED).clock[-1])):
        phases[FINAL] = final
        whole += final
    named = sorted(name for name in series if name.startswith(("time/", "system/")) and not name.endswith("_share"))
    marks = {name: median(series[name][1]) for name in [*named, "system/cpu_share"] if name in series and name != SPEED}
    spans = tuple(read_trace(folder.path))
    trace = folder.path / FILE if spans else None
    return TimeProfile(folder.id, max(seconds, default=0), whole, phases, marks, trace, spans)


def _final(folder: RunFolder, reported: float) -> float:
    """Seconds from the last report to the end of the run; 0 while it trains."""
    ends = [event.get("ts") for event in folder.events() if event.get("kind") == "completed"]
    return max(ends[-1] - reported, 0.0) if ends and isinstance(ends[-1], int | float) else 0.0


def _seconds(series: Series) -> dict[int, float]:
    """Of each epoch, by the step at which it ended; of a run that was resumed, without the time between."""
    seconds, before = {}, 0
    for step, rate in zip(*series[SPEED], strict=True):
        if rate > 0:
            seconds[step] = (step - before) / rate
        before = step
    return seconds


def _total(series: Series, name: str, seconds: dict[int, float]) -> float:
    return sum(share * seconds.get(step, 0.0) for step, share in zip(*series[name], strict=True) if isfinite(share))
