"""Driving sessions from the command line: one after the other, watched from the first step to the last."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext, suppress
from typing import TYPE_CHECKING, cast

from rlstudio.cli.failures import complain
from rlstudio.cli.screen.describe import run_document
from rlstudio.cli.screen.progress import Progress
from rlstudio.cli.screen.run_output import OutputStyle, RunOutput
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.seeds import SeedResult, print_seeds, seeds_document
from rlstudio.cli.screen.summary import advice, header, result
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import Diverged, EnvFault, GateFailed, RLStudioError, StorageError

if TYPE_CHECKING:
    from rlstudio.experiment.run.session import Session
    from rlstudio.experiment.training.loop import Tick

REFRESH_SECONDS = 0.15
LINE_SECONDS = 2.0
"""Plain progress lines are at least this far apart, except where there is a new evaluation."""

OWN_FAULTS = (GateFailed, Diverged, EnvFault)
"""Ends that concern one seed only: the next seed may fare better."""


def run_session(session: Session, origin: str, manner: OutputStyle, alone: bool = True) -> SeedResult:
    """Train to the end, or to whatever ends it before. What to try next is said of a run that is not one of several."""
    from rlstudio.experiment.folder.run_folder import TRACEBACK
    from rlstudio.experiment.run.signals import Interrupted

    with session, closing(RunOutput(session, manner)) as voice:
        for line in header(session, origin):
            voice.say(line)
        progress = Progress(session)
        try:
            _watch(session, progress, voice)
        except Interrupted as stop:
            again = f"rlctl resume {session.folder.id}{in_runs_dir(session.folder.path.parent)}"
            _end(voice, f"stopped by {stop} after {session.status.env_steps:,} steps; go on with: {again}")
            return SeedResult(run_document(session.status, session.folder), code=128 + stop.signum, goes_on=False)
        except RLStudioError as error:
            _end(voice, f"run {session.folder.id}: {error}")
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
            voice.say(line)
        return SeedResult(run_document(session.status, session.folder), session.evaluation)


def _end(voice: RunOutput, line: str) -> None:
    voice.note(line)
    complain(line)


def _watch(session: Session, progress: Progress, voice: RunOutput) -> None:
    """The loop. Per tick it costs one look at the clock."""
    panel = voice.panel(f"{session.cfg.name} · {session.cfg.policy.algo} on {session.cfg.env.id}")
    tell = voice.say if panel is None else voice.note
    refresh_at = line_at = 0.0
    with closing(cast("Generator[Tick]", iter(session))) as ticks, panel or nullcontext():
        for tick in ticks:
            now = time.monotonic()
            over = False
            if tick.report is not None:
                over = tick.epoch == progress.epochs
                fresh = progress.close_epoch(tick.report, session.evaluation)
                if fresh or over or now >= line_at:
                    progress.at(tick, now)
                    tell(progress.line())
                    line_at = now + LINE_SECONDS
            if panel is not None and (over or now >= refresh_at):
                progress.at(tick, now)
                panel.show(progress)
                refresh_at = now + REFRESH_SECONDS


def report_all(outcomes: Sequence[SeedResult], manner: OutputStyle, asked: int) -> int:
    """After the last run: the table over seeds, the JSON document, or only ids. Returns the exit code."""
    out = stdout()
    if manner.json:
        out.document(outcomes[0].document() if asked == 1 else seeds_document(outcomes))
    elif manner.quiet:
        for outcome in outcomes:
            out.line(outcome.run["id"])
    elif asked > 1:
        print_seeds(out, outcomes)
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


def run_seeds(starts: Sequence[Callable[[], Session]], origin: str, manner: OutputStyle) -> int:
    """One run after the other; a failure of one seed's own does not keep the others from their turn."""
    outcomes: list[SeedResult] = []
    for start in starts:
        outcomes.append(run_session(start(), origin, manner, alone=len(starts) == 1))
        if not outcomes[-1].goes_on:
            break
    return report_all(outcomes, manner, len(starts))
