"""`reproduce`: a run once more, and whether it is the same, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Imports, Json, Overrides, Quiet, Run, RunsDir
from rlstudio.cli.commands.again.exit_codes import CANNOT_BE, NOT_THE_SAME
from rlstudio.cli.screen.run_output import OutputStyle
from rlstudio.cli.screen.terminal import stdout
from rlstudio.cli.screen.text import cut, plural
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.repeat.comparison import Verdict
    from rlstudio.experiment.lineage.changes import OriginChange

CODES = {"identical": 0, "different": NOT_THE_SAME, "cannot be identical": CANNOT_BE}
WIDEST = 60
MOST_CHANGES = 12
"""Of one kind: between two commits lie hundreds of files."""


def reproduce(
    run: Run,
    overrides: Overrides = None,
    epochs: Annotated[
        int | None, typer.Option("--epochs", metavar="N", min=1, max=10**9, help="Only the first N epochs.")
    ] = None,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    quiet: Quiet = False,
    json: Json = False,
) -> int:
    """Train a run once more from its stored config and seed, and compare the two bit by bit.

    The new run ends at the first difference. Exits with 0 if all is the same, with 10 if something differs, with 11 if
    it cannot be the same; names what has changed since.

    \b
    rlctl reproduce last
    rlctl reproduce last --epochs 3
    rlctl reproduce last runtime.threads=2      # does it matter?
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    import_modules(modules or (), runs_dir=runs_dir)
    workspace = Workspace(runs_dir)
    entry = workspace.find(run)
    from rlstudio.cli.watch import run_session
    from rlstudio.control.runs import reproduce as reproducing

    repetition = reproducing.reproduce(workspace, entry, overrides or (), epochs=epochs)
    style = OutputStyle(quiet, json)
    for session in repetition.sessions():
        ticks = repetition.ticks(session)
        done = run_session(session, f"repeats {entry.id}", style, alone=False, ticks=ticks)
        if done.code and not done.goes_on:  # a signal, a full disk: nothing that the run itself came to
            return done.code
    verdict = repetition.verdict()
    if json:
        stdout().document(verdict.to_json())
    elif quiet:
        stdout().line(verdict.repetition)
    else:
        for line, look in lines(verdict):
            stdout().line(line, look)
    return CODES[verdict.word]


def lines(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """The verdict for a person: text and style of each line."""
    same, first = verdict.metrics.same_values, verdict.first
    extent = "" if verdict.is_whole else f", up to step {verdict.env_steps:,}"
    equal = sum(one.same for one in verdict.hashes)
    if first is None and not same and not equal:
        yield "identical, as far as can be said: the run had measured nothing when it ended", "yellow"
    elif first is None:
        states = f" and the state hashes of {plural(equal, 'checkpoint')}" if equal else ""
        yield f"identical: {plural(same, 'metric value')}{states}{extent}", "green"
    else:
        yield f"{verdict.word}: first at step {first.step:,}", "yellow"
        yield f"  {first.what}: {_value(first.then)} -> {_value(first.now)}", ""
        yield f"  {plural(same, 'metric value')} before it {'is' if same == 1 else 'are'} the same", ""
    for reason in verdict.reasons:
        yield f"not promised: {reason}", ""
    if verdict.changes:
        yield "changed since", ""
        for what, group in groupby(verdict.changes, lambda change: change.what):
            yield from _changed(what, list(group))
    elif first is not None and not verdict.reasons:
        yield "nothing that is recorded has changed: the environment or a library does not repeat itself", ""


def _changed(what: str, changes: Sequence[OriginChange]) -> Iterator[tuple[str, str]]:
    for change in changes[:MOST_CHANGES]:
        yield f"  {what:<9} {change.name}: {_value(change.then)} -> {_value(change.now)}", ""
    if (more := len(changes) - MOST_CHANGES) > 0:
        yield f"  {what:<9} and {more} more; --json names all", ""


def _value(value: object) -> str:
    return "(absent)" if value is None else cut(str(value), WIDEST)
