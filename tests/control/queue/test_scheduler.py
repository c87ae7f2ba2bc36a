"""Which run starts when, with launchers that only note it and clocks that are set by hand. No processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from sqlalchemy import update

from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import room
from rlstudio.control.queue.scheduler import Observed, Scheduler
from rlstudio.control.queue.worker import Worker
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots, left, parse_slots
from rlstudio.control.store.schema import runs
from rlstudio.control.store.store import Store
from rlstudio.control.store.workers import Workers
from rlstudio.core.errors import LeaseLost, StorageError, UserError
from rlstudio.core.host.process import Owner, this_process
from rlstudio.core.run_state import Reason, RunState
from support.control_world import HERE, S, assert_history, owner, request

MACHINE = Slots(cpus=4, gpus=2, memory_mb=8000)


class FakeProcess:
    pid = 2**22 + 1  # beyond what Linux gives out

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        return self.code


class FakeLauncher:
    """Notes what it was asked to start. Each run is taken over by a process of its own, unless `takes_over` is off."""

    def __init__(self, store: Store, takes_over: bool = True) -> None:
        self.store = store
        self.takes_over = takes_over
        self.launched: list[RunRow] = []
        self.devices: dict[str, list[int]] = {}
        self.processes: dict[str, FakeProcess] = {}
        self.owners: dict[str, Owner] = {}

    def launch(self, run: RunRow, devices: Sequence[int]) -> FakeProcess:
        self.launched.append(run)
        self.devices[run.id] = list(devices)
        self.processes[run.id] = FakeProcess()
        if self.takes_over:
            self.owners[run.id] = owner(len(self.launched), HERE)
            self.store.hand_over(run.id, run.token, self.owners[run.id])
            self.store.move(run.id, run.token, S.RUNNING)
        return self.processes[run.id]


class Place:
    """A store with one scheduler, whose clock and dead processes are ours to set."""

    def __init__(self, store: Store, slots: Slots = MACHINE) -> None:
        self.store = store
        self.now = 100.0
        self.dead: set[Owner] = set()
        self.launcher = FakeLauncher(store)
        self.scheduler = self.new_scheduler(slots)

    def new_scheduler(self, slots: Slots = MACHINE, launcher: object = None) -> Scheduler:
        reaper = Reaper(self.store, clock=lambda: self.now, gone=self.dead.__contains__)
        given = launcher or self.launcher
        return Scheduler(self.store, slots, given, reaper=reaper, clock=lambda: self.now)  # type: ignore[arg-type]

    def queue(self, **changes: object) -> str:
        return self.store.create(request(max_retries=3, **changes)).id

    def tick(self) -> Observed:
        return self.scheduler.tick()

    def started(self) -> list[str]:
        return [run.id for run in self.tick().started]

    def end(self, run_id: str, state: RunState = S.COMPLETED, reason: Reason = Reason.NONE, steps: int = 0) -> None:
        run = self.store.get(run_id)
        self.store.move(run_id, run.token, state, reason, facts={"env_steps": steps})
        self.launcher.processes[run_id].code = 0

    def crash(self, run_id: str) -> None:
        self.dead.add(self.store.get(run_id).process)
        self.launcher.processes[run_id].code = -9


@pytest.fixture
def place(store: Store) -> Place:
    return Place(store)


# -- order ------------------------------------------------------------------------------------------------------------


def test_priority_comes_first_then_age(place: Place) -> None:
    low, first, second, high = (place.queue(priority=priority) for priority in (-1, 0, 0, 7))
    assert place.started() == [high, first, second, low]


def test_owners_share_by_cores_in_use(place: Place) -> None:
    """Whoever came with many does not keep the others waiting; within one priority only."""
    ours = [place.queue(owner="ann") for _ in range(3)]
    yours = [place.queue(owner="bob") for _ in range(2)]
    assert place.started() == [ours[0], yours[0], ours[1], yours[1]]
    place.end(yours[0])
    late = place.queue(owner="bob")
    assert place.started() == [late]
    urgent = place.queue(owner="ann", priority=1)
    place.end(yours[1])
    assert place.started() == [urgent]


def test_cores_count_not_runs(place: Place) -> None:
    big = place.queue(owner="ann", cpus=2)
    first, second = place.queue(owner="bob"), place.queue(owner="bob")
    third = place.queue(owner="ann")
    assert place.started() == [big, first, second]
    place.end(big)
    assert place.started() == [third]


# -- slots ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "fit"), [({"cpus": 2}, 2), ({"gpus": 1}, 2), ({"memory_mb": 3000}, 2), ({"memory_mb": 2000}, 4)]
)
def test_no_slot_is_given_twice(place: Place, asked: dict[str, int], fit: int) -> None:
    waiting = [place.queue(**asked) for _ in range(5)]
    observed = place.tick()
    assert [run.id for run in observed.started] == waiting[:fit]
    assert (observed.queue_depth, observed.running) == (5 - fit, fit)
    assert place.started() == []
    place.end(waiting[0])
    assert place.started() == [waiting[fit]]


def test_a_large_run_at_the_head_is_waited_for(place: Place) -> None:
    small = place.queue(cpus=3)
    assert place.started() == [small]
    large = place.queue(cpus=4, priority=1)
    passing = place.queue(cpus=1)
    assert place.started() == []
    place.end(small)
    assert place.started() == [large]
    place.end(large)
    assert place.started() == [passing]


@pytest.mark.parametrize("asked", [{"cpus": 5}, {"gpus": 3}, {"memory_mb": 8001}])
def test_what_can_never_fit_is_passed_and_reported(place: Place, asked: dict[str, int]) -> None:
    never = place.queue(priority=9, **asked)
    small = place.queue()
    observed = place.tick()
    assert [run.id for run in observed.never] == [never]
    assert [run.id for run in observed.started] == [small]
    assert observed.queue_depth == 1
    (value,) = asked.values()
    assert MACHINE.lacking(place.store.get(never)).startswith(f"{value} ")
    assert MACHINE.lacking(place.store.get(small)) == ""
    assert place.store.get(never).state == S.QUEUED


def test_runs_of_the_foreground_and_of_other_schedulers_use_slots_too(place: Place) -> None:
    for host, cpus in ((HERE, 3), ("another-host", 4)):
        place.store.create(request(cpus=cpus), owner=owner(9, host))
    waiting = [place.queue(), place.queue()]
    assert place.started() == [waiting[0]]


def test_gpus_are_disjoint_and_remembered(place: Place) -> None:
    first, second, third = (place.queue(gpus=1) for _ in range(3))
    assert place.started() == [first, second]
    given = {**place.launcher.devices}
    assert sorted(given[first] + given[second]) == [0, 1]
    assert {run_id: place.store.get(run_id).device_list for run_id in (first, second)} == given
    place.end(first)
    # A scheduler that was just started knows it from the rows.
    place.scheduler = place.new_scheduler()
    assert place.started() == [third]
    assert place.launcher.devices[third] == given[first]


def test_the_gpus_of_an_earlier_attempt_are_not_taken_along(place: Place) -> None:
    run = place.queue(gpus=1)
    other = place.queue(gpus=1)
    place.tick()
    place.crash(run)
    place.tick()
    place.now += 1
    place.end(other)
    assert place.started() == [run]
    assert place.store.get(run).device_list == place.launcher.devices[run]
    assert len(place.launcher.devices[run]) == 1


def test_slots_are_written_as_on_the_command_line() -> None:
    assert parse_slots("cpu=2,gpu=1,memory_mb=100") == Slots(2, 1, 100)
    assert parse_slots("cpu=2 gpu=0").cpus == 2
    assert parse_slots("").cpus == len(os.sched_getaffinity(0))
    assert str(Slots(1, 2, 3)) == "cpu=1 gpu=2 memory_mb=3"
    for wrong in ("cpus=1", "cpu", "cpu=-1", "cpu=1.5", "cpu=9999999999"):
        with pytest.raises(UserError, match="--slots"):
            parse_slots(wrong)


def test_what_is_left(place: Place) -> None:
    place.queue(cpus=2, gpus=1, memory_mb=500)
    assert left(MACHINE, place.tick().started) == Slots(2, 1, 7500)


# -- retries ----------------------------------------------------------------------------------------------------------


def fail(place: Place, run_id: str, steps: int = 0) -> None:
    """A crash, and the tick that sees it."""
    if steps:
        run = place.store.get(run_id)
        place.store.beat(run_id, run.token, run.progress + 1, {"env_steps": steps})
    place.crash(run_id)
    observed = place.tick()
    assert [run.id for run in observed.reaped] == [run_id]
    assert observed.started == []
    assert observed.waits


def waited(place: Place, run_id: str) -> float:
    """Seconds until it is started again: looked for at each power of two, and shortly before."""
    before = place.now
    for pause in (1, 2, 4, 8, 16, 32, 60):
        for moment in (pause - 0.5, pause):
            place.now = before + moment
            if run_id in place.started():
                return moment
    raise AssertionError("never")


def test_pauses_double_up_to_a_minute(place: Place) -> None:
    run_id = place.store.create(request(max_retries=8)).id
    place.tick()
    pauses = []
    for _ in range(8):
        fail(place, run_id)
        pauses.append(waited(place, run_id))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    place.crash(run_id)
    assert not place.tick().waits
    place.now += 1000
    assert place.started() == []
    run = place.store.get(run_id)
    assert (run.state, run.reason, run.attempt) == (S.INTERRUPTED, Reason.ORPHANED, 9)
    assert "9 times in a row without getting farther than 0 steps, so it is not tried again" in run.message
    assert "(resources.retries: 8)" in run.message
    assert_history(place.store, run_id)


def test_a_full_disk_holds_the_queue_instead_of_failing_every_run(store: Store) -> None:
    """Nothing is started and nothing tried again, however long it lasts; then all goes on by itself."""
    place, full = Place(store), list[str]()
    reaper = Reaper(store, clock=lambda: place.now, gone=place.dead.__contains__)
    place.scheduler = Scheduler(
        store,
        MACHINE,
        place.launcher,  # type: ignore[arg-type]
        reaper=reaper,
        clock=lambda: place.now,
        shortage=lambda: full[0] if full else None,
    )
    hit = place.queue()
    assert place.started() == [hit]
    full.append("no room")
    place.end(hit, S.INTERRUPTED, Reason.STORAGE, steps=100)
    late = place.queue()
    for _ in range(5):
        place.now += 100
        observed = place.tick()
        assert (observed.held, observed.started, observed.retried, observed.waits) == ("no room", [], [], True)
        assert observed.queue_depth == 1
    full.clear()
    assert set(place.started()) == {hit, late}
    assert (store.get(hit).failures, store.get(hit).attempt) == (1, 2)


def test_room_is_asked_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert room.shortage(tmp_path, tmp_path / "not-there") is None
    monkeypatch.setattr(room, "LEAST_FREE", 1 << 60)
    assert str(room.shortage(tmp_path / "not-there", tmp_path)).startswith(f"{tmp_path}: ")


def test_progress_starts_the_count_anew(place: Place) -> None:
    run_id = place.queue()
    place.tick()
    pauses = []
    for steps in (100, 100, 200, 200, 200):
        fail(place, run_id, steps)
        pauses.append(waited(place, run_id))
    assert pauses == [1, 2, 1, 2, 4]


@pytest.mark.parametrize(
    ("state", "reason", "again"),
    [
        (S.INTERRUPTED, Reason.STORAGE, True),
        (S.INTERRUPTED, Reason.SIGNAL, True),
        (S.INTERRUPTED, Reason.HUNG, True),
        (S.FAILED, Reason.ENV_FAULT, True),
        (S.INTERRUPTED, Reason.USER, False),
        (S.FAILED, Reason.GATE_FAILED, False),
        (S.FAILED, Reason.DIVERGED, False),
        (S.FAILED, Reason.NO_VALID_CHECKPOINT, False),
        (S.FAILED, Reason.CONFIG, False),
        (S.FAILED, Reason.INTERNAL, False),
        (S.COMPLETED, Reason.NONE, False),
    ],
)
def test_which_ends_are_tried_again(place: Place, state: RunState, reason: Reason, again: bool) -> None:
    run_id = place.queue()
    place.tick()
    place.end(run_id, state, reason)
    place.tick()
    place.now += 61
    observed = place.tick()
    assert [run.id for run in observed.retried] == [run_id] * again
    assert [run.id for run in observed.started] == [run_id] * again


@pytest.mark.parametrize("desired", [Desired.STOP, Desired.CANCEL])
def test_what_its_user_stopped_stays_so_however_it_ended(place: Place, desired: Desired) -> None:
    run_id = place.queue()
    place.tick()
    place.store.ask(run_id, desired)
    place.crash(run_id)
    observed = place.tick()
    assert not observed.waits
    place.now += 61
    assert place.started() == []
    run = place.store.get(run_id)
    assert run.state == (S.INTERRUPTED if desired == Desired.STOP else S.CANCELLED)
    assert run.reason == Reason.USER


def test_a_stop_between_two_tries_ends_the_tries(place: Place) -> None:
    run_id = place.queue()
    place.tick()
    fail(place, run_id)
    place.store.ask(run_id, Desired.STOP)
    observed = place.tick()
    assert (observed.retried, observed.waits) == ([], False)  # a worker that waits for it would never leave
    place.now += 61
    assert place.started() == []


def test_runs_of_the_foreground_are_not_tried_again(place: Place) -> None:
    mine = owner(3, HERE)
    run = place.store.create(request(max_retries=3), owner=mine)
    place.dead.add(mine)
    assert [reaped.id for reaped in place.tick().reaped] == [run.id]
    place.now += 61
    assert place.tick().retried == []


# -- launchers that fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("no more processes"), StorageError("disk full"), RuntimeError("a plugin")])
def test_a_launcher_that_raises_leaves_the_run_retryable(place: Place, error: Exception) -> None:
    class Broken:
        def launch(self, run: RunRow, devices: Sequence[int]) -> FakeProcess:
            raise error

    run_id, behind = place.queue(cpus=4), place.queue(cpus=4)
    place.scheduler = place.new_scheduler(launcher=Broken())
    observed = place.tick()
    assert (observed.started, place.scheduler.processes) == ([], {})
    run = place.store.get(run_id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.STORAGE)
    assert str(error) in run.message
    place.scheduler = place.new_scheduler()
    assert place.started() == []  # its pause begins when this scheduler first sees it; both are waited for
    assert place.store.get(behind).state == S.INTERRUPTED
    place.now += 1
    assert place.started() == [run_id]
    assert_history(place.store, run_id)


def test_a_process_that_never_took_its_run_over_gives_it_back_at_once(place: Place) -> None:
    """Python is broken, memory is out: the run is still in our hands, and we live."""
    place.launcher.takes_over = False
    run_id = place.queue()
    assert place.started() == [run_id]
    assert place.tick().reaped == []
    place.launcher.processes[run_id].code = 3
    observed = place.tick()
    run = place.store.get(run_id)
    assert (run.state, run.reason) == (S.INTERRUPTED, Reason.ORPHANED)
    assert "code 3" in run.message
    assert observed.waits
    place.launcher.takes_over = True
    place.now += 1
    assert place.started() == [run_id]
    place.end(run_id)
    place.tick()
    assert place.store.get(run_id).state == S.COMPLETED


def test_a_scheduler_is_never_killed_for_a_run_that_did_not_begin(place: Place) -> None:
    """The row of a run between claim and take-over names the scheduler: whoever finds it silent takes it from there."""
    place.launcher.takes_over = False
    run_id = place.queue()
    assert place.started() == [run_id]
    assert place.store.get(run_id).process == this_process()
    other = place.new_scheduler()
    other.tick()
    place.now += 31
    assert [run.id for run in other.tick().reaped] == [run_id]  # and this test goes on
    place.launcher.processes[run_id].code = 70  # refused: the token is an older one
    place.tick()
    assert_history(place.store, run_id)


def test_a_store_that_is_away_keeps_no_claim(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claimed, then neither started nor given back: the next tick does it."""

    def away(*_: object, **__: object) -> None:
        raise StorageError("the store is away")

    run_id = place.queue(gpus=1)
    with monkeypatch.context() as patch:
        patch.setattr(place.store, "assign", away)
        patch.setattr(place.store, "move", away)
        with pytest.raises(StorageError):
            place.tick()
    assert place.store.get(run_id).state == S.STARTING
    place.tick()
    assert place.store.get(run_id).state == S.INTERRUPTED
    place.now += 1
    assert place.started() == [run_id]


