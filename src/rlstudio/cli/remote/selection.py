"""The runs that words and filters mean, as `Selection` finds them here, among those of a server."""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.cli.arguments.selection import Given, Selection
from rlstudio.client import Client
from rlstudio.client.documents import RunDocument
from rlstudio.client.runs import RunFilters
from rlstudio.core.errors import NoMatch, RunNotFound, UserError

LAST = "last"


def selected(
    client: Client, words: Given, states: Given = None, envs: Given = None, algos: Given = None, tags: Given = None
) -> list[RunDocument]:
    """Those of the words in the order of the words (of a name, the oldest first), or without words all runs, oldest
    first; then only those that pass the filters. At least one."""
    filters = Selection(words, states, envs, algos, tags).filters
    if not words:
        if not filters:
            raise UserError(
                "no run is named; give RUN (an id, a handle, a name or `last`), or a filter: --state, --env, --algo,"
                " --tag"
            )
        runs = [*client.runs.list(**_query(states, envs, algos, tags))][::-1]
    else:
        meant = {run["id"]: run for word in words for run in of_word(client, word)}
        runs = [run for run in meant.values() if _passes(run, states, envs, algos, tags)]
    if not runs:
        raise NoMatch(f"{filters}: no run of {client.address} passes")
    return runs


def of_word(client: Client, word: str) -> Sequence[RunDocument]:
    """All that have this name, or the one that it means otherwise."""
    if word == LAST:
        newest = [*client.runs.list(limit=1)]
        if not newest:
            raise RunNotFound(f"last: {client.address} has no runs yet")
        return newest
    return [*client.runs.list(names=[word], sort="id")] or [client.runs.get(word)]


def is_group(words: Given, filters: Sequence[Given], runs: Sequence[RunDocument]) -> bool:
    """Whether more is meant than the runs that were named one by one."""
    return any(filters) or len(runs) > len(set(words or ()))


def newest(
    client: Client, words: Given, states: Given, envs: Given, algos: Given, tags: Given, limit: int | None
) -> tuple[list[RunDocument], int]:
    """The newest that are meant, and how many are meant in all."""
    if words:
        every = sorted(selected(client, words, states, envs, algos, tags), key=lambda run: run["id"], reverse=True)
        return every[:limit], len(every)
    query = _query(states, envs, algos, tags)
    runs = [*client.runs.list(limit, **query)]
    return runs, client.runs.page(limit=1, **query)["total"] if len(runs) == limit else len(runs)


def _query(states: Given, envs: Given, algos: Given, tags: Given) -> RunFilters:
    return {"states": states or (), "envs": envs or (), "algos": algos or (), "tags": tags or ()}


def _passes(run: RunDocument, states: Given, envs: Given, algos: Given, tags: Given) -> bool:
    own = ((states, [run["state"]]), (envs, [run["env_id"]]), (algos, [run["algo"]]), (tags, run.get("tags", [])))
    return all(
        not wanted or {value.lower() for value in wanted} & {value.lower() for value in values}
        for wanted, values in own
    )
