"""Run folders: those of the store are there, those that are there are in the store, processes live, and every
checkpoint verifies to its last byte."""

from __future__ import annotations

from collections.abc import Iterator

from rlstudio.control.workspace import Entry, Workspace
from rlstudio.core.errors import CheckpointError, RLStudioError
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import CheckpointInfo, checkpoint_steps
from rlstudio.experiment.doctor.advice import Advice
from rlstudio.experiment.folder.run_folder import run_ids
from rlstudio.experiment.lineage.libraries import installed_libraries
from rlstudio.storage.folder import Folder

TO_BE_RESUMED = (RunState.INTERRUPTED, RunState.QUEUED)


def inspect_folders(workspace: Workspace) -> Iterator[Advice]:
    """Runs and folders that do not find each other, and runs whose process is gone."""
    entries = workspace.entries()
    for entry in entries:
        if not entry.recorded:
            yield Advice("warning", "orphan", f"run {entry.id}: {entry.status.message}", "rlctl queue --reap")
        if entry.run is None:
            text = f"run {entry.id}: its folder is here, and the store does not know it"
            yield Advice("warning", "unknown_folder", text, f"rlctl adopt {entry.folder.path}")
        elif entry.run.attempt and not _has_folder(entry):
            text = f"run {entry.id}: has run ({entry.status.state}), and its folder is not in {workspace.given_dir}"
            remedy = f"name where it is with --runs-dir, or forget the run: rlctl rm {entry.id}"
            yield Advice("warning", "folder_missing", text, remedy)
    known = {entry.id for entry in entries}
    for run_id in run_ids(workspace.runs_dir):
        if run_id not in known:
            text = (
                f"{workspace.given_dir / run_id}: has the name of a run but is not one (no readable status or history)"
            )
            yield Advice("warning", "no_run", text, "move it elsewhere, or put its files back")


def inspect_checkpoints(workspace: Workspace, looked_at: dict[str, int]) -> Iterator[Advice]:
    """Every file of every checkpoint. A run that is under way changes meanwhile, and is left alone."""
    count = 0
    for entry in workspace.entries():
        if entry.status.state in (RunState.RUNNING, RunState.STARTING, RunState.STOPPING) or not _has_folder(entry):
            continue
        good: list[CheckpointInfo] = []
        checkpoints = Checkpoints(entry.folder.path, entry.id, None)
        for step in checkpoint_steps(Folder(entry.folder.path)):
            count += 1
            try:
                good.append(checkpoints.verify(step))
            except CheckpointError as error:
                remedy = "restore it from a copy; a resume takes the newest checkpoint that verifies"
                yield Advice("error", "checkpoint", f"run {entry.id}: {error}", remedy)
        yield from _published(workspace, entry, good)
        if good and entry.status.state in TO_BE_RESUMED:
            yield from _other_versions(entry, good[0])
    looked_at["checkpoints"] = count


def _published(workspace: Workspace, entry: Entry, good: list[CheckpointInfo]) -> Iterator[Advice]:
    """What the store was told of the checkpoints, against what is there."""
    if entry.run is None:
        return
    there = {info.step: info.sha256 for info in good}
    for checkpoint in workspace.records.checkpoints(entry.id):
        if checkpoint.step in there and there[checkpoint.step] != checkpoint.manifest_sha256:
            text = f"run {entry.id}: the checkpoint at step {checkpoint.step:,} is not the one that the store knows"
            yield Advice("error", "checkpoint", text, "restore the folder of the run from a copy")


def _other_versions(entry: Entry, newest: CheckpointInfo) -> Iterator[Advice]:
    """Libraries that are others now than when an unfinished run saved: its resume is refused unless asked for."""
    then, now = newest.topology or {}, installed_libraries()
    changed = [f"{name} {then[name]} -> {now[name]}" for name in now if name in then and then[name] != now[name]]
    if changed:
        text = f"run {entry.id}: was computed with other libraries ({', '.join(changed)}), so it cannot go on exactly"
        remedy = f"install those versions again, or: rlctl resume {entry.id} --allow-inexact"
        yield Advice("warning", "versions", text, remedy)


def _has_folder(entry: Entry) -> bool:
    try:
        return entry.has_folder
    except RLStudioError:  # a link in its place, which is not followed
        return False
