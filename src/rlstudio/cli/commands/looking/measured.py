"""What runs measured: `plot` draws it, `compare` sets groups side by side, `metrics` writes it for other programs,
`send` takes it to the tools of others. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlstudio.cli.arguments.options import Algos, Envs, Json, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.failures import complain
from rlstudio.cli.screen.groups_view import print_curves, print_groups
from rlstudio.cli.screen.terminal import Terminal, stdout
from rlstudio.cli.screen.text import safe
from rlstudio.core.errors import UserError
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.workspace import Entry
    from rlstudio.experiment.metrics.tables import NamedRun

CSV, PARQUET = ".csv", ".parquet"
MetricKey = Annotated[
    str | None, typer.Option("--metric", metavar="KEY", help="For example train/kl.  [default: evaluation return]")
]


def plot(
    runs: RunWords = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write a picture: .png, .svg or .pdf.")
    ] = None,
    metric: MetricKey = None,
    x: Annotated[
        Literal["steps", "time"],
        typer.Option("--x", help="Over environment steps, or over seconds since the run first measured something."),
    ] = "steps",
    dark: Annotated[bool, typer.Option("--dark", help="With --out: on a dark background.")] = False,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Draw learning curves, with a band over the runs of each group.

    \b
    rlctl plot last
    rlctl plot lr1e-3 lr1e-4 --out lr.png
    rlctl plot --algo ppo --state completed --x time
    """
    from rlstudio.control.runs.looking.curve_documents import group_document
    from rlstudio.control.runs.looking.measured import measured_groups
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.curves import SUFFIXES, plot_runs
    from rlstudio.experiment.analysis.groups import curve_metric, curves_of
    from rlstudio.storage.output_file import output_path

    if out is not None:
        if json:
            raise UserError("--json with --out: a picture or a document; leave one of them out")
        output_path(out, SUFFIXES)
    elif dark:
        raise UserError("--dark: is for a picture; name its file with --out FILE.png")
    selected = Selection(runs, state, env, algo, tag).entries(Workspace(runs_dir))
    over_time = x == "time"
    groups = measured_groups(selected, "time" if over_time else "env_steps")
    key, notes = curve_metric(groups, metric)
    label, unit = ("seconds since the start", "seconds") if over_time else ("environment steps", "steps")
    curves, more = curves_of(groups, key, unit)
    if json:
        drawn = [group_document(group, key) for group in groups]
        stdout().document({"metric": key, "x": x, "groups": drawn, "notes": [*notes, *more]})
        return
    for note in (*notes, *more):
        complain(f"note: {note}")
    if out is None:
        print_curves(stdout(), curves, key, label, unit)
    else:
        stdout().line(str(plot_runs(curves, out, metric=key, x_label=label, dark=dark)))


