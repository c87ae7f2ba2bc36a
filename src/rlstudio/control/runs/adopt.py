"""Take a run folder that the store does not know into it: made elsewhere, copied here, or older than the store."""

from __future__ import annotations

from pathlib import Path

from rlstudio.control.store.records import RunRequest, RunRow
from rlstudio.control.store.resources import AskedFor, asked_for
from rlstudio.control.workspace import Workspace
from rlstudio.core.config import parse
from rlstudio.core.errors import CheckpointError, ConfigError, Conflict, RunBusy, RunNotFound, StorageError, UserError
from rlstudio.core.parsing.yaml_file import Document, read_text
from rlstudio.core.resources import ResourcesConfig
from rlstudio.core.run_state import OWNED, Reason
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.run_folder import RUN_ID, RunFolder
from rlstudio.storage.folder import Folder, ensure_directory, temporary


def known_run(workspace: Workspace, ref: str) -> RunRow:
    """The run of the store that `ref` names, to act on it: runs whose process is gone are recorded first, and
    a folder that the store does not know yet is adopted."""
    workspace.reap()
    entry = workspace.find(ref)
    return entry.run if entry.run is not None else adopt(workspace, entry.folder)


def adopt_path(workspace: Workspace, path: Path) -> RunRow:
    """A folder anywhere. One that lies elsewhere is copied into the runs folder first, whole or not at all."""
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL
        raise RunNotFound(f"{path}: there is no such folder") from error
    if not RUN_ID.fullmatch(resolved.name):
        raise UserError(f"{path}: its name is not that of a run; give the run's own folder, like runs/20261115-...")
    source = RunFolder(resolved)
    status = source.read_status()
    if status.state in OWNED:
        raise RunBusy(f"{path}: is {status.state}; it can be adopted once it has ended")
    if resolved.name in workspace.store.ids():
        raise Conflict(f"run {resolved.name}: is in the store already; see: rlctl show {resolved.name}")
    if resolved.parent != workspace.runs_dir.resolve():
        _copy_in(Folder(workspace.runs_dir, through_link=True), resolved)
    return adopt(workspace, workspace.folder(resolved.name))


def _copy_in(runs: Folder, source: Path) -> None:
    """Under a temporary name until it is whole."""
    ensure_directory(runs.root)
    if runs.kind(source.name) is not None:
        raise UserError(f"{runs.path(source.name)}: is there already; remove it, or adopt it instead")
    part = temporary()
    try:
        _copy(Folder(source), "", runs, part)
        runs.rename(part, source.name)
        runs.sync()
    except StorageError:
        runs.discard(part)
        raise


def _copy(source: Folder, name: str, runs: Folder, target: str) -> None:
    """Folders and plain files; a link or a pipe in a run folder is not ours and is refused."""
    runs.make(target)
    for entry in source.names(name):
        inner, copied = f"{name}/{entry}" if name else entry, f"{target}/{entry}"
        if source.kind(inner) == "folder":
            _copy(source, inner, runs, copied)
        else:
            with source.open(inner) as file:
                runs.copy(copied, file, source.size(inner) or 0)
    runs.sync(target)


def _refuse_links_and_pipes(folder: Folder, name: str = "") -> None:
    """What others made may hold links and pipes, and the run will write here: none of them may be in its way."""
    for entry in folder.names(name):
        inner = f"{name}/{entry}" if name else entry
        kind = folder.kind(inner)
        if kind == "folder":
            _refuse_links_and_pipes(folder, inner)
        elif kind == "other":
            raise UserError(f"{folder.path(inner)}: is neither a file nor a folder (links are not followed); remove it")


def adopt(workspace: Workspace, folder: RunFolder) -> RunRow:
    """A folder in its place."""
    _refuse_links_and_pipes(Folder(folder.path))
    status = folder.read_status()
    if status.state in OWNED:
        raise RunBusy(f"run {folder.id}: is {status.state} without the store; it can be adopted once it has ended")
    try:
        infos = Checkpoints(folder.path, folder.id, lease=None).list()
    except (StorageError, CheckpointError):
        infos = []
    config_yaml = folder.read_config()
    request = RunRequest.from_status(status, config_yaml, **_asked_for(config_yaml, str(folder.config_path)))
    checkpoints = [{"step": info.step, "state_hash": info.state_hash, "manifest_sha256": info.sha256} for info in infos]
    # The user who adopts a run decides whether it goes on: a scheduler must not retry a crash of long ago.
    reason = status.reason or Reason.ADOPTED
    return workspace.store.adopt(request, folder.id, status.state, reason, status.facts(), checkpoints)


def _asked_for(config_yaml: str, source: str) -> AskedFor:
    """What a config asks a scheduler for. One that cannot be read is refused when the run is to go on, not here."""
    try:
        data = read_text(config_yaml, source).data
        resources, runtime = (data.get(name) or {} for name in ("resources", "runtime"))
        return asked_for(parse(ResourcesConfig, Document(resources, "resources")), str(runtime.get("device")))
    except (ConfigError, AttributeError):  # not a mapping where one belongs
        return {}
