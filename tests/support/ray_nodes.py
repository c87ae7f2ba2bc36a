"""Two Ray nodes on this host: no dashboard, on the loopback address, with a token."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from rlstudio.scale.ray_start import import_ray

OBJECT_STORE = 80 << 20


class RayNodes:
    """Started with the `with`: a head without room for runs, and two nodes of one core."""

    def __enter__(self) -> RayNodes:
        self._folder = Path(tempfile.mkdtemp(prefix="rlray-"))  # short: a socket's path has 107 characters
        self._patch = pytest.MonkeyPatch()
        self._patch.setenv("RAY_TMPDIR", str(self._folder))
        self.ray = import_ray("test")
        self.ray.shutdown()
        from ray.cluster_utils import Cluster

        shared = {"node_ip_address": "127.0.0.1", "object_store_memory": OBJECT_STORE, "include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args={**shared, "num_cpus": 0})
        self.nodes = [self.cluster.add_node(num_cpus=1, **shared) for _ in range(2)]
        return self

    @property
    def address(self) -> str:
        address: str = self.cluster.address
        return address

    def kill(self, node: Any) -> None:
        """As if its machine lost power, as far as one machine can have that."""
        self.cluster.remove_node(node, allow_graceful=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ray.shutdown()
        self.cluster.shutdown()
        self._patch.undo()
        shutil.rmtree(self._folder, ignore_errors=True)
