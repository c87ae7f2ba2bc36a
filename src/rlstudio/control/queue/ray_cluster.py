"""The Ray cluster that runs are started in: which one, its nodes, and what is left of them. Free of torch."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rlstudio.core.errors import UserError
from rlstudio.core.resources import ResourcesConfig
from rlstudio.scale.ray_start import RAY_ADDRESS, reach, start_ray

FIELD = "resources.address"
OBJECT_STORE = 80 << 20
"""Bytes of a Ray of our own, about the least that Ray accepts: runs write to their folders, not to it."""


ACTOR = "RunOnNode"
"""What Ray calls the actors of runs, after their class; their names are RUN/TOKEN/ATTEMPT."""


@dataclass(frozen=True)
class Amounts:
    """Of one node, of what is left of it, or what a run asks for; `memory` in bytes."""

    cpus: float
    gpus: float
    memory: float

    def __sub__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpus - other.cpus, self.gpus - other.gpus, self.memory - other.memory)

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(self.cpus + other.cpus, self.gpus + other.gpus, self.memory + other.memory)

    def holds(self, asked: Amounts) -> int:
        """How often it covers what a run asks for."""
        pairs = ((self.cpus, asked.cpus), (self.gpus, asked.gpus), (self.memory, asked.memory))
        return int(min(have / want for have, want in pairs if want))

    def covers(self, asked: Amounts) -> bool:
        return asked.cpus <= self.cpus and asked.gpus <= self.gpus and asked.memory <= self.memory


NOTHING = Amounts(0, 0, 0)


@dataclass(frozen=True)
class Node:
    id: str
    host: str
    address: str
    total: Amounts


def total(amounts: Iterable[Amounts]) -> Amounts:
    return sum(amounts, NOTHING)


def running_cluster() -> str | None:
    """The address that `auto` means: what RAY_ADDRESS names, or the cluster that `ray start` began on this machine;
    None where there is neither."""
    given = os.environ.get(RAY_ADDRESS)
    if given:
        return given
    file = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    try:
        return file.read_text().strip() or None
    except OSError:
        return None


def is_known(address: str) -> bool:
    """Whether there is a cluster to join; otherwise a worker starts one on its own machine."""
    return address != "auto" or running_cluster() is not None


def away(address: str) -> str | None:
    """Why the cluster at `address` does not answer, without joining it; None where it does, or none is known yet."""
    where = running_cluster() if address == "auto" else address
    try:
        if where is not None:
            reach(FIELD, where)
    except UserError as error:
        return str(error)
    return None


def connect(address: str) -> ModuleType:
    """Ray, running: the cluster at `address`, or, for `auto` where none is known, one of this process's own."""
    where = running_cluster() if address == "auto" else address
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        return start_ray(FIELD, where, object_store=OBJECT_STORE)
    finally:
        if in_main_thread:  # Ray has put its own there, which would leave without a word
            signal.signal(signal.SIGTERM, handler)


def nodes(ray: ModuleType) -> list[Node]:
    """Those that live."""
    return [
        Node(
            node["NodeID"],
            node["NodeManagerHostname"],
            node["NodeManagerAddress"],
            _amounts(node["Resources"]),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def fitting(resources: ResourcesConfig) -> int:
    """How many such runs the nodes hold at once, at least 1."""
    asked = Amounts(resources.cpus, resources.gpus, (resources.memory_mb or 0) << 20)
    return max(1, sum(node.total.holds(asked) for node in nodes(connect(resources.address))))


def free(ray: ModuleType) -> dict[str, Amounts]:
    """What is left of each node, by its id, as the nodes last reported it. Ray's public function adds all nodes up."""
    from ray._private import state

    left: dict[str, dict[str, float]] = state.available_resources_per_node()  # type: ignore[no-untyped-call]
    return {node_id: _amounts(amounts) for node_id, amounts in left.items()}


def runs_by_node(ray: ModuleType) -> dict[str, list[str]]:
    """The runs that Ray has, by the id of their node; those that wait for one are under an empty id. Ray's public list
    of actors needs its dashboard, which stays off."""
    from ray._private import state

    placed: dict[str, list[str]] = {}
    for actor in state.actors().values():
        run_id, separator, _ = actor["Name"].partition("/")
        if actor["ActorClassName"] == ACTOR and separator and actor["State"] != "DEAD":
            node_id = actor["Address"]["NodeID"] if actor["State"] == "ALIVE" else ""
            placed.setdefault(node_id, []).append(run_id)
    return {node_id: sorted(run_ids) for node_id, run_ids in placed.items()}


def _amounts(resources: dict[str, float]) -> Amounts:
    return Amounts(resources.get("CPU", 0), resources.get("GPU", 0), resources.get("memory", 0))
