"""Workspace: where runs live. A folder with the run folders, and the store that remembers them all.

runs/                       --runs-dir, RLSTUDIO_RUNS_DIR
  20261115-...-ppo-.../     one folder for each run
  .rlstudio/store.db        the store, unless RLSTUDIO_HOME or RLSTUDIO_DB say otherwise

Looking changes nothing: `find`, `entries` and `records` only read (decision 0029). A command that acts on a run
calls `reap` first, which records the runs whose process is gone, and changes the store through `store`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL

from rlstudio.control.references import References
from rlstudio.control.store.database import Database, ReadOnlyDatabase
from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.reaper import Reaper, as_recorded, is_gone
from rlstudio.control.store.records import Event, RunRow
from rlstudio.control.store.store import Store
from rlstudio.control.store.workers import Workers
from rlstudio.core.errors import StorageError, UserError
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.experiment.folder.run_folder import RUN_ID, RunFolder, list_runs, run_ids
from rlstudio.experiment.folder.status import Status
from rlstudio.storage.refusals import is_users_mistake
from rlstudio.storage.writers import translated_os_errors

if TYPE_CHECKING:
    from rlstudio.experiment.lineage.lineage import Lineage

HOME_VARIABLE, DATABASE_VARIABLE = "RLSTUDIO_HOME", "RLSTUDIO_DB"
STATE_FOLDER = ".rlstudio"


@contextmanager
def _users_mistakes() -> Iterator[None]:
    """Report a runs folder that cannot be used as a mistake of the user, who named it."""
    try:
        yield
    except StorageError as error:
        if is_users_mistake(error):
            raise UserError(f"runs folder {error}") from error
        raise


def _refuse_link(file: Path) -> None:
    """Below the runs folder no link is followed."""
    with translated_os_errors(file.parent):  # a name longer than the file system allows, a folder of another user
        is_link = file.parent.is_symlink()
    if is_link:
        raise UserError(
            f"{file.parent}: is a symbolic link, which is not followed; name the real one in {HOME_VARIABLE}"
        )


@dataclass(frozen=True)
class Entry:
    """One run: what the store says of it, or, for a run that only its folder knows, what the folder says. Where its
    process is gone and the store has not recorded that yet, `status` has the end that it will record."""

    status: Status
    workspace: Workspace = field(repr=False)
    run: RunRow | None = None
    recorded: bool = True

    @property
    def id(self) -> str:
        return self.status.id

    @property
    def folder(self) -> RunFolder:
        """Where the folder is, or will be once the run has started."""
        return self.workspace.folder(self.id)

    @property
    def has_folder(self) -> bool:
        return RUN_ID.fullmatch(self.id) is not None and self.folder.exists

    def lineage(self) -> Lineage:
        """Command, code, versions, host and hardware it was launched with."""
        if self.run is None:
            from rlstudio.experiment.lineage.lineage import recorded_lineage  # `rlctl ls` need not wait for it

            return recorded_lineage(self.folder) or {}
        return self.workspace.records.lineage(self.id)

    def history(self) -> list[Event]:
        """Every change of its state, oldest first; empty where only the folder knows the run."""
        return [] if self.run is None else self.workspace.records.events(self.id)


def _refuse_url(runs_dir: Path) -> None:
    """`s3://bucket/runs` would become a folder called `s3:`. Runs need locks, fsync and renames that replace."""
    scheme, separator, rest = str(runs_dir).partition(":/")
    if separator and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        raise UserError(
            f"runs folder {scheme}://{rest.lstrip('/')}: is not a path of a POSIX file system, which the locks and"
            " renames of checkpoints need; mount a shared folder (NFS, Lustre) and name its path"
        )


class Workspace:
    def __init__(self, runs_dir: Path, url: str | None = None) -> None:
        _refuse_url(runs_dir)
        self.given_dir = runs_dir  # for messages: as the user wrote it
        # As it is now: the code of an environment may change the working directory.
        self.runs_dir = runs_dir.absolute()
        given = url or os.environ.get(DATABASE_VARIABLE)
        home = os.environ.get(HOME_VARIABLE)
        # Where the user says, also through a link; below the runs folder, none is followed.
        self.state_dir = Path(os.path.realpath(home)) if home else self.runs_dir / STATE_FOLDER
        self._file = None if given else self.state_dir / "store.db"
        self.url = given or f"sqlite:///{self._file}"

    @property
    def store_file(self) -> Path | None:
        """The file of a SQLite store; None for a database that a server has."""
        return self._file

    @cached_property
    def store(self) -> Store:
        """To change something: what is not there is made, and an older store is brought up to date."""
        return Store(self._open(Database))

    @property
    def records(self) -> StoreReader:
        """To look: nothing is made and nothing is changed."""
        return self.__dict__.get("store") or self._records

    @cached_property
    def _records(self) -> StoreReader:
        return StoreReader(self._open(ReadOnlyDatabase))

    def _open(self, kind: type[Database]) -> Database:
        with _users_mistakes():
            if self._file is None:
                return kind(self.url)
            _refuse_link(self._file)
            # Not by its text: a folder may have a ? in its name, which ends the path in a URL.
            return kind(URL.create("sqlite", database=str(self._file)))  # type: ignore[arg-type]

    @cached_property
    def workers(self) -> Workers:
        """Kept, so that it can observe heartbeats."""
        return Workers(self.store.database)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever launched here; then looking must not create anything."""
        with _users_mistakes():
            return self._file is not None and not os.path.lexists(self._file) and not run_ids(self.runs_dir)

    def folder(self, run_id: str) -> RunFolder:
        """An id comes from a row of the store, which others may have written: it must not lead elsewhere."""
        if not RUN_ID.fullmatch(run_id):
            raise UserError(
                f"run {run_id!r}: is not an id, so the store was tampered with; remove it with: rlctl rm -- {run_id!r}"
            )
        return RunFolder(self.runs_dir / run_id)

    def reaper(self) -> Reaper:
        return Reaper(self.store, facts=self.folder_facts)

    def reap(self) -> list[RunRow]:
        """Record the runs whose process is gone; returns them as they are now. To be called before acting on a run."""
        return [] if self.is_empty else self.reaper().look()

    def folder_facts(self, run: RunRow) -> dict[str, object]:
        """What the run itself wrote last: fresher than its last heartbeat, if its folder is here."""
        try:
            status = self.folder(run.id).last_status()
        except (StorageError, UserError):
            return {}
        facts = status.facts() if status.env_steps >= run.env_steps else {}
        # How long it is to go on is the store's to say: a run may be extended before its folder is updated.
        return {name: value for name, value in facts.items() if name not in ("config_hash", "total_epochs")}

    # -- looking ----------------------------------------------------------------------------------------------------

    def entries(self, limit: int | None = None, states: Collection[RunState] | None = None) -> list[Entry]:
        """Newest first. `states` are those of the store's rows: a run whose process is gone is still among the running
        ones, and its entry says what became of it."""
        if self.is_empty:
            return []
        known = [self.entry(run) for run in self.records.runs(limit=limit, states=states)]
        others = [entry for entry in self.unlisted() if states is None or entry.status.state in states]
        return sorted([*known, *others], key=lambda entry: entry.id, reverse=True)[:limit]

    def count(self) -> int:
        return 0 if self.is_empty else self.records.count() + len(self._unknown_ids())

    def unlisted(self) -> list[Entry]:
        """Run folders that the store does not know: made before there was one, elsewhere, or by hand."""
        unknown = set(self._unknown_ids())
        if not unknown:
            return []
        return [
            Entry(status, self, recorded=self._is_in_folder(status))
            for status in list_runs(self.runs_dir)
            if status.id in unknown
        ]

    def _is_in_folder(self, status: Status) -> bool:
        """Whether the folder itself says what was concluded of the run."""
        return status.reason != Reason.ORPHANED or self.folder(status.id).last_status().state not in OWNED

    def _unknown_ids(self) -> list[str]:
        ids = run_ids(self.runs_dir)
        known = self.records.ids() if ids else set()
        return [run_id for run_id in ids if run_id not in known]

    def references(self) -> References:
        """What a person may call the runs that are here now."""
        if self.is_empty:
            return References((), None, self.given_dir)
        listed = self.records.names()
        others = [(entry.id, entry.status.name) for entry in self.unlisted()]
        newest = max((run_id for run_id, _ in [*listed[-1:], *others]), default=None)
        return References(sorted([*listed, *others]), newest, self.given_dir)

    def find(self, ref: str) -> Entry:
        """The one run that a word means (see `references`); a name that several runs have is refused."""
        known = [] if self.is_empty else self.records.runs(ids=[ref])
        return self.entry(known[0]) if known else self.entries_of([self.references().one_of(ref)])[0]

    def entries_of(self, run_ids: Sequence[str]) -> list[Entry]:
        """The runs with these ids, in this order; without those that are gone meanwhile."""
        entries = {run.id: self.entry(run) for run in self.records.runs(ids=run_ids)}
        if len(entries) < len(run_ids):
            entries |= {entry.id: entry for entry in self.unlisted()}
        return [entries[run_id] for run_id in run_ids if run_id in entries]

    def entry(self, run: RunRow) -> Entry:
        """A row of the store, with what its folder and its process say beyond it."""
        facts: dict[str, Any] = self.folder_facts(run) if run.is_owned else {}
        status = replace(run.status, **facts)
        if is_gone(run):
            return Entry(as_recorded(run, status), self, run, recorded=False)
        return Entry(status, self, run)

    def import_consented(self, run: RunRow | None) -> None:
        """Import what the user let a run import when it was launched here, before anything in its folder is read. A run
        that only its folder knows, or that was adopted, has no such list."""
        from rlstudio.experiment.config.imports import import_remembered

        if run is not None:
            consent = self.records.consent(run.id)
            named_by = f"run {run.id}: launched with --import"
            import_remembered(consent.modules, named_by, path=consent.path, runs_dir=self.runs_dir)

    def folder_to_load(self, ref: str) -> RunFolder:
        """For commands that load a run's agent: what it was launched with is imported."""
        folder = self.folder_to_read(ref)
        self.import_consented(self.find(folder.id).run)
        return folder

    def folder_to_read(self, ref: str) -> RunFolder:
        """For commands that read what a run has written."""
        entry = self.find(ref)
        if entry.has_folder:
            return entry.folder
        if entry.run is not None and entry.run.attempt == 0:
            raise UserError(f"run {entry.id}: is {entry.run.state} and has never run; there is nothing to see")
        raise UserError(f"run {entry.id}: its folder is not in {self.given_dir}; name where it is with --runs-dir")
