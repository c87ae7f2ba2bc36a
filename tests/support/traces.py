"""Races, one after the other: each trace is a story with an end that must be so. `test_lifecycle_traces` tells them on
both databases, and on stores with one guard taken out, where some of them must fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rlstudio.control.lifecycle import Desired
from rlstudio.core.errors import Conflict, LeaseLost, UserError
from rlstudio.core.run_state import Reason
from support.control_world import HERE, NO_SUCH_PID, STALL, THERE, TTL, S, World, assert_history, request

DAY = 86_400.0
ROWS = [{"step": 1, "state_hash": "stale", "manifest_sha256": "stale"}]
TRACES: dict[str, Callable[[World], None]] = {}


def trace(story: Callable[[World], None]) -> Callable[[World], None]:
    TRACES[story.__name__] = story
    return story


def state(w: World, run_id: str) -> tuple[str, str]:
    run = w.store.get(run_id)
    return run.state, run.reason


# -- who is gone ------------------------------------------------------------------------------------------------------


@trace
def a_killed_process_is_found_at_the_next_look(w: World) -> None:
    worker = w.start()
    run = w.running(worker)
    assert w.look() == []
    w.kill(worker)
    assert w.look() == [run.id]
    assert state(w, run.id) == (S.INTERRUPTED, Reason.ORPHANED)
    assert str(worker.pid) in w.store.get(run.id).message
    assert w.look() == []
    assert_history(w.store, run.id)


@trace
def after_a_reboot_nobody_is_who_he_was(w: World) -> None:
    """Even a process with the same number and the same start time, counted from another boot."""
    worker = w.start()
    run = w.running(worker)
    w.reboot()
    w.start(pid=worker.pid, start=worker.pid_start)
    assert w.new_reaper().look()[0].id == run.id
    assert w.killed == []


@trace
def a_number_that_was_given_again_is_not_the_owner(w: World) -> None:
    worker = w.start()
    run = w.running(worker)
    w.kill(worker)
    w.start(pid=worker.pid)
    assert w.look() == [run.id]
    assert w.killed == []


@trace
def the_healthy_are_left_alone(w: World) -> None:
    here, there = w.start(), w.start(THERE)
    runs = [w.running(here), w.running(there)]
    for tick in range(30):
        w.wait(TTL - 1)
        for run in runs:
            w.store.beat(run.id, run.token, tick + 1, {})
        assert w.look() == []
    w.start(THERE, pid=here.pid)
    assert {run.state for run in w.store.runs()} == {S.RUNNING}


@trace
def another_host_is_judged_by_its_silence(w: World) -> None:
    worker = w.start(THERE)
    run = w.running(worker)
    assert w.look() == []
    w.wait(TTL - 0.1)
    assert w.look() == []
    w.wait(0.2)
    assert w.look() == [run.id]
    assert state(w, run.id) == (S.INTERRUPTED, Reason.ORPHANED)
    assert w.killed == []  # nothing can be done to it from here


@trace
def silence_is_counted_from_the_last_sign(w: World) -> None:
    run = w.running(w.start(THERE))
    w.look()
    w.wait(TTL - 1)
    w.store.beat(run.id, run.token, 1, {})
    w.look()
    w.wait(TTL - 1)
    assert w.look() == []
    w.wait(1)
    assert w.look() == [run.id]


@trace
def a_new_reaper_counts_afresh(w: World) -> None:
    run = w.running(w.start(THERE))
    w.look()
    w.wait(TTL + 1)
    w.reaper = w.new_reaper()
    assert w.look() == []
    w.wait(TTL + 1)
    assert w.look() == [run.id]


@trace
def clocks_on_the_wall_may_jump(w: World) -> None:
    healthy, silent = w.running(w.start(THERE)), w.running(w.start(THERE))
    assert w.look() == []
    for jump in (DAY, -2 * DAY, 3600.0, -3600.0, DAY):
        w.wait(TTL / 6)
        w.jump(jump)
        w.store.beat(healthy.id, healthy.token, 1, {})
        assert w.look() == []
    w.jump(-10 * DAY)
    w.wait(TTL / 5)
    w.store.beat(healthy.id, healthy.token, 2, {})
    assert w.look() == [silent.id]
    newer = w.store.create(request())
    assert w.store.runs(limit=1) == [newer]  # in the order they came, whatever the clock said


@trace
def a_heartbeat_between_the_look_and_the_deed_counts(w: World) -> None:
    worker = w.start()
    run = w.running(worker)

    def gone(owner):
        w.store.beat(run.id, run.token, 1, {})  # it beats just as it is judged
        return True

    w.reaper._gone = gone
    assert w.look() == []
    assert state(w, run.id) == (S.RUNNING, Reason.NONE)


@trace
def a_run_that_changed_hands_between_the_look_and_the_deed_is_left(w: World) -> None:
    first = w.start()
    run = w.running(first)

    def gone(owner):
        w.store.move(run.id, run.token, S.INTERRUPTED)
        w.store.resume(run.id, owner=w.start())
        return True

    w.reaper._gone = gone
    assert w.look() == []
    assert w.store.get(run.id).state == S.STARTING
    assert w.store.get(run.id).process != first


@trace
def what_beats_but_gets_nowhere_is_hung(w: World) -> None:
    stuck, busy = w.start(), w.start()
    runs = [w.running(stuck), w.running(busy)]
    w.look()
    for tick in range(9):
        w.wait(STALL / 8)
        w.store.beat(runs[0].id, runs[0].token, 0, {})
        w.store.beat(runs[1].id, runs[1].token, tick + 1, {})
        if tick == 6:
            assert w.look() == []
    assert w.look() == [runs[0].id]
    assert state(w, runs[0].id) == (S.INTERRUPTED, Reason.HUNG)
    assert w.killed == [stuck]


@trace
def a_sleeping_foreground_run_of_this_host_is_left(w: World) -> None:
    worker = w.start()
    run = w.store.create(request(), owner=worker)
    w.look()
    w.wait(10 * TTL)
    assert w.look() == []
    w.kill(worker)
    assert w.look() == [run.id]


# -- who comes back ---------------------------------------------------------------------------------------------------


def frozen_and_replaced(w: World):
    """A run whose owner froze, was given up, and goes on elsewhere."""
    old = w.start(THERE)
    run = w.running(old, max_retries=3)
    w.look()
    w.wait(TTL + 1)
    assert w.look() == [run.id]
    w.store.resume(run.id, Reason.RETRY)
    new = w.store.claim(run.id, w.start())
    return run, w.store.move(run.id, new.token, S.RUNNING)


@trace
def who_thaws_cannot_say_an_end(w: World) -> None:
    run, now = frozen_and_replaced(w)
    for to in (S.COMPLETED, S.FAILED, S.INTERRUPTED, S.STOPPING):
        with pytest.raises(LeaseLost):
            w.store.move(run.id, run.token, to)
    assert w.store.get(run.id) == now
    assert_history(w.store, run.id)


@trace
def who_thaws_cannot_beat(w: World) -> None:
    run, now = frozen_and_replaced(w)
    with pytest.raises(LeaseLost):
        w.store.beat(run.id, run.token, 99, {"env_steps": 1})
    assert w.store.get(run.id) == now


@trace
def who_thaws_cannot_publish(w: World) -> None:
    run, now = frozen_and_replaced(w)
    good = [{"step": 2, "state_hash": "good", "manifest_sha256": "good"}]
    w.store.publish(run.id, now.token, good)
    with pytest.raises(LeaseLost):
        w.store.publish(run.id, run.token, ROWS)
    assert [entry.state_hash for entry in w.store.checkpoints(run.id)] == ["good"]


@trace
def who_was_given_up_sees_it_in_the_token_at_once(w: World) -> None:
    """Writers on disk compare the token alone: it must change with the reaping, not only with the next owner."""
    worker = w.start()
    run = w.running(worker)
    w.kill(worker)
    w.look()
    assert w.store.token(run.id) != run.token
    with pytest.raises(LeaseLost):
        w.store.publish(run.id, run.token, ROWS)


@trace
def who_ended_writes_nothing_more(w: World) -> None:
    run = w.running(w.start())
    w.store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL)
    ended = w.store.get(run.id)
    for act in (
        lambda: w.store.publish(run.id, run.token, ROWS),
        lambda: w.store.beat(run.id, run.token, 9, {}),
        lambda: w.store.move(run.id, run.token, S.COMPLETED),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert w.store.get(run.id) == ended
    assert w.store.checkpoints(run.id) == []


@trace
def each_owner_has_a_number_of_its_own(w: World) -> None:
    run = w.running(w.start())
    w.store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL)  # without a reaper
    again = w.store.resume(run.id, owner=w.start(THERE))
    with pytest.raises(LeaseLost):
        w.store.move(run.id, run.token, S.FAILED)
    assert w.store.get(run.id) == again


@trace
def a_run_that_came_back_from_its_folder_forgot_its_owners(w: World) -> None:
    run = w.running(w.start(THERE))
    w.look()
    w.wait(TTL + 1)
    w.look()
    w.store.remove(run.id)
    w.store.adopt(request(), run.id, S.INTERRUPTED, Reason.ORPHANED, {})
    again = w.store.resume(run.id, owner=w.start())
    with pytest.raises(LeaseLost):
        w.store.move(run.id, run.token, S.COMPLETED)
    assert w.store.get(run.id) == again


# -- between the scheduler and its process ----------------------------------------------------------------------------


@trace
def a_scheduler_that_dies_between_claim_and_hand_over(w: World) -> None:
    scheduler = w.start()
    run = w.store.create(request(max_retries=1))
    claimed = w.store.claim(run.id, scheduler)
    w.kill(scheduler)
    assert w.look() == [run.id]
    w.store.resume(run.id, Reason.RETRY)
    second = w.store.claim(run.id, w.start())
    with pytest.raises(LeaseLost):
        w.store.hand_over(run.id, claimed.token, w.start())  # the process that the first had started
    assert w.store.get(run.id) == second
    taken = w.store.hand_over(run.id, second.token, w.start())
    assert w.store.move(run.id, taken.token, S.RUNNING).process == taken.process


@trace
def a_scheduler_that_dies_after_hand_over_takes_nothing_with_it(w: World) -> None:
    scheduler, worker = w.start(), w.start()
    run = w.store.create(request())
    claimed = w.store.claim(run.id, scheduler)
    w.store.hand_over(run.id, claimed.token, worker)
    w.kill(scheduler)
    assert w.look() == []
    w.store.move(run.id, claimed.token, S.RUNNING)


@trace
def two_processes_for_one_claim(w: World) -> None:
    run = w.store.create(request())
    claimed = w.store.claim(run.id, w.start())
    taken = w.store.hand_over(run.id, claimed.token, w.start())
    with pytest.raises(Conflict):
        w.store.hand_over(run.id, claimed.token, w.start())
    assert w.store.get(run.id) == taken


@trace
def a_process_that_never_came_does_not_end_its_scheduler(w: World) -> None:
    """It died before it took over: the run is given up, but who claimed it lives and has others to serve."""
    scheduler = w.start()
    run = w.store.create(request())
    w.store.claim(run.id, scheduler)
    w.look()
    w.wait(TTL + 1)
    assert w.look() == [run.id]
    assert state(w, run.id) == (S.INTERRUPTED, Reason.ORPHANED)
    assert w.killed == []


@trace
def two_schedulers_one_run(w: World) -> None:
    run = w.store.create(request())
    first = w.store.claim(run.id, w.start())
    with pytest.raises(Conflict):
        w.store.claim(run.id, w.start(THERE))
    assert w.store.get(run.id) == first
    assert first.attempt == 1


@trace
def the_queue_outlives_everybody(w: World) -> None:
    run = w.store.create(request())
    w.start()
    w.reboot()
    w.wait(10 * DAY)
    assert w.new_reaper().look() == []
    assert state(w, run.id) == (S.QUEUED, Reason.NONE)


# -- stop, cancel, retry ----------------------------------------------------------------------------------------------


@trace
def a_stop_whose_process_dies_stays_stopped(w: World) -> None:
    worker = w.start()
    run = w.running(worker, max_retries=5)
    w.store.ask(run.id, Desired.STOP)
    w.kill(worker)
    assert w.look() == [run.id]
    assert state(w, run.id) == (S.INTERRUPTED, Reason.USER)
    with pytest.raises(Conflict):
        w.store.resume(run.id, Reason.RETRY)


@trace
def a_cancellation_outlives_a_stop(w: World) -> None:
    for asked in ([Desired.CANCEL, Desired.STOP], [Desired.STOP, Desired.CANCEL]):
        worker = w.start()
        run = w.running(worker)
        for desired in asked:
            w.store.ask(run.id, desired)
        w.kill(worker)
        assert w.look() == [run.id]
        assert state(w, run.id) == (S.CANCELLED, Reason.USER)
        for act in (lambda run=run: w.store.resume(run.id), lambda run=run: w.store.claim(run.id, w.start())):
            with pytest.raises(Conflict):
                act()


@trace
def cancelled_in_the_queue_before_it_was_claimed(w: World) -> None:
    run = w.store.create(request())
    cancelled = w.store.ask(run.id, Desired.CANCEL)
    with pytest.raises(Conflict):
        w.store.claim(run.id, w.start())
    assert w.store.get(run.id) == cancelled
    assert cancelled.state == S.CANCELLED


@trace
def a_stop_that_comes_while_it_starts_is_heard(w: World) -> None:
    run = w.store.claim(w.store.create(request()).id, w.start())
    w.store.ask(run.id, Desired.STOP)
    assert w.store.move(run.id, run.token, S.RUNNING).state == S.STOPPING
    assert w.store.beat(run.id, run.token, 1, {}) == Desired.STOP
    assert w.store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL).reason == Reason.USER
    assert w.store.resume(run.id, owner=w.start()).desired == Desired.RUN
    assert w.store.beat(run.id, run.token + 1, 1, {}) == Desired.RUN  # a new life is not stopped by an old word


@trace
def a_stop_a_moment_after_the_crash(w: World) -> None:
    worker = w.start()
    run = w.running(worker, max_retries=5)
    w.kill(worker)
    w.look()
    w.store.ask(run.id, Desired.STOP)
    with pytest.raises(Conflict):
        w.store.resume(run.id, Reason.RETRY)
    assert w.store.get(run.id).state == S.INTERRUPTED


@trace
def a_retry_decided_on_old_news(w: World) -> None:
    """A scheduler saw a crash; before it acts, the user has resumed the run and stopped it again."""
    worker = w.start()
    run = w.running(worker, max_retries=5)
    w.kill(worker)
    w.look()
    again = w.store.resume(run.id, owner=w.start())
    w.store.ask(run.id, Desired.STOP)
    stopped = w.store.move(run.id, again.token, S.INTERRUPTED)
    with pytest.raises(Conflict):
        w.store.resume(run.id, Reason.RETRY)
    assert w.store.get(run.id) == stopped


@trace
def two_schedulers_retry_once(w: World) -> None:
    worker = w.start()
    run = w.running(worker, max_retries=5)
    w.kill(worker)
    w.look()
    w.store.resume(run.id, Reason.RETRY)
    with pytest.raises(Conflict):
        w.store.resume(run.id, Reason.RETRY)
    assert [entry.state for entry in w.store.events(run.id)].count(S.QUEUED) == 2


@trace
def a_crash_loop_ends(w: World) -> None:
    """Also one that falls back and fails at a different place each time."""
    run = w.store.create(request(max_retries=3))
    crashes = 0
    for steps in (100, 90, 95, 99, 100, 98):
        worker = w.start()
        claimed = w.store.claim(run.id, worker)
        w.store.beat(run.id, claimed.token, 1, {"env_steps": steps})
        w.kill(worker)
        assert w.look() == [run.id]
        crashes += 1
        if not w.store.get(run.id).may_retry:
            break
        w.store.resume(run.id, Reason.RETRY)
    assert crashes == 4
    assert w.store.get(run.id).state == S.INTERRUPTED


@trace
def an_end_just_before_the_look_stands(w: World) -> None:
    worker = w.start()
    run = w.running(worker)
    w.look()
    w.store.move(run.id, run.token, S.COMPLETED)
    w.kill(worker)
    w.wait(TTL + 1)
    assert w.look() == []
    assert state(w, run.id) == (S.COMPLETED, Reason.NONE)


# -- launches ---------------------------------------------------------------------------------------------------------


@trace
def an_answer_that_was_lost_is_asked_for_again(w: World) -> None:
    run = w.store.create(request(), key="launch")
    assert w.store.create(request(), key="launch") == run
    claimed = w.store.claim(run.id, w.start())
    assert w.store.create(request(), key="launch") == claimed
    with pytest.raises(UserError):
        w.store.create(request(config_hash="other"), key="launch")
    assert w.store.count() == 1


@trace
def a_whole_life_is_told(w: World) -> None:
    worker = w.start()
    run = w.running(worker, max_retries=1)
    w.kill(worker)
    w.look()
    w.store.resume(run.id, Reason.RETRY)
    claimed = w.store.claim(run.id, w.start())
    w.store.move(run.id, claimed.token, S.RUNNING)
    w.store.ask(run.id, Desired.STOP)
    w.store.move(run.id, claimed.token, S.INTERRUPTED, Reason.SIGNAL)
    again = w.store.resume(run.id, owner=w.start())
    w.store.move(run.id, again.token, S.RUNNING)
    w.store.move(run.id, again.token, S.COMPLETED)
    w.store.resume(run.id, Reason.EXTENDED)
    events = [(str(entry.state), str(entry.reason)) for entry in w.store.events(run.id)]
    assert events == [
        ("QUEUED", ""),
        ("STARTING", ""),
        ("RUNNING", ""),
        ("INTERRUPTED", "orphaned"),
        ("QUEUED", "retry"),
        ("STARTING", ""),
        ("RUNNING", ""),
        ("STOPPING", "user"),
        ("INTERRUPTED", "user"),
        ("QUEUED", "resumed"),
        ("STARTING", ""),
        ("RUNNING", ""),
        ("COMPLETED", ""),
        ("QUEUED", "extended"),
    ]
    assert [entry.token for entry in w.store.events(run.id)] == [0, 1, 1, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4]
    assert_history(w.store, run.id)


assert HERE != THERE
assert NO_SUCH_PID > 1 << 22
