"""When a run is taken from its owner, and when it is left alone. The clock and the dead are ours to name."""

from __future__ import annotations

import datetime as datetime_module
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlstudio.control.lifecycle import Desired
from rlstudio.control.queue import scheduler, worker
from rlstudio.control.runs import lease
from rlstudio.control.store import reaper
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.core.errors import StorageError
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner, this_process
from rlstudio.core.run_state import Reason
from support.control_world import HERE, NO_SUCH_PID, STALL, THERE, TTL, S, World, assert_history, owner, request

DAY = 86_400.0


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(store, monkeypatch.setattr)


# -- certain, and at once ---------------------------------------------------------------------------------------------


def test_a_dead_process_is_found_with_the_next_look(world: World) -> None:
    mine = world.start()
    run = world.running(mine)
    assert world.look() == []
    world.kill(mine)
    assert world.look() == [run.id]
    taken = world.store.get(run.id)
    assert (taken.state, taken.reason, taken.token) == (S.INTERRUPTED, Reason.ORPHANED, run.token + 1)
    assert f"process {mine.pid} ended without recording why" in taken.message
    assert f"rlctl resume {run.id}" in taken.message
    assert world.look() == []
    assert_history(world.store, run.id)


def test_another_boot_ends_every_process_of_this_host(world: World) -> None:
    mine = world.start()
    runs = [world.running(mine), world.running(world.start(THERE))]
    world.reboot()
    # Its number and even its start time were given out again: it is still not the one.
    world.start(pid=mine.pid, start=mine.pid_start)
    world.reaper = world.new_reaper()  # whoever looks first after the reboot
    assert world.look() == [runs[0].id]


def test_a_pid_that_was_given_to_another_process(world: World) -> None:
    mine = world.start()
    run = world.running(mine)
    world.kill(mine)
    stranger = world.start(pid=mine.pid, start=mine.pid_start + 1)
    assert world.look() == [run.id]
    assert world.is_alive(stranger)
    assert world.killed == []


def test_the_real_proc_tells_processes_apart() -> None:
    me = this_process()
    assert not process.is_gone(me)
    assert process.is_gone(Owner(me.host, me.boot_id, me.pid, me.pid_start + 1))
    assert process.is_gone(Owner(me.host, "another boot", me.pid, me.pid_start))
    assert process.is_gone(Owner(me.host, me.boot_id, NO_SUCH_PID, 1))
    assert not process.is_gone(Owner(THERE, "another boot", NO_SUCH_PID, 1))


# -- not certain ------------------------------------------------------------------------------------------------------


def test_b3_a_process_of_another_pid_namespace_is_left_alone_while_its_heart_beats(world: World) -> None:
    mine = replace(world.start(), pid_namespace=this_process().pid_namespace + 1)
    run = world.running(mine)
    world.alive.clear()  # its number means nothing here
    assert world.look() == []
    for progress in range(3):
        world.wait(TTL - 1)
        world.store.beat(run.id, run.token, progress, {})
        assert world.look() == []
    world.wait(TTL)
    assert world.look() == [run.id]
    assert world.killed == []


def test_b3_a_foreground_run_of_another_namespace_is_not_taken_to_be_suspended(world: World) -> None:
    mine = replace(world.start(), pid_namespace=this_process().pid_namespace + 1)
    run = world.store.create(request(), owner=mine)
    assert world.look() == []
    world.wait(TTL)
    assert world.look() == [run.id]


def test_b3_a_process_that_proc_hides_may_live(monkeypatch: pytest.MonkeyPatch) -> None:
    me = this_process()
    hidden = replace(me, pid=NO_SUCH_PID)
    assert process.presence(hidden) == process.Presence.GONE

    def not_yours(pid: int, signum: int) -> None:
        raise PermissionError

    monkeypatch.setattr(process.os, "kill", not_yours)
    assert process.presence(hidden) == process.Presence.UNKNOWN
    assert not process.send(hidden, signal.SIGTERM)


def test_b3_another_boot_is_certain_only_outside_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    before = replace(this_process(), boot_id="another boot")
    for recorded, here, expected in [
        (process.FIRST_NAMESPACE, process.FIRST_NAMESPACE, process.Presence.GONE),
        (process.FIRST_NAMESPACE, 7, process.Presence.UNKNOWN),
        (7, process.FIRST_NAMESPACE, process.Presence.UNKNOWN),
        (7, 8, process.Presence.UNKNOWN),
        (0, 8, process.Presence.GONE),
    ]:
        monkeypatch.setattr(process, "_namespace", lambda here=here: here)
        assert process.presence(replace(before, pid_namespace=recorded)) == expected


