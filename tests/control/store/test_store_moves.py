"""The store's contract on both databases: every move, allowed or refused, and who may make it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from rlstudio.control import lifecycle
from rlstudio.control.lifecycle import ENDED, MOVES, Desired, backoff_seconds, is_retried
from rlstudio.control.queue.scheduler import in_order
from rlstudio.core.errors import Conflict, LeaseLost
from rlstudio.core.run_state import OWNED, Reason, RunState
from support.control_world import S, assert_history, in_state, owner, request
from support.histories import state_after

OWNERS_MOVES = {  # written out, not derived: what the owner of a run may say, and what it becomes
    (S.STARTING, S.RUNNING),
    (S.STARTING, S.STOPPING),
    (S.STARTING, S.FAILED),
    (S.STARTING, S.INTERRUPTED),
    (S.RUNNING, S.STOPPING),
    (S.RUNNING, S.COMPLETED),
    (S.RUNNING, S.FAILED),
    (S.RUNNING, S.INTERRUPTED),
    (S.STOPPING, S.COMPLETED),
    (S.STOPPING, S.FAILED),
    (S.STOPPING, S.INTERRUPTED),
    (S.STOPPING, S.RUNNING),  # it stays STOPPING: asked to stop while it started
}


@pytest.mark.parametrize(("state", "to"), list(product(RunState, RunState)), ids=str)
def test_every_pair_of_states(store, state, to):
    run = in_state(store, state)
    token = store.token(run.id)
    if state not in OWNED:
        with pytest.raises(LeaseLost, match="writing nothing more"):
            store.move(run.id, token, to)
    elif (state, to) in OWNERS_MOVES or state == to:
        moved = store.move(run.id, token, to, message="why")
        assert moved.state == (S.STOPPING if (state, to) == (S.STOPPING, S.RUNNING) else to)
        assert moved == store.get(run.id)
        assert moved.version == run.version + (moved.state != state)
    else:
        with pytest.raises(Conflict):
            store.move(run.id, token, to)
    if (state, to) not in OWNERS_MOVES and state != to:
        assert store.get(run.id) == run
    assert_history(store, run.id)


def test_the_table_of_moves_is_the_one_of_the_plan():
    plan = {
        None: "QUEUED",
        S.QUEUED: "STARTING CANCELLED INTERRUPTED",
        S.STARTING: "RUNNING STOPPING FAILED INTERRUPTED",
        S.RUNNING: "STOPPING COMPLETED FAILED INTERRUPTED",
        S.STOPPING: "COMPLETED FAILED INTERRUPTED CANCELLED",
        S.INTERRUPTED: "QUEUED CANCELLED",
        S.FAILED: "QUEUED",
        S.COMPLETED: "QUEUED",
        S.CANCELLED: "",
    }
    assert {state: set(map(str, to)) for state, to in MOVES.items()} == {s: set(to.split()) for s, to in plan.items()}


def test_a_history_that_cannot_be_is_refused():
    assert state_after([S.QUEUED, S.STARTING, S.INTERRUPTED, S.QUEUED]) == S.QUEUED
    for history in ([], [S.RUNNING], [S.QUEUED, S.RUNNING], [S.QUEUED, S.CANCELLED, S.QUEUED], [S.QUEUED, S.QUEUED]):
        with pytest.raises(ValueError, match=r"cannot become|no history"):
            state_after(history)


def test_pauses_grow_and_end():
    assert [backoff_seconds(n) for n in (0, 1, 2, 3, 6, 7, 8, 10_000)] == [1, 1, 2, 4, 32, 60, 60, 60]


# -- ownership --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in RunState if state != S.QUEUED])
def test_only_a_queued_run_can_be_claimed(store, state):
    run = in_state(store, state)
    with pytest.raises(Conflict, match=f"is {state}, not QUEUED"):
        store.claim(run.id, owner(2))
    assert store.get(run.id) == run


def test_a_claim_is_a_new_ownership(store):
    run = store.create(request())
    claimed = store.claim(run.id, owner(1))
    assert (claimed.token, claimed.attempt, claimed.heartbeat) == (1, 1, run.heartbeat + 1)
    assert claimed.process == owner(1)
    taken = store.hand_over(run.id, 1, owner(2))
    assert (taken.process, taken.token, taken.attempt, taken.state) == (owner(2), 1, 1, S.STARTING)
    assert taken.heartbeat == claimed.heartbeat + 1
    store.move(run.id, 1, S.INTERRUPTED)
    again = store.resume(run.id, owner=owner(3))
    assert (again.token, again.attempt, again.state, again.process) == (2, 2, S.STARTING, owner(3))
    assert again.heartbeat > taken.heartbeat
    assert_history(store, run.id)


def test_a_run_is_handed_over_once(store):
    """Two processes started for one claim cannot both go on."""
    run = store.claim(store.create(request()).id, owner(1))
    assert not run.has_process
    taken = store.hand_over(run.id, run.token, owner(2))
    assert taken.has_process
    with pytest.raises(Conflict, match=f"is STARTING in process {owner(2).pid} on another-host already"):
        store.hand_over(run.id, run.token, owner(3))
    assert store.get(run.id) == taken
    assert store.hand_over(run.id, run.token, owner(2)).process == owner(2)  # the answer was lost: asked again
    running = store.move(run.id, run.token, S.RUNNING)
    with pytest.raises(Conflict, match=f"is RUNNING in process {owner(2).pid}"):
        store.hand_over(run.id, run.token, owner(3))
    assert store.get(run.id) == running
    store.move(run.id, run.token, S.INTERRUPTED)
    store.resume(run.id)
    again = store.claim(run.id, owner(1))
    assert not again.has_process  # each claim is for a process of its own
    assert store.create(request(), owner=owner(4)).has_process
    stopped = store.claim(store.create(request()).id, owner(1))
    store.ask(stopped.id, Desired.STOP)
    assert store.hand_over(stopped.id, stopped.token, owner(2)).state == S.STOPPING  # so that it can say its end


def test_many_claim_one_gets_it(store):
    run = store.create(request())

    def claim(number):
        try:
            return store.claim(run.id, owner(number)).process
        except Conflict:
            return None

    with ThreadPoolExecutor(4) as pool:
        got = [found for found in pool.map(claim, range(8)) if found]
    assert got == [store.get(run.id).process]
    assert store.get(run.id).attempt == 1
    assert_history(store, run.id)


ROWS = [{"step": 1, "state_hash": "h", "manifest_sha256": "m"}]
ACTS = {
    "move": lambda store, run: store.move(run.id, run.token, S.COMPLETED, facts={"env_steps": 99}),
    "beat": lambda store, run: store.beat(run.id, run.token, 99, {"env_steps": 99}),
    "publish": lambda store, run: store.publish(run.id, run.token, ROWS),
    "hand_over": lambda store, run: store.hand_over(run.id, run.token, owner(9)),
    "assign": lambda store, run: store.assign(run.id, run.token, [1]),
}


def reap(store, run):
    assert store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "gone").state == S.INTERRUPTED


def reap_and_claim(store, run):
    reap(store, run)
    store.resume(run.id, owner=owner(2))


def end_and_claim(store, run):
    store.move(run.id, run.token, S.INTERRUPTED)
    store.resume(run.id, owner=owner(2))


def reap_and_run(store, run):
    reap_and_claim(store, run)
    store.move(run.id, store.token(run.id), S.RUNNING)


def end(store, run):
    store.move(run.id, run.token, S.INTERRUPTED)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("lose", [reap, reap_and_claim, end_and_claim, reap_and_run, end])
@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
def test_who_lost_a_run_changes_nothing(store, state, lose, act):
    run = in_state(store, state)
    lose(store, run)
    before = store.get(run.id), store.events(run.id)
    with pytest.raises(LeaseLost, match=r"belongs to another owner .*writing nothing more") as caught:
        act(store, run)
    assert caught.value.exit_code == 70
    assert (store.get(run.id), store.events(run.id)) == before
    assert store.checkpoints(run.id) == []


@pytest.mark.parametrize("token", [0, 2, -1, 1 << 62])
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_token_must_be_the_very_one(store, act, token):
    from dataclasses import replace

    run = in_state(store, S.RUNNING)
    with pytest.raises(LeaseLost):
        act(store, replace(run, token=token))
    assert store.get(run.id) == run


# -- reaping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", RunState)
def test_only_what_somebody_has_is_reaped(store, state):
    run = in_state(store, state)
    reaped = store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "gone")
    if state not in OWNED:
        assert reaped is None
        assert store.get(run.id) == run
        return
    assert (reaped.state, reaped.token) == (S.INTERRUPTED, run.token + 1)
    assert reaped.reason == (Reason.USER if state == S.STOPPING else Reason.ORPHANED)
    assert reaped.message == "gone"
    assert store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "gone") is None
    assert_history(store, run.id)


@pytest.mark.parametrize(
    "sign",
    [
        lambda store, run: store.beat(run.id, run.token, 0, {}),
        lambda store, run: store.hand_over(run.id, run.token, owner(2)),
        end_and_claim,
    ],
    ids=["beat", "hand over", "new claim"],
)
def test_who_has_shown_life_since_is_not_reaped(store, sign):
    run = in_state(store, S.STARTING)
    sign(store, run)
    before = store.get(run.id)
    assert store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "") is None
    assert store.get(run.id) == before


def test_a_beat_counts_and_tells_what_the_user_wants(store):
    run = in_state(store, S.RUNNING)
    assert store.beat(run.id, run.token, 5, {"env_steps": 64}) == Desired.RUN
    found = store.get(run.id)
    assert (found.heartbeat, found.progress, found.env_steps, found.version) == (run.heartbeat + 1, 5, 64, run.version)
    store.ask(run.id, Desired.STOP)
    assert store.beat(run.id, run.token, 6, {}) == Desired.STOP
    store.ask(run.id, Desired.CANCEL)
    assert store.beat(run.id, run.token, 7, {}) == Desired.CANCEL
    assert store.get(run.id).env_steps == 64


# -- stop and cancel --------------------------------------------------------------------------------------------------

ASKED = {
    (S.QUEUED, Desired.STOP): None,
    (S.QUEUED, Desired.CANCEL): S.CANCELLED,
    (S.STARTING, Desired.STOP): S.STOPPING,
    (S.STARTING, Desired.CANCEL): S.STOPPING,
    (S.RUNNING, Desired.STOP): S.STOPPING,
    (S.RUNNING, Desired.CANCEL): S.STOPPING,
    (S.STOPPING, Desired.STOP): S.STOPPING,
    (S.STOPPING, Desired.CANCEL): S.STOPPING,
    (S.INTERRUPTED, Desired.STOP): None,
    (S.INTERRUPTED, Desired.CANCEL): S.CANCELLED,
    **{(state, desired): None for state in (S.COMPLETED, S.FAILED, S.CANCELLED) for desired in list(Desired)[1:]},
}


@pytest.mark.parametrize(("state", "desired"), ASKED, ids=str)
def test_asking(store, state, desired):
    run = in_state(store, state)
    expected = ASKED[state, desired]
    if expected is None:
        with pytest.raises(Conflict, match=f"run {run.id}: is {state}"):
            store.ask(run.id, desired)
        assert store.get(run.id) == run
        return
    asked = store.ask(run.id, desired)
    assert (asked.state, asked.token) == (expected, run.token)
    if expected == S.STOPPING:
        assert asked.desired == desired
        assert asked.process == run.process
    assert asked.reason == Reason.USER
    assert_history(store, run.id)


def test_nobody_is_asked_to_run(store):
    run = in_state(store, S.RUNNING)
    with pytest.raises(ValueError, match="resume"):
        store.ask(run.id, Desired.RUN)
    assert store.get(run.id) == run


@pytest.mark.parametrize("how", ["owner", "reaper"])
@pytest.mark.parametrize(
    ("asked", "becomes"),
    [
        ([Desired.STOP], S.INTERRUPTED),
        ([Desired.CANCEL], S.CANCELLED),
        ([Desired.STOP, Desired.CANCEL], S.CANCELLED),
        ([Desired.CANCEL, Desired.STOP], S.CANCELLED),  # a cancellation outlives a mere stop
    ],
)
@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
def test_how_a_stop_ends(store, state, asked, becomes, how):
    run = in_state(store, state)
    for desired in asked:
        store.ask(run.id, desired)
    if how == "owner":
        ended = store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL, "signal 15")
    else:
        ended = store.reap(run.id, run.token, run.heartbeat, Reason.ORPHANED, "gone")
    assert (ended.state, ended.reason) == (becomes, Reason.USER)
    assert (ended.failures, ended.may_retry) == (0, False)
    with pytest.raises(Conflict):
        store.resume(run.id, Reason.RETRY)
    assert_history(store, run.id)


def test_an_owner_that_stops_by_itself_was_not_stopped_by_the_user(store):
    run = in_state(store, S.RUNNING, max_retries=1)
    store.move(run.id, run.token, S.STOPPING, Reason.SIGNAL)
    ended = store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL)
    assert (ended.state, ended.reason, ended.may_retry) == (S.INTERRUPTED, Reason.SIGNAL, True)


@pytest.mark.parametrize("desired", [Desired.RUN, Desired.STOP])
def test_an_owner_cancels_only_what_the_user_wants_gone(store, desired):
    run = in_state(store, S.RUNNING)
    stopping = store.move(run.id, run.token, S.STOPPING) if desired == Desired.RUN else store.ask(run.id, desired)
    with pytest.raises(Conflict):
        store.move(run.id, run.token, S.CANCELLED)
    assert store.get(run.id) == stopping
    store.ask(run.id, Desired.CANCEL)
    assert store.move(run.id, run.token, S.CANCELLED).state == S.CANCELLED


@pytest.mark.parametrize("to", [S.COMPLETED, S.FAILED])
def test_a_run_that_ended_before_it_heard_of_the_stop_has_ended(store, to):
    run = in_state(store, S.STOPPING)
    ended = store.move(run.id, run.token, to, Reason.NONE)
    assert (ended.state, ended.reason) == (to, Reason.NONE)


def test_what_was_asked_to_stop_is_not_tried_again_however_it_ended(store):
    run = in_state(store, S.STOPPING, max_retries=5)
    failed = store.move(run.id, run.token, S.FAILED, Reason.ENV_FAULT)
    assert not failed.may_retry
    with pytest.raises(Conflict, match="not to be tried again"):
        store.resume(run.id, Reason.RETRY)
    assert store.resume(run.id).desired == Desired.RUN  # the user may


@pytest.mark.parametrize("desired", [Desired.STOP, Desired.CANCEL])
@pytest.mark.parametrize(
    ("to", "reason"), [(S.INTERRUPTED, Reason.ORPHANED), (S.INTERRUPTED, Reason.STORAGE), (S.FAILED, Reason.ENV_FAULT)]
)
def test_a_run_that_waits_to_be_tried_again_can_be_stopped(store, to, reason, desired):
    """It died a moment before its user said stop: the scheduler must not start it again."""
    run = in_state(store, S.RUNNING, max_retries=3)
    ended = store.move(run.id, run.token, to, reason)
    assert ended.may_retry
    asked = store.ask(run.id, desired)
    assert asked.state == (S.CANCELLED if (to, desired) == (S.INTERRUPTED, Desired.CANCEL) else to)
    assert not asked.may_retry
    with pytest.raises(Conflict):
        store.resume(run.id, Reason.RETRY)
    if asked.state != S.CANCELLED:
        assert store.resume(run.id).state == S.QUEUED
    assert_history(store, run.id)


# -- pause ------------------------------------------------------------------------------------------------------------


PAUSES = {S.QUEUED: S.INTERRUPTED, S.STARTING: S.STOPPING, S.RUNNING: S.STOPPING}


@pytest.mark.parametrize("state", RunState)
def test_pausing(store, state):
    run = in_state(store, state)
    if state not in PAUSES:
        with pytest.raises(Conflict, match=f"run {run.id}: is {'ending' if state == S.STOPPING else state}"):
            store.pause(run.id)
        assert store.get(run.id) == run
        return
    paused = store.pause(run.id)
    assert (paused.state, paused.reason, paused.desired) == (PAUSES[state], Reason.PAUSED, Desired.STOP)
    assert paused.is_paused == (state == S.QUEUED)
    assert store.pause(run.id) == paused  # asked again: nothing changes
    assert_history(store, run.id)


@pytest.mark.parametrize("how", ["owner", "reaper"])
def test_a_paused_run_keeps_its_place_and_nobody_takes_it(store, how):
    first = in_state(store, S.RUNNING, priority=3, max_retries=2, pause_at=9)
    second = store.create(request(priority=3))
    assert store.pause(first.id).desired == Desired.STOP
    assert store.paused() == []
    if how == "owner":
        ended = store.move(first.id, first.token, S.INTERRUPTED, Reason.SIGNAL, "signal 15", {"env_steps": 64})
    else:
        ended = store.reap(first.id, first.token, first.heartbeat, Reason.ORPHANED, "gone")
    assert (ended.state, ended.reason, ended.is_paused, ended.failures) == (S.INTERRUPTED, Reason.PAUSED, True, 0)
    assert store.paused() == [ended]
    assert store.retryable() == []
    for act in (lambda: store.claim(first.id, owner(2)), lambda: store.resume(first.id, Reason.RETRY)):
        with pytest.raises(Conflict):
            act()
    back = store.release(first.id)
    assert (back.state, back.desired, back.seq, back.priority, back.pause_at) == (
        S.QUEUED,
        Desired.RUN,
        first.seq,
        3,
        9,
    )
    assert [run.id for run in in_order([second, back], [])] == [first.id, second.id]
    with pytest.raises(Conflict, match="is QUEUED, not paused"):
        store.release(first.id)
    assert store.claim(first.id, owner(2)).desired == Desired.RUN
    assert_history(store, first.id)


def test_a_run_that_waits_to_be_tried_again_can_be_paused(store):
    for to, reason in ((S.INTERRUPTED, Reason.ORPHANED), (S.FAILED, Reason.ENV_FAULT)):
        run = in_state(store, S.RUNNING, max_retries=3)
        store.move(run.id, run.token, to, reason)
        assert store.pause(run.id).is_paused
        assert store.retryable() == []
        assert store.release(run.id).state == S.QUEUED
        assert_history(store, run.id)


def test_what_else_is_asked_of_a_paused_run(store):
    stopped_after, cancelled_after = in_state(store, S.RUNNING), in_state(store, S.RUNNING)
    for run, desired in ((stopped_after, Desired.STOP), (cancelled_after, Desired.CANCEL)):
        store.pause(run.id)
        store.ask(run.id, desired)
    assert store.move(stopped_after.id, stopped_after.token, S.INTERRUPTED).is_paused  # it is stopped, as was asked
    assert store.move(cancelled_after.id, cancelled_after.token, S.INTERRUPTED).state == S.CANCELLED
    assert store.ask(stopped_after.id, Desired.CANCEL).state == S.CANCELLED
    queued = store.create(request())
    store.pause(queued.id)
    ours = store.resume(queued.id, owner=owner(2))  # by hand, in the foreground
    assert (ours.state, ours.is_managed, ours.desired) == (S.STARTING, False, Desired.RUN)
    with pytest.raises(Conflict, match=rf"trains in the foreground, .*: rlctl stop {queued.id}"):
        store.pause(queued.id)


def test_a_run_at_a_rung_of_its_sweep_is_not_paused_by_a_user(store):
    run = in_state(store, S.RUNNING, sweep="mine", trial=0, pause_at=3)
    waiting = store.move(run.id, run.token, S.INTERRUPTED, Reason.PAUSED, "", {"epoch": 3})
    assert not waiting.is_paused
    with pytest.raises(Conflict, match=r"waits for its sweep already; .*: rlctl sweep stop mine"):
        store.pause(run.id)
    both = in_state(store, S.RUNNING, sweep="mine", trial=1, pause_at=3)
    store.pause(both.id)
    assert store.move(both.id, both.token, S.INTERRUPTED, Reason.PAUSED, "", {"epoch": 3}).is_paused
    released = store.release(both.id)  # it must not train beyond its rung: the sweep lets it go on
    assert (released.state, released.reason, released.is_paused) == (S.INTERRUPTED, Reason.PAUSED, False)
    assert_history(store, both.id)


# -- resume, retry, extend --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "reason"), list(product(RunState, [Reason.RESUMED, Reason.EXTENDED])), ids=str)
def test_what_can_be_resumed(store, state, reason):
    run = in_state(store, state)
    allowed = {S.INTERRUPTED, S.FAILED} | ({S.COMPLETED} if reason == Reason.EXTENDED else set())
    if state not in allowed:
        with pytest.raises(Conflict, match=f"is {state}"):
            store.resume(run.id, reason)
        assert store.get(run.id) == run
        return
    queued = store.resume(run.id, reason, changes={"total_epochs": 20, "config_yaml": "b: 2\n", "config_hash": "new"})
    assert (queued.state, queued.reason, queued.desired, queued.token) == (S.QUEUED, reason, Desired.RUN, run.token)
    assert (queued.total_epochs, queued.config_hash, queued.is_managed) == (20, "new", True)
    assert store.config_yaml(run.id) == "b: 2\n"
    assert store.move(run.id, store.claim(run.id, owner(2)).token, S.RUNNING).desired == Desired.RUN
    assert_history(store, run.id)


def test_resumed_here_it_is_ours_at_once(store):
    run = in_state(store, S.INTERRUPTED)
    ours = store.resume(run.id, owner=owner(4))
    assert (ours.state, ours.process, ours.token, ours.is_managed) == (S.STARTING, owner(4), run.token + 1, False)
    with pytest.raises(Conflict):
        store.resume(run.id, owner=owner(5))
    assert store.get(run.id) == ours


RETRIED = {
    (S.INTERRUPTED, Reason.ORPHANED),
    (S.INTERRUPTED, Reason.HUNG),
    (S.INTERRUPTED, Reason.RANK_LOST),
    (S.INTERRUPTED, Reason.STORAGE),
    (S.INTERRUPTED, Reason.SIGNAL),
    (S.FAILED, Reason.ENV_FAULT),
}


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason or "none")
def test_what_is_tried_again(store, reason):
    for state in (S.INTERRUPTED, S.FAILED, S.COMPLETED):
        run = in_state(store, S.RUNNING, max_retries=1)
        ended = store.move(run.id, run.token, state, reason)
        hopeful = (state, reason) in RETRIED
        assert ended.may_retry == is_retried(state, reason) == hopeful
        assert ended.failures == int(hopeful)
        if hopeful:
            assert store.resume(run.id, Reason.RETRY).state == S.QUEUED
            continue
        with pytest.raises(Conflict):
            store.resume(run.id, Reason.RETRY)
        assert store.get(run.id) == ended


def fail(store, run_id, steps, how="owner"):
    """One attempt that gets so far."""
    run = store.claim(run_id, owner())
    store.beat(run_id, run.token, 1, {"env_steps": steps})
    if how == "reaper":
        return store.reap(run_id, run.token, store.get(run_id).heartbeat, Reason.ORPHANED, "")
    return store.move(run_id, run.token, S.INTERRUPTED, Reason.STORAGE, facts={"env_steps": steps})


@pytest.mark.parametrize("how", ["owner", "reaper"])
def test_failures_in_a_row_without_progress_are_counted(store, how):
    run = store.create(request(max_retries=3))
    counts = []
    for steps in (0, 100, 100, 60, 90, 101):  # back at an older checkpoint is not progress
        counts.append(fail(store, run.id, steps, how).failures)
        if store.get(run.id).may_retry:
            store.resume(run.id, Reason.RETRY)
        else:
            with pytest.raises(Conflict, match="not to be tried again"):
                store.resume(run.id, Reason.RETRY)
            break
    assert counts == [1, 1, 2, 3, 4]
    store.resume(run.id)
    assert store.get(run.id).failures == 0  # the user's own wish forgives all
    assert fail(store, run.id, 50, how).failures == 1


def test_progress_starts_the_count_again():
    assert lifecycle.failure_counts(0, 0, 0) == (1, 0)
    assert lifecycle.failure_counts(3, 100, 101) == (1, 101)
    assert lifecycle.failure_counts(3, 100, 100) == (4, 100)
    assert lifecycle.failure_counts(3, 100, 7) == (4, 100)


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_no_more_retries_than_asked_for(store, max_retries):
    run = store.create(request(max_retries=max_retries))
    retries = 0
    while fail(store, run.id, 0).may_retry:
        store.resume(run.id, Reason.RETRY)
        retries += 1
    assert retries == max_retries
    assert store.get(run.id).state in ENDED
