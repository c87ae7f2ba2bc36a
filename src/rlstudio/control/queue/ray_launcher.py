"""Runs on the nodes of a Ray cluster: `resources.backend: ray`, or `rlctl worker --launcher ray`.

Ray finds the node and keeps count of cores, memory and (shares of) GPUs. Everything else is as on one machine: the run
is a process of its own with a lease in the store, stopped through the store, and resumed from the shared runs folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlstudio.control.queue import ray_cluster
from rlstudio.control.queue.launchers import LauncherConfig, Room
from rlstudio.control.queue.ray_cluster import Amounts
from rlstudio.control.queue.resources_of_runs import KnownResources
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.place import refuse_file
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import Incompatible, RLStudioError
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.storage.folder import Folder

if TYPE_CHECKING:
    from rlstudio.core.resources import ResourcesConfig

NAMESPACE = "rlstudio"
ASK_SECONDS = 5.0
"""Between two attempts to reach a cluster that does not answer."""

ATTEMPTS = 5
"""How often a run is placed before its worker gives it back to the queue."""

TRAVELS = ("PYTHONPATH", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of the worker that a run on a node has too, beside all that begin with RLSTUDIO_."""


def ray_launcher(cfg: LauncherConfig, workspace: Workspace) -> RayLauncher:
    """A process on a node of a Ray cluster."""
    return RayLauncher(cfg.address, workspace, KnownResources(workspace.store).of)


class RayLauncher:
    def __init__(self, address: str, workspace: Workspace, resources: Callable[[RunRow], ResourcesConfig]) -> None:
        self._address = address
        self._workspace = workspace
        self._resources = resources
        self._processes: dict[str, RayProcess] = {}
        self.away: str | None = None
        self._ask_again_at = 0.0

    def room(self, run: RunRow, beside: Sequence[RunRow]) -> Room:
        """By what the runs in `beside` ask for. Where others use the cluster too, a run may wait in Ray for a node."""
        if self.away and time.monotonic() < self._ask_again_at:
            return Room.LATER
        try:
            nodes = ray_cluster.nodes(ray_cluster.connect(self._address))
        except Incompatible:
            return Room.NOW  # `launch` says what is wrong
        except RLStudioError as error:  # its head may come back: a run that waits for it loses no attempt
            self.away, self._ask_again_at = str(error), time.monotonic() + ASK_SECONDS
            return Room.LATER
        self.away = None
        asked = self._asked(run)
        if not any(node.total.covers(asked) for node in nodes):
            return Room.NEVER
        left = ray_cluster.total(node.total for node in nodes) - ray_cluster.total(map(self._asked, beside))
        return Room.NOW if left.covers(asked) else Room.LATER

    def launch(self, run: RunRow, devices: Sequence[int]) -> RayProcess:
        ray = ray_cluster.connect(self._address)
        self._refuse_unshared_store(ray)
        folder = folder_of(self._workspace, run)
        earlier = self._processes.pop(run.id, None)
        if earlier is not None:
            earlier.withdraw()  # its lease was taken: it may still wait for a node
        self._processes[run.id] = RayProcess(ray, partial(self._place, ray, run), folder, partial(self._has_begun, run))
        return self._processes[run.id]

    def _place(self, ray: ModuleType, run: RunRow, attempt: int) -> Any:
        """An actor for the run, on whichever node has room, now or later."""
        asked = self._asked(run)
        actor = _actor_class(ray).options(
            name=f"{run.id}/{run.token}/{attempt}",
            namespace=NAMESPACE,
            lifetime="detached",
            scheduling_strategy="SPREAD",
            max_restarts=0,
            num_cpus=asked.cpus,
            num_gpus=asked.gpus,
            memory=asked.memory or None,
        )
        url = self._workspace.url if self._workspace.store.database.is_server else None
        return actor.remote(run, str(self._workspace.runs_dir), url, _variables())

    def _has_begun(self, run: RunRow) -> bool:
        now = self._workspace.store.get(run.id)
        return now.has_process or now.token != run.token

    def _asked(self, run: RunRow) -> Amounts:
        share = self._resources(run).gpus
        return Amounts(run.cpus, share if 0 < share < 1 else run.gpus, run.memory_mb << 20)

    def _refuse_unshared_store(self, ray: ModuleType) -> None:
        count, database = len(ray_cluster.nodes(ray)), self._workspace.store.database
        if count > 1 and not database.is_server:
            refuse_file(database.where, f"the Ray cluster has {count} nodes")


class RayProcess:
    """A run in Ray. `pid` is this process's own: the run's process may be on another machine."""

    def __init__(
        self, ray: ModuleType, place: Callable[[int], Any], folder: RunFolder, has_begun: Callable[[], bool]
    ) -> None:
        self.pid = os.getpid()
        self._ray, self._place, self._folder, self._has_begun = ray, place, folder, has_begun
        self._code: int | None = None
        self._attempts = 0
        self._start()

    def _start(self) -> None:
        self._attempts += 1
        self._actor = self._place(self._attempts)
        self._ended = self._actor.wait.remote()

    def poll(self) -> int | None:
        if self._code is None and self._ray.wait([self._ended], timeout=0)[0]:
            self._code = self._result()
        return self._code

    def withdraw(self) -> None:
        """End it, also where it waits for a node. A process that has begun gets SIGTERM."""
        with suppress(Exception):  # of Ray, where it has ended already
            self._ray.kill(self._actor)

    def _result(self) -> int | None:
        """None where it is not over: its node does not answer for the moment, or died before the run began there (Ray
        goes on placing actors on a node until it misses it), so that another one is asked."""
        try:
            code: int = self._ray.get(self._ended)
        except self._ray.exceptions.ActorUnavailableError:
            self._ended = self._actor.wait.remote()
            return None
        except self._ray.exceptions.RayError as error:
            _print(self._folder, f"rlctl: Ray ended the run's process: {_reason(error)}\n")
            if self._attempts < ATTEMPTS and not self._has_begun():
                self._start()
                return None
            code = 1
        self.withdraw()
        return code


def _actor_class(ray: ModuleType) -> Any:
    from rlstudio.control.queue.ray_actor import RunOnNode

    return ray.remote(RunOnNode)


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in TRAVELS or name.startswith("RLSTUDIO_")}


def _reason(error: Exception) -> str:
    """Ray puts the traceback of a node around it; what went wrong is in the last line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


def _print(folder: RunFolder, line: str) -> None:
    """Where the run itself prints: `rlctl logs RUN --output`."""
    with suppress(OSError, RLStudioError):
        log = Folder(folder.path).output(folder.log_path.name)
        try:
            os.write(log, line.encode())
        finally:
            os.close(log)
