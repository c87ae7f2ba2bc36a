"""Scheduler: decides which queued run starts when. One `tick` looks, retries, starts and observes; it never waits.

Order: priority, then whose owner has the fewest cores in use, then who came first. The first in that order that could
ever run here is waited for, so a large run is not passed by small ones for ever. What is in use is read from the store,
not remembered: a scheduler that was killed is replaced by another, and runs of the foreground count too.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rlstudio.control.lifecycle import Desired, backoff_seconds
from rlstudio.control.queue.launchers import ClusterLauncher, Launcher, Process, Room, WaitingProcess
from rlstudio.control.store.reaper import Reaper
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.resources import Slots, left
from rlstudio.control.store.store import Store
from rlstudio.core.errors import Conflict, LeaseLost, RunNotFound
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import OWNED, Reason, RunState

KEEP_SECONDS = 5.0
"""So often a run that waits in a cluster gets a heartbeat from its worker."""

Elsewhere = Callable[[RunRow], ClusterLauncher | None]
"""Who starts a run on other machines; None for a run of this machine."""


@dataclass(frozen=True)
class Observed:
    """What one tick saw and did."""

    queue_depth: int
    running: int
    throughput: float  # environment steps per second of all runs of the store together
    started: list[RunRow] = field(default_factory=list)
    reaped: list[RunRow] = field(default_factory=list)
    retried: list[RunRow] = field(default_factory=list)
    never: list[RunRow] = field(default_factory=list)  # queued, but larger than this machine, or any of its cluster
    away: list[str] = field(default_factory=list)  # why a cluster cannot be asked; its runs wait
    held: str | None = None  # why nothing is started at the moment
    waits: bool = False  # something will be retried after its pause, or was lost and is not recorded yet


class Scheduler:
    def __init__(
        self,
        store: Store,
        slots: Slots,
        launcher: Launcher,
        *,
        elsewhere: Elsewhere = lambda run: None,
        reaper: Reaper | None = None,
        clock: Callable[[], float] = time.monotonic,
        shortage: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`shortage`: why no run can be started now, whichever it is."""
        self.store = store
        self.slots = slots
        self.processes: dict[str, Process] = {}
        self._claims: dict[str, int] = {}  # run -> token: what we claimed, until its own process has it
        self._ended: dict[str, int] = {}  # run -> token: ours whose process ended, until the store knows
        self._kept_at: dict[str, float] = {}
        self._launcher = launcher
        self._elsewhere = elsewhere
        self._reaper = reaper or Reaper(store)
        self._clock = clock
        self._shortage = shortage
        self._ended_at: dict[tuple[str, int], float] = {}  # (run, version) that may be retried -> when we first saw it
        self._rates: dict[str, _Rate] = {}

    def tick(self) -> Observed:
        self._collect()
        reaped = self._reaper.look()
        held = self._shortage()
        retried, waits = self._retry(held is not None)
        unended = self.store.runs(states={RunState.QUEUED, *OWNED})
        queued = [run for run in unended if run.state == RunState.QUEUED]
        running = [run for run in unended if run.is_owned]
        self._keep(running)
        started, never = self._start([] if held else queued, running)
        return Observed(
            queue_depth=len(queued) - len(started),
            running=len(running) + len(started),
            throughput=self._throughput(running),
            started=started,
            reaped=reaped,
            retried=retried,
            never=never,
            away=list({cluster.away: None for run in queued if (cluster := self._elsewhere(run)) and cluster.away}),
            held=held,
            waits=waits or self._loses(running),
        )

    def _collect(self) -> None:
        """Drop processes that ended; how their runs ended is in the store, or the reaper notices it. A run whose
        process ended before it took the run over is still ours: we give it back."""
        ended = {run_id: code for run_id, process in self.processes.items() if (code := process.poll()) is not None}
        self.processes = {run_id: process for run_id, process in self.processes.items() if run_id not in ended}
        for run_id, token in list(self._claims.items()):
            if run_id not in self.processes:
                self._ended[run_id] = token
                code = ended.get(run_id)
                failure = "could not be started" if code is None else f"ended with code {code} before it began"
                self._give_back(
                    run_id, token, Reason.ORPHANED, f"its process {failure}; see: rlctl logs {run_id} --output"
                )

    def _give_back(self, run_id: str, token: int, reason: Reason, message: str) -> None:
        """Interrupt a run that we claimed and could not start. Tried again with the next tick if the store is away."""
        try:
            run = self.store.get(run_id)
            if run.token == token and not run.has_process:
                self.store.move(run_id, token, RunState.INTERRUPTED, reason, message)
        except (Conflict, LeaseLost, RunNotFound):
            pass  # it was taken from us, ended or removed meanwhile
        self._claims.pop(run_id, None)

    def _keep(self, running: Sequence[RunRow]) -> None:
        """A run that waits in a cluster has no process yet: until then this worker sends its heartbeats, and withdraws
        it where its user wants it to stop."""
        now = self._clock()
        waiting = [run for run in running if not run.has_process and self._claims.get(run.id) == run.token]
        for run in waiting:
            process = self.processes.get(run.id)
            if not isinstance(process, WaitingProcess):
                continue
            if run.desired != Desired.RUN:
                process.withdraw()
            elif now - self._kept_at.setdefault(run.id, now) >= KEEP_SECONDS:
                self._kept_at[run.id] = now
                with suppress(LeaseLost, Conflict):  # it begins, or was taken, just now
                    self.store.beat(run.id, run.token, run.progress + 1, {})
        self._kept_at = {run.id: self._kept_at[run.id] for run in waiting if run.id in self._kept_at}

    def _loses(self, running: Sequence[RunRow]) -> bool:
        """Whether a run of ours still counts as running although its process ended: one of another machine is missed
        only after a while, and somebody must be there then."""
        tokens = {run.id: run.token for run in running}
        self._ended = {run_id: token for run_id, token in self._ended.items() if tokens.get(run_id) == token}
        return bool(self._ended)

    # -- retries ----------------------------------------------------------------------------------------------------

    def _retry(self, held: bool) -> tuple[list[RunRow], bool]:
        now = self._clock()
        hopeful = [run for run in self.store.retryable() if run.may_retry]
        self._ended_at = {key: self._ended_at.get(key, now) for key in ((run.id, run.version) for run in hopeful)}
        retried = []
        for run in hopeful:
            if not held and now - self._ended_at[run.id, run.version] >= backoff_seconds(run.failures):
                try:
                    retried.append(self.store.resume(run.id, Reason.RETRY))
                except (Conflict, RunNotFound):
                    continue  # another scheduler, or its user, was quicker
        return retried, len(retried) < len(hopeful)

    # -- starting ---------------------------------------------------------------------------------------------------

    def _start(self, queued: Sequence[RunRow], running: Sequence[RunRow]) -> tuple[list[RunRow], list[RunRow]]:
        here = [run for run in running if run.host == os.uname().nodename]
        local = [run for run in queued if self._elsewhere(run) is None]
        never = [run for run in local if not self.slots.fits(run)]
        waiting = [run for run in local if self.slots.fits(run)]
        started: list[RunRow] = []
        for run in in_order(waiting, running):
            if not left(self.slots, [*here, *started]).fits(run):
                break
            claimed = self._claim(run, [*here, *started])
            if claimed is not None:
                started.append(claimed)
        started_there, never_there = self._start_elsewhere(queued, running)
        return [*started, *started_there], [*never, *never_there]

    def _start_elsewhere(
        self, queued: Sequence[RunRow], running: Sequence[RunRow]
    ) -> tuple[list[RunRow], list[RunRow]]:
        """In the same order, each cluster for itself: the first that waits for room there is waited for."""
        started: list[RunRow] = []
        never: list[RunRow] = []
        full: list[ClusterLauncher] = []
        for run in in_order([run for run in queued if self._elsewhere(run)], running):
            cluster = self._elsewhere(run)
            if cluster is None:
                continue
            room = cluster.room(run, [other for other in (*running, *started) if self._elsewhere(other) is cluster])
            if room == Room.THERE:
                continue
            if room == Room.NEVER:
                never.append(run)
            elif room == Room.LATER or cluster in full:
                full.append(cluster)
            elif (claimed := self._claim(run, (), cluster)) is not None:
                started.append(claimed)
        return started, never

    def _claim(self, run: RunRow, beside: Sequence[RunRow], cluster: ClusterLauncher | None = None) -> RunRow | None:
        """The run is ours until its new process takes it over: if we die before that, it is reaped and retried."""
        try:
            claimed = self.store.claim(run.id, this_process())
        except (Conflict, RunNotFound):
            return None  # another worker has it, or it was cancelled
        self._claims[run.id] = claimed.token
        try:
            devices = [] if cluster else self._devices(claimed, beside)
            self.processes[run.id] = (cluster or self._launcher).launch(claimed, devices)
        except Exception as error:  # of whatever kind: the run must not stay claimed by a worker that goes on
            message = f"its process could not be started: {error}"
            self._give_back(run.id, claimed.token, Reason.STORAGE, message)
            return None
        return replace(claimed, devices=",".join(map(str, devices)))

    def _devices(self, run: RunRow, beside: Sequence[RunRow]) -> list[int]:
        """Free GPUs for a run, remembered in its row so that a later scheduler knows too."""
        taken = {index for other in beside for index in other.device_list}
        devices = [index for index in range(self.slots.gpus) if index not in taken][: run.gpus]
        if devices or run.devices:  # of an earlier attempt, perhaps on another machine
            self.store.assign(run.id, run.token, devices)
        return devices

    # -- observing --------------------------------------------------------------------------------------------------

    def _throughput(self, running: Sequence[RunRow]) -> float:
        now = self._clock()
        before = self._rates
        self._rates = {run.id: before.get(run.id, _Rate(now, run.env_steps)).at(now, run.env_steps) for run in running}
        return sum(rate.per_second for rate in self._rates.values())


def in_order(waiting: Sequence[RunRow], running: Sequence[RunRow]) -> Iterator[RunRow]:
    """The runs in the order in which they start: by priority, then fair between owners, then by age."""
    cores = Counter[str]()
    for run in running:
        cores[run.owner] += run.cpus
    lines = {owner: deque[RunRow]() for owner in {run.owner for run in waiting}}
    for run in sorted(waiting, key=lambda run: (-run.priority, run.seq)):
        lines[run.owner].append(run)
    while lines:
        run = min((line[0] for line in lines.values()), key=lambda run: (-run.priority, cores[run.owner], run.seq))
        lines[run.owner].popleft()
        if not lines[run.owner]:
            del lines[run.owner]
        cores[run.owner] += run.cpus
        yield run


@dataclass(frozen=True)
class _Rate:
    """Environment steps over time; runs report their steps with each heartbeat, so in between the rate stays."""

    since: float
    steps: int
    per_second: float = 0.0

    def at(self, now: float, steps: int) -> _Rate:
        if steps == self.steps or now <= self.since:
            return self
        return _Rate(now, steps, max(0.0, (steps - self.steps) / (now - self.since)))
