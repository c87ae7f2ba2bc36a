"""Store: what is known about all runs. Each method is one transaction.

A move is one compare-and-swap on the run's row plus one row in the append-only history; the owner of a run passes
the token of its ownership, and with an older one changes nothing. No wall clock decides anything here: the times in the
rows are for people.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete
from sqlalchemy.exc import IntegrityError

from rlstudio.control.lifecycle import ENDED, Desired, outcome_of_stop
from rlstudio.control.store.moves import (
    ID_ATTEMPTS,
    change_state,
    claim_run,
    failed,
    get_run,
    insert_run,
    nothing_to_end,
    owned_run,
    refuse_pause,
    run_of_key,
    set_checkpoints,
    taken,
    update_run,
    with_end_of_tries,
)
from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.records import Consent, RunRequest, RunRow, facts_as_columns
from rlstudio.control.store.schema import runs
from rlstudio.core.errors import Conflict, UserError
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import OWNED, Reason, RunState

Fence = Callable[[Connection], None]

LONGEST_KEY = 200


class Store(StoreReader):
    def create(
        self,
        request: RunRequest,
        *,
        key: str | None = None,
        owner: Owner | None = None,
        run_id: str | None = None,
        fence: Fence = lambda connection: None,
    ) -> RunRow:
        """A new run, QUEUED; with an owner it starts at once. The same key twice is the same run, made once,
        whatever its state is now. `fence` raises inside the transaction where this may not be done any more."""
        if key is not None and not 0 < len(key) <= LONGEST_KEY:
            raise UserError(f"key: has {len(key)} characters; give 1 to {LONGEST_KEY}")
        for _ in range(ID_ATTEMPTS):
            try:
                with self.database.write() as connection:
                    fence(connection)
                    known = None if key is None else run_of_key(connection, key, request.config_hash)
                    return known or insert_run(connection, request, key, owner, run_id)
            except IntegrityError as error:  # another process took the id or the key: try again
                refused = error
        raise refused

    def adopt(
        self,
        request: RunRequest,
        run_id: str,
        state: RunState,
        reason: Reason,
        facts: Mapping[str, object],
        checkpoints: Sequence[Mapping[str, object]] = (),
    ) -> RunRow:
        """A run that was made elsewhere, as its folder describes it, with its checkpoints. It has no owner.

        It may have been here before, and removed while its owner was frozen: its tokens go on from any number, so
        that none of those given out before counts again. The first one of a run that was launched here is 0.
        """
        history = [RunState.QUEUED]
        if state != RunState.QUEUED:
            history += [RunState.STARTING, RunState.RUNNING, RunState.STOPPING]
            history += [RunState.INTERRUPTED if state in OWNED else state]
        try:
            with self.database.write() as connection:
                run = insert_run(connection, request, run_id=run_id, token=1 + secrets.randbits(40))
                for step in history[1:]:
                    run = change_state(connection, run, step, reason if step == history[-1] else Reason.ADOPTED, "")
                update_run(connection, run, is_managed=state == RunState.QUEUED, **facts_as_columns(facts))
                set_checkpoints(connection, run_id, run.token, checkpoints)
                return get_run(connection, run_id)
        except IntegrityError as error:
            raise taken(run_id) from error

    def remove(self, run_id: str) -> None:
        """Remove a run that has no owner."""
        with self.database.write() as connection:
            run = get_run(connection, run_id, lock=True)
            if run.is_owned:
                raise Conflict(f"run {run_id}: is {run.state}; end it first with: rlctl stop {run_id}")
            connection.execute(delete(runs).where(runs.c.id == run_id))

    def annotate(
        self,
        run_id: str,
        *,
        tags: Sequence[str] | None = None,
        note: str | None = None,
        priority: int | None = None,
        consent: Consent | None = None,
        fence: Fence = lambda connection: None,
    ) -> RunRow:
        """What its user says about a run; None leaves it as it is. It is no part of the run's history, and its owner is
        not disturbed. `fence`: as for `create`."""
        known = {"note": note, "priority": priority, **(consent.as_columns() if consent else {})}
        known |= {} if tags is None else {"tags": json.dumps([*dict.fromkeys(tags)])}
        given = {name: value for name, value in known.items() if value is not None}
        with self.database.write() as connection:
            fence(connection)
            run = get_run(connection, run_id, lock=True)
            if given:
                update_run(connection, run, **given)
            return get_run(connection, run_id)

    # -- ownership --------------------------------------------------------------------------------------------------

    def claim(self, run_id: str, owner: Owner, *, trains: bool = False) -> RunRow:
        """QUEUED -> STARTING: from now on the run is this owner's, until it ends or is taken away. `trains`: the owner
        is the process that trains it, in the foreground, and no worker tries it again; otherwise one that starts such a
        process."""
        with self.database.write() as connection:
            run = claim_run(connection, get_run(connection, run_id, lock=True), owner, has_process=trains)
            if trains:
                update_run(connection, run, is_managed=False)
            return get_run(connection, run_id)

    def hand_over(self, run_id: str, token: int, owner: Owner) -> RunRow:
        """The process that was started for a claimed run takes it over from the one that claimed it, and no second
        one does."""
        with self.database.write() as connection:
            run = owned_run(connection, run_id, token)
            if run.process != owner and (run.has_process or run.state == RunState.RUNNING):
                raise Conflict(f"run {run_id}: is {run.state} in process {run.pid} on {run.host} already")
            update_run(connection, run, heartbeat=run.heartbeat + 1, has_process=True, **asdict(owner))
            return get_run(connection, run_id)

    def move(
        self,
        run_id: str,
        token: int,
        to: RunState,
        reason: Reason = Reason.NONE,
        message: str = "",
        facts: Mapping[str, object] | None = None,
    ) -> RunRow:
        """The owner of a run records its new state."""
        with self.database.write() as connection:
            run = owned_run(connection, run_id, token)
            to, reason = outcome_of_stop(run.state, run.reason, run.desired, to, reason)
            if to == RunState.RUNNING and run.state == RunState.STOPPING:
                to = RunState.STOPPING  # asked to stop while it started: the next safe point comes first
            values = facts_as_columns(facts or {})
            if to == run.state:
                update_run(connection, run, **values)
                return get_run(connection, run_id)
            if to == RunState.CANCELLED and run.desired != Desired.CANCEL:
                raise Conflict(f"run {run_id}: no cancellation was asked for; do that with: rlctl cancel {run_id}")
            values |= failed(run, to, reason, values)
            if reason == Reason.ORPHANED:  # said by the scheduler, of a process that never took the run over
                message = with_end_of_tries(run, message, values)
            return change_state(connection, run, to, reason, message, **values)

    def beat(self, run_id: str, token: int, progress: int, facts: Mapping[str, object]) -> Desired:
        """The owner's heartbeat; `progress` grows with each sign of life. Returns what the user wants of it."""
        with self.database.write() as connection:
            run = owned_run(connection, run_id, token)
            update_run(connection, run, heartbeat=run.heartbeat + 1, progress=progress, **facts_as_columns(facts))
            return run.desired

    def assign(self, run_id: str, token: int, devices: Sequence[int]) -> None:
        """The GPUs that the owner may use."""
        with self.database.write() as connection:
            run = owned_run(connection, run_id, token)
            update_run(connection, run, devices=",".join(map(str, devices)))

    def set_origin(self, run_id: str, token: int, step: int) -> None:
        """Where in its parent's life a child began."""
        with self.database.write() as connection:
            update_run(connection, owned_run(connection, run_id, token), parent_step=step)

    def publish(self, run_id: str, token: int, checkpoints: Sequence[Mapping[str, object]]) -> None:
        """The owner's checkpoints: these and no others."""
        with self.database.write() as connection:
            owned_run(connection, run_id, token)
            set_checkpoints(connection, run_id, token, checkpoints)

    def reap(
        self,
        run_id: str,
        token: int,
        heartbeat: int,
        reason: Reason,
        message: str,
        facts: Mapping[str, object] | None = None,
    ) -> RunRow | None:
        """Take a run from an owner that is gone. Nothing happens where its heartbeat changed since it was read."""
        with self.database.write() as connection:
            run = get_run(connection, run_id, lock=True)
            if not run.is_owned or run.token != token or run.heartbeat != heartbeat:
                return None
            to, reason = outcome_of_stop(run.state, run.reason, run.desired, RunState.INTERRUPTED, reason)
            values = {"token": run.token + 1, **facts_as_columns(facts or {})}
            values |= failed(run, to, reason, values)
            return change_state(connection, run, to, reason, with_end_of_tries(run, message, values), **values)

    # -- what the user wants ----------------------------------------------------------------------------------------

    def ask(self, run_id: str, desired: Desired, fence: Fence = lambda connection: None) -> RunRow:
        """Stop or cancel. A run without an owner is cancelled at once; one that waits to be tried again keeps its
        state and is not tried again. `fence`: as for `create`."""
        if desired == Desired.RUN:
            raise ValueError("ask: a run is asked to stop or to be cancelled; use `resume` to run it")
        with self.database.write() as connection:
            fence(connection)
            run = get_run(connection, run_id, lock=True)
            if run.is_owned:
                # A cancellation outlives a mere stop that comes after it.
                wanted = Desired.CANCEL if Desired.CANCEL in (run.desired, desired) else desired
                if run.state == RunState.STOPPING:
                    update_run(connection, run, desired=str(wanted))
                    return get_run(connection, run_id)
                return change_state(connection, run, RunState.STOPPING, Reason.USER, "", desired=str(wanted))
            if desired == Desired.CANCEL and run.state in (RunState.QUEUED, RunState.INTERRUPTED):
                return change_state(connection, run, RunState.CANCELLED, Reason.USER, "")
            if run.may_retry and run.is_managed:
                update_run(connection, run, desired=str(desired))
                return get_run(connection, run_id)
            raise nothing_to_end(run, desired)

    def pause(self, run_id: str, fence: Fence = lambda connection: None) -> RunRow:
        """Stop a run of the queue so that it keeps its place there. One that runs ends at its next safe point first;
        nothing starts it again before `release`. Nothing happens to a run that is paused already. `fence`: as for
        `create`."""
        with self.database.write() as connection:
            fence(connection)
            run = get_run(connection, run_id, lock=True)
            if run.is_paused or (run.state, run.reason) == (RunState.STOPPING, Reason.PAUSED):
                return run
            refuse_pause(run)
            stop = {"desired": str(Desired.STOP)}
            if run.is_owned:
                return change_state(connection, run, RunState.STOPPING, Reason.PAUSED, "", **stop)
            if run.state != RunState.QUEUED:  # it waits to be tried again, which is a place in the queue as well
                run = change_state(connection, run, RunState.QUEUED, Reason.RETRY, "")
            return change_state(connection, run, RunState.INTERRUPTED, Reason.PAUSED, "", **stop)

    def release(self, run_id: str, fence: Fence = lambda connection: None) -> RunRow:
        """A paused run is back at its place in the queue. One that has come to a rung of its sweep stays where it is,
        for the sweep to let it go on. `fence`: as for `create`."""
        with self.database.write() as connection:
            fence(connection)
            run = get_run(connection, run_id, lock=True)
            if not run.is_paused:
                raise Conflict(f"run {run_id}: is {run.state}, not paused; see: rlctl show {run_id}")
            values = {"desired": str(Desired.RUN), "failures": 0, "failed_at": 0}
            if not run.is_at_rung:
                return change_state(connection, run, RunState.QUEUED, Reason.RESUMED, "", **values)
            update_run(connection, run, **values)
            return get_run(connection, run_id)

    def resume(
        self,
        run_id: str,
        reason: Reason = Reason.RESUMED,
        *,
        owner: Owner | None = None,
        changes: Mapping[str, object] | None = None,
        fence: Fence = lambda connection: None,
    ) -> RunRow:
        """An ended run goes into the queue again; with an owner it starts at once. Except for a RETRY its failures are
        forgotten; `changes` are columns that differ from now on (a longer config). `fence`: as for `create`."""
        with self.database.write() as connection:
            fence(connection)
            run = get_run(connection, run_id, lock=True)
            if run.state not in ENDED or (run.state == RunState.COMPLETED and reason != Reason.EXTENDED):
                raise Conflict(f"run {run_id}: is {run.state}; it cannot be resumed")
            if reason == Reason.RETRY and not run.may_retry:
                raise Conflict(f"run {run_id}: is {run.state} ({run.reason}); it is not to be tried again")
            values = {"desired": str(Desired.RUN), **(changes or {})}
            if reason != Reason.RETRY:
                # `changes` may hold the epoch to pause at; otherwise it goes to its end.
                values = {"failures": 0, "failed_at": 0, "pause_at": 0, **values}
            values.setdefault("is_managed", owner is None)
            run = change_state(connection, run, RunState.QUEUED, reason, "", **values)
            return run if owner is None else claim_run(connection, run, owner, has_process=True)