def test_a_run_that_is_taken_or_removed_meanwhile_ends_no_scheduler(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id, next_id = place.queue(gpus=1), place.queue()
    original = place.store.claim

    def removed_first(wanted: str, by: Owner) -> RunRow:
        if wanted == run_id:
            place.store.remove(run_id)
        return original(wanted, by)

    monkeypatch.setattr(place.store, "claim", removed_first)
    assert place.started() == [next_id]
    lost = place.queue(gpus=1)
    monkeypatch.setattr(place.store, "assign", lambda *_: (_ for _ in ()).throw(LeaseLost("frozen for a while")))
    assert place.started() == []
    assert place.store.get(lost).state == S.INTERRUPTED


# -- several schedulers -----------------------------------------------------------------------------------------------


def test_two_schedulers_never_start_one_run_twice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """They read the same queue before either claims."""
    waiting = [place.queue() for _ in range(3)]
    second = place.new_scheduler()
    original: Callable[..., list[RunRow]] = place.store.runs
    at_once: list[Observed] = []

    def read_by_both(**filters: set[str]) -> list[RunRow]:
        found = original(**filters)
        if S.QUEUED in filters.get("states", ()) and not at_once:
            at_once.append(Observed(0, 0, 0.0))
            at_once.append(second.tick())
        return found

    monkeypatch.setattr(place.store, "runs", read_by_both)
    mine = place.started()
    theirs = [run.id for run in at_once[1].started]
    assert theirs == waiting
    assert mine == []
    assert sorted(run.id for run in place.launcher.launched) == sorted(waiting)


def test_a_retry_is_made_once(place: Place) -> None:
    run_id = place.queue()
    place.tick()
    second = place.new_scheduler()
    second.tick()
    fail(place, run_id)
    second.tick()
    place.now += 1
    assert place.started() == [run_id]
    assert second.tick().started == []
    tokens = [event.token for event in place.store.events(run_id) if event.state == S.STARTING]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 2


# -- observing --------------------------------------------------------------------------------------------------------


def test_throughput_and_depth_are_seen_on_every_tick(place: Place) -> None:
    first, second = place.queue(cpus=2), place.queue(cpus=2)
    place.queue(cpus=2)
    observed = place.tick()
    assert (observed.queue_depth, observed.running, observed.throughput) == (1, 2, 0.0)
    for run_id in (first, second):
        run = place.store.get(run_id)
        place.store.beat(run_id, run.token, 1, {"env_steps": 0})
    place.tick()
    place.now += 2
    for run_id, steps in ((first, 1000), (second, 500)):
        place.store.beat(run_id, place.store.get(run_id).token, 2, {"env_steps": steps})
    assert place.tick().throughput == 750
    assert place.tick().throughput == 750  # nothing new was told
    place.now += 1
    place.store.beat(first, place.store.get(first).token, 3, {"env_steps": 1300})
    assert place.tick().throughput == 550
    place.end(first, steps=1300)
    assert place.tick().throughput == 250
    place.now -= 50  # a clock that began anew tells no nonsense
    place.store.beat(second, place.store.get(second).token, 4, {"env_steps": 600})
    assert place.tick().throughput >= 0


def test_a_worker_tells_what_it_saw_and_leaves_when_idle(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = place.queue()
    seen: list[Observed] = []
    known: list[tuple[float, int]] = []

    def tell(observed: Observed) -> None:
        seen.append(observed)
        known.extend((worker.throughput, worker.queue_depth) for worker in Workers(place.store.database).alive())
        if place.store.get(run_id).is_owned:
            place.end(run_id)

    worker = Worker(place.scheduler, until_idle=True, tell=tell)
    monkeypatch.setattr(worker, "_wait", lambda seconds: None)
    worker.serve()
    assert [run.id for run in seen[0].started] == [run_id]
    assert known[0] == (0.0, 0)
    assert place.store.get(run_id).state == S.COMPLETED
    assert Workers(place.store.database).alive() == []


def test_a_worker_waits_for_a_store_that_is_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = place.queue()
    complaints: list[str] = []
    tick, failures = place.scheduler.tick, iter([True, True])

    def shaky() -> Observed:
        if next(failures, False):
            raise StorageError("the store is away")
        if run_id in place.launcher.processes and place.store.get(run_id).is_owned:
            place.end(run_id)
        return tick()

    monkeypatch.setattr(place.scheduler, "tick", shaky)
    worker = Worker(place.scheduler, until_idle=True, complain=complaints.append)
    monkeypatch.setattr(worker, "_wait", lambda seconds: None)
    worker.serve()
    assert complaints == ["the store is away"] * 2
    assert place.store.get(run_id).state == S.COMPLETED


def test_a_run_of_another_host_is_counted_but_uses_nothing_here(place: Place) -> None:
    run = place.store.create(request(cpus=4))
    claimed = place.store.claim(run.id, owner(1, "another-host"))
    with place.store.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == run.id).values(**asdict(owner(1, "another-host"))))
    assert claimed.state == S.STARTING
    waiting = place.queue(cpus=4)
    observed = place.tick()
    assert [run.id for run in observed.started] == [waiting]
    assert observed.running == 2
