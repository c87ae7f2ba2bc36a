"""`rlctl profile`: where a second of training goes. Nothing here imports torch."""

from __future__ import annotations

from rlstudio.cli.arguments.options import Json, Run, RunsDir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.cli.screen.text import duration, number
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR


def profile(run: Run, runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """Print where a second of training goes.

    Uses the timings among the metrics of every run. With `runtime.trace: true` also by process, and the trace opens in
    Perfetto or chrome://tracing.

    \b
    rlctl profile last
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.profile import profile_of

    measured = profile_of(Workspace(runs_dir).folder_to_read(run))
    out = stdout()
    if json:
        out.document(measured.to_json())
        return
    speed = f"{measured.steps_per_second:,.0f} steps/s"
    out.line(f"{measured.env_steps:,} steps in {duration(measured.seconds)}, {speed}", "bold")
    # A clock of seconds would show a phase of a short run as 0:00.
    in_all = duration if measured.seconds >= 600 else lambda seconds: f"{number(seconds)} s"
    rows = [[name, f"{measured.share(name):.3f}", in_all(seconds)] for name, seconds in measured.phases.items()]
    out.table(["phase", "of a second", "in all"], rows)
    out.line()
    out.table(["median over epochs", ""], [[name, number(value)] for name, value in measured.marks.items()])
    if measured.trace is None:
        out.line("by process: train with runtime.trace=true", "dim")
        return
    out.line()
    spans = [
        [one.process, one.name, f"{one.times:,}", number(one.seconds), number(one.mean_ms)] for one in measured.spans
    ]
    out.table(["process", "span", "count", "seconds", "mean ms"], spans)
    out.line(f"open {measured.trace} in Perfetto or chrome://tracing")
