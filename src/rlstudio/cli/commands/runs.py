"""`ls`, `show`, `tag`, `note`, `rm`, `gc` and `adopt`: the runs of a store and their folders, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlstudio.cli.arguments import completion
from rlstudio.cli.arguments.options import Algos, Envs, Json, Run, RunsDir, RunWords, States, Tags
from rlstudio.cli.arguments.selection import Selection
from rlstudio.cli.screen.runs_dir import in_runs_dir
from rlstudio.cli.screen.terminal import stdout
from rlstudio.core.errors import Conflict, NoMatch, RunBusy, UserError
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.experiment.folder.runs_dir import DEFAULT_RUNS_DIR

if TYPE_CHECKING:
    from rlstudio.control.sweep.needed import Need
    from rlstudio.control.workspace import Entry, Workspace

    Document = dict[str, Any]

DEFAULT_LIMIT = 20


def ls(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", min=0, help=f"Newest runs to list; 0: all.  [default: {DEFAULT_LIMIT}]"),
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """List runs, newest first; all of them, or those of a group or a filter.

    \b
    rlctl ls --state failed --env CartPole-v1
    """
    from rlstudio.cli.screen.run_table import print_runs
    from rlstudio.control.runs.looking.documents import list_documents
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    selection = Selection(words, states, envs, algos, tags)
    count = limit if limit is not None else (0 if json else DEFAULT_LIMIT)
    out = stdout()
    try:
        entries, total = _listed(workspace, selection, count or None)
    except NoMatch as nothing:  # a list without rows is no mistake
        entries, total = [], 0
        if not json:
            out.line(str(nothing))
            return
    rows = _with_rungs(workspace, entries, list_documents(entries, workspace.references()))
    if json:
        out.document(rows)
    elif not entries:
        out.line(f"no runs in {runs_dir} yet; start one with: rlctl launch -f configs/ppo/cartpole.yaml")
    else:
        print_runs(out, rows)
        if total > len(entries):
            out.line(f"{total - len(entries)} older ones: rlctl ls --limit 0{in_runs_dir(runs_dir)}", "dim")


def _with_rungs(workspace: Workspace, entries: Sequence[Entry], rows: list[Document]) -> list[Document]:
    """With `at_rung` where a run is paused by its sweep: it was `pruned`, or it `waits`."""
    if not any(row.get("sweep") and row["reason"] == Reason.PAUSED for row in rows):
        return rows
    from rlstudio.control.sweep.needed import standing_at_rungs

    standing = standing_at_rungs(workspace.records, [entry.run for entry in entries if entry.run])
    return [{**row, "at_rung": standing[row["id"]]} if row["id"] in standing else row for row in rows]


def _listed(workspace: Workspace, selection: Selection, limit: int | None) -> tuple[Sequence[Entry], int]:
    """The newest of the runs that are meant, and how many are meant in all."""
    if not selection.words and not selection.filters:
        return workspace.entries(limit), workspace.count()
    newest = sorted(selection.entries(workspace), key=lambda entry: entry.id, reverse=True)
    return newest[:limit], len(newest)


def show(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    lineage: Annotated[bool, typer.Option("--lineage", help="Its origin, parents, children and history.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Show a run: state, progress, evaluation, hashes, checkpoints; for several runs, a table and the mean of each
    group."""
    from rlstudio.cli.screen.curve_line import curve_line
    from rlstudio.cli.screen.describe import print_run
    from rlstudio.control.runs.looking.documents import whole_document
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    selection = Selection(words, states, envs, algos, tags)
    entries, references = selection.entries(workspace), workspace.references()
    if lineage:
        from rlstudio.cli.screen.lineage_view import print_lineage
        from rlstudio.control.runs.looking.documents import lineage_document

        document = lineage_document(workspace, selection.only_one(entries, "--lineage"))
        if json:
            stdout().document(document)
        else:
            print_lineage(stdout(), document)
        return
    if len(entries) > 1 and not json:
        from rlstudio.cli.screen.run_table import print_groups_of_runs
        from rlstudio.control.runs.looking.documents import list_documents

        print_groups_of_runs(stdout(), _with_rungs(workspace, entries, list_documents(entries, references)))
        return
    documents = _with_rungs(workspace, entries, [whole_document(entry, references) for entry in entries])
    if json:
        stdout().document(documents if len(documents) > 1 else documents[0])
    else:
        print_run(stdout(), documents[0], curve_line(entries[0]))


def tag(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="The tag.", autocompletion=completion.tags)],
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the tag away.")] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Give runs a tag by which to find them: `rlctl ls --tag TAG`.

    \b
    rlctl tag paper lr1e-3
    """
    from rlstudio.control.runs.labels import tag_runs
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    entries = Selection(words, states, envs, algos, tags).entries(workspace)
    for run in tag_runs(workspace, entries, tag, remove=remove):
        stdout().line(f"run {run.id}: {'tags ' + ', '.join(run.tags) if run.tags else 'no tags'}")


def note(
    run: Run,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help='The note; "" removes it; without it, print it.')
    ] = None,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Write a note on a run, or on all runs of a name; without TEXT, print the notes.

    \b
    rlctl note last "wider network, same seeds"
    """
    from rlstudio.control.runs.labels import write_note
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    entries = Selection([run]).entries(workspace)
    rows = [entry.run for entry in entries] if text is None else write_note(workspace, entries, text)
    for entry, row in zip(entries, rows, strict=True):
        stdout().line(f"run {entry.id}: {(row and row.note) or 'no note'}")


