"""`ls`, `show`, `tag`, `note` and `rm`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlstudio.cli.arguments.selection import Given
from rlstudio.cli.remote.selection import newest, selected
from rlstudio.cli.screen.terminal import stdout
from rlstudio.client import Client
from rlstudio.core.errors import NoMatch, RunBusy, UserError
from rlstudio.core.run_state import OWNED, Reason

DEFAULT_LIMIT = 20


def ls(
    client: Client,
    words: Given,
    states: Given,
    envs: Given,
    algos: Given,
    tags: Given,
    limit: int | None,
    json: bool,
    where: str,
) -> None:
    from rlstudio.cli.screen.run_table import print_runs

    count = limit if limit is not None else (0 if json else DEFAULT_LIMIT)
    out = stdout()
    try:
        listed, total = newest(client, words, states, envs, algos, tags, count or None)
        runs = _with_rungs(client, listed)
    except NoMatch as nothing:
        runs, total = [], 0
        if not json:
            out.line(str(nothing))
            return
    if json:
        out.document(runs)
    elif not runs:
        out.line(f"no runs at {client.address}; start one with: rlctl launch -f configs/ppo/cartpole.yaml{where}")
    else:
        print_runs(out, runs)
        if total > len(runs):
            out.line(f"{total - len(runs)} older ones: rlctl ls --limit 0{where}", "dim")


def _with_rungs(client: Client, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """With `at_rung`, as the local commands have it: a run waits while its sweep has not decided on its trial."""
    at_rung = {row["id"] for row in rows if row.get("sweep") and row["reason"] == Reason.PAUSED and not row["paused"]}
    if not at_rung:
        return [*rows]
    from rlstudio.control.sweep.needed import GIVEN_UP, WAITS

    undecided = {(sweep["name"], number) for sweep in client.sweeps.list() for number in sweep["live_trials"]}
    standing = {row["id"]: WAITS if (row.get("sweep"), row.get("trial")) in undecided else GIVEN_UP for row in rows}
    return [{**row, "at_rung": standing[row["id"]]} if row["id"] in at_rung else row for row in rows]


def show(
    client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, lineage: bool, json: bool
) -> None:
    from rlstudio.cli.screen.describe import print_run
    from rlstudio.cli.screen.run_table import print_groups_of_runs

    runs = selected(client, words, states, envs, algos, tags)
    out = stdout()
    if lineage:
        if len(runs) > 1:
            raise UserError(f"--lineage: {len(runs)} runs are selected ({runs[0]['id']}, ...); name one of them")
        _show_lineage(client, runs[0]["id"], json)
        return
    if len(runs) > 1 and not json:
        print_groups_of_runs(out, _with_rungs(client, runs))
        return
    documents = _with_rungs(client, [client.runs.get(run["id"]) for run in runs])
    if json:
        out.document(documents if len(documents) > 1 else documents[0])
    else:
        print_run(out, documents[0])


def _show_lineage(client: Client, run_id: str, json: bool) -> None:
    from rlstudio.cli.screen.lineage_view import print_lineage

    run = client.runs.get(run_id)
    parts = {"lineage": run["lineage"], "relatives": run["relatives"], "history": run["history"]}
    document = {"id": run_id, **parts}
    if json:
        stdout().document(document)
    else:
        print_lineage(stdout(), document)


def tag(
    client: Client, tag: str, words: Given, states: Given, envs: Given, algos: Given, tags: Given, remove: bool
) -> None:
    for run in selected(client, words, states, envs, algos, tags):
        others = [known for known in run.get("tags", []) if known != tag]
        changed = client.runs.change(run["id"], tags=others if remove else [*others, tag], etag=run["etag"])
        now = changed.get("tags", [])
        stdout().line(f"run {run['id']}: {'tags ' + ', '.join(now) if now else 'no tags'}")


def note(client: Client, run: str, text: str | None) -> None:
    for one in selected(client, [run]):
        after = one if text is None else client.runs.change(one["id"], note=text)
        stdout().line(f"run {one['id']}: {after.get('note') or 'no note'}")


def rm(
    client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, yes: bool, where: str
) -> int:
    from rlstudio.cli.arguments.confirm import confirmed

    runs = selected(client, words, states, envs, algos, tags)
    for run in runs:
        if run["state"] in OWNED:
            raise RunBusy(f"run {run['id']}: is running; end it first with: rlctl stop {run['id']}{where}")
    question = f"delete {'this run' if len(runs) == 1 else f'these {len(runs)} runs'} of {client.address} for good?"
    if not yes and not confirmed("rm", [run["id"] for run in runs], question):
        return 1
    # Children first: a run that another one was forked from stays as long as that one does.
    for run in sorted(runs, key=lambda run: run["id"], reverse=True):
        client.runs.delete(run["id"])
        stdout().line(f"run {run['id']}: removed")
    return 0
