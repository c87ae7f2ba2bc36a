"""Which launcher starts a run: its own `resources.backend` says so."""

from __future__ import annotations

from rlstudio.control.queue.launchers import ClusterLauncher, LauncherConfig
from rlstudio.control.queue.resources_of_runs import KnownResources
from rlstudio.control.store.records import RunRow
from rlstudio.control.workspace import Workspace


class Backends:
    """Implements `scheduler.Elsewhere`: each cluster has one launcher, made when the first run asks for it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._resources = KnownResources(workspace.store)
        self._launchers: dict[tuple[str, str], ClusterLauncher] = {}

    def __call__(self, run: RunRow) -> ClusterLauncher | None:
        resources = self._resources.of(run)
        if resources.backend == "local":
            return None
        key = resources.backend, resources.address
        if key not in self._launchers:
            launcher = LauncherConfig(kind=resources.backend, address=resources.address)
            self._launchers[key] = launcher.build(self._workspace)
        return self._launchers[key]
