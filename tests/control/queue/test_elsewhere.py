"""Runs of a cluster beside those of this machine: who starts them, when, and who answers for one that waits there. The
cluster only notes what it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from rlstudio.cli.app import main
from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import ray_cluster
from rlstudio.control.queue.backends import Backends
from rlstudio.control.queue.launchers import Room
from rlstudio.control.queue.ray_launcher import RayLauncher
from rlstudio.control.queue.scheduler import KEEP_SECONDS, Scheduler
from rlstudio.control.runs.place import check_place
from rlstudio.control.store.reaper import TTL_SECONDS, Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots, asked_for
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.actions import begin_sweep
from rlstudio.control.sweep.search import load_search
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import ConfigError, UserError
from rlstudio.core.resources import ResourcesConfig
from support.control_world import S, owner, request
from support.experiments import tiny, tiny_data


class Waiting:
    """In the queue of a cluster, until it is withdrawn or begins."""

    pid = 2**22 + 1

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code

    def withdraw(self) -> None:
        self.code = 1


class Cluster:
    def __init__(self, cpus: int = 2, largest: int = 2) -> None:
        self.cpus, self.largest = cpus, largest
        self.away: str | None = None
        self.processes: dict[str, Waiting] = {}

    def room(self, run: RunRow, beside: Sequence[RunRow]) -> Room:
        if run.cpus > self.largest:
            return Room.NEVER
        return Room.NOW if sum(other.cpus for other in beside) + run.cpus <= self.cpus else Room.LATER

    def launch(self, run: RunRow, devices: Sequence[int]) -> Waiting:
        assert list(devices) == []
        self.processes[run.id] = Waiting()
        return self.processes[run.id]


class Place:
    """A worker without slots of its own, beside a cluster that has the runs called `there`."""

    def __init__(self, store: Store) -> None:
        self.store, self.cluster, self.now = store, Cluster(), 100.0
        reaper = Reaper(store, clock=lambda: self.now, gone=lambda owner: False)
        self.scheduler = Scheduler(
            store,
            Slots(0),
            self.cluster,
            elsewhere=lambda run: self.cluster if run.name == "there" else None,
            reaper=reaper,
            clock=lambda: self.now,
        )

    def queue(self, **changes: Any) -> str:
        return self.store.create(request(**{"name": "there", "max_retries": 3, **changes})).id

    def started(self) -> list[str]:
        return [run.id for run in self.scheduler.tick().started]

    def begin(self, run_id: str) -> None:
        run = self.store.get(run_id)
        self.store.hand_over(run_id, run.token, owner(1))
        self.store.move(run_id, run.token, S.RUNNING)


@pytest.fixture
def place(store: Store) -> Place:
    return Place(store)


def test_a_cluster_gets_its_own_runs_in_order_and_what_has_no_room_is_waited_for(place: Place) -> None:
    here = place.queue(name="here")
    small, large, third = place.queue(), place.queue(cpus=2), place.queue()
    huge = place.queue(cpus=3)
    observed = place.scheduler.tick()
    assert [run.id for run in observed.started] == [small]  # the large one is next, and not passed by the third
    assert {run.id for run in observed.never} == {here, huge}
    place.begin(small)
    place.store.move(small, place.store.get(small).token, S.COMPLETED)
    place.cluster.processes[small].code = 0
    assert place.started() == [large]
    assert place.store.get(third).state == S.QUEUED


def test_a_worker_answers_for_a_run_that_waits_in_the_cluster(place: Place) -> None:
    run_id = place.queue(stall_seconds=60.0)
    assert place.started() == [run_id]
    for _ in range(round(3 * TTL_SECONDS / KEEP_SECONDS)):
        place.now += KEEP_SECONDS
        assert place.scheduler.tick().reaped == []
    assert place.store.get(run_id).state == S.STARTING


@pytest.mark.parametrize(("desired", "state"), [(Desired.STOP, S.INTERRUPTED), (Desired.CANCEL, S.CANCELLED)])
def test_what_waits_in_the_cluster_is_withdrawn(place: Place, desired: Desired, state: str) -> None:
    run_id = place.queue()
    place.started()
    place.store.ask(run_id, desired)
    place.scheduler.tick()
    place.scheduler.tick()
    assert place.store.get(run_id).state == state
    assert place.started() == []


def test_a_worker_stays_until_the_loss_of_a_run_elsewhere_is_recorded(place: Place) -> None:
    """Its process was on a machine that is gone: only the missing heartbeats tell."""
    run_id = place.queue()
    place.started()
    place.begin(run_id)
    place.scheduler.tick()
    place.cluster.processes[run_id].code = 1
    assert place.scheduler.tick().waits
    place.now += TTL_SECONDS
    assert [run.id for run in place.scheduler.tick().reaped] == [run_id]
    place.now += 1
    assert place.started() == [run_id]
    assert place.store.get(run_id).attempt == 2


# -- what a run asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "line"),
    [
        ({"gpus": 0.5}, r"resources\.gpus: 0\.5 of a GPU can be had with backend: ray alone; give a whole number"),
        ({"backend": "ray", "gpus": 1.5}, r"resources\.gpus: 1\.5: Ray shares one GPU, not several"),
        ({"backend": "ray", "address": "ray://head:1"}, r"resources\.address: expected auto or HOST:PORT"),
        ({"address": "head:6379"}, r"resources\.address: is for backend: ray, and the backend is local"),
    ],
)
def test_what_a_backend_cannot_give_is_refused_by_its_field(section: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=line):
        tiny(resources=section)


def test_a_share_of_a_gpu_is_one_gpu_for_a_scheduler_that_counts_whole_ones() -> None:
    cfg = tiny(resources={"backend": "ray", "gpus": 0.25})
    assert cfg.resources.gpus == 0.25
    assert asked_for(cfg.resources, "auto")["gpus"] == 1
    assert tiny(resources={"gpus": 2}).resources.gpus == 2


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "runs", f"sqlite:///{tmp_path}/store.db")


def test_a_file_is_no_store_for_a_cluster_of_other_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(tmp_path / "runs")
    line = r"^/.*/store\.db: resources\.backend: the Ray cluster at head:6379 is not on this machine alone, and a"
    with pytest.raises(UserError, match=line):
        check_place(workspace, ResourcesConfig(backend="ray", address="head:6379"))
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    with pytest.raises(UserError, match=r"set RLSTUDIO_DB=postgresql://user@host/name"):
        check_place(workspace, ResourcesConfig(backend="ray"))
    check_place(workspace, ResourcesConfig(backend="ray", address="127.0.0.1:6379"))
    check_place(workspace, ResourcesConfig())
    check_place(Workspace(tmp_path / "runs", "postgresql://user@db/x"), ResourcesConfig(backend="ray"))


def test_a_cluster_without_the_package_is_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"^resources\.backend: ray needs the package ray; run "):
        check_place(workspace, ResourcesConfig(backend="ray"))


@pytest.mark.parametrize("runs_dir", ["s3://bucket/runs", "gs://bucket"])
def test_a_runs_folder_that_is_no_path_is_refused(runs_dir: str) -> None:
    with pytest.raises(UserError, match=rf"^runs folder {runs_dir}: is not a path of a POSIX file system, which the"):
        Workspace(Path(runs_dir))


# -- the launcher of Ray, with a Ray that only has nodes --------------------------------------------------------------


def ray_of(*cpus: float, gpus: float = 0) -> ModuleType:
    def nodes() -> list[dict[str, Any]]:
        return [
            {
                "NodeID": f"{number:x}",
                "NodeManagerHostname": "host",
                "NodeManagerAddress": "127.0.0.1",
                "Alive": True,
                "Resources": {"CPU": amount, "GPU": gpus, "memory": 4 << 30},
            }
            for number, amount in enumerate(cpus)
        ]

    return SimpleNamespace(nodes=nodes)  # type: ignore[return-value]


def queued(workspace: Workspace, **resources: Any) -> RunRow:
    from rlstudio.control.runs.start import request_of

    return workspace.store.create(request_of(tiny(resources={"backend": "ray", **resources})))


def test_room_in_ray_counts_shares_of_gpus_and_the_largest_node(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "connect", lambda address: ray_of(2, 2, gpus=1))
    first = queued(workspace, gpus=0.5)
    launcher = Backends(workspace)(first)
    assert isinstance(launcher, RayLauncher)
    share = queued(workspace, gpus=0.5)
    assert launcher.room(share, [first, first, first]) == Room.NOW  # four halves of two GPUs, four cores of four
    assert launcher.room(share, [first] * 4) == Room.LATER
    assert launcher.room(queued(workspace, cpus=2), [first] * 3) == Room.LATER
    assert launcher.room(queued(workspace, cpus=3), []) == Room.NEVER
    assert launcher.room(queued(workspace, memory_mb=5000), []) == Room.NEVER
    assert ray_cluster.fitting(ResourcesConfig(backend="ray", cpus=1, gpus=0.25)) == 4
    assert Backends(workspace)(workspace.store.create(request())) is None
    workspace.store.database.close()


def test_runs_wait_for_a_ray_that_does_not_answer(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head of a cluster may be started again: until then no attempt is counted, and the worker says why."""
    answers = False

    def connect(address: str) -> ModuleType:
        if not answers:
            raise UserError(f"resources.address: no Ray answers at {address}")
        return ray_of(2)

    monkeypatch.setattr(ray_cluster, "connect", connect)
    monkeypatch.setattr("rlstudio.control.queue.ray_launcher.ASK_SECONDS", 0.0)
    run = queued(workspace, address="head:6379")
    elsewhere = Backends(workspace)
    launcher = elsewhere(run)
    assert isinstance(launcher, RayLauncher)
    monkeypatch.setattr(launcher, "launch", lambda run, devices: Waiting())
    scheduler = Scheduler(workspace.store, Slots(1), launcher, elsewhere=elsewhere)
    for _ in range(3):
        assert scheduler.tick().away == ["resources.address: no Ray answers at head:6379"]
    now = workspace.store.get(run.id)
    assert (now.state, now.failures) == (S.QUEUED, 0)
    answers = True
    observed = scheduler.tick()
    assert ([one.id for one in observed.started], observed.away) == ([run.id], [])
    workspace.store.database.close()


