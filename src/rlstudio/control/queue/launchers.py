"""Launchers start the process of a claimed run. A launcher is one method."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar, Protocol, runtime_checkable

from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import DATABASE_VARIABLE, Workspace
from rlstudio.core.catalog import LAUNCHERS, Catalog
from rlstudio.core.config import Config, apply_overrides, parse
from rlstudio.core.errors import UserError
from rlstudio.core.parts import PartConfig
from rlstudio.storage.folder import Folder


class Process(Protocol):
    """A started run. `poll` is None while it lives, and its exit code afterwards. `pid` is that of a process here, at
    whose end the worker looks again; a launcher of other machines gives the worker's own."""

    pid: int

    def poll(self) -> int | None: ...


@runtime_checkable
class WaitingProcess(Process, Protocol):
    """One that a cluster may let wait. Until it has begun the worker answers for the run, and it can be withdrawn."""

    def withdraw(self) -> None: ...


class Launcher(Protocol):
    """Made for one worker, from its settings and the workspace."""

    def launch(self, run: RunRow, devices: Sequence[int]) -> Process:
        """Start `python -m rlstudio.control.queue.runner RUN TOKEN RUNS_DIR` where the run may use these GPUs and no
        others. If it raises, the run goes back to the queue."""
        ...


class Room(Enum):
    """Whether a cluster has room for a run."""

    NOW = "now"
    LATER = "later"
    THERE = "there"  # it is in the cluster's own queue already, and is started from there
    NEVER = "never"


class ClusterLauncher(Launcher, Protocol):
    """A launcher that starts runs beyond this machine, whose slots then decide nothing."""

    away: str | None
    """Why the cluster could not be asked; its runs wait until it can."""

    def room(self, run: RunRow, beside: Sequence[RunRow]) -> Room:
        """For this run, beside those that run there already."""
        ...


class LauncherConfig(PartConfig):
    """A launcher of another package extends this with its own settings."""

    parts: ClassVar[Catalog] = LAUNCHERS

    kind: str = "subprocess"
    """`subprocess`, `ray`, `slurm`, or a launcher of another package (`rlctl plugins`)."""

    address: str = "auto"
    """Of `ray` alone: HOST:PORT of the cluster's head, or `auto`, as for `resources.address`."""


class _Settings(Config):
    launcher: LauncherConfig


def read_launcher(kind: str, settings: Sequence[str] = ()) -> LauncherConfig:
    """From the command line: `--launcher my_launcher launcher.partition=long`."""
    for setting in settings:
        if not setting.startswith("launcher."):
            raise UserError(f"{setting}: only settings of a launcher fit, as in --launcher KIND launcher.KEY=VALUE")
        if setting.partition("=")[0] == "launcher.kind":
            raise UserError(f"launcher.kind: the kind is given by --launcher {kind} already; leave it out")
    return parse(_Settings, apply_overrides({"launcher": {"kind": kind}}, settings, "--launcher")).launcher


def subprocess_launcher(cfg: LauncherConfig, workspace: Workspace) -> SubprocessLauncher:
    """A process on this machine that outlives the worker and the terminal."""
    return SubprocessLauncher(workspace)


class SubprocessLauncher:
    """A process of its own session: neither a closed terminal nor the end of the worker that started it reaches it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def launch(self, run: RunRow, devices: Sequence[int]) -> subprocess.Popen[bytes]:
        folder = folder_of(self._workspace, run)
        log = Folder(folder.path).output(folder.log_path.name)
        try:
            return subprocess.Popen(
                self.command(run),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment(devices),
            )
        finally:
            os.close(log)

    def command(self, run: RunRow) -> list[str]:
        """What is started; a launcher of another package may put something around it."""
        runner = [sys.executable, "-P", "-m", "rlstudio.control.queue.runner", run.id, str(run.token)]
        return [*runner, str(self._workspace.runs_dir.absolute())]

    def _environment(self, devices: Sequence[int]) -> dict[str, str]:
        """GPUs that the run was not given are hidden from it, also where that is all of them."""
        variables = {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
        if not self._workspace.url.startswith("sqlite:"):
            variables[DATABASE_VARIABLE] = self._workspace.url
        return {**os.environ, **variables}
