"""The metrics of runs as a table for other programs: CSV or Parquet, long or wide.

    long   a row per value: ts, step, key, value, tags (joined by spaces), as the CSV sink has it
    wide   a row per step: step, and a column per metric; of several values at one step the last written counts

Where there are several runs, each row begins with the id, name and seed of its run. Runs are read one after the other,
so that no more than one of them is in memory.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from rlstudio.core.errors import UserError
from rlstudio.core.host.extras import Extra
from rlstudio.experiment.metrics.indexed.index import read_snapshot
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.metrics.sinks import TensorBoardSink, seed_label
from rlstudio.storage.folder import is_directory
from rlstudio.storage.writers import translated_os_errors

PYARROW = Extra("parquet", "pyarrow")
RUN_COLUMNS = {"id": "string", "name": "string", "seed": "int64"}
LONG_COLUMNS = {"ts": "float64", "step": "int64", "key": "string", "value": "float64", "tags": "string"}
"""Columns with their types in Parquet."""

CHUNK_ROWS = 100_000
"""Rows that are given to Parquet at once."""

Value = float | int | str | None


class TextOutput(Protocol):
    def write(self, text: str, /) -> object: ...


class NamedRun(NamedTuple):
    """A run whose metrics are read, and what tells it apart from the others."""

    path: Path
    id: str
    name: str
    seed: int


@dataclass(frozen=True)
class MetricTable:
    runs: tuple[NamedRun, ...]
    wide: bool = False
    keys: Collection[str] | None = None  # only these metrics; None: all

    @cached_property
    def metrics(self) -> list[str]:
        """The metrics that the runs have, in the order in which they first come."""
        every = dict.fromkeys(name for run in self.runs for name in read_snapshot(run.path).codes)
        return [name for name in every if self.keys is None or name in self.keys]

    @property
    def columns(self) -> dict[str, str]:
        """Name and type of each."""
        own = {"step": "int64", **dict.fromkeys(self.metrics, "float64")} if self.wide else LONG_COLUMNS
        return {**RUN_COLUMNS, **own} if len(self.runs) > 1 else dict(own)

    def rows(self) -> Iterator[list[Value]]:
        for run in self.runs:
            first: list[Value] = [run.id, run.name, run.seed] if len(self.runs) > 1 else []
            for row in self._wide_rows(run) if self.wide else self._long_rows(run):
                yield [*first, *row]

    def _long_rows(self, run: NamedRun) -> Iterator[list[Value]]:
        for record in read_metrics(run.path, self.keys):
            yield [record.ts, record.step, record.key, record.value, " ".join(record.tags)]

    def _wide_rows(self, run: NamedRun) -> Iterator[list[Value]]:
        by_step: dict[int, dict[str, float]] = {}
        for record in read_metrics(run.path, self.metrics):  # a run in training may have more of them meanwhile
            by_step.setdefault(record.step, {})[record.key] = record.value
        for step, values in sorted(by_step.items()):
            yield [step, *(values.get(metric) for metric in self.metrics)]


def write_csv(table: MetricTable, file: TextOutput) -> None:
    """Floats with all their digits; a value that is missing is an empty field."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows():
        writer.writerow([repr(value) if isinstance(value, float) else value for value in row])


def write_parquet(table: MetricTable, path: Path) -> None:
    """A value that is missing is null."""
    arrow = PYARROW.load("metrics", "Parquet")
    from pyarrow import parquet

    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in table.columns.items()])
    rows = table.rows()
    with translated_os_errors(path), parquet.ParquetWriter(path, schema) as writer:
        while chunk := list(islice(rows, CHUNK_ROWS)):
            columns = zip(*chunk, strict=True)
            arrays = [arrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def write_event_files(run: NamedRun, folder: Path) -> Path:
    """The metrics of a run as TensorBoard's event files, in a folder of its own below `folder`."""
    target = folder / f"{seed_label(run.name, run.seed)}-{run.id.rpartition('-')[2]}"
    if is_directory(target):
        raise UserError(
            f"{target}: is there already, and would show each point twice; remove it or name another folder"
        )
    sink = TensorBoardSink(target)
    try:
        sink.write(list(read_metrics(run.path)))
    finally:
        sink.close()
    return target