def test_the_queue_says_which_cluster_does_not_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also while no worker runs in a terminal: it looks, joins nothing and writes nothing."""
    workspace = Workspace(tmp_path / "runs")
    for _ in range(2):
        queued(workspace, address="127.0.0.1:1")
    workspace.store.database.close()
    assert main(["queue", "--runs-dir", str(workspace.runs_dir)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("runs wait for their cluster: resources.address: no Ray answers at 127.0.0.1:1 (") == 1


def test_each_trial_asks_for_its_own(workspace: Workspace) -> None:
    """What a trial may use can be searched like anything else."""
    space = {"resources.cpus": {"choices": [1, 2]}, "resources.gpus": {"choices": [0.25, 0.5]}}
    experiment = tiny_data("ppo", resources={"backend": "ray"})
    search = load_search({"name": "sizes", "sampler": {"kind": "grid"}, "space": space, "experiment": experiment})
    begin_sweep(workspace, search, 4).step()
    elsewhere = Backends(workspace)
    asked = [elsewhere(run)._asked(run) for run in workspace.store.runs()]
    assert sorted((amounts.cpus, amounts.gpus) for amounts in asked) == [(1, 0.25), (1, 0.5), (2, 0.25), (2, 0.5)]
    workspace.store.database.close()


def test_a_file_is_no_store_for_two_nodes(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_cluster, "connect", lambda address: ray_of(1, 1))
    run = queued(workspace)
    launcher = Backends(workspace)(run)
    assert launcher is not None
    with pytest.raises(UserError, match=r"store\.db: resources\.backend: the Ray cluster has 2 nodes, and a SQLite"):
        launcher.launch(run, [])
    assert not workspace.folder(run.id).exists
    workspace.store.database.close()


def test_an_address_where_nothing_listens_is_refused_at_once() -> None:
    with pytest.raises(
        UserError, match=r"^resources\.address: no Ray answers at 127\.0\.0\.1:1 \(.*\); start it there"
    ):
        ray_cluster.connect("127.0.0.1:1")


def test_auto_is_the_cluster_of_this_machine_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert not ray_cluster.is_known("auto")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["cluster", "status"]) == 2
    assert capsys.readouterr().err.startswith("rlctl: no cluster is known here: there is no squeue on the PATH, and no")
    assert ray_cluster.is_known("head:6379")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379")
    assert ray_cluster.running_cluster() == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert ray_cluster.running_cluster() == "head:6379"
