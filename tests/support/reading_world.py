"""Runs of every kind that looking could disturb, and everything there is to compare before and after."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import text

from rlstudio.control.lifecycle import Desired
from rlstudio.control.registry.registry import Registry
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.database import Database
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.schema import metadata
from rlstudio.control.store.workers import Workers
from rlstudio.control.sweep.background import log_path
from rlstudio.control.sweep.sweeps import Sweeps, Trial
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import Owner, this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.control_world import HERE, NO_SUCH_PID, S, owner, request
from support.golden_store import GOLDEN
from support.sweep_world import search_of

YAML = "name: written\n"


def tree(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Every name with its inode, mode, size, time and content. A file that came and went leaves its folder's time."""
    entries = {}
    for path in [folder, *folder.rglob("*")]:
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        entries[path.relative_to(folder).as_posix()] = (
            info.st_ino,
            info.st_mode,
            info.st_size if content else 0,
            info.st_mtime_ns,
            content,
        )
    return entries


def tables(url: str) -> dict[str, list[Any]]:
    """Every row of a store."""
    database = Database(url)
    with database.read() as connection:
        rows = {
            name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")).all())) for name in metadata.tables
        }
    database.close()
    return rows


@dataclass(frozen=True)
class ReadingWorld:
    living: str
    dead: str
    dead_cancelled: str
    elsewhere: str
    queued: str
    folder_only: str
    dead_folder_only: str
    trained_folder_only: str


def fill(workspace: Workspace) -> ReadingWorld:
    """One run of each kind, a sweep, a model, and a worker that is gone."""
    store = workspace.store

    def running(process: Owner, **changes: Any) -> str:
        run = store.create(request(**changes), owner=process)
        folder_of(workspace, run).close()
        return store.move(run.id, run.token, S.RUNNING).id

    cancelled = running(owner(2, HERE), name="unwanted")
    store.ask(cancelled, Desired.CANCEL)
    Workers(store.database).register("gone", owner(3, HERE), Slots(1, 0, 1000))
    sweeps, search = Sweeps(store.database), search_of(name="found")
    sweep = sweeps.create("found", search.to_json(), this_process())
    sweeps.write(sweep, [Trial(0, {"train.lr": 1e-3}, 3, results={3: {0: 9.0}}, score=8.0)])
    log = log_path(workspace, "found")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("trial 0: train.lr=0.001\n")
    Registry(store.database).register("cartpole", "0" * 64)
    return ReadingWorld(
        living=running(this_process(), name="living"),
        dead=running(owner(1, HERE), name="dead"),
        dead_cancelled=cancelled,
        elsewhere=running(owner(4), name="elsewhere"),
        queued=store.create(request(name="queued")).id,
        folder_only=_folder(workspace, S.COMPLETED),
        dead_folder_only=_folder(workspace, S.RUNNING),
        trained_folder_only=_trained(workspace),
    )


def _trained(workspace: Workspace) -> str:
    """A run with checkpoints, left half-way, that the store does not know: an agent can be loaded from it."""
    (path,) = (GOLDEN / "run-v2").glob("*-ppo-*")
    shutil.copytree(path, workspace.runs_dir / path.name)
    return path.name


def _folder(workspace: Workspace, state: RunState) -> str:
    """A run that the store does not know; a running one has lost its process."""
    folder = RunFolder.create(workspace.runs_dir, NewRun(f"only {state}", "dqn", "CartPole-v1", YAML), state=state)
    if state == S.RUNNING:
        folder.write_status(replace(folder.read_status(), pid=NO_SUCH_PID))
    folder.close()
    return folder.id