def adopt(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Run folders, here or elsewhere.")],
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> None:
    """Add run folders to the store; a folder from elsewhere is copied here."""
    from rlstudio.control.runs.adopt import adopt_path
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    for folder in folders:
        run = adopt_path(workspace, folder)
        stdout().line(f"run {run.id}: adopted, {run.state}")


def rm(
    words: RunWords = None,
    states: States = None,
    envs: Envs = None,
    algos: Algos = None,
    tags: Tags = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also delete runs that a sweep needs; prints what it loses.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
) -> int:
    """Delete runs with all their files. Running ones, those that others were forked from and those that a sweep needs
    are refused."""
    from rlstudio.cli.arguments.confirm import confirmed
    from rlstudio.control.runs.remove import refuse_referred, remove
    from rlstudio.control.sweep.needed import needed_runs
    from rlstudio.control.workspace import Workspace

    workspace = Workspace(runs_dir)
    selected = Selection(words, states, envs, algos, tags).acting_on(workspace)
    entries = {entry.id: entry for entry in selected}
    needed = needed_runs(workspace.store, [entry.run for entry in entries.values() if entry.run])
    if not force:
        _refuse_needed(needed, runs_dir)  # first: to stop such a run would fail its trial
    for entry in entries.values():
        if entry.status.state in OWNED:
            raise RunBusy(
                f"run {entry.id}: is running; end it first with: rlctl stop {entry.id}{in_runs_dir(runs_dir)}"
            )
    refuse_referred(workspace, set(entries))
    lost = {run_id: f"; {need.lost}" for run_id, need in needed.items()}
    going = [f"{runs_dir / run_id}{lost.get(run_id, '')}" for run_id in entries]
    question = f"delete {'this run' if len(going) == 1 else f'these {len(going)} runs'} for good?"
    if not yes and not confirmed("rm", going, question):
        return 1
    for entry in entries.values():
        remove(workspace, entry)
        stdout().line(f"run {entry.id}: removed{lost.get(entry.id, '')}")
    return 0


def _refuse_needed(needed: Mapping[str, Need], runs_dir: Path) -> None:
    for run_id, need in needed.items():
        where = in_runs_dir(runs_dir)
        raise Conflict(
            f"run {run_id}: {need.why}; remove the whole sweep with: rlctl sweep rm {need.sweep}{where}, or only"
            f" this run with: rlctl rm {run_id} --force{where} ({need.lost})"
        )


def gc(
    keep: Annotated[
        int, typer.Option("--keep", min=0, help="Number of newest runs to keep, whatever their state.")
    ] = 0,
    days: Annotated[float, typer.Option("--days", min=0, help="Keep runs that are younger than this.")] = 7.0,
    states: Annotated[
        str, typer.Option("--states", help="Final states to delete, separated by commas.")
    ] = "failed,cancelled",
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete; without it, only list what would be deleted.")
    ] = False,
    runs_dir: RunsDir = DEFAULT_RUNS_DIR,
    json: Json = False,
) -> None:
    """Delete old runs by a policy; never one that is paused, that another was forked from, or that a sweep needs."""
    from rlstudio.cli.screen.text import age, plural
    from rlstudio.control.lifecycle import ENDED
    from rlstudio.control.runs.remove import Policy, prunable, remove
    from rlstudio.control.sweep.needed import needed_runs
    from rlstudio.control.workspace import Entry, Workspace

    known = {state.lower(): state for state in RunState if state in ENDED}
    chosen = [name.strip().lower() for name in states.split(",")]
    for name in chosen:
        if name not in known:
            raise UserError(f"--states {name}: not a final state of a run; choose from {', '.join(sorted(known))}")
    workspace = Workspace(runs_dir)
    if yes:
        workspace.reap()
    policy = Policy(keep, days, frozenset(known[name] for name in chosen))
    going = [] if workspace.is_empty else prunable(workspace, policy, needed=partial(needed_runs, workspace.records))
    out = stdout()
    for run in going:
        if yes:
            remove(workspace, Entry(run.status, workspace, run))  # the row itself: a reference could match another run
        if not json:
            out.line(f"run {run.id}: {run.state}, {age(run.created_at)} old{': removed' if yes else ''}")
    if json:
        out.document({"removed" if yes else "would_remove": [run.id for run in going]})
    elif not yes:
        out.line(
            f"{plural(len(going), 'run')} would be deleted; add --yes to delete" if going else "nothing to delete",
            "dim",
        )
