"""Select runs by words, by filters, or by both. The one way from what a person names to several runs; for one run it is
`Workspace.find`, by the same words (`control.references`). It only looks.

    select(workspace, ["lr1e-3", "a3f1"])                         a group and one run more
    select(workspace, [], Filters(states=("failed",)))            every run that failed
    select(workspace, ["lr1e-3"], Filters(tags=("paper",)))       those of the group that have the tag
    for name, entries in by_name(select(...)).items(): ...        group by group
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields

from rlstudio.control.references import none_yet
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import NoMatch, UserError, suggest
from rlstudio.core.run_state import RunState


@dataclass(frozen=True)
class Filters:
    """Which runs are meant: those that have one of the values in every field that is given."""

    states: Sequence[str] = ()  # in any case: `failed`, `FAILED`
    envs: Sequence[str] = ()
    algos: Sequence[str] = ()
    tags: Sequence[str] = ()

    def __post_init__(self) -> None:
        known = [state.lower() for state in RunState]
        for state in self.states:
            if state.lower() not in known:
                raise UserError(f"state {state!r}: unknown{suggest(state, known)}; choose from {', '.join(known)}")

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        """As the options of the command line."""
        return " ".join(f"{option} {value}" for option, values in self._options.items() for value in values)

    @property
    def _options(self) -> dict[str, Sequence[str]]:
        return {"--state": self.states, "--env": self.envs, "--algo": self.algos, "--tag": self.tags}

    def passes(self, entry: Entry) -> bool:
        """A run whose process is gone counts as what will be recorded of it."""
        return all(
            not wanted or {value.lower() for value in wanted} & {value.lower() for value in _values(entry)[option]}
            for option, wanted in self._options.items()
        )

    def no_match(self, entries: Sequence[Entry]) -> str:
        """Why none of these runs passes, in one line: the first filter that none of them passes and the values that
        there are, with the nearest; or that no run passes all of them."""
        for option, wanted in self._options.items():
            present = Counter(value for entry in entries for value in _values(entry)[option])
            if wanted and not {value.lower() for value in wanted} & {value.lower() for value in present}:
                near = suggest(wanted[0], present)
                counts = ", ".join(f"{count} {value}" for value, count in present.most_common(MOST_LISTED))
                rest = ", ..." if len(present) > MOST_LISTED else ""
                return f"{option} {wanted[0]}: none of {_runs(len(entries))}{near}; there are: {counts or 'none'}{rest}"
        return f"{self}: none of {_runs(len(entries))} has all of these"


EVERYTHING = Filters()
MOST_LISTED = 6


def select(workspace: Workspace, words: Collection[str], filters: Filters = EVERYTHING) -> tuple[Entry, ...]:
    """The runs that are meant, each once: those of the words in the order of the words (of a name, the oldest first),
    or without words all runs, oldest first; then only those that pass the filters. At least one: `RunNotFound` says in
    one line which word names none, `NoMatch` which filter. Neither words nor filters is a `UserError`: nothing means
    all by accident."""
    if not words and not filters:
        raise UserError(
            "no run is named; give RUN (an id, a handle, a name or `last`), or a filter: --state, --env, --algo, --tag"
        )
    if words:
        references = workspace.references()
        ids = dict.fromkeys(run_id for word in words for run_id in references.all_of(word))
        entries = workspace.entries_of(list(ids))
    else:
        entries = workspace.entries()[::-1]
    if not entries:
        raise none_yet(str(filters), workspace.given_dir)
    chosen = tuple(entry for entry in entries if filters.passes(entry))
    if not chosen:
        raise NoMatch(filters.no_match(entries))
    return chosen


def by_name(entries: Iterable[Entry]) -> dict[str, tuple[Entry, ...]]:
    """Runs by their group, which is the name that they share; groups and runs in the order in which they come."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.status.name, []).append(entry)
    return {name: tuple(group) for name, group in groups.items()}


def _values(entry: Entry) -> dict[str, tuple[str, ...]]:
    """What a run has for each filter."""
    status, tags = entry.status, () if entry.run is None else entry.run.tags
    return {"--state": (status.state.lower(),), "--env": (status.env_id,), "--algo": (status.algo,), "--tag": tags}


def _runs(count: int) -> str:
    return "the one run" if count == 1 else f"the {count} runs"
