"""Reaper: finds runs whose owner is gone, and takes them away so that they can go on elsewhere.

A process of this host and PID namespace is judged by boot, pid and start time, at once and for certain. One that cannot
be looked up, or is frozen, is judged by its heartbeat: unchanged for `ttl` seconds on this process's own monotonic
clock. No two clocks are ever compared, so a clock that jumps, here or there, takes no run from a healthy owner.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from rlstudio.control.lifecycle import outcome_of_stop
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.core.errors import RunNotFound, StorageError
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import OWNED, Reason, RunState
from rlstudio.experiment.folder.status import Status

TTL_SECONDS = 30.0


def is_gone(run: RunRow) -> bool:
    """Whether the process that has a run certainly is not there any more."""
    return run.is_owned and process.is_gone(run.process)


def as_recorded(run: RunRow, status: Status) -> Status:
    """The status that a run whose process is gone has once that is recorded."""
    state, reason = outcome_of_stop(run.state, run.reason, run.desired, RunState.INTERRUPTED, Reason.ORPHANED)
    return replace(status, state=state, reason=reason, message=_ended_silently(run))


def _ended_silently(run: RunRow) -> str:
    return f"process {run.pid} ended without recording why; {_again(run)}"


def _again(run: RunRow) -> str:
    return f"go on with: rlctl resume {run.id}"


@dataclass(frozen=True)
class _SignsOfLife:
    """When the signs of life of an owner last changed, on our clock."""

    token: int
    heartbeat: int
    progress: int
    beat_at: float
    moved_at: float


class Reaper:
    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        gone: Callable[[Owner], bool] = process.is_gone,
        ttl: float = TTL_SECONDS,
        facts: Callable[[RunRow], Mapping[str, object]] = lambda run: {},
    ) -> None:
        """`facts`: what a run wrote about itself after its last heartbeat, where that can be read."""
        self._store = store
        self._clock = clock
        self._gone = gone
        self._ttl = ttl
        self._facts = facts
        self._signs: dict[str, _SignsOfLife] = {}

    def look(self) -> list[RunRow]:
        """One pass over all runs that have an owner; returns those that were taken from it."""
        now = self._clock()
        try:
            owned = self._store.runs(states=OWNED)
        except StorageError:
            # While the store is away no heartbeat can arrive: what was observed before says nothing afterwards.
            self._signs.clear()
            raise
        self._signs = {run.id: self._observe(run, now) for run in owned}
        reaped = [self._judge(run, now) for run in owned]
        return [run for run in reaped if run is not None]

    def _observe(self, run: RunRow, now: float) -> _SignsOfLife:
        before = self._signs.get(run.id)
        if before is None or before.token != run.token:
            return _SignsOfLife(run.token, run.heartbeat, run.progress, now, now)
        # At most now: a clock that was reset must not keep an owner alive for ever.
        beat_at = min(before.beat_at, now) if before.heartbeat == run.heartbeat else now
        moved_at = min(before.moved_at, now) if before.progress == run.progress else now
        return _SignsOfLife(run.token, run.heartbeat, run.progress, beat_at, moved_at)

    def _judge(self, run: RunRow, now: float) -> RunRow | None:
        signs = self._signs[run.id]
        if self._gone(run.process):
            return self._take(run, Reason.ORPHANED, _ended_silently(run))
        # A foreground run that its user suspended here (Ctrl-Z) is left alone.
        asleep = not run.is_managed and process.is_here(run.process)
        if now - signs.beat_at >= self._ttl and not asleep:
            silent = f"no sign of life from process {run.pid} on {run.host} for {self._ttl:g} s"
            return self._take(run, Reason.ORPHANED, f"{silent}; {_again(run)}", end=True)
        if now - signs.moved_at >= run.stall_seconds and run.is_managed:
            still = f"stepped no environment and made no update for {run.stall_seconds:g} s (resources.stall_seconds)"
            stuck = f"process {run.pid} lives, but {still}"
            return self._take(run, Reason.HUNG, f"{stuck}; {_again(run)}", end=True)
        return None

    def _take(self, run: RunRow, reason: Reason, message: str, end: bool = False) -> RunRow | None:
        try:
            reaped = self._store.reap(run.id, run.token, run.heartbeat, reason, message, self._facts(run))
        except RunNotFound:
            return None  # ended and removed since we looked
        if reaped is not None and end and run.has_process:
            # It can write nothing more; where it can be reached it need not go on computing either. Before a run has a
            # process of its own the process in its row is the scheduler's, which must not be killed.
            with suppress(PermissionError):
                process.send(run.process, signal.SIGKILL)
        return reaped
