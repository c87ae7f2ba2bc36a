"""`report`: runs, groups or a sweep as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import Algos, Envs, RunsDir, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.commands.looking.measured import MetricKey
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import RunNotFound
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Workspace

DEFAULT_PAGE = Path("report.html")


def report(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Runs, names of groups, or the name of a sweep.",
            autocompletion=completion.runs,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page to write: .html.")] = DEFAULT_PAGE,
    metric: MetricKey = None,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Write one page with curves, evaluations, incidents, films, settings and versions. It opens without a network.

    \b
    rlctl report last -o last.html
    rlctl report lr1e-3 lr1e-4 -o lr.html
    """
    from rlstudio.control.report.content import content_of_runs, content_of_sweep
    from rlstudio.control.report.page import SUFFIXES, write_page
    from rlstudio.control.workspace import Workspace
    from rlstudio.storage.output_file import output_path

    output_path(out, SUFFIXES)  # refused before anything is read
    workspace = Workspace(runs_dir)
    name = _sweep_name(workspace, words)
    if name is not None:
        content = content_of_sweep(workspace, name)
    else:
        content = content_of_runs(Selection(words, state, env, algo, tag).entries(workspace), metric)
    stdout().line(str(write_page(content, out)))


def _sweep_name(workspace: Workspace, words: list[str] | None) -> str | None:
    """The one word, where it names a sweep and no run."""
    if len(words or ()) != 1 or workspace.is_empty:
        return None
    from rlstudio.control.sweep.sweeps import Sweeps

    assert words is not None
    try:
        workspace.references().all_of(words[0])
    except RunNotFound:
        known = [sweep.name for sweep in Sweeps(workspace.records.database).all()]
        return words[0] if words[0] in known else None
    return None
