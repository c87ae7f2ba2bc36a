"""Driving sessions from the command line: one after the other, watched from the first step to the last."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from rlstudio.cli.failures import complain, show_traceback, write_at_once
from rlstudio.cli.screen.live.progress import Progress
from rlstudio.cli.screen.live.redraw import STOPPING, Redraw
from rlstudio.cli.screen.run_output import OutputStyle, RunOutput
from rlstudio.cli.screen.runs_dir import in_runs_dir, with_runs_dir
from rlstudio.cli.screen.seeds import SeedResult, print_seeds, recorded_result, seeds_document
from rlstudio.cli.screen.summary import advice, header, result, stopped_line
from rlstudio.cli.screen.terminal import OutputClosed, stdout
from rlstudio.control.runs.looking.documents import run_document
from rlstudio.core.errors import Diverged, EnvFault, GateFailed, RLStudioError, StorageError
from rlstudio.core.host.process_exit import report_crashes

if TYPE_CHECKING:
    from collections.abc import Generator

    from rlstudio.control.queue.run_group import RunGroup
    from rlstudio.control.store.records import RunRow
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.loop import Tick
    from rlstudio.ops.statistics import Summary

REFRESH_SECONDS = 0.15
LINE_SECONDS = 2.0
"""Plain progress lines are at least this far apart, except where there is a new evaluation."""

OWN_FAULTS = (GateFailed, Diverged, EnvFault)
"""Ends that concern one seed only: the next seed may fare better."""


def run_session(
    session: Session, origin: str, style: OutputStyle, alone: bool = True, ticks: Generator[Tick] | None = None
) -> SeedResult:
    """Train until the run completes, fails or is stopped. `alone`: it is not one of several, so print advice too.
    `ticks`: those of the session, passed on by somebody who looks at each."""
    from rlstudio.experiment.folder.run_folder import TRACEBACK
    from rlstudio.experiment.run.failures import has_traceback
    from rlstudio.experiment.run.signals import Interrupted

    with _sinks_reported(session), session, closing(RunOutput(session, style)) as output:
        for line in header(session, origin):
            output.say(line)
        progress = Progress(session)
        try:
            _watch(session, progress, output, ticks)
        except Interrupted as stop:
            _complain(output, stopped_line(session, stop.signum))
            return SeedResult(run_document(session.status, session.folder), code=128 + stop.signum, goes_on=False)
        except RLStudioError as error:
            kept = f"; the traceback is in {session.folder.artifacts_path / TRACEBACK}" if has_traceback(error) else ""
            message = with_runs_dir(str(error), session.folder.path.parent)
            _complain(output, f"run {session.folder.id}: {message}{kept}")
            show_traceback(error)
            goes_on = isinstance(error, OWN_FAULTS)
            return SeedResult(run_document(session.status, session.folder), _summary(session), error.exit_code, goes_on)
        except Exception as error:
            with suppress(StorageError):  # the session has written most of it already
                session.folder.keep_traceback(traceback.format_exc())
            error.add_note(f"the traceback is in {session.folder.artifacts_path / TRACEBACK}")
            raise
        for line in [*result(session, progress), *(advice(session) if alone else [])]:
            output.say(line)
        return SeedResult(run_document(session.status, session.folder), _summary(session))


@contextmanager
def _sinks_reported(session: Session) -> Iterator[None]:
    """Sinks have their last seconds while the session closes."""
    yield
    for line in session.recorder.take_warnings():
        complain(f"warning: {line}")


def _summary(session: Session) -> Summary | None:
    return None if session.evaluation is None else session.evaluation.summary


def _complain(output: RunOutput, line: str) -> None:
    output.note(line)
    complain(line)


def _say_goodbye(session: Session, output: RunOutput, signum: int) -> None:
    """The process leaves within a signal handler."""
    line = stopped_line(session, signum)
    write_at_once(line)
    output.note(line)


def _report_hang(output: RunOutput, text: str) -> None:
    """A line, and the stack below it, from another thread: this one waits for the environment."""
    for line in text.splitlines():
        _complain(output, line)


def _watch(session: Session, progress: Progress, output: RunOutput, ticks: Generator[Tick] | None) -> None:
    """Train, and print the progress. Per tick it costs one reading of the clock."""
    from rlstudio.experiment.run.hang_watch import HangWatch

    session.signals.on_leave = partial(_say_goodbye, session, output)
    panel = output.panel(f"{session.cfg.name} · {session.cfg.policy.algo} on {session.cfg.env.id}")
    print_line = output.say if panel is None else output.note
    if panel is None:  # which says it itself
        session.signals.on_stop = lambda signum: write_at_once(STOPPING)
    refresh_at = line_at = 0.0
    warned = False
    with (
        HangWatch(session, partial(_report_hang, output)),
        closing(iter(session) if ticks is None else ticks) as watched,
        panel or nullcontext(),
        nullcontext() if panel is None else Redraw(panel, progress, session),
    ):
        for tick in watched:
            now = time.monotonic()
            over = False
            if tick.report is not None:
                over = tick.epoch == progress.epochs
                if tick.report.outside is not None:
                    _complain(output, f"warning: {tick.report.outside}; correct the space or the environment")
                if session.collapse.reason is not None and not warned:
                    warned = True
                    _complain(output, f"warning: {session.collapse.reason}")
                for line in session.recorder.take_warnings():
                    _complain(output, f"warning: {line}")
                fresh = progress.close_epoch(tick.report, session.evaluation, session.evaluations.latest_epoch)
                if fresh or over or now >= line_at:
                    progress.at(tick, now)
                    print_line(progress.line())
                    line_at = now + LINE_SECONDS
            if panel is not None and (over or now >= refresh_at):
                progress.at(tick, now)
                panel.show(progress)
                refresh_at = now + REFRESH_SECONDS


def report_all(outcomes: Sequence[SeedResult], style: OutputStyle, asked: int) -> int:
    """After the last run: the table over seeds, the JSON document, or only ids. Returns the exit code."""
    out = stdout()
    if style.json:
        out.document(outcomes[0].document() if asked == 1 else seeds_document(outcomes))
    elif style.quiet:
        for outcome in outcomes:
            out.line(outcome.run["id"])
    elif asked > 1:
        print_seeds(out, outcomes)
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def run_alone(session: Session, origin: str, style: OutputStyle) -> int:
    """Train one run. Returns the exit code."""
    report_crashes()
    return _reported([run_session(session, origin, style)], style, 1)


def run_group(workspace: Workspace, runs: Sequence[RunRow], origin: str, style: OutputStyle) -> int:
    """Train runs of the queue until all have ended: here one after the other, and beside them what a worker takes where
    cores are free. A failure of `OWN_FAULTS` ends only its own run; any other, and a signal, holds all others back."""
    from rlstudio.control.queue.run_group import RunGroup

    report_crashes()
    group = RunGroup(workspace, runs)
    outcomes: dict[str, SeedResult] = {}
    try:
        group.share()
        stopped_by = _train_all(group, outcomes, origin, style)
    except BaseException:
        group.hold_back()
        raise
    if stopped_by:
        held = group.hold_back()
        names = " ".join(dict.fromkeys(run.name for run in group.rows()))
        again = f"go on with all that is left: rlctl resume {names}{in_runs_dir(workspace.runs_dir)}"
        complain(f"held back {len(held)} more of the {len(runs)} runs; {again}")
    ended = [outcomes.get(run.id) or recorded_result(workspace.entry(run)) for run in group.rows()]
    code = _reported(ended, style, len(runs))
    return stopped_by or code


def _train_all(group: RunGroup, outcomes: dict[str, SeedResult], origin: str, style: OutputStyle) -> int:
    """Until none is left. Returns the exit code by which the others must not go on; 0 where they may."""
    from rlstudio.experiment.run.signals import Interrupted, StopSignals

    announced = False
    while going := group.going():
        if (session := group.take()) is not None:
            outcome = outcomes[session.folder.id] = run_session(session, origin, style, alone=False)
            if not outcome.goes_on:
                return outcome.code
            continue
        if not announced and not style.quiet:
            style.terminal().line(
                f"waiting for {len(going)} more, which a worker trains beside; Ctrl-C holds them back"
            )
            announced = True
        try:
            with StopSignals(lambda signum: None) as signals:
                group.wait()
                signals.raise_if_received()
        except Interrupted as stop:
            return 128 + stop.signum
    return 0


def _reported(outcomes: Sequence[SeedResult], style: OutputStyle, asked: int) -> int:
    try:
        code = report_all(outcomes, style, asked)
        stdout().flush()
        return code
    except OutputClosed as error:
        last = outcomes[-1].run
        raise StorageError(f"run {last['id']} on env {last['env_id']}: {last['state']}, but {error}") from error
