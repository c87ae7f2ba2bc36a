"""One run on disk: `runs/<id>/` with its configuration, status, metrics, events, checkpoints and artifacts.

    config.yaml  status.json  metrics.jsonl  events.jsonl  checkpoints/  segments/  artifacts/  stdout.log

A run folder appears whole (built under a temporary name, then renamed) and its id sorts by time. `events.jsonl` is the
history: only appended to, and its first line holds what never changes, so a lost status can be rebuilt.
"""

from __future__ import annotations

import errno
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from rlstudio.core.errors import RunNotFound, StorageError, UserError
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.core.timestamps import timestamp
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.status import Status, corrected_if_orphaned, parse_status
from rlstudio.storage import jsonl
from rlstudio.storage.abandoned import sweep_abandoned
from rlstudio.storage.folder import Folder, ensure_directory, is_directory, temporary
from rlstudio.storage.refusals import errno_of, is_users_mistake
from rlstudio.storage.writers import is_full

RUN_ID = re.compile(r"[0-9a-z][0-9a-z-]{7,63}")
LONGEST_SLUG = 37  # what a time and four digits leave of the 64 characters
ENDING_LENGTH = 4  # random hexadecimal digits at the end of an id
CONFIG, STATUS, EVENTS = "config.yaml", "status.json", "events.jsonl"
TRACEBACK = "traceback.txt"
LARGEST_FILE = 1 << 20
"""Bytes of a status or a configuration: parsed, a file takes many times its size of memory."""

MOST_EVENTS = 64 << 20
SEEDED = "seeded"
"""The event with which a session tells what it seeded."""
ROLLOUT_WORKERS = "rollout_workers"
"""The event with which a session tells where its rollout workers are."""


class RunFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self._folder = Folder(path)
        self._written: RunState | None = None
        self._events: jsonl.LineWriter | None = None

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        new: NewRun,
        *,
        state: RunState = RunState.STARTING,
        run_id: str | None = None,
    ) -> RunFolder:
        """A new run, whole or not at all. In an owned state it belongs to this process; it may have its id already."""
        now = datetime.now(UTC)
        ids = [run_id] if run_id else (new_run_id(new.algo, new.env_id) for _ in count())
        status = Status(
            id="",
            state=state,
            **new.status_fields(),
            created_at=timestamp(now),
            updated_at=timestamp(now),
        )
        if state in OWNED:
            status = status.owned_by(this_process())
        try:
            ensure_directory(runs_dir)
            runs = Folder(runs_dir, through_link=True)
            sweep_abandoned(runs)
            return cls(runs_dir / _build(runs, status, new.config_yaml, now, ids))
        except StorageError as error:
            if is_full(error) or not is_users_mistake(error):
                raise
            raise UserError(f"runs folder {error}") from error

    # -- where things lie -------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether it is there; a link to a folder elsewhere, or anything else in its place, is refused."""
        kind = Folder(self.path.parent, through_link=True).kind(self.id)
        if kind not in ("folder", None):
            raise StorageError(
                f"{self.path}: is not a real folder (links are never followed); put the real one in its place"
            )
        return kind == "folder"

    @property
    def config_path(self) -> Path:
        """To be opened by its path; a link or a pipe in its place is refused."""
        if self._folder.kind(CONFIG) == "other":
            raise StorageError(f"{self.path / CONFIG}: is not a regular file; put the real one in its place")
        return self.path / CONFIG

    @property
    def artifacts_path(self) -> Path:
        return self.path / "artifacts"

    @property
    def log_path(self) -> Path:
        return self.path / "stdout.log"

    def read_config(self) -> str:
        data = self._folder.read(CONFIG, limit=LARGEST_FILE)
        if data is None:
            raise StorageError(f"{self.config_path}: missing; without it the run cannot go on")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise StorageError(f"{self.config_path}: is not UTF-8 text; put the real one in its place") from error

    def write_config(self, config_yaml: str) -> None:
        self._folder.replace(CONFIG, config_yaml.encode())

    def keep_traceback(self, text: str) -> None:
        """Store the traceback of a defect that ended the run among its artifacts."""
        self._folder.replace(f"artifacts/{TRACEBACK}", text.encode(errors="backslashreplace"))

    # -- status -----------------------------------------------------------------------------------------------------

    def read_status(self) -> Status:
        """The run as it is now: one whose process is gone shows as INTERRUPTED, reason orphaned."""
        return corrected_if_orphaned(self.last_status())

    def last_status(self) -> Status:
        """The last status that the run wrote, which may be out of date."""
        status = parse_status(self._folder.read(STATUS, limit=LARGEST_FILE) or b"")
        return status if status is not None and status.id == self.id else self._status_from_events()

    def _status_from_events(self) -> Status:
        """The status from the first event, after a power cut took the file: only a running run's is not synced."""
        born = next((event for event in self.events() if event.get("kind") == "created"), None)
        status = None if born is None else parse_status(jsonl.encode({**born, "state": RunState.INTERRUPTED}))
        if status is None or status.id != self.id:
            raise RunNotFound(f"{self.path}: is not a run (no readable {STATUS} or {EVENTS})")
        message = f"{STATUS} was lost; go on with: rlctl resume {self.id}"
        return replace(status, reason=Reason.ORPHANED, message=message)

    def write_status(self, status: Status) -> None:
        """Atomic always; durable when the state changes, cheap while it stays the same."""
        data = jsonl.encode(replace(status, updated_at=timestamp()).to_json())
        self._folder.replace(STATUS, data, durable=status.state != self._written)
        self._written = status.state

    # -- events -----------------------------------------------------------------------------------------------------

    def event(self, kind: str, **values: object) -> None:
        """Add one line to the run's history."""
        if self._events is None:
            self._events = jsonl.LineWriter(self._folder, EVENTS)
        self._events.append(jsonl.encode({"ts": round(time.time(), 3), "kind": kind, **values}))

    def events(self) -> Iterator[dict[str, object]]:
        if self._folder.kind(EVENTS) is not None:
            if (self._folder.size(EVENTS) or 0) > MOST_EVENTS:
                raise StorageError(f"{self.path / EVENTS}: larger than {MOST_EVENTS:,} bytes, which no history is")
            with self._folder.open(EVENTS) as file:
                yield from jsonl.decode(jsonl.whole_lines(file))

    def seeds(self) -> dict[str, object]:
        """What the last session seeded, and fingerprints of the generators; empty before there was one."""
        return self._last(SEEDED)

    def sessions(self) -> int:
        """How many sessions have opened the run, the present one included."""
        return sum(event.get("kind") == SEEDED for event in self.events())

    def rollout_workers(self) -> dict[str, object]:
        """How many workers the last session had, on which backend and why; empty without workers."""
        return self._last(ROLLOUT_WORKERS)

    def _last(self, kind: str) -> dict[str, object]:
        """The facts of the newest event of this kind."""
        events = [event for event in self.events() if event.get("kind") == kind] if self.exists else []
        return {name: value for name, value in events[-1].items() if name not in ("kind", "ts")} if events else {}

    # -- the end ----------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Delete the run; RunBusy while another process writes it."""
        with FileLease(self.path):
            Folder(self.path.parent, through_link=True).remove_tree(self.id)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def list_runs(runs_dir: Path) -> list[Status]:
    """Every run, newest first. Folders that are not runs, or are too damaged to read, are left out."""
    runs, statuses = Folder(runs_dir, through_link=True), []
    for run_id in run_ids(runs_dir):
        try:
            if runs.kind(run_id) == "folder":
                statuses.append(RunFolder(runs_dir / run_id).read_status())
        except (StorageError, RunNotFound):
            continue
    return statuses