def compare(
    runs: RunWords = None,
    metric: MetricKey = None,
    minimize: Annotated[bool, typer.Option("--minimize", help="Less of the metric is better.")] = False,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Compare groups of runs: mean, interval, probability of improvement.

    A group is the runs that share a name. Intervals are 95 % bootstrap intervals over runs; each run counts by its last
    value. Notes below the table name what makes groups hard to compare: other environments, other steps, few runs.

    \b
    rlctl compare lr1e-3 lr1e-4
    rlctl compare --env CartPole-v1 --state completed
    rlctl compare lr1e-3 lr1e-4 --metric train/kl --minimize --json
    """
    from rlstudio.control.runs.looking.measured import measured_groups
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.analysis.compare_groups import compare_groups

    selected = Selection(runs, state, env, algo, tag).entries(Workspace(runs_dir))
    groups = measured_groups(selected)
    comparison = compare_groups(groups, metric, minimize=minimize).to_json()
    if json:
        stdout().document(comparison)
    else:
        print_groups(stdout(), comparison)


def metrics(
    runs: RunWords = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV, on standard output or with --out.  [default]")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="As a Parquet file; needs --out and pyarrow.")] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="A row per step and a column per metric, instead of a row per value.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the table here: .csv or .parquet.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", metavar="KEY", help="Only this metric. May be repeated.")
    ] = None,
    tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", metavar="DIR", help="Write event files here, a folder for each run.")
    ] = None,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Write the metrics of runs as CSV, Parquet or TensorBoard files.

    With several runs each row begins with the id, name and seed of its run.

    \b
    rlctl metrics last --wide > last.csv
    rlctl metrics lr1e-3 lr1e-4 --wide --out lr.parquet
    rlctl metrics lr1e-3 --tensorboard events
    """
    from rlstudio.control.workspace import Workspace

    kind = table_kind(csv, parquet, out)
    if tensorboard is not None and (csv or parquet or wide or out or metric):
        raise UserError("--tensorboard: event files have all metrics; leave the options of a table out")
    workspace = Workspace(runs_dir)
    entries = Selection(runs, state, env, algo, tag).entries(workspace)
    named = _named(entries)
    if not named:
        workspace.folder_to_read(entries[0].id)
    if tensorboard is not None:
        from rlstudio.experiment.metrics.tables import write_event_files

        for run in named:
            stdout().line(str(write_event_files(run, tensorboard)))
        return
    write_table(named, kind, out, wide=wide, keys=metric)


def send(
    runs: RunWords = None,
    to: Annotated[
        str, typer.Option("--to", metavar="SINK", help="mlflow, wandb, tensorboard, csv, or one of a plug-in.")
    ] = "",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="A setting of the sink, instead of the run's own. May be repeated."
        ),
    ] = None,
    state: States = None,
    env: Envs = None,
    algo: Algos = None,
    tag: Tags = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Send runs to MLflow, Weights & Biases, TensorBoard or CSV.

    Sends config, metrics, tags, lineage and artifacts, without secrets. What is already there is not sent again.

    \b
    rlctl send last --to mlflow
    rlctl send lr1e-3 --to mlflow --set uri=http://127.0.0.1:5000
    rlctl send --tag paper --to wandb --set mode=online --set project=paper
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.core.catalog import SINKS
    from rlstudio.experiment.metrics.sending.afterwards import send as send_run

    if not to:
        raise UserError(f"--to: name the sink, one of {', '.join(SINKS.names())}")
    SINKS.find(to)
    workspace = Workspace(runs_dir)
    entries = Selection(runs, state, env, algo, tag).entries(workspace)
    sent = []
    for entry in entries:
        folder = workspace.folder_to_read(entry.id)
        outcome = send_run(folder.path, to, settings or (), entry.run.tags if entry.run else ())
        sent.append({"id": entry.id, "to": to, **outcome._asdict()})
        if not json:
            amount = f"{outcome.records:,} records" if outcome.records else "nothing new, it has all of them"
            stdout().line(safe(f"{entry.id}: {amount}{f'; {outcome.link}' if outcome.link else ''}"))
    if json:
        stdout().document(sent)


def table_kind(csv: bool, parquet: bool, out: Path | None) -> str:
    from rlstudio.storage.output_file import output_path

    if csv and parquet:
        raise UserError("--csv and --parquet exclude each other; leave one out")
    if parquet and out is None:
        raise UserError("--parquet: name the file with --out FILE.parquet")
    allowed = [CSV] if csv else [PARQUET] if parquet else [CSV, PARQUET]
    return CSV if out is None else output_path(out, allowed).suffix.lower()


def _named(entries: Sequence[Entry]) -> tuple[NamedRun, ...]:
    from rlstudio.experiment.metrics.tables import NamedRun

    return tuple(
        NamedRun(entry.folder.path, entry.id, entry.status.name, entry.status.seed)
        for entry in entries
        if entry.has_folder
    )


def write_table(
    runs: tuple[NamedRun, ...], kind: str, out: Path | None, *, wide: bool, keys: Sequence[str] | None
) -> None:
    from rlstudio.experiment.analysis.curves import choose_metric
    from rlstudio.experiment.metrics.tables import MetricTable, write_csv, write_parquet
    from rlstudio.storage.output_file import written_whole

    every = MetricTable(runs, wide).metrics
    for key in keys or (None,):
        choose_metric(every, key)  # refuses what none of them has
    table = MetricTable(runs, wide, keys)
    if out is None:
        write_csv(table, _Lines(stdout()))
        return
    with written_whole(out) as partial:
        if kind == PARQUET:
            write_parquet(table, partial)
        else:
            with partial.open("w", encoding="utf-8", newline="") as file:
                write_csv(table, file)
    stdout().line(str(out))


class _Lines:
    """Rows on standard output, as they are; on a terminal without what could move its cursor."""

    def __init__(self, out: Terminal) -> None:
        self._out = out

    def write(self, text: str, /) -> None:
        self._out.raw(f"{safe(text.removesuffix(chr(10)))}\n" if self._out.is_live else text)
