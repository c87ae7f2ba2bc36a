"""Driving sessions from the command line: one after the other, watched from the first step to the last."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from rlstudio.cli.failures import complain, show_traceback, write_at_once
from rlstudio.cli.screen.describe import run_document
from rlstudio.cli.screen.progress import Progress
from rlstudio.cli.screen.redraw import STOPPING, Redraw
from rlstudio.cli.screen.run_output import OutputStyle, RunOutput
from rlstudio.cli.screen.seeds import SeedResult, print_seeds, seeds_document
from rlstudio.cli.screen.summary import advice, header, result, stopped_line
from rlstudio.cli.screen.terminal import OutputClosed, stdout
from rlstudio.core.errors import Diverged, EnvFault, GateFailed, RLStudioError, StorageError
from rlstudio.core.host.process_exit import report_crashes

if TYPE_CHECKING:
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.loop import Tick

REFRESH_SECONDS = 0.15
LINE_SECONDS = 2.0
"""Plain progress lines are at least this far apart, except where there is a new evaluation."""

OWN_FAULTS = (GateFailed, Diverged, EnvFault)
"""Ends that concern one seed only: the next seed may fare better."""


def run_session(session: Session, origin: str, style: OutputStyle, alone: bool = True) -> SeedResult:
    """Train until the run completes, fails or is stopped. `alone`: it is not one of several, so print advice too."""
    from rlstudio.experiment.folder.run_folder import TRACEBACK
    from rlstudio.experiment.run.failures import has_traceback
    from rlstudio.experiment.run.signals import Interrupted

    with session, closing(RunOutput(session, style)) as output:
        for line in header(session, origin):
            output.say(line)
        progress = Progress(session)
        try:
            _watch(session, progress, output)
        except Interrupted as stop:
            _complain(output, stopped_line(session, stop.signum))
            return SeedResult(run_document(session.status, session.folder), code=128 + stop.signum, goes_on=False)
        except RLStudioError as error:
            kept = f"; the traceback is in {session.folder.artifacts_path / TRACEBACK}" if has_traceback(error) else ""
            _complain(output, f"run {session.folder.id}: {error}{kept}")
            show_traceback(error)
            goes_on = isinstance(error, OWN_FAULTS)
            return SeedResult(
                run_document(session.status, session.folder), session.evaluation, error.exit_code, goes_on
            )
        except Exception as error:
            with suppress(StorageError):  # the session has written most of it already
                session.folder.keep_traceback(traceback.format_exc())
            error.add_note(f"the traceback is in {session.folder.artifacts_path / TRACEBACK}")
            raise
        for line in [*result(session, progress), *(advice(session) if alone else [])]:
            output.say(line)
        return SeedResult(run_document(session.status, session.folder), session.evaluation)


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


def _watch(session: Session, progress: Progress, output: RunOutput) -> None:
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
        closing(cast("Generator[Tick]", iter(session))) as ticks,
        panel or nullcontext(),
        nullcontext() if panel is None else Redraw(panel, progress, session),
    ):
        for tick in ticks:
            now = time.monotonic()
            over = False
            if tick.report is not None:
                over = tick.epoch == progress.epochs
                if tick.report.outside is not None:
                    _complain(output, f"warning: {tick.report.outside}; correct the space or the environment")
                if session.collapse.reason is not None and not warned:
                    warned = True
                    _complain(output, f"warning: {session.collapse.reason}")
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


def run_seeds(starts: Sequence[Callable[[], Session]], origin: str, style: OutputStyle) -> int:
    """Train one run after the other. A failure of `OWN_FAULTS` ends only its own run; any other ends them all."""
    report_crashes()
    outcomes: list[SeedResult] = []
    for start in starts:
        outcomes.append(run_session(start(), origin, style, alone=len(starts) == 1))
        if not outcomes[-1].goes_on:
            break
    try:
        code = report_all(outcomes, style, len(starts))
        stdout().flush()
        return code
    except OutputClosed as error:
        last = outcomes[-1].run
        raise StorageError(f"run {last['id']} on env {last['env_id']}: {last['state']}, but {error}") from error
