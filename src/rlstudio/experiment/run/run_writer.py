"""RunWriter: what a session writes into the folder of its run: checkpoints and the status."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import isfinite, nan
from typing import Any, NamedTuple, TypedDict, Unpack

from rlstudio.core.contracts import DataSource, Lease
from rlstudio.core.errors import Incompatible, NoValidCheckpoint, StorageError
from rlstudio.core.host.phases import PHASES
from rlstudio.core.host.process import PULSE, this_process
from rlstudio.core.host.trace import TRACE
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.checkpoint.changed_replay import carry_out, emptied_if_damaged
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, Content, Loaded, NewestGood
from rlstudio.experiment.checkpoint.manifest import COUNTS, CheckpointInfo
from rlstudio.experiment.config.sections import CkptConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.folder.status import Status
from rlstudio.experiment.lineage.lineage import machine_of, recorded_lineage, this_machine
from rlstudio.experiment.run.signals import GRACE_SECONDS
from rlstudio.experiment.training.machine import differences, have_same_probe, learners
from rlstudio.experiment.training.position import Report
from rlstudio.ops.statistics import Summary


class ResumeTerms(NamedTuple):
    """On what terms a run goes on."""

    allow_inexact: bool = False  # also where the result will not be the same bits
    empty_replay: bool = False  # without its replay, where that is damaged
    has_checkpoints: bool = False  # the store knows of some: where the folder has none, they were lost


STRICT = ResumeTerms()
SLOW_TICK = GRACE_SECONDS / 2
SAVE_SHARE = 10
"""A slow Tick is saved only where that takes no more than a tenth of its time."""
NO_RESULT: dict[str, Any] = {"eval_return": None, "eval_interval": None}


class _Progress(TypedDict, total=False):
    """The fields of a Status that a session changes while it trains."""

    config_hash: str
    total_epochs: int
    env_steps: int
    gradient_steps: int
    epoch: int
    train_return: float | None
    state_hash: str | None


class RunWriter:
    def __init__(self, folder: RunFolder, cfg: CkptConfig, lease: Lease) -> None:
        self.folder = folder
        self.cfg = cfg
        self.status = folder.read_status().owned_by(this_process())
        self.checkpoints = Checkpoints(folder.path, folder.id, lease)
        self.lease = lease
        self.notify: Callable[[Status], None] = lambda status: None  # told of each state, after it is recorded
        self._saved_at = self._asked_at = time.monotonic()
        self._save_seconds = 0.0
        self._has_saved = False

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether the clock asks for a checkpoint; asked once per Tick. When one is taken never changes a result. After
        a slow Tick one is due, so that stopping the next, which would take longer than is waited, loses only that."""
        now, asked_at = time.monotonic(), self._asked_at
        self._asked_at = now
        every = self.cfg.every_seconds
        if every is None:
            return False
        return now - self._saved_at >= every or now - asked_at >= max(SLOW_TICK, SAVE_SHARE * self._save_seconds)

    def due_at(self, epoch: int) -> bool:
        """Whether the end of an epoch asks for a checkpoint."""
        return any(every is not None and epoch % every == 0 for every in (self.cfg.every_epochs, self.cfg.history))

    def save(self, content: Content, env_steps: int, fields: Mapping[str, object], keep: set[int]) -> None:
        """Write a checkpoint and remove those that are neither new nor in `keep`."""
        PULSE.others += 1
        started, began = time.monotonic(), time.perf_counter()
        exactness = {"exact": self.status.exact, "exact_reason": self.status.exact_reason}
        manifest = {"env_steps": env_steps, **fields, **exactness, "config_hash": self.status.config_hash}
        info = self.checkpoints.save(content, step=env_steps, manifest=manifest)
        self.checkpoints.prune(self.cfg.keep_last, keep | self._history())
        self.publish()
        if not self._has_saved:
            self.folder.event("checkpointed", env_steps=info.step, state_hash=info.state_hash)
            self._has_saved = True
        self._saved_at = self._asked_at = time.monotonic()
        self._save_seconds = self._saved_at - started
        PHASES.checkpoint += self._save_seconds
        TRACE.span("checkpoint", began)
        self.stands_at(info)

    def _history(self) -> set[int]:
        """Of every so many epochs the checkpoint at their end: the first that has done them."""
        every = self.cfg.history
        if every is None:
            return set()
        return set({info.epoch: info.step for info in self.checkpoints.list() if info.epoch % every == 0}.values())

    def publish(self) -> None:
        """Pass the list of checkpoints to the lease, which may keep it in a store."""
        self.lease.publish([_published(info) for info in self.checkpoints.list()])

    def holds(self, step: int) -> bool:
        return any(info.step == step for info in self.checkpoints.list())

    def forget_checkpoints(self) -> None:
        """The run goes back to its beginning, and none of its checkpoints counts any more."""
        self._has_saved = False
        self.lease.publish([])
        self.update(state_hash=None)

    def newest(self, topology: Mapping[str, object], terms: ResumeTerms) -> Loaded | None:
        """The newest good checkpoint; refused where it was written on another topology, unless that is accepted. None
        for a run that never had one: those of any other were lost, and a fresh start would pass for going on."""
        newest = self._newest_without_replay() if terms.empty_replay else self._newest()
        if newest is None:
            if terms.has_checkpoints or self.status.state_hash is not None or self._events_name_checkpoints():
                raise NoValidCheckpoint(
                    f"run {self.folder.id}: its checkpoints are gone from {self.folder.path}, and it does not begin"
                    " anew by itself; restore them from a backup, or launch a new run"
                )
            self.status = replace(self.status, env_steps=0, gradient_steps=0, epoch=0, train_return=None, **NO_RESULT)
            return None
        for rejected in newest.rejected:
            self.folder.event("checkpoint_rejected", step=rejected.step, reason=rejected.reason)
        newest.name_rejected(self.folder.id)
        then = newest.loaded.info.topology or {}
        if (ranks := learners(then)) != learners(topology):
            raise Incompatible(
                f"run {self.folder.id}: runtime.learners: {ranks} learned it, each with environments of its own, and as"
                f" many go on; set it to {ranks}"
            )
        changed = differences(then, topology)
        if changed and not terms.allow_inexact:
            raise Incompatible(self._refusal(changed))
        if changed:
            self.mark_inexact(f"resumed on another topology: {', '.join(changed)}{self._machines()}")
        elif not have_same_probe(then, topology):
            self.mark_inexact("resumed from a checkpoint without a fingerprint of the numerics that could be compared")
        step, extended_at = newest.loaded.info.step, self._extended_at()
        if step < extended_at:
            self.mark_inexact(
                f"goes on from {step:,} steps, and was extended at {extended_at:,}: what lies between is trained again"
                " by the schedules of the longer run"
            )
        self.folder.event("resumed", env_steps=step, state_hash=newest.loaded.info.state_hash)
        return newest.loaded

    def _refusal(self, changed: Sequence[str]) -> str:
        return (
            f"run {self.folder.id}: resuming here would not be exact ({', '.join(changed)}){self._machines()}; go back"
            " to what it was computed with, or go on with --allow-inexact: from the same state, but to other bits than"
            " without the interruption, and the run is marked as not exact for good"
        )

    def _machines(self) -> str:
        """Where the run was computed until now, and where it would be; empty where that is one, or is not recorded."""
        then, now = machine_of(recorded_lineage(self.folder)), this_machine()
        return f"; computed on {then}, this is {now}" if then not in ("", now) else ""

    def _newest(self) -> NewestGood | None:
        try:
            return self.checkpoints.newest_good()
        except NoValidCheckpoint as error:
            raise self._with_offer(error) from error

    def _with_offer(self, error: NoValidCheckpoint) -> NoValidCheckpoint:
        """The error, or, where nothing but the replay is damaged, what is and how to go on without it."""
        with suppress(NoValidCheckpoint):
            newest = self._reader.newest_good(segments=False)
            damage = None if newest is None else self._reader.damaged_segment(newest.loaded.info)
            if newest is not None and damage is not None:
                step = newest.loaded.info.step
                return NoValidCheckpoint(
                    f"run {self.folder.id}: its replay is damaged ({damage}), its weights at {step:,} steps are not; go"
                    f" on with an emptied replay, which is not exact: rlctl resume {self.folder.id} --empty-replay"
                )
        return error

    def _newest_without_replay(self) -> NewestGood | None:
        """The newest checkpoint whose own files verify; its replay is left out if a segment of it is damaged."""
        newest = self._reader.newest_good(segments=False)
        if newest is None or self._reader.damaged_segment(newest.loaded.info) is None:
            return self._newest()
        step = newest.loaded.info.step
        emptied = emptied_if_damaged(self.checkpoints, self.checkpoints.load(step, segments=False))
        self.folder.event("replay_emptied", env_steps=step, reason=emptied.replay_damage)
        self.mark_inexact(f"resumed with an emptied replay: {emptied.replay_damage}")
        return NewestGood(emptied, newest.rejected)

    @property
    def _reader(self) -> Checkpoints:
        """To look only: what it loads is not taken for what the run goes on from."""
        return Checkpoints(self.folder.path, self.folder.id, lease=None)

    def _events_name_checkpoints(self) -> bool:
        """Whether the history of the folder says that it has checkpoints, unless the run went back to its beginning."""
        has_some = False
        for event in self.folder.events():
            kind = event.get("kind")
            if kind in ("checkpointed", "resumed"):
                has_some = True
            elif kind == "rolled_back" and not event.get("to_env_steps"):
                has_some = False
        return has_some

    def _extended_at(self) -> int:
        """Steps of the run when it was last made longer; 0 where it never was."""
        extended = [event.get("env_steps") for event in self.folder.events() if event.get("kind") == "extended"]
        return max((step for step in extended if isinstance(step, int)), default=0)

    # -- status -----------------------------------------------------------------------------------------------------

    def stands_at(self, info: CheckpointInfo) -> None:
        """Set the counters and the hash of the status to those of this checkpoint. An evaluation that came after it,
        perhaps, is no longer one of the run."""
        counts: dict[str, Any] = {name: info.fields[name] for name in COUNTS}
        if counts["env_steps"] < self.status.env_steps:
            counts |= NO_RESULT
        self.status = replace(self.status, state_hash=info.state_hash, **counts)

    def set_state(self, state: RunState, reason: Reason = Reason.NONE, message: str = "") -> None:
        """Change the state: durable, and an event of its own. The folder gets the state that the lease returned."""
        refused: StorageError | None = None
        try:
            state, reason = self.lease.move(state, reason, message, self.status.facts())
        except StorageError as error:
            refused = error  # the store does not know, but the folder still gets the state
        self.status = replace(self.status, state=state, reason=reason, message=message)
        self.folder.write_status(self.status)
        said = {"message": message} if message else {}
        self.folder.event(state.lower(), reason=str(reason), env_steps=self.status.env_steps, **said)
        self.notify(self.status)
        if refused is not None:
            raise refused

    def update(self, **fields: Unpack[_Progress]) -> None:
        """Change fields of the status while the state stays; cheap enough for every epoch."""
        self.status = replace(self.status, **fields)
        self.folder.write_status(self.status)
        self.lease.tell(self.status.facts())

    def close_epoch(self, report: Report) -> None:
        """How far the run is. An epoch in which no episode ended leaves the return of the one before."""
        returned = report.metrics.get("rollout/return_mean", nan)
        self.update(
            env_steps=report.env_steps,
            gradient_steps=report.gradient_steps,
            epoch=report.epoch,
            train_return=returned if isfinite(returned) else self.status.train_return,
        )

    def set_evaluation(self, summary: Summary) -> None:
        self.status = replace(self.status, eval_return=summary.mean, eval_interval=(summary.ci_low, summary.ci_high))

    def carry_out_decisions(self, source: DataSource) -> None:
        """Of the user, about sources of the replay."""
        if decided := carry_out(self.folder, source):
            self.mark_inexact(decided)

    def mark_inexact(self, reason: str) -> None:
        if self.status.exact:
            self.status = replace(self.status, exact=False, exact_reason=reason)
            self.folder.event("inexact", reason=reason)


def _published(info: CheckpointInfo) -> dict[str, object]:
    return {"step": info.step, "state_hash": info.state_hash, "manifest_sha256": info.sha256}
