"""How a person names runs: by id, the unique beginning of one, handle, name, path of the run folder, or `last`.

    20261116-141702123456-ppo-cartpole-v1-a3f1     an id
    a3f1                                           its handle: the random end of the id
    lr1e-3                                         a name: every run that has it, which makes them a group
    runs/20261116-141702123456-ppo-cartpole-v1-a3f1   the folder, as `launch` prints it

The first of these that fits is what a word means, in the order `last`, id, name, handle, path, beginning of an id.
Nothing is opened here but the path of a folder that lies elsewhere. Which run has which handle is decided in one place:
a handle is given out only where it names that run and nothing else (decision 0043).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from rlstudio.core.errors import RunNotFound, suggest
from rlstudio.experiment.folder.run_folder import ENDING_LENGTH, RUN_ID

LAST = "last"
ENDING = re.compile(rf".+-([0-9a-f]{{{ENDING_LENGTH}}})")
SHORTEST_BEGINNING = 8
"""Characters of an id that stand in for a handle where its end names other runs too; a date has as many."""

MOST_LISTED = 5


def ending_of(run_id: str) -> str | None:
    """The random digits at the end of an id; None where it was not made by `new_run_id`."""
    match = ENDING.fullmatch(run_id)
    return None if match is None else match[1]


class References:
    """Every way to name the runs of one runs folder. `named`: id and name of each run, oldest first. `newest`: what
    `last` means. `runs_dir`: as the user gave it, for messages and for paths."""

    def __init__(self, named: Iterable[tuple[str, str]], newest: str | None, runs_dir: Path) -> None:
        self._names = dict(named)
        self._newest = newest
        self._runs_dir = runs_dir

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The runs of each name, oldest first."""
        groups: dict[str, list[str]] = defaultdict(list)
        for run_id, name in self._names.items():
            groups[name].append(run_id)
        return dict(groups)

    @cached_property
    def _by_ending(self) -> dict[str, list[str]]:
        ends: dict[str, list[str]] = defaultdict(list)
        for run_id in self._names:
            if (ending := ending_of(run_id)) is not None:
                ends[ending].append(run_id)
        return dict(ends)

    def handle(self, run_id: str) -> str:
        """The shortest word that means this run and will go on to mean it: the end of its id; where that is the end of
        another id or somebody's name, the shortest unique beginning."""
        ending = ending_of(run_id)
        if ending is not None and len(self._by_ending.get(ending, ())) == 1 and ending not in self.groups:
            return ending
        if not RUN_ID.fullmatch(run_id):  # somebody wrote it into the store; its beginnings may be paths
            return run_id
        for length in range(SHORTEST_BEGINNING, len(run_id)):
            if self._ids_of(run_id[:length]) == [run_id]:
                return run_id[:length]
        return run_id

    def all_of(self, word: str) -> tuple[str, ...]:
        """The ids of the runs that a word means, oldest first: several where it is the name of several."""
        ids = self._ids_of(word)
        if len(ids) > 1 and word not in self.groups:
            raise self._several(word, ids)
        if not ids:
            raise self._none(word)
        return tuple(ids)

    def one_of(self, word: str) -> str:
        """The id of the one run that a word means."""
        ids = self.all_of(word)
        if len(ids) > 1:
            raise self._several(word, ids)
        return ids[0]

    def _ids_of(self, word: str) -> list[str]:
        if word == LAST and self._newest is not None:
            return [self._newest]
        if word in self._names:
            return [word]
        if word in self.groups:
            return self.groups[word]
        if word in self._by_ending:
            return self._by_ending[word]
        if "/" in word:
            return self._at(word)
        return [run_id for run_id in self._names if run_id.startswith(word)] if word else []

    def _at(self, path: str) -> list[str]:
        """The run whose folder this is; a path that leads elsewhere is refused with the way to it."""
        folder = Path(os.path.abspath(path))
        if folder.name in self._names and _is_same(folder.parent, self._runs_dir):
            return [folder.name]
        if RUN_ID.fullmatch(folder.name) and _is_folder(folder) and not _is_same(folder.parent, self._runs_dir):
            raise RunNotFound(
                f"run {path!r}: lies in another runs folder; name that one with --runs-dir {folder.parent}, or copy the"
                f" run here with: rlctl adopt {path}"
            )
        return []

    def _several(self, word: str, ids: Sequence[str]) -> RunNotFound:
        listed = [self.handle(run_id) for run_id in ids] if word in self.groups else list(ids)
        some = ", ".join(listed[:MOST_LISTED]) + (", ..." if len(ids) > MOST_LISTED else "")
        if word in self.groups:
            return RunNotFound(f"run {word!r}: {len(ids)} runs have this name ({some}); name one of them")
        how = "end" if word in self._by_ending else "begin"
        return RunNotFound(f"run {word!r}: {len(ids)} ids {how} with it ({some}); give more of the id")

    def _none(self, word: str) -> RunNotFound:
        if not self._names:
            return none_yet(f"run {word!r}", self._runs_dir)
        known = {LAST, *self._names, *self.groups, *map(self.handle, self._names)}
        near = suggest(word.rstrip("/").rpartition("/")[2], known)
        return RunNotFound(f"run {word!r}: not in {self._runs_dir}{near}; list the runs with: rlctl ls")


def none_yet(what: str, runs_dir: Path) -> RunNotFound:
    return RunNotFound(f"{what}: there are no runs in {runs_dir} yet; start one with: rlctl launch -f FILE")


def _is_same(folder: Path, other: Path) -> bool:
    try:
        return folder == Path(os.path.abspath(other)) or os.path.samefile(folder, other)
    except (OSError, ValueError):  # one of them is not there; a NUL in the path
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
