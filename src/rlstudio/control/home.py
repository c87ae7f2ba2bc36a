"""Home: where runs live. A folder with the run folders, and the store that remembers them all.

runs/                       --runs-dir, RLSTUDIO_RUNS_DIR
  20261115-...-ppo-.../     one folder for each run
  .rlstudio/store.db        the store, unless RLSTUDIO_HOME or RLSTUDIO_DB say otherwise
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rlstudio.control.reaper import Reaper
from rlstudio.control.store.database import Database
from rlstudio.control.store.records import Run
from rlstudio.control.store.store import Store
from rlstudio.core.errors import RunNotFound, StorageError, UserError, suggest
from rlstudio.experiment.files import is_users_mistake
from rlstudio.experiment.run_folder import RunFolder, list_runs, run_ids
from rlstudio.experiment.status import Status

HOME_VARIABLE, DATABASE_VARIABLE = "RLSTUDIO_HOME", "RLSTUDIO_DB"
STATE_FOLDER = ".rlstudio"


@dataclass(frozen=True)
class Entry:
    """One run: what the store says of it, or, for a run that only its folder knows, what the folder says."""

    status: Status
    folder: RunFolder  # a run that has not started yet has none on disk
    run: Run | None = None

    @property
    def id(self) -> str:
        return self.status.id

    @property
    def has_folder(self) -> bool:
        return self.folder.path.is_dir()


class Home:
    def __init__(self, runs_dir: Path, url: str | None = None) -> None:
        self.runs_dir = runs_dir
        self.url = url or os.environ.get(DATABASE_VARIABLE) or f"sqlite:///{self.state_dir.absolute() / 'store.db'}"

    @property
    def state_dir(self) -> Path:
        return Path(os.environ.get(HOME_VARIABLE) or self.runs_dir / STATE_FOLDER)

    @cached_property
    def store(self) -> Store:
        try:
            return Store(Database(self.url))
        except StorageError as error:
            if is_users_mistake(error):
                raise UserError(f"runs folder {error}") from error
            raise

    @property
    def is_empty(self) -> bool:
        """Nothing was ever launched here: looking must not leave anything behind."""
        local = self.url.startswith("sqlite:") and not (self.state_dir / "store.db").exists()
        return local and not self.runs_dir.is_dir()

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder(self.runs_dir / run_id)

    def reaper(self) -> Reaper:
        return Reaper(self.store, facts=self._told)

    def _told(self, run: Run) -> dict[str, Any]:
        """What the run itself wrote last: fresher than its last heartbeat, if its folder is here."""
        try:
            status = self.folder(run.id).last_status()
        except (StorageError, RunNotFound):
            return {}
        return status.facts() if status.env_steps >= run.env_steps else {}

    # -- looking ----------------------------------------------------------------------------------------------------

    def entries(self, limit: int | None = None) -> list[Entry]:
        """Newest first. Runs whose process is gone are found on the way."""
        if self.is_empty:
            return []
        self.reaper().look()
        known = [self._entry(run) for run in self.store.runs(limit=limit)]
        found = sorted([*known, *self.strangers()], key=lambda entry: entry.id, reverse=True)
        return found[:limit]

    def count(self) -> int:
        return 0 if self.is_empty else self.store.count() + len(self._unknown_ids())

    def strangers(self) -> list[Entry]:
        """Run folders that the store does not know: made before there was one, elsewhere, or by hand."""
        unknown = set(self._unknown_ids())
        if not unknown:
            return []
        return [Entry(status, self.folder(status.id)) for status in list_runs(self.runs_dir) if status.id in unknown]

    def _unknown_ids(self) -> list[str]:
        ids = run_ids(self.runs_dir)
        known = self.store.ids() if ids else set()
        return [run_id for run_id in ids if run_id not in known]

    def find(self, ref: str) -> Entry:
        """The run with this id, or name (the newest of it), or unique beginning of an id; `last` is the newest."""
        if self.is_empty:
            raise self._none_yet(ref)
        self.reaper().look()
        strangers = self.strangers()
        if ref == "last":
            newest = [*map(self._entry, self.store.runs(limit=1)), *strangers]
            if newest:
                return max(newest, key=lambda entry: entry.id)
        named = [*map(self._entry, self.store.runs(name=ref, limit=1)), *(e for e in strangers if e.status.name == ref)]
        matching = [*map(self._entry, self.store.runs(starting=ref)), *(e for e in strangers if e.id.startswith(ref))]
        exact = [entry for entry in matching if entry.id == ref]
        if exact or named:
            return exact[0] if exact else max(named, key=lambda entry: entry.id)
        if len(matching) == 1 and ref:
            return matching[0]
        raise self._not_found(ref, [entry.id for entry in matching] if ref else [])

    def _entry(self, run: Run) -> Entry:
        status = replace(run.status, **self._told(run)) if run.is_owned else run.status
        return Entry(status, self.folder(run.id), run)

    def _not_found(self, ref: str, matching: list[str]) -> RunNotFound:
        if matching:
            some = ", ".join(matching[:5]) + (", ..." if len(matching) > 5 else "")
            return RunNotFound(f"run {ref!r}: {len(matching)} runs begin so ({some}); give more of the id")
        entries = self.entries()
        if not entries:
            return self._none_yet(ref)
        known = {"last", *(entry.id for entry in entries), *(entry.status.name for entry in entries)}
        return RunNotFound(f"run {ref!r}: not in {self.runs_dir}{suggest(ref, known)}; list the runs with: rlctl ls")

    def _none_yet(self, ref: str) -> RunNotFound:
        where = f"there are no runs in {self.runs_dir} yet"
        return RunNotFound(f"run {ref!r}: {where}; start one with: rlctl launch -f FILE")

    # -- doing ------------------------------------------------------------------------------------------------------

    def known(self, ref: str) -> Run:
        """A run of the store; a stranger is taken in first."""
        entry = self.find(ref)
        if entry.run is not None:
            return entry.run
        from rlstudio.control.adopt import adopt

        return adopt(self, entry.folder)

    def folder_to_read(self, ref: str) -> RunFolder:
        """For commands that read what a run has written."""
        entry = self.find(ref)
        if entry.has_folder:
            return entry.folder
        if entry.run is not None and entry.run.attempt == 0:
            raise UserError(f"run {entry.id}: is {entry.run.state} and has never run; there is nothing to see")
        raise UserError(f"run {entry.id}: its folder is not in {self.runs_dir}; name where it is with --runs-dir")
