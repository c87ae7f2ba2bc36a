"""`rewind`: stand at any past step of a run, and look at its trainer in a shell or by a script."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Imports, Json, Run, RunsDir
from rlstudio.cli.commands.again.exit_codes import NOT_THE_SAME
from rlstudio.cli.commands.again.interaction import open_shell, run_script
from rlstudio.cli.failures import complain
from rlstudio.cli.screen.terminal import stdout
from rlstudio.cli.screen.text import duration, plural
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.repeat.rewind import Rewound, Way


def rewind(
    run: Run,
    at: Annotated[int, typer.Option("--at", metavar="STEP", min=0, max=10**18, help="Environment steps.")],
    shell: Annotated[bool, typer.Option("--shell", help="Open a Python shell there.")] = False,
    script: Annotated[
        Path | None,
        typer.Option("--script", metavar="FILE", help="Run a Python file there, with the same names as the shell."),
    ] = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", metavar="N", min=0, help="For a run that was rolled back: which attempt, counted from 0."
        ),
    ] = None,
    allow_inexact: Annotated[
        bool, typer.Option("--allow-inexact", help="Even if the result will not be bit for bit that of the run.")
    ] = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Restore a past step of a run, bit for bit, and use its trainer there. The run itself is only read.

    \b
    rlctl rewind last --at 20000
    rlctl rewind last --at 20000 --shell
    rlctl rewind last --at 20000 --script look.py

    Shell and script have `trainer`, `agent`, `cfg` and `session`, and `moment.advance()` does the next train step.
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    if script is not None and not script.is_file():
        raise UserError(f"--script {script}: is not a file")
    import_modules(modules or (), runs_dir=runs_dir)
    folder = Workspace(runs_dir).folder_to_load(run)
    from rlstudio.experiment.analysis.repeat.rewind import way_to

    way = way_to(folder, at, attempt=attempt, allow_inexact=allow_inexact)
    if not json:
        stdout().line(_announcement(way))
        stdout().flush()
    started = time.monotonic()
    with way.open() as moment:
        seconds = time.monotonic() - started
        if json:
            stdout().document(_document(moment, seconds))
        else:
            _print(moment, seconds)
        stdout().flush()
        parted = moment.parted
        if parted is not None:
            was = f"{parted.key} at step {parted.step:,} was {parted.left} and is {parted.right} now"
            complain(f"run {folder.id}: not what it was there: {was}; what changed: rlctl reproduce {folder.id}")
        code = 0 if parted is None else NOT_THE_SAME
        if script is not None:
            code = run_script(script, moment) or code
        if shell:
            open_shell(moment)
    return code


def _announcement(way: Way) -> str:
    seconds = way.seconds()
    origin = "the start" if way.base is None else f"the checkpoint at {way.base.step:,}"
    distance = way.step - way.begins
    if not distance:
        return f"run {way.folder.id}: {origin}"
    expected = "" if seconds is None else f", about {duration(seconds)} at the speed that it had"
    return f"run {way.folder.id}: from {origin}, {plural(distance, 'step')}{expected}"


def _print(moment: Rewound, seconds: float) -> None:
    out, way = stdout(), moment.way
    asked = "" if moment.env_steps == way.step else f" (no train step ends at {way.step:,})"
    attempt = f", attempt {moment.session.attempt}" if way.timeline.rollbacks else ""
    epoch = moment.session.position.epoch
    out.line(f"stands at {moment.env_steps:,} steps{asked}, epoch {epoch}{attempt}, after {duration(seconds)}", "bold")
    out.line(f"state_hash  {moment.state_hash()}")
    check = moment.check
    if check is None:
        out.line("metrics     the run cut those of this attempt back: nothing to compare with", "dim")
    elif check.divergence is None:
        what = f"the same {plural(check.same_values, 'value')} as the run" if check.same_values else "none to compare"
        out.line(f"metrics     {what}")


def _document(moment: Rewound, seconds: float) -> dict[str, object]:
    way = moment.way
    return {
        "id": way.folder.id,
        "asked": way.step,
        "env_steps": moment.env_steps,
        "epoch": moment.session.position.epoch,
        "attempt": moment.session.attempt,
        "from": way.begins,
        "seconds": round(seconds, 3),
        "state_hash": moment.state_hash(),
        "metrics": None if moment.check is None else moment.check.to_json(),
    }
