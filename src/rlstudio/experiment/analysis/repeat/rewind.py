"""Stand at a past step of a run: the same trainer, environments and randomness, bit for bit, to be looked at.

A copy of the run goes on from the nearest checkpoint that the run still has, in a temporary folder that is removed
afterwards; the run itself is only read. What the copy measures on its way is compared with what the run measured there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Self

from rlstudio.core.contracts import Trainer
from rlstudio.core.errors import Diverged, GateFailed, Incompatible, UserError
from rlstudio.core.host.portable import require
from rlstudio.experiment.analysis.compare_runs import Divergence, MetricsComparison, compare_metrics
from rlstudio.experiment.analysis.repeat.timeline import Stretch, Timeline, timeline_of
from rlstudio.experiment.checkpoint.checkpoints import state_hash
from rlstudio.experiment.checkpoint.manifest import CheckpointInfo
from rlstudio.experiment.config.experiment import ExperimentConfig, new_run
from rlstudio.experiment.config.sections import CkptConfig, RegisterConfig, TrackingConfig
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.reader import read_metrics
from rlstudio.experiment.run.continuation import lasting
from rlstudio.experiment.run.fork import copy_checkpoint
from rlstudio.experiment.run.load import read_config
from rlstudio.experiment.run.run_writer import ResumeTerms
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.loop import Tick
from rlstudio.experiment.training.machine import differences

SPEED = "time/steps_per_second"


@dataclass(frozen=True)
class Way:
    """How a step of a run is reached; nothing is done yet."""

    folder: RunFolder
    step: int
    attempt: int
    base: CheckpointInfo | None  # None: from the start
    stretches: tuple[Stretch, ...]
    timeline: Timeline
    allow_inexact: bool

    @property
    def begins(self) -> int:
        return 0 if self.base is None else self.base.step

    @property
    def is_of_the_result(self) -> bool:
        """Whether what the run measured there is still in its metrics: a later attempt cut that of an earlier back."""
        ends = self.timeline.ends(self.attempt)
        return ends is None or self.step <= ends

    def seconds(self) -> float | None:
        """How long it will take, by the speed that the run had; None where it recorded none."""
        speeds = [record.value for record in read_metrics(self.folder.path, keys={SPEED}) if record.value > 0]
        return (self.step - self.begins) / median(speeds) if speeds else None

    def topology(self) -> dict[str, object] | None:
        """What the run computed these steps on, as the checkpoint after them says, or else that before them."""
        after = next((info for info in reversed(self.timeline.kept) if info.step >= self.step), self.base)
        return None if after is None or after.topology is None else dict(after.topology)

    def open(self) -> Rewound:
        """Go there."""
        return Rewound(self)


def way_to(folder: RunFolder, step: int, *, attempt: int | None = None, allow_inexact: bool = False) -> Way:
    """From the nearest kept checkpoint from which the run came to that step. `attempt`: of a run that was rolled back,
    which one; by default the one that counts there."""
    status, timeline = folder.read_status(), timeline_of(folder)
    last = timeline.rollbacks[-1].attempt if timeline.rollbacks else 0
    if attempt is not None and not 0 <= attempt <= last:
        remedy = (
            f"it was rolled back up to attempt {last}; give 0 to {last}"
            if last
            else "it has had no roll-backs; leave --attempt out"
        )
        raise UserError(f"run {folder.id}: attempt {attempt}: {remedy}")
    wanted = timeline.attempt_at(step) if attempt is None else attempt
    if step > status.env_steps and timeline.ends(wanted) is None and not _went_further(folder, step):
        raise UserError(f"run {folder.id}: it has done {status.env_steps:,} steps; give --at a step up to that")
    beginning = timeline.beginning
    if beginning is not None and step < beginning.step:
        elsewhere = f"; look there: rlctl rewind {beginning.run_id} --at {step}" if beginning.run_id else ""
        raise UserError(
            f"run {folder.id}: it begins at {beginning.step:,} steps, as a fork of {beginning.of}{elsewhere}"
        )
    base = next((info for info in timeline.kept if _leads(info, step, wanted, timeline)), None)
    begins = 0 if base is None else base.step
    if base is None and beginning is not None:
        raise UserError(
            f"run {folder.id}: it began with {beginning.of} at {beginning.step:,} steps, and no checkpoint from there"
            f" to {step:,} is kept (ckpt.history keeps more); fork that again instead"
        )
    passed = timeline.break_between(begins, step)
    if passed is not None and not allow_inexact:
        raise UserError(
            f"run {folder.id}: at {passed.step:,} steps it went on inexactly ({passed.reason}), and no checkpoint from"
            f" there to {step:,} is kept; --allow-inexact restores it approximately"
        )
    return Way(folder, step, wanted, base, tuple(timeline.stretches_to(begins, step)), timeline, allow_inexact)


def _leads(info: CheckpointInfo, step: int, attempt: int, timeline: Timeline) -> bool:
    """Whether the run came from this checkpoint to the step, in that attempt or by a later roll-back. One that does
    not hold the whole state leads nowhere but to itself."""
    if timeline.attempt_at(info.step) > attempt or info.step > step:
        return False
    return not timeline.inexact or info.step == step


def _went_further(folder: RunFolder, step: int) -> bool:
    """A run that diverged for good, or is training, is ahead of its status."""
    diverged = [event.get("env_steps") for event in folder.events() if event.get("kind") == "diverged"]
    return any(isinstance(at, int) and at >= step for at in diverged)


class Rewound:
    """A run at a past step. `session`, `trainer` and `cfg` are those of the copy; `advance` does the next step."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self._ticks: Generator[Tick] | None = None
        with ExitStack() as opened:
            place = opened.enter_context(tempfile.TemporaryDirectory(prefix="rlstudio-rewind-"))
            cfg = _looked_at(read_config(way.folder))
            require(cfg.runtime.numerics)
            self.session = self._reached(cfg, Path(place), opened)
            self._opened = opened.pop_all()

    # -- going there ------------------------------------------------------------------------------------------------

    def _reached(self, cfg: ExperimentConfig, place: Path, opened: ExitStack) -> Session:
        way, source = self.way, self.way.folder
        *earlier, last = (lasting(cfg, stretch.epochs) for stretch in way.stretches)
        copy = RunFolder.create(place, new_run(earlier[0] if earlier else last), run_id=source.id)
        lease = FileLease(copy.path)
        if way.base is not None:
            opened.callback(lease.release)
            copy_checkpoint(source, str(way.base.step), copy, lease)
        for part, following in zip(earlier, way.stretches[1:], strict=True):
            with self._opened_at(copy, part, lease) as session, suppress(GateFailed), closing(iter(session)) as ticks:
                for tick in ticks:
                    if tick.env_steps >= following.begins and tick.epoch < part.train.epochs:
                        break
            lease = FileLease(copy.path)
        session = opened.enter_context(self._opened_at(copy, last, lease))
        self._ticks = session.steps()
        opened.callback(self._ticks.close)
        self._go(session, self._ticks)
        return session

    def _go(self, session: Session, ticks: Generator[Tick]) -> None:
        way, before = self.way, session.trainer.source.env_steps
        while session.attempt < way.attempt or session.trainer.source.env_steps < way.step:
            if session.attempt == way.attempt:
                before = session.trainer.source.env_steps
            try:
                if next(ticks, None) is None:
                    return
            except Diverged:
                if session.trainer.source.env_steps < way.step:
                    raise
                return
            if session.attempt > way.attempt:
                raise UserError(
                    f"run {way.folder.id}: attempt {way.attempt} was rolled back by the train step that begins at"
                    f" {before:,}; restore that step (--at {before} --attempt {way.attempt}) and call"
                    " trainer.train_step()"
                )

    def _opened_at(self, copy: RunFolder, cfg: ExperimentConfig, lease: FileLease) -> Session:
        session = Session.open(copy, cfg, lease=lease, terms=ResumeTerms(allow_inexact=True))
        changed = differences(self.way.topology() or session.topology, session.topology)
        if changed and not self.way.allow_inexact:
            session.close()
            raise Incompatible(
                f"run {copy.id}: that step cannot be restored exactly ({', '.join(changed)}); go back to what the run"
                " was computed with, or restore it approximately with --allow-inexact"
            )
        return session

    # -- there ------------------------------------------------------------------------------------------------------

    @property
    def trainer(self) -> Trainer:
        return self.session.trainer

    @property
    def cfg(self) -> ExperimentConfig:
        return self.session.cfg

    @property
    def env_steps(self) -> int:
        """The first step at or after the one that was asked for after which a train step had ended."""
        return self.trainer.source.env_steps

    def advance(self) -> Tick:
        """One train step on, as the run did it."""
        assert self._ticks is not None
        tick = next(self._ticks, None)
        if tick is None:
            raise UserError(f"run {self.way.folder.id}: it ends at {self.env_steps:,} steps")
        return tick

    def state_hash(self) -> str:
        """Of the whole state, as it is now."""
        return state_hash(self.session.content({}))

    @cached_property
    def check(self) -> MetricsComparison | None:
        """What the run measured until there, compared with what the copy measured; None where that cannot be."""
        if not self.way.is_of_the_result:
            return None
        self.session.recorder.flush()
        return compare_metrics(self.way.folder.path, self.session.folder.path)

    @property
    def parted(self) -> Divergence | None:
        """Where the copy is known to have come to something else than the run."""
        return None if self.check is None else self.check.divergence

    def close(self) -> None:
        """End what belongs to it, and remove its folder."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Tick]:
        """Go on to the end."""
        assert self._ticks is not None
        return self._ticks


def _looked_at(cfg: ExperimentConfig) -> ExperimentConfig:
    """The same experiment, of which nothing leaves the temporary folder."""
    quiet = CkptConfig(every_seconds=None, keep_last=1, keep_best=False)
    runtime = cfg.runtime.model_copy(update={"trace": False})
    judging = cfg.eval.model_copy(update={"videos": 0})
    changes = {
        "eval": judging,
        "ckpt": quiet,
        "tracking": TrackingConfig(),
        "register": RegisterConfig(),
        "runtime": runtime,
    }
    return cfg.model_copy(update=changes)
