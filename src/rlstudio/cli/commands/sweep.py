"""`sweep`: search the settings of an experiment. `rlctl sweep -f FILE`, and commands for one that the store knows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.command import command_words
from rlstudio.cli.arguments.options import Imports, Json, Notify, RunsDir, SweepName
from rlstudio.cli.arguments.sweeps import find_sweep
from rlstudio.cli.commands import sweep_steering
from rlstudio.cli.failures import INTERRUPTED
from rlstudio.cli.screen import text
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.sweep_view import print_sweep, print_sweeps, view
from rlstudio.cli.screen.terminal import Terminal, stderr, stdout
from rlstudio.core.errors import StorageError, UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.sweep.driver import Driver
    from rlstudio.control.sweep.report import SweepSummary
    from rlstudio.control.workspace import Workspace

app = typer.Typer(rich_markup_mode=None)
app.command("stop")(sweep_steering.stop)
app.command("rm")(sweep_steering.rm)
app.command("logs")(sweep_steering.logs)


@app.callback(invoke_without_command=True)
def sweep(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", metavar="FILE", help="The sweep.", autocompletion=completion.experiments),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="SWEEP", help="Continue a sweep.", autocompletion=completion.sweeps),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the sweep, instead of the one in the file.")
    ] = None,
    max_concurrent: Annotated[
        int | None, typer.Option("--max-concurrent", min=1, help="Runs at the same time.")
    ] = None,
    deterministic: Annotated[
        bool,
        typer.Option(
            "--deterministic", help="Decide in fixed groups, so that neither timing nor --max-concurrent matters."
        ),
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With --resume: its process was on another host and is gone.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Run it in the background and return at once.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file; start nothing.")] = False,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
    notify: Notify = None,
) -> int:
    """Search the settings of an experiment.

    \b
    rlctl sweep -f configs/sweep/ppo_cartpole.yaml --max-concurrent 2
    rlctl sweep -f configs/sweep/ppo_cartpole.yaml --detach
    rlctl sweep stop ppo_cartpole_sweep
    rlctl sweep --resume ppo_cartpole_sweep
    rlctl sweep show ppo_cartpole_sweep --out pictures
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if (file is None) == (resume is None):
        raise UserError("give a sweep with -f FILE, or one to go on with: --resume SWEEP")
    from rlstudio.control.workspace import Workspace

    workspace, command = Workspace(runs_dir), command_words(notify)
    if resume is not None:
        if deterministic or name is not None or modules or dry_run:
            raise UserError("--resume: the sweep goes on as it was begun; leave the other options out")
        return _resume(workspace, resume, max_concurrent, command, take_over=take_over, detach=detach, json=json)
    from rlstudio.control.sweep.actions import begin_sweep, create_sweep
    from rlstudio.control.sweep.search import load_search
    from rlstudio.control.sweep.sweeps import Sweeps, SweepState
    from rlstudio.experiment.config.imports import import_modules

    names = import_modules(modules or (), runs_dir=runs_dir)
    changes: dict[str, object] = {"name": name} if name is not None else {}
    changes |= {"deterministic": True} if deterministic else {}
    search = load_search(str(file), imports=names, changes=changes)
    if dry_run:
        size = f"{text.plural(search.trials, 'trial')} of {text.plural(len(search.cfg.seeds), 'run')}"
        stdout().line(f"{search.cfg.name}: {size}; the file is valid")
        return 0
    if detach:
        # Left for the process in the background: if none comes to be, `--resume` goes on with it.
        Sweeps(workspace.store.database).end(create_sweep(workspace, search), SweepState.STOPPED)
        return sweep_steering.detach(workspace, search.cfg.name, max_concurrent, command, json=json)
    return _drive(workspace, begin_sweep(workspace, search, max_concurrent), command, json)


def _resume(
    workspace: Workspace,
    name: str,
    max_concurrent: int | None,
    notify: Sequence[str],
    *,
    take_over: bool,
    detach: bool,
    json: bool,
) -> int:
    find_sweep(workspace, name)
    if detach:
        return sweep_steering.detach(workspace, name, max_concurrent, notify, take_over=take_over, json=json)
    from rlstudio.control.sweep.actions import resume_sweep

    return _drive(workspace, resume_sweep(workspace, name, max_concurrent, take_over=take_over), notify, json)


def _drive(workspace: Workspace, driver: Driver, notify: Sequence[str], json: bool) -> int:
    from rlstudio.control.sweep.actions import drive
    from rlstudio.control.sweep.report import summary_of
    from rlstudio.control.sweep.sweeps import SweepStopped

    name, where = driver.sweep.name, in_runs_dir(workspace.runs_dir)
    out = stderr() if json else stdout()
    try:
        with view(out, driver) as show:
            drive(workspace, driver, show, notify=notify)
    except KeyboardInterrupt:
        out.line(f"sweep {name}: stopped; its runs continue; go on with: rlctl sweep --resume {name}{where}")
        return INTERRUPTED
    except SweepStopped:
        out.line(f"sweep {name}: was stopped with its runs; go on with: rlctl sweep --resume {name}{where}")
        return INTERRUPTED
    except StorageError as error:
        again = f"the sweep goes on with: rlctl sweep --resume {name}{where}"
        raise type(error)(f"sweep {name}: {error}; {again}") from error
    summary = summary_of(workspace.store, name)
    if json:
        stdout().document(summary.document())
        return 0
    print_sweep(out, summary.document())
    if summary.best is None:
        return 1
    out.line(f"pictures and the best config: rlctl sweep show {name} --out DIR{where}", "dim")
    return 0


@app.command()
def show(
    name: SweepName,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Write best.yaml, parallel.svg and scatter.svg.")
    ] = None,
    png: Annotated[bool, typer.Option("--png", help="With --out: pictures as .png instead of .svg.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Show a sweep: its trials, the best one, and which settings mattered."""
    summary = _summary(runs_dir, name)
    if json:
        stdout().document(summary.document())
    else:
        print_sweep(stdout(), summary.document())
    if out is not None:
        _write(summary, out, ".png" if png else ".svg", stderr() if json else stdout())


@app.command()
def ls(runs_dir: RunsDir = DEFAULT_RUNS_DIR, json: Json = False) -> None:
    """List the sweeps, newest first."""
    from rlstudio.control.sweep.report import list_document
    from rlstudio.control.sweep.sweeps import Sweeps
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    sweeps = None if workspace.is_empty else Sweeps(workspace.records.database)
    listing = [] if sweeps is None else [list_document(entry, sweeps.trials(entry.name)) for entry in sweeps.all()]
    terminal = stdout()
    if json:
        terminal.document(listing)
    elif not listing:
        terminal.line(f"no sweeps in {runs_dir} yet; start one with: rlctl sweep -f FILE")
    else:
        print_sweeps(terminal, listing)


def _summary(runs_dir: Path, name: str) -> SweepSummary:
    from rlstudio.control.sweep.report import summary_of
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    find_sweep(workspace, name)
    return summary_of(workspace.records, name)


def _write(summary: SweepSummary, folder: Path, suffix: str, out: Terminal) -> None:
    from rlstudio.control.sweep.charts import draw
    from rlstudio.control.sweep.report import best_yaml
    from rlstudio.storage.output_file import written_whole

    written = draw(summary, folder, suffix)
    best = best_yaml(summary)
    if best is not None:
        target = folder / "best.yaml"
        with written_whole(target) as partial:
            partial.write_text(best)
        written.append(target)
    for path in written:
        out.line(str(path))
    if best is not None:
        out.line(f"train it with: rlctl launch -f {folder / 'best.yaml'}", "dim")