def run_ids(runs_dir: Path) -> list[str]:
    """Folders that may be runs, newest first. A reference is only ever compared with these, never used as a path."""
    if not is_directory(runs_dir):
        return []
    return [name for name in reversed(Folder(runs_dir, through_link=True).names()) if RUN_ID.fullmatch(name)]


def new_run_id(algo: str, env_id: str) -> str:
    """An id that sorts by time, names algorithm and environment, and ends in random digits. The time has microseconds:
    a script makes several runs within a millisecond, and the random digits would decide their order."""
    slug = re.sub(r"[^0-9a-z]+", "-", f"{algo} {env_id}".lower()).strip("-")[:LONGEST_SLUG].strip("-")
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S%f")
    return "-".join(filter(None, (moment, slug, secrets.token_hex(ENDING_LENGTH // 2))))


def _build(runs: Folder, status: Status, config_yaml: str, now: datetime, ids: Iterable[str]) -> str:
    """The folder under a temporary name, then under the first id that is free."""
    part = temporary()
    try:
        runs.make(part)
        for name in ("checkpoints", "segments", "artifacts"):
            runs.make(f"{part}/{name}")
        runs.create(f"{part}/{CONFIG}", config_yaml.encode())
        for run_id in ids:
            named = replace(status, id=run_id)
            runs.replace(f"{part}/{STATUS}", jsonl.encode(named.to_json()))
            born = {"ts": round(now.timestamp(), 3), "kind": "created", **named.to_json()}
            runs.replace(f"{part}/{EVENTS}", jsonl.encode(born))
            try:
                runs.rename(part, run_id)
                break
            except StorageError as error:
                if errno_of(error) not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
        else:
            raise StorageError(f"{runs.path(run_id)}: is there already")
    except StorageError:
        runs.discard(part)
        raise
    runs.sync()
    return run_id
