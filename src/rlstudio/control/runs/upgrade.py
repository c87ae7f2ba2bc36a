"""What an older RLStudio wrote, brought up to date: stores, checkpoints, experiment files. Bundles are verified.

To look changes nothing: every `Upgradable` says what it is, and does what there is to do when it is asked to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlstudio.control.store import migrations
from rlstudio.control.store.database import ReadOnlyDatabase
from rlstudio.control.store.moves import get_run, set_checkpoints
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import RLStudioError, RunBusy, UserError
from rlstudio.core.run_state import OWNED
from rlstudio.experiment.checkpoint.manifest import VERSION, read_manifests
from rlstudio.experiment.checkpoint.upgrade import survey, upgrade
from rlstudio.experiment.config.upgrade import upgraded
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RUN_ID, RunFolder
from rlstudio.storage.folder import Folder, is_directory
from rlstudio.storage.output_file import write_new, written_whole

EARLIER = ".old"
"""What an experiment file is called that was brought up to date, beside the new one."""


@dataclass(frozen=True)
class Upgradable:
    kind: str  # store, run, bundle or config
    name: str
    status: str
    bring: Callable[[], str] | None = None  # does it, and says what was done; None: there is nothing to do
    problem: str = ""  # why nothing can be done


def parts(workspace: Workspace, paths: Sequence[Path] = ()) -> Iterator[Upgradable]:
    """The store and the runs of a folder; or else what is at these paths: run folders, bundles, experiment files."""
    if not paths:
        yield from _store(workspace)
        for entry in reversed(workspace.entries()):
            part = _known(workspace, entry)
            if part is not None:
                yield part
    for path in paths:
        yield _at(workspace, path)


def _at(workspace: Workspace, path: Path) -> Upgradable:
    from rlstudio.delivery.bundle import is_bundle

    if is_bundle(path):
        return _bundle(path)
    if is_directory(path):
        folder = RunFolder(path.absolute())
        if not RUN_ID.fullmatch(folder.id):
            raise UserError(f"{path}: is neither a run folder nor a bundle nor an experiment file")
        its_place = workspace if folder.path.parent == workspace.runs_dir else Workspace(folder.path.parent)
        return _run(its_place, its_place.find(folder.id))
    return _config(path)


# -- the store ----------------------------------------------------------------------------------------------------


def _store(workspace: Workspace) -> Iterator[Upgradable]:
    database = workspace.records.database
    assert isinstance(database, ReadOnlyDatabase)
    version, today = database.stored_version(), migrations.VERSION
    if version is None:
        return
    if version > today:
        yield Upgradable("store", database.where, f"version {version}", problem=f"this RLStudio reads version {today}")
    elif version == today:
        yield Upgradable("store", database.where, f"version {version}")
    else:

        def bring() -> str:
            _ = workspace.store  # opening it to write does it, in one transaction
            file = workspace.store_file
            kept = "" if file is None else f"; as it was: {migrations.copy_of(file, version).name}"
            return f"version {today}{kept}"

        yield Upgradable("store", database.where, f"version {version} -> {today}", bring)


# -- a run ----------------------------------------------------------------------------------------------------------


def _known(workspace: Workspace, entry: Entry) -> Upgradable | None:
    """A run of the folder; None where the store alone knows it."""
    try:
        return _run(workspace, entry) if entry.has_folder else None
    except RLStudioError as error:  # a link in its place, which is not followed; the others are looked at all the same
        return Upgradable("run", entry.id, "cannot be read", problem=str(error))


def _run(workspace: Workspace, entry: Entry) -> Upgradable:
    surveyed = survey(entry.folder.path, entry.id)
    old, bad = surveyed.outdated, surveyed.unreadable
    count = len(old) + len(surveyed.current) + len(bad)
    if bad:
        return Upgradable("run", entry.id, f"{len(bad)} of {count} checkpoints cannot be read", problem=bad[-1])
    if not old:
        return Upgradable("run", entry.id, f"{count} checkpoints of version {VERSION}" if count else "no checkpoints")
    status = f"{len(old)} of {count} checkpoints of version {old[0].version} -> {VERSION}"
    if entry.status.state in OWNED:
        return Upgradable(
            "run", entry.id, status, problem=f"is {entry.status.state}; end it first with: rlctl stop {entry.id}"
        )
    return Upgradable("run", entry.id, status, lambda: _upgrade_run(workspace, entry))


def _upgrade_run(workspace: Workspace, entry: Entry) -> str:
    folder = entry.folder
    with FileLease(folder.path) as lease:
        done = upgrade(folder.path, entry.id, lease)
        changed = [step for step, (old, new) in done.items() if old.state_hash != new.state_hash]
        folder.event("migrated", steps=list(done), version=VERSION, state_changed=changed)
        folder.close()
        if entry.run is not None:
            _tell_store(workspace, entry.id, folder)
    state = f"another state at {len(changed)} of them" if changed else "the same state"
    return f"{len(done)} of version {VERSION}, {state}"


def _tell_store(workspace: Workspace, run_id: str, folder: RunFolder) -> None:
    entries = [
        {"step": info.step, "state_hash": info.state_hash, "manifest_sha256": info.sha256}
        for info in read_manifests(Folder(folder.path), run_id)
    ]
    with workspace.store.database.write() as connection:
        run = get_run(connection, run_id, lock=True)
        if run.is_owned:
            raise RunBusy(f"run {run_id}: was started meanwhile; its next checkpoint tells the store")
        set_checkpoints(connection, run_id, run.token, entries)


# -- what was given away, and what is written by hand ------------------------------------------------------------------


def _bundle(path: Path) -> Upgradable:
    """There has been one format. Its every byte is verified; one that is damaged or newer is named."""
    from rlstudio.delivery.bundle import VERSION as TODAY
    from rlstudio.delivery.bundle import open_bundle

    try:
        open_bundle(path)
    except RLStudioError as error:
        return Upgradable("bundle", str(path), "cannot be read", problem=str(error).removeprefix(f"{path}: "))
    return Upgradable("bundle", str(path), f"version {TODAY}, every byte as written")


def _config(path: Path) -> Upgradable:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise UserError(f"{path}: cannot be read: {reason}") from None
    try:
        new = upgraded(text, str(path))
    except RLStudioError as error:
        return Upgradable("config", str(path), "cannot be read", problem=str(error).removeprefix(f"{path}:").strip())
    if not new.removed:
        return Upgradable("config", str(path), "is read as it stands")

    def bring() -> str:
        earlier = path.with_name(path.name + EARLIER)
        write_new(earlier, text)
        with written_whole(path) as partial:
            partial.write_text(new.text, encoding="utf-8")
        return f"took out {'; '.join(new.removed)}; as it was: {earlier}"

    return Upgradable("config", str(path), f"to be taken out: {'; '.join(new.removed)}", bring)
