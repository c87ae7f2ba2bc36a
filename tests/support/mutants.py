"""The store and the reaper with one guard less each: every one of them must be noticed by some trace."""

from __future__ import annotations

import os
from collections.abc import Callable

from sqlalchemy import update

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store import moves
from rlstudio.control.store import store as store_module
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.schema import runs
from rlstudio.control.store.store import Store
from rlstudio.core.host import process
from rlstudio.core.run_state import RunState
from support.control_world import World

Patch = Callable[[object, str, object], None]


MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(break_it: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[break_it.__name__] = break_it
    return break_it


def without_token_check(patch: Patch, name: str) -> None:
    method = getattr(Store, name)

    def trusting(self, run_id, token, *rest, **named):
        return method(self, run_id, self.token(run_id), *rest, **named)

    patch(Store, name, trusting)


@mutant
def no_token_check_in_move(patch: Patch) -> None:
    without_token_check(patch, "move")


@mutant
def no_token_check_in_beat(patch: Patch) -> None:
    without_token_check(patch, "beat")


@mutant
def no_token_check_in_publish(patch: Patch) -> None:
    without_token_check(patch, "publish")


@mutant
def no_token_check_in_hand_over(patch: Patch) -> None:
    without_token_check(patch, "hand_over")


@mutant
def an_ended_run_still_has_an_owner(patch: Patch) -> None:
    def owned_run(connection, run_id, token):
        run = moves.get_run(connection, run_id, lock=True)
        if run.token != token:
            raise moves.LeaseLost("")
        return run

    patch(store_module, "owned_run", owned_run)


@mutant
def no_boot_id_check(patch: Patch) -> None:
    def is_gone(owner):
        return owner.host == os.uname().nodename and process._start(owner.pid) != owner.pid_start

    patch(process, "is_gone", is_gone)


@mutant
def no_pid_start_check(patch: Patch) -> None:
    def is_gone(owner):
        here = owner.host == os.uname().nodename
        return here and (owner.boot_id != process._boot_id() or process._start(owner.pid) is None)

    patch(process, "is_gone", is_gone)


@mutant
def no_host_check(patch: Patch) -> None:
    patch(process, "is_gone", lambda owner: process._start(owner.pid) != owner.pid_start)


@mutant
def nobody_is_ever_gone(patch: Patch) -> None:
    patch(process, "is_gone", lambda owner: False)


def changing(patch: Patch, change: Callable[[RunRow, dict], dict]) -> None:
    """`change_state` with other columns."""
    original = moves.change_state

    def changed(connection, run, to, reason, message, **values):
        return original(connection, run, to, reason, message, **change(to, values))

    patch(moves, "change_state", changed)
    patch(store_module, "change_state", changed)


@mutant
def no_token_bump_on_reap(patch: Patch) -> None:
    changing(patch, lambda to, values: {k: v for k, v in values.items() if to == RunState.STARTING or k != "token"})


@mutant
def no_token_bump_on_claim(patch: Patch) -> None:
    changing(patch, lambda to, values: {k: v for k, v in values.items() if to != RunState.STARTING or k != "token"})


@mutant
def a_resumed_run_is_still_asked_to_stop(patch: Patch) -> None:
    changing(patch, lambda to, values: {k: v for k, v in values.items() if to != RunState.QUEUED or k != "desired"})


@mutant
def no_event_is_written(patch: Patch) -> None:
    def change_state(connection, run, to, reason, message, **values):
        columns = {"state": str(to), "reason": str(reason), "message": message}
        moves.update_run(connection, run, version=run.version + 1, **columns, **values)
        return moves.get_run(connection, run.id)

    patch(moves, "change_state", change_state)
    patch(store_module, "change_state", change_state)


@mutant
def any_move_is_allowed(patch: Patch) -> None:
    everything = frozenset(RunState)
    patch(moves, "MOVES", dict.fromkeys(RunState, everything))


@mutant
def a_run_is_claimed_in_any_state(patch: Patch) -> None:
    def claim_run(connection, run, owner):
        values = {"token": run.token + 1, "attempt": run.attempt + 1, **vars(owner)}
        moves.update_run(connection, run, state="STARTING", **values)
        return moves.get_run(connection, run.id)

    patch(store_module, "claim_run", claim_run)


@mutant
def reaping_ignores_a_fresh_heartbeat(patch: Patch) -> None:
    method = Store.reap
    patch(Store, "reap", lambda s, i, token, beat, *rest: method(s, i, token, s.get(i).heartbeat, *rest))


@mutant
def reaping_ignores_a_new_owner(patch: Patch) -> None:
    method = Store.reap
    patch(Store, "reap", lambda s, i, token, beat, *rest: method(s, i, s.token(i), s.get(i).heartbeat, *rest))


@mutant
def a_key_is_not_unique(patch: Patch) -> None:
    insert_run = store_module.insert_run
    patch(store_module, "run_of_key", lambda *_: None)
    patch(store_module, "insert_run", lambda c, request, key, *rest: insert_run(c, request, None, *rest))


@mutant
def a_key_forgets_its_config(patch: Patch) -> None:
    def run_of_key(connection, key, config_hash):
        row = connection.execute(moves.select(moves.keys).where(moves.keys.c.key == key)).mappings().one_or_none()
        return None if row is None else moves.get_run(connection, row["run_id"])

    patch(store_module, "run_of_key", run_of_key)


@mutant
def a_cancellation_is_lost_by_a_stop(patch: Patch) -> None:
    method = Store.ask

    def ask(self, run_id, desired):
        run = method(self, run_id, desired)
        with self.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(desired=str(desired)))
        return run

    patch(Store, "ask", ask)


