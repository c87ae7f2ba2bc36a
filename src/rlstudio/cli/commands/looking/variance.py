"""`variance`: what chance does to an experiment, and how many seeds show a difference."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.cli.arguments.options import Algos, Envs, Imports, Json, RunsDir, States, Tags
from rlstudio.cli.arguments.own_env import import_typed
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.commands.looking.measured import MetricKey
from rlstudio.cli.screen import text
from rlstudio.cli.screen.run_output import OutputStyle
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry, Workspace
    from rlstudio.experiment.analysis.seed_variance import SeedVariance
    from rlstudio.ops.statistics import IntervalEstimate

SEEDS = 10


def variance(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]... [KEY=VALUE]...",
            help="Runs that are already trained; with -f, settings by their path in the file.",
            autocompletion=completion.runs,
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Train this experiment first.", autocompletion=completion.experiments
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=2, max=1000, help=f"With -f: how many.  [default: {SEEDS}]")
    ] = None,
    metric: MetricKey = None,
    modules: Imports = None,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> int:
    """Measure how far seeds lie apart, and which differences a number of seeds can show.

    \b
    rlctl variance -f configs/ppo/cartpole.yaml --seeds 10
    rlctl variance lr1e-3 --json
    """
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    if file is None:
        if seeds is not None:
            raise UserError("--seeds: needs an experiment to train; give it with -f FILE")
        entries, code = Selection(words, state, env, algo, tag).entries(workspace), 0
    else:
        entries, code = _trained(workspace, file, words, seeds or SEEDS, modules, json)
    _report(entries, metric, json)
    return code


def _trained(
    workspace: Workspace, file: str, overrides: list[str] | None, seeds: int, modules: list[str] | None, json: bool
) -> tuple[tuple[Entry, ...], int]:
    """All seeds, side by side as cores are free, as `launch --seeds` trains them."""
    from rlstudio.cli.watch import run_group
    from rlstudio.control.runs.start import enqueue_seeds

    names, _, changed = import_typed(modules, None, overrides, workspace.runs_dir)
    chosen = choose(ExperimentRequest(file, None, None, changed, names, seeds=seeds))
    queued = enqueue_seeds(workspace, chosen.experiments)
    with redirect_stdout(sys.stderr if json else sys.stdout):  # the document is the only thing on standard output
        code = run_group(workspace, queued, chosen.origin, OutputStyle(quiet=json, json=False))
    return tuple(workspace.entries_of([run.id for run in queued])), code


def _report(entries: tuple[Entry, ...], metric: str | None, json: bool) -> None:
    from rlstudio.control.runs.looking.measured import measured_groups
    from rlstudio.experiment.analysis.seed_variance import seed_variance

    results = [seed_variance(group, metric) for group in measured_groups(entries)]
    if json:
        stdout().document([each.to_json() for each in results])
        return
    for number, each in enumerate(results):
        if number:
            stdout().line()
        _print(stdout(), each)


def _print(out: Terminal, of: SeedVariance) -> None:
    out.line(f"{of.name}: {of.metric} at the end of {text.plural(of.runs, 'run')}", "bold")
    rows = [
        ["mean", _estimate(of.mean)],
        ["IQM", _estimate(of.iqm)],
        ["standard deviation over seeds", _estimate(of.std)],
        ["lowest, highest", f"{text.number(of.lowest)}, {text.number(of.highest)}"],
    ]
    if of.noise_share is not None:
        rows.append(["of the variance, chance of evaluation", f"{of.noise_share:.0%}"])
    out.table(["", "value [95 %]"], rows)
    out.line()
    drift = [[f"{point.step:,.0f}", text.number(point.mean), text.number(point.std)] for point in of.drift]
    out.table(["steps", "mean", "std over seeds"], drift)
    out.line()
    needed = [[str(count), text.number(difference)] for count, difference in of.detectable.items()]
    out.table(["seeds of each side", "smallest difference that they show"], needed)
    for note in of.notes:
        out.line(f"note: {note}", "yellow")


def _estimate(estimate: IntervalEstimate) -> str:
    return f"{text.number(estimate.value)} {text.interval((estimate.low, estimate.high))}"
