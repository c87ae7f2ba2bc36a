"""A small world for the tests of the store: requests, owners, and hosts whose processes can be ended by a word."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store import moves
from rlstudio.control.store.database import Database
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRequest, RunRow
from rlstudio.control.store.schema import runs, workers
from rlstudio.control.store.store import Store
from rlstudio.control.store.sweep_tables import sweeps
from rlstudio.core.host import process
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import Reason, RunState
from support.histories import state_after

S = RunState
HERE, THERE = os.uname().nodename, "another-host"
TTL = 30.0
STALL = 200.0
NO_SUCH_PID = 5_000_000  # beyond what Linux gives out: no real process can be hit by mistake


def request(**changes: Any) -> RunRequest:
    values = {"name": "cartpole", "algo": "ppo", "env_id": "CartPole-v1", "config_yaml": "a: 1\n", "config_hash": "abc"}
    return RunRequest(**{**values, **changes})


def owner(number: int = 1, host: str = THERE) -> Owner:
    return Owner(host, f"boot of {host}", NO_SUCH_PID + number, 100 + number)


def in_state(store: Store, state: RunState, desired: Desired = Desired.STOP, **changes: Any) -> RunRow:
    """A new run, brought to this state the usual way."""
    run = store.create(request(**changes))
    if state == S.QUEUED:
        return run
    run = store.claim(run.id, owner())
    if state == S.STARTING:
        return run
    run = store.move(run.id, run.token, S.RUNNING)
    if state == S.RUNNING:
        return run
    if state == S.CANCELLED or state == S.STOPPING:
        run = store.ask(run.id, Desired.CANCEL if state == S.CANCELLED else desired)
        return run if state == S.STOPPING else store.move(run.id, run.token, S.INTERRUPTED)
    return store.move(run.id, run.token, state, Reason.SIGNAL if state == S.INTERRUPTED else Reason.NONE)


def assert_history(store: Store, run_id: str) -> None:
    """The state is what the events say, without a hole, and no ownership is older than the one before."""
    run, history = store.get(run_id), store.events(run_id)
    assert state_after(event.state for event in history) == run.state
    assert [event.version for event in history] == list(range(1, run.version + 1))
    assert (history[-1].reason, history[-1].message) == (run.reason, run.message)
    tokens = [event.token for event in history]
    assert tokens == sorted(tokens)
    assert tokens[-1] == run.token


class World:
    """The host of the reaper, whose processes it sees, and another one, of which it only hears the heartbeats."""

    def __init__(self, store: Store, setattr: Callable[[object, str, object], None]) -> None:
        self.store = store
        self.boot = "boot-1"
        self.alive: dict[int, int] = {}  # of this host: pid -> start
        self.elsewhere: set[Owner] = set()
        self.now = 1000.0  # the reaper's monotonic clock
        self.wall = 1_800_000_000.0  # what people read; it jumps
        self.killed: list[Owner] = []
        self._started = 0
        setattr(process, "_boot_id", lambda: self.boot)
        setattr(process, "_start", self.alive.get)
        setattr(process, "send", self._send)
        setattr(moves, "timestamp", lambda: datetime.fromtimestamp(self.wall, UTC).isoformat(timespec="milliseconds"))
        self.reaper = self.new_reaper()

    def new_reaper(self) -> Reaper:
        return Reaper(self.store, clock=self.clock, gone=process.is_gone, ttl=TTL)

    def clock(self) -> float:
        return self.now

    def start(self, host: str = HERE, pid: int | None = None, start: int | None = None) -> Owner:
        """A new process; it may get the number (and after a reboot even the start time) of one that is gone."""
        self._started += 1
        pid = NO_SUCH_PID + self._started if pid is None else pid
        start = self._started if start is None else start
        if host != HERE:
            found = Owner(host, "boot of another host", pid, start)
            self.elsewhere.add(found)
            return found
        assert pid not in self.alive
        self.alive[pid] = start
        return Owner(HERE, self.boot, pid, start)

    def is_alive(self, owner: Owner) -> bool:
        if owner.host != HERE:
            return owner in self.elsewhere
        return owner.boot_id == self.boot and self.alive.get(owner.pid) == owner.pid_start

    def kill(self, owner: Owner) -> None:
        if owner.host != HERE:
            self.elsewhere.discard(owner)
        elif self.is_alive(owner):
            del self.alive[owner.pid]

    def reboot(self) -> None:
        self.boot = f"boot-{int(self.boot.rpartition('-')[2]) + 1}"
        self.alive.clear()

    def _send(self, owner: Owner, signum: int) -> bool:
        if owner.host != HERE or not self.is_alive(owner):
            return False
        self.killed.append(owner)
        self.kill(owner)
        return True

    # -- what happens to runs ---------------------------------------------------------------------------------------

    def running(self, owner: Owner, **changes: Any) -> RunRow:
        """A run of the queue, started by a scheduler and taken over by its process."""
        run = self.store.create(request(stall_seconds=STALL, **changes))
        claimed = self.store.claim(run.id, self.start())
        self.store.hand_over(run.id, claimed.token, owner)
        return self.store.move(run.id, claimed.token, S.RUNNING)

    def look(self) -> list[str]:
        return [run.id for run in self.reaper.look()]

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock on the wall."""
        self.wall += seconds


def clear(database: Database) -> None:
    with database.write() as connection:
        for table in (runs, workers, sweeps):
            connection.execute(delete(table))
