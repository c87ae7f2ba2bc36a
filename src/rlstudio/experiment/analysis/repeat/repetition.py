"""A run that repeats another, tick by tick, and ends at the first thing that is not the same."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import Protocol

from rlstudio.core.run_state import RunState
from rlstudio.experiment.analysis.compare_runs import compare_metrics
from rlstudio.experiment.analysis.repeat.comparison import RepeatedRun, Verdict, verdict_of
from rlstudio.experiment.analysis.repeat.timeline import Stretch
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.training.loop import Tick


class Extends(Protocol):
    """Goes on with a run that has ended, for so many epochs in all."""

    def __call__(self, epochs: int) -> Session: ...


class Repetition:
    """Of a run that has done `env_steps` so far: as many are repeated, or `epochs` where those are fewer. Where a run
    was made longer, its repetition is made longer by `extend`, at the same step."""

    def __init__(
        self,
        repeated: RepeatedRun,
        session: Session,
        stretches: list[Stretch],
        extend: Extends,
        epochs: int | None = None,
    ) -> None:
        status, timeline = repeated.folder.read_status(), repeated.timeline
        self.repeated, self.session = repeated, session
        self.is_over = False  # before its end, because there was nothing more to learn from it
        self._stretches, self._extend, self._epochs = stretches, extend, epochs
        self._until = None if status.state in (RunState.COMPLETED, RunState.FAILED) else status.env_steps
        self._kept = {info.step: info for info in timeline.kept if not info.meta.get("unjudged")}
        # Where it ended, perhaps for a while, its checkpoint came after the final evaluation: no tick is like it.
        self._ends = {status.env_steps, *(stretch.begins for stretch in stretches)}
        self._hashes: dict[int, str] = {}
        self._next_look = 1

    def sessions(self) -> Generator[Session]:
        """One after the other; each is to be closed before the next."""
        yield self.session
        self._note_end()
        for stretch in self._stretches[1:]:
            if self.is_over:
                return
            self.session = self._extend(stretch.epochs)
            yield self.session
            self._note_end()

    def _note_end(self) -> None:
        """The last checkpoint of a session comes after its final evaluation, which no tick has."""
        folder = self.session.folder
        if folder.read_status().state in (RunState.COMPLETED, RunState.FAILED):
            for info in Checkpoints(folder.path, folder.id, lease=None).list()[:1]:
                if info.step in self._kept:
                    self._hashes[info.step] = info.state_hash

    def ticks(self, session: Session) -> Generator[Tick]:
        """Those of the session, as far as they are of use."""
        extends_at = next((one.begins for one in self._stretches if one.begins > session.status.env_steps), None)
        with closing(iter(session)) as ticks:
            for tick in ticks:
                self._note(session, tick)
                yield tick
                if self._is_enough(session, tick):
                    self.is_over = True
                    return
                if extends_at is not None and tick.env_steps >= extends_at and tick.epoch < session.cfg.train.epochs:
                    return

    def _note(self, session: Session, tick: Tick) -> None:
        info = self._kept.get(tick.env_steps)
        if info is not None and info.fields.get("gradient_steps") == tick.gradient_steps:
            self._hashes[info.step] = state_hash(session.content({}))

    def _is_enough(self, session: Session, tick: Tick) -> bool:
        """Whether that is all that was asked for, or another number has come up. A run that was rolled back wrote over
        what its repetition comes by first, so the two are compared at the end."""
        if tick.report is None:
            return self._until is not None and tick.env_steps >= self._until
        if self._until is not None and tick.env_steps >= self._until:
            return True
        if self._epochs is not None and tick.epoch >= self._epochs and tick.epoch < session.cfg.train.epochs:
            return True
        return not self.repeated.timeline.rollbacks and self._differs(session, tick)

    def _differs(self, session: Session, tick: Tick) -> bool:
        """Metrics are looked at again after 1, 2, 4, ... epochs: all of them together are read about twice."""
        step = tick.env_steps
        if step in self._hashes and step not in self._ends and self._hashes[step] != self._kept[step].state_hash:
            return True
        if tick.epoch < self._next_look:
            return False
        self._next_look = 2 * tick.epoch
        return compare_metrics(self.repeated.folder.path, session.folder.path).divergence is not None

    def verdict(self) -> Verdict:
        """Once all sessions have ended."""
        return verdict_of(self.repeated, self.session.folder, self._hashes, is_whole=not self.is_over)