@mutant
def a_stop_is_a_mere_signal(patch: Patch) -> None:
    patch(store_module, "outcome_of_stop", lambda state, asked, desired, to, reason: (to, reason))


@mutant
def a_stop_while_it_waits_is_forgotten(patch: Patch) -> None:
    method = Store.ask

    def ask(self, run_id, desired):
        run = method(self, run_id, desired)
        if not run.is_owned:
            with self.database.write() as connection:
                connection.execute(update(runs).where(runs.c.id == run_id).values(desired=str(Desired.RUN)))
        return run

    patch(Store, "ask", ask)


@mutant
def a_retry_after_any_end(patch: Patch) -> None:
    patch(RunRow, "may_retry", property(lambda run: True))


@mutant
def failures_are_not_counted(patch: Patch) -> None:
    patch(moves, "failure_counts", lambda failures, failed_at, steps: (1, steps))


@mutant
def falling_back_counts_as_progress(patch: Patch) -> None:
    patch(moves, "failure_counts", lambda n, at, steps: (1 + (n if steps <= at else 0), steps))


@mutant
def tokens_of_a_run_from_elsewhere_begin_at_nothing(patch: Patch) -> None:
    patch(store_module.secrets, "randbits", lambda bits: -1)


@mutant
def a_run_is_handed_over_at_any_time(patch: Patch) -> None:
    def hand_over(self, run_id, token, owner):
        with self.database.write() as connection:
            run = moves.owned_run(connection, run_id, token)
            moves.update_run(connection, run, heartbeat=run.heartbeat + 1, **vars(owner))
            return moves.get_run(connection, run_id)

    patch(Store, "hand_over", hand_over)


@mutant
def the_wall_clock_is_used(patch: Patch) -> None:
    patch(World, "clock", lambda world: world.wall)


@mutant
def silence_is_counted_from_the_first_look(patch: Patch) -> None:
    observe = Reaper._observe
    patch(Reaper, "_observe", lambda self, run, now: self._signs.get(run.id) or observe(self, run, now))


@mutant
def silence_means_nothing(patch: Patch) -> None:
    observe = Reaper._observe

    def seen_now(self, run, now):
        from dataclasses import replace

        return replace(observe(self, run, now), beat_at=now)

    patch(Reaper, "_observe", seen_now)


@mutant
def progress_means_nothing(patch: Patch) -> None:
    observe = Reaper._observe

    def moved_now(self, run, now):
        from dataclasses import replace

        return replace(observe(self, run, now), moved_at=now)

    patch(Reaper, "_observe", moved_now)
