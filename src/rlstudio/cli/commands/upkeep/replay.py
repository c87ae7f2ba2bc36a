"""`replay`: the sources of a run's replay, where a row comes from, and which sources count."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Annotated

import typer

from rlstudio.cli.arguments.options import Imports, Json, Run, RunsDir
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import UserError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.experiment.analysis.replay_rows import ReplayRows, RowOrigin


class Action(StrEnum):
    """What is decided about a source."""

    QUARANTINE = "quarantine"
    PURGE = "purge"
    RELEASE = "release"


def replay(
    run: Run,
    action: Annotated[
        Action | None,
        typer.Argument(
            help="quarantine: keep its rows, with weight zero; purge: delete them; release: they count again."
        ),
    ] = None,
    source: Annotated[int | None, typer.Argument(metavar="[SOURCE]", min=0, help="Number of the source.")] = None,
    row: Annotated[
        int | None, typer.Option("--row", metavar="N", min=0, max=10**15, help="Print where this row comes from.")
    ] = None,
    modules: Imports = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Show which sources the rows of a replay come from, and choose which sources count.

    \b
    rlctl replay last
    rlctl replay last --row 4711
    rlctl replay last quarantine 2

    A source is a rollout worker, or an environment where there are no workers. A decision takes effect when the run
    continues, which is then no longer exact. Purged rows stay in checkpoints that were written before.
    """
    from rlstudio.control.workspace import Workspace
    from rlstudio.experiment.config.imports import import_modules

    if (action is None) != (source is None):
        raise UserError("replay: name what to do and the source, for example: rlctl replay RUN quarantine 2")
    if action is not None and row is not None:
        raise UserError("--row: shows where a row comes from; leave it out to decide about a source")
    import_modules(modules or (), runs_dir=runs_dir)
    folder = Workspace(runs_dir).folder_to_load(run)
    from rlstudio.experiment.analysis.replay_rows import ReplayRows

    if action is not None and source is not None:
        from rlstudio.experiment.checkpoint.changed_replay import EVENT
        from rlstudio.experiment.folder.lease import FileLease

        with FileLease(folder.path):  # it may not be going on meanwhile
            rows = ReplayRows.of(folder)
            _refuse(rows, action, source)
            folder.event(EVENT, action=str(action), source=source)
            folder.close()
    else:
        rows = ReplayRows.of(folder)
    if row is not None:
        _print_row(rows, row, json=json)
        return
    sources = rows.sources()
    if json:
        documents = [{**asdict(one), "reward_mean": _number(one.reward_mean)} for one in sources]
        stdout().document({"id": folder.id, "env_steps": rows.loaded.info.step, "sources": documents})
        return
    segments = rows.loaded.info.segments
    chain = f", {len(segments)} segments, chain {segments[-1].link[:12]}" if segments and segments[-1].link else ""
    stdout().line(f"run {folder.id} at {rows.loaded.info.step:,} steps: {len(rows.columns['number']):,} rows{chain}")
    for one in sources:
        mean = f"{one.reward_mean:10.4g}" if isfinite(one.reward_mean) else "         -"
        bad = f", {one.bad_rows:,} bad" if one.bad_rows else ""
        stdout().line(f"{one.number:4}  {one.name:12} {one.rows:9,} rows, mean reward {mean}{bad}  {one.standing}")
    if action is not None:
        status = folder.read_status()
        longer = f" train.epochs={2 * status.total_epochs}" if status.state == RunState.COMPLETED else ""
        stdout().line(f"carried out with: rlctl resume {folder.id}{longer}{in_runs_dir(runs_dir)}", "dim")


def _refuse(rows: ReplayRows, action: Action, source: int) -> None:
    standings = rows.standings()
    if source >= len(standings):
        raise UserError(f"replay: there is no source {source}; they are 0 to {len(standings) - 1}")
    counts = [number for number, standing in enumerate(standings) if standing.startswith("counts")]
    if action is Action.RELEASE and source in counts:
        raise UserError(f"replay: source {source} counts already; there is nothing to release")
    if action is not Action.RELEASE and counts == [source]:
        raise UserError(f"replay: source {source} is the last one that counts; release another one first")


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _print_row(rows: ReplayRows, number: int, *, json: bool) -> None:
    origin = rows.row(number)
    if json:
        stdout().document(asdict(origin))
        return
    version = "not known" if origin.version is None else str(origin.version)
    stdout().line(f"row      {origin.row} of run {rows.folder.id}")
    stdout().line(f"source   {origin.source} ({origin.name}), env {origin.env}, its step {origin.step}")
    stdout().line(f"policy   version {version}")
    stdout().line(f"episode  {origin.episode or 'not known: the row is not held any more, or has several agents'}")
    stdout().line(f"stored   {_place(origin)}")


def _place(origin: RowOrigin) -> str:
    if origin.segment:
        return f"{origin.segment}, link {origin.link[:12]}"
    return "with the newest rows, in the checkpoint itself"
