"""`plot`, `compare`, `metrics` and `diff`: what runs of a server measured. Pictures are drawn here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from csv import DictReader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rlstudio.cli.arguments.selection import Given
from rlstudio.cli.remote.selection import selected
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client
from rlstudio.client.documents import RunDocument
from rlstudio.core.errors import ConfigError, UserError

if TYPE_CHECKING:
    from rlstudio.experiment.metrics.tables import NamedRun

POINTS = 10_000
BATCH = 5_000
"""Records that are written at once."""


def plot(
    client: Client,
    runs: Given,
    out: Path | None,
    metric: str | None,
    dark: bool,
    state: Given,
    env: Given,
    algo: Given,
    tag: Given,
) -> None:
    from rlstudio.cli.failures import complain
    from rlstudio.cli.screen.groups_view import print_curves
    from rlstudio.experiment.analysis.curves import SUFFIXES, Curve, plot_runs
    from rlstudio.storage.output_file import output_path

    if out is not None:
        output_path(out, SUFFIXES)
    answer = client.curves(_ids(selected(client, runs, state, env, algo, tag)), metric, POINTS)
    for note in answer.get("notes", ()):
        complain(f"note: {note}")
    curves = [Curve(group["name"], [(run["x"], run["y"]) for run in group["runs"]]) for group in answer["groups"]]
    if out is None:
        print_curves(stdout(), curves, answer["metric"])
    else:
        stdout().line(str(plot_runs(curves, out, metric=answer["metric"], dark=dark)))


def compare(
    client: Client,
    runs: Given,
    metric: str | None,
    minimize: bool,
    state: Given,
    env: Given,
    algo: Given,
    tag: Given,
    json: bool,
) -> None:
    from rlstudio.cli.screen.groups_view import print_groups

    ids = _ids(selected(client, runs, state, env, algo, tag))
    comparison = client.compare(ids, metric, minimize=minimize)
    if json:
        stdout().document(comparison)
    else:
        print_groups(stdout(), comparison)


def metrics(
    client: Client,
    runs: Given,
    csv: bool,
    parquet: bool,
    wide: bool,
    out: Path | None,
    metric: Given,
    tensorboard: Path | None,
    state: Given,
    env: Given,
    algo: Given,
    tag: Given,
) -> None:
    from rlstudio.cli.commands.looking.measured import table_kind, write_table

    kind = table_kind(csv, parquet, out)
    if tensorboard is not None and (csv or parquet or wide or out or metric):
        raise UserError("--tensorboard: event files have all metrics; leave the options of a table out")
    chosen = selected(client, runs, state, env, algo, tag)
    with fetched(client, chosen, metric or ()) as named:
        if tensorboard is not None:
            from rlstudio.experiment.metrics.tables import write_event_files

            for run in named:
                stdout().line(str(write_event_files(run, tensorboard)))
            return
        write_table(tuple(named), kind, out, wide=wide, keys=metric)


def diff(client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, json: bool) -> int:
    """Settings and metrics. What is compared with each other is the first run with each of the others."""
    from rlstudio.cli.commands.looking.diff import DIFFERENT, print_comparison
    from rlstudio.experiment.analysis.compare_runs import Comparison, compare_metrics, differences

    first, *others = selected(client, words, states, envs, algos, tags)
    if not others:
        raise UserError(f"diff: only run {first['id']} is selected; name another to compare it with")
    documents, is_same = [], True
    with fetched(client, [first, *others]) as named:
        whole = [client.runs.get(run["id"]) for run in (first, *others)]
        configs = [client.runs.config(run["id"])["config"] for run in (first, *others)]
        for place in range(1, len(named)):
            left, right = whole[0], whole[place]
            same_kind = left["topology"] is not None and right["topology"] is not None
            comparison = Comparison(
                config=differences(configs[0], configs[place]),
                topology=differences(left["topology"], right["topology"]) if same_kind else None,
                lineage=differences(left["lineage"], right["lineage"]),
                metrics=compare_metrics(named[0].path, named[place].path),
            )
            documents.append({"left": left["id"], "right": right["id"], **comparison.to_json()})
            is_same = is_same and comparison.equal
            if not json:
                print_comparison(stdout(), left["id"], right["id"], comparison, None)
    if json:
        stdout().document(documents if len(documents) > 1 else documents[0])
    return 0 if is_same else DIFFERENT


@contextmanager
def fetched(client: Client, runs: Sequence[RunDocument], metrics: Sequence[str] = ()) -> Iterator[list[NamedRun]]:
    """The metrics of runs, in files of this machine for as long as they are looked at."""
    from rlstudio.experiment.metrics.records import Record
    from rlstudio.experiment.metrics.tables import NamedRun
    from rlstudio.experiment.metrics.writer import MetricsWriter

    with TemporaryDirectory(prefix="rlctl-") as folder:
        named = []
        for run in runs:
            path = Path(folder, run["id"])
            path.mkdir()
            writer, records = MetricsWriter(path), []
            for row in DictReader(client.runs.metrics_csv(run["id"], metrics)):
                tags = tuple(row["tags"].split())
                records.append(Record(float(row["ts"]), int(row["step"]), row["key"], float(row["value"]), tags))
                if len(records) == BATCH:
                    writer.write(records)
                    records = []
            writer.write(records)
            writer.flush()
            writer.close()
            named.append(NamedRun(path, run["id"], run["name"], run["seed"]))
        yield named


def _ids(runs: Sequence[RunDocument]) -> list[str]:
    """In the text of a query; a list of thousands has no room there."""
    if len(runs) > 200:
        raise ConfigError(f"{len(runs)} runs are selected; a server compares at most 200 at once: narrow it down")
    return [run["id"] for run in runs]