@pytest.mark.real_process
def test_b3_looking_from_a_real_namespace_takes_no_run(tmp_path: Path) -> None:
    inside = ["unshare", "--pid", "--fork"]
    if subprocess.run([*inside, "--mount-proc", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make a PID namespace")
    code = f"from rlstudio.core.host.process import *; print(presence({this_process()!r}).name)"
    for options in (["--mount-proc"], []):  # without it, /proc is still that of the outer namespace
        command = [*inside, *options, sys.executable, "-c", code]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == "UNKNOWN"
    assert process.presence(this_process()) == process.Presence.HERE


# -- silent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", [HERE, THERE])
def test_silence_for_the_whole_ttl(world: World, host: str) -> None:
    """A process that cannot be seen, or is frozen. Where it can be reached it is ended."""
    mine = world.start(host)
    run = world.running(mine)
    assert world.look() == []
    world.wait(TTL - 1)
    assert world.look() == []
    world.wait(1)
    assert world.look() == [run.id]
    taken = world.store.get(run.id)
    assert (taken.state, taken.reason) == (S.INTERRUPTED, Reason.ORPHANED)
    assert "no sign of life" in taken.message
    assert world.killed == ([mine] if host == HERE else [])


def test_row_52_what_was_observed_before_the_store_was_away_does_not_count(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = world.running(world.start(THERE))
    assert world.look() == []

    def away(**_: object) -> None:
        raise StorageError("away")

    with monkeypatch.context() as cut:
        cut.setattr(world.store, "runs", away)
        world.wait(10 * TTL)
        with pytest.raises(StorageError):
            world.look()
    assert world.look() == []
    world.wait(TTL)
    assert world.look() == [run.id]


def test_a_heartbeat_starts_the_wait_anew(world: World) -> None:
    run = world.running(world.start(THERE))
    world.look()
    for progress in range(10):
        world.wait(TTL - 1)
        world.store.beat(run.id, run.token, progress, {})
        assert world.look() == []


def test_a_sign_of_life_between_the_look_and_the_grip(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    run = world.running(world.start(THERE))
    world.look()
    world.wait(TTL)
    original = world.store.runs

    def and_then_it_beats(**filters: object) -> list[RunRow]:
        found = original(**filters)
        world.store.beat(run.id, run.token, 1, {})
        return found

    monkeypatch.setattr(world.store, "runs", and_then_it_beats)
    assert world.look() == []
    assert world.store.get(run.id).state == S.RUNNING


def test_a_run_that_ended_and_was_removed_between_the_look_and_the_grip(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = world.start()
    run = world.running(mine)
    world.kill(mine)
    original = world.store.runs

    def and_then_it_is_gone(**filters: object) -> list[RunRow]:
        found = original(**filters)
        world.store.move(run.id, run.token, S.COMPLETED)
        world.store.remove(run.id)
        return found

    monkeypatch.setattr(world.store, "runs", and_then_it_is_gone)
    assert world.look() == []


def test_a_foreground_run_that_its_user_put_to_sleep_is_left_alone(world: World) -> None:
    mine, elsewhere = world.start(), world.start(THERE)
    here = world.store.create(request(), owner=mine)
    there = world.store.create(request(), owner=elsewhere)
    world.look()
    world.wait(100 * TTL)
    assert world.look() == [there.id]  # nobody knows whether that one only sleeps
    assert world.store.get(here.id).is_owned
    world.kill(mine)
    assert world.look() == [here.id]


def test_each_observer_waits_for_itself(world: World) -> None:
    """One that was just started has seen nothing yet: it takes nothing away at first sight."""
    run = world.running(world.start(THERE))
    world.look()
    world.wait(TTL)
    assert world.new_reaper().look() == []
    assert world.look() == [run.id]


def test_the_wait_begins_anew_with_a_new_owner(world: World) -> None:
    first, second = world.start(THERE), world.start(THERE)
    run = world.running(first, max_retries=1)
    world.look()
    world.wait(TTL)
    assert world.look() == [run.id]
    world.store.resume(run.id, Reason.RETRY)
    claimed = world.store.claim(run.id, second)
    world.wait(TTL - 1)
    assert world.look() == []
    world.wait(TTL - 1)
    assert world.look() == []
    world.wait(1)
    assert world.look() == [run.id]
    assert world.store.get(run.id).token == claimed.token + 1


# -- hung -------------------------------------------------------------------------------------------------------------


def test_alive_without_a_single_update(world: World) -> None:
    mine = world.start()
    run = world.running(mine)
    world.look()
    for _ in range(20):
        world.wait(10)
        world.store.beat(run.id, run.token, 0, {})
        looked = world.look()
    assert looked == [run.id]
    taken = world.store.get(run.id)
    assert (taken.state, taken.reason) == (S.INTERRUPTED, Reason.HUNG)
    assert "200 s (resources.stall_seconds)" in taken.message
    assert world.killed == [mine]


def test_progress_is_not_hung(world: World) -> None:
    run = world.running(world.start())
    world.look()
    for progress in range(40):
        world.wait(20)
        world.store.beat(run.id, run.token, progress // 5, {})
        assert world.look() == []


def test_a_slow_foreground_run_is_its_users_business(world: World) -> None:
    run = world.store.create(request(stall_seconds=10.0), owner=world.start())
    world.look()
    for _ in range(5):
        world.wait(20)
        world.store.beat(run.id, run.token, 0, {})
        assert world.look() == []


def test_a_hung_run_that_was_asked_to_stop_is_as_its_user_wanted(world: World) -> None:
    run = world.running(world.start())
    world.store.ask(run.id, Desired.CANCEL)
    world.look()
    for _ in range(20):
        world.wait(10)
        world.store.beat(run.id, run.token, 0, {})
        world.look()
    assert world.store.get(run.id).state == S.CANCELLED


# -- not yet begun ----------------------------------------------------------------------------------------------------


def test_whoever_claimed_a_run_is_not_killed_for_it(world: World) -> None:
    """Until its own process has it, the row names the scheduler."""
    scheduling = world.start()
    run = world.store.create(request())
    claimed = world.store.claim(run.id, scheduling)
    world.look()
    world.wait(TTL)
    assert world.look() == [run.id]
    assert world.killed == []
    assert world.is_alive(scheduling)
    assert world.store.get(run.id).token == claimed.token + 1


def test_a_scheduler_that_died_between_claim_and_start(world: World) -> None:
    scheduling = world.start()
    run = world.store.create(request())
    world.store.claim(run.id, scheduling)
    world.kill(scheduling)
    assert world.look() == [run.id]


# -- what it tells ----------------------------------------------------------------------------------------------------


def test_what_the_run_wrote_after_its_last_heartbeat_is_taken_along(world: World) -> None:
    mine = world.start()
    run = world.running(mine)
    world.store.beat(run.id, run.token, 1, {"env_steps": 100})
    world.kill(mine)
    fresh = Reaper(world.store, clock=world.clock, facts=lambda _: {"env_steps": 160, "state_hash": "abc"})
    assert [taken.env_steps for taken in fresh.look()] == [160]
    assert world.store.get(run.id).state_hash == "abc"


def test_a_process_of_another_user_is_left_to_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refused(_: Owner, signum: int) -> bool:
        asked.append(signum)
        raise PermissionError

    monkeypatch.setattr(process, "send", refused)
    run = world.running(world.start())
    world.look()
    world.wait(TTL)
    assert world.look() == [run.id]
    assert asked == [signal.SIGKILL]


# -- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [DAY, -DAY, 3600.0, -3600.0])
def test_a_wall_clock_that_jumps_changes_nothing(world: World, jump: float) -> None:
    healthy, silent = world.running(world.start(THERE)), world.running(world.start(THERE))
    dying = world.start()
    dead = world.running(dying)
    world.look()
    world.jump(jump)
    world.store.beat(healthy.id, healthy.token, 1, {})
    assert world.look() == []
    world.kill(dying)
    assert world.look() == [dead.id]
    world.jump(-2 * jump)
    world.wait(TTL - 1)
    world.store.beat(healthy.id, healthy.token, 2, {})
    assert world.look() == []
    world.wait(1)
    assert world.look() == [silent.id]
    # Ids may have the wrong time in them; the order of birth is that of the rows.
    assert [run.id for run in world.store.runs()] == [dead.id, silent.id, healthy.id]


def test_nobody_here_reads_a_wall_clock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have the module `time` and use one function of it; `datetime` they do not even know."""

    def never(*_: object) -> float:
        raise AssertionError("a wall clock was read")

    for module in (reaper, scheduler, worker, lease):
        assert not any(value in (datetime_module, datetime_module.datetime) for value in vars(module).values())
        patched = SimpleNamespace(monotonic=time.monotonic, time=never, time_ns=never, localtime=never)
        monkeypatch.setattr(module, "time", patched)
        source = Path(str(module.__file__)).read_text()
        assert "time.time" not in source
    mine = world.start()
    run = world.running(mine)
    assert Reaper(world.store).look() == []
    world.kill(mine)
    assert [taken.id for taken in Reaper(world.store).look()] == [run.id]


def test_a_monotonic_clock_that_begins_anew(world: World) -> None:
    """Nobody is taken for it, and nobody lives for ever."""
    healthy, silent = world.running(world.start(THERE)), world.running(world.start(THERE))
    world.look()
    world.now = 1.0
    assert world.look() == []
    world.now = TTL
    world.store.beat(healthy.id, healthy.token, 1, {})
    assert world.look() == []
    world.now = TTL + 1
    assert world.look() == [silent.id]
    assert world.store.get(healthy.id).state == S.RUNNING


def test_what_is_hung_is_found_by_a_monotonic_clock_that_begins_anew(world: World) -> None:
    run = world.running(world.start(THERE))
    world.look()
    world.now = 0.0
    for progress in range(3):
        world.store.beat(run.id, run.token, 0, {})
        assert world.look() == [], progress
        world.wait(TTL - 1)
    world.now = STALL
    world.store.beat(run.id, run.token, 0, {})
    assert world.look() == [run.id]
    assert world.store.get(run.id).reason == Reason.HUNG


def test_a_clock_that_stands_still_takes_nobody(world: World) -> None:
    world.running(world.start(THERE))
    for _ in range(100):
        assert world.look() == []


def test_an_owner_without_a_name_is_nobody(store: Store) -> None:
    """A queued run has no process yet, and is nothing for the reaper."""
    store.create(request())
    assert Reaper(store, gone=lambda _: True).look() == []
    assert owner(1).host == THERE
