"""Driver: takes a sweep from its first trial to its last. It chooses, waits and decides; a worker of the queue starts
the runs.

All it knows is in the store: trials (`trial`) and their runs (`run`). A step looks at both and does what follows, each
change in one transaction, so it may be killed anywhere and another one goes on. A trial that is to reach epoch E has
its runs paused there by the store (`run.pause_at`), and a promotion lets the same runs go on, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.store import Store
from rlstudio.control.sweep.decide import is_askable, known_to, score_at, verdicts
from rlstudio.control.sweep.samplers import make_sampler
from rlstudio.control.sweep.search import SweepSearch
from rlstudio.control.sweep.sweeps import Sweep, Sweeps, SweepState, Trial, TrialState
from rlstudio.core.errors import ConfigError, Conflict, RunNotFound, UserError
from rlstudio.core.run_state import Reason, RunState

Pair = tuple[int, int]
"""Trial number and seed."""


class RunActions(Protocol):
    """What the driver needs done outside of the store."""

    def begin(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int) -> None:
        """Put a new run of a trial into the queue, once however often it is asked for; LeaseLost where the sweep is not
        this driver's any more."""
        ...

    def fork(self, search: SweepSearch, sweep: Sweep, trial: Trial, seed: int, parent: RunRow) -> None:
        """The same, beginning at the newest checkpoint of a run that waits."""
        ...

    def is_left(self, run: RunRow) -> bool:
        """Whether a run is the leftover of a fork that was killed; then it is removed."""
        ...

    def measure(self, run: RunRow, metric: str, epoch: int) -> float | None:
        """The metric at the end of this epoch; None where there is none."""
        ...

    def wake(self) -> None:
        """Make sure that a worker serves the queue."""
        ...


@dataclass(frozen=True)
class SweepProgress:
    """The sweep as it stands after a step."""

    trials: list[Trial]
    runs: list[RunRow] = field(default_factory=list)
    is_over: bool = False


class Driver:
    def __init__(
        self, store: Store, sweep: Sweep, search: SweepSearch, actions: RunActions, max_concurrent: int
    ) -> None:
        self.search = search
        self.sweep = sweep
        self.max_concurrent = max_concurrent
        self.pulse = (0, 0, 0)  # of the sweep when it was last looked at
        self._store = store
        self._sweeps = Sweeps(store.database)
        self._actions = actions
        self._sampler = make_sampler(search.cfg.sampler, search.space)

    def step(self) -> SweepProgress:
        """Do what follows from what is known now."""
        self.pulse = self._sweeps.pulse(self.sweep.name)
        self._sweeps.refuse_lost(self.sweep, self.pulse[-1])
        trials = self._sweeps.trials(self.sweep.name)
        runs = self._runs()
        self._write(trials, self._outcomes(trials, runs))
        while changed := verdicts(self.search, trials, self.sweep.deterministic):
            self._write(trials, changed)
        self._go_on(trials, runs)
        if len(trials) >= self.search.trials and not any(trial.is_live for trial in trials):
            self._sweeps.end(self.sweep, SweepState.COMPLETED)
            return SweepProgress(trials, list(runs.values()), is_over=True)
        return SweepProgress(trials, list(runs.values()))

    def stop(self) -> None:
        """Leave it to be resumed. Runs that are under way go on to where they were sent."""
        self._sweeps.end(self.sweep, SweepState.STOPPED)

    def _runs(self) -> dict[Pair, RunRow]:
        """The run of each trial and seed; what a killed fork left is cleared away."""
        by_trial = {}
        for run in reversed(self._store.runs(sweep=self.sweep.name)):
            if run.trial is not None and not self._actions.is_left(run):
                by_trial[run.trial, run.seed] = run
        return by_trial

    def _write(self, trials: list[Trial], changed: Sequence[Trial]) -> None:
        """Write changed trials to the store, then to the list."""
        if not changed:
            return
        self._sweeps.write(self.sweep, changed)
        for trial in changed:
            if trial.number < len(trials):
                trials[trial.number] = trial
            else:
                trials.append(trial)

    # -- what came of runs ------------------------------------------------------------------------------------------

    def _outcomes(self, trials: Iterable[Trial], runs: dict[Pair, RunRow]) -> list[Trial]:
        outcomes = (self._outcome(trial, runs) for trial in trials if trial.is_live and not trial.has_reached_target)
        return [trial for trial in outcomes if trial is not None]

    def _outcome(self, trial: Trial, runs: dict[Pair, RunRow]) -> Trial | None:
        """The trial with its results at its target, or failed; None while it is under way."""
        own = [runs[trial.number, seed] for seed in self.search.cfg.seeds if (trial.number, seed) in runs]
        for run in own:
            if self._has_failed(run, trial):
                self._cancel(other for other in own if other.id != run.id)
                return _failed(trial, f"run {run.id}: {run.state.lower()}, {run.reason} {run.message}".strip())
        if len(own) < len(self.search.cfg.seeds) or not all(self._is_there(run, trial) for run in own):
            return None
        metric, values = self.search.cfg.metric, {}
        for run in own:
            value = self._actions.measure(run, metric, trial.target)
            if value is None or not math.isfinite(value):
                self._cancel(own)
                return _failed(trial, f"run {run.id}: no finite {metric} at epoch {trial.target}")
            values[run.seed] = value
        reached = replace(trial, results={**trial.results, trial.target: values})
        state = TrialState.COMPLETED if trial.target >= self.search.epochs else TrialState.RUNNING
        return replace(reached, score=score_at(self.search, reached, trial.target), state=state)

    def _is_there(self, run: RunRow, trial: Trial) -> bool:
        if run.state == RunState.COMPLETED:
            return True
        return run.state == RunState.INTERRUPTED and trial.target < self.search.epochs and run.epoch >= trial.target

    def _has_failed(self, run: RunRow, trial: Trial) -> bool:
        """Ended short of its target, and will not be tried again."""
        if run.state not in (RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED) or run.may_retry:
            return False
        return run.reason != Reason.PAUSED and not self._is_there(run, trial)

    def _cancel(self, runs: Iterable[RunRow]) -> None:
        for run in runs:
            with suppress(Conflict, RunNotFound):  # ended meanwhile
                self._store.ask(run.id, Desired.CANCEL)

    # -- what is to be done -----------------------------------------------------------------------------------------

    def _go_on(self, trials: list[Trial], runs: dict[Pair, RunRow]) -> None:
        """Fill the room there is: first those that were promoted, then those that were chosen, then new choices."""
        room = self.max_concurrent - sum(is_active(run) for run in runs.values())
        used = 0
        deterministic = self.sweep.deterministic or self.search.cfg.sampler.kind == "pbt"
        while deterministic and is_askable(self.search, trials, deterministic):
            self._ask(trials)
        due = self._due(trials, runs)
        while used < room:
            if not due and not deterministic and is_askable(self.search, trials, deterministic):
                self._ask(trials)
                due = self._due(trials[-1:], runs)
                continue
            if not due:
                break
            trial, seed = due.pop(0)
            if trials[trial.number].is_live:
                used += self._send(trials, trial, seed, runs)
        if used:
            self._actions.wake()

    def _ask(self, trials: list[Trial]) -> None:
        number = len(trials)
        known = known_to(self.search, trials, number, self.sweep.deterministic)
        params = self._sampler.choose(number, known)
        bracket = self.search.bracket(number)
        trial = Trial(number, params, self.search.targets(bracket)[0], bracket=bracket)
        try:
            self.search.experiment(params, self.search.cfg.seeds[0], number)
        except ConfigError as error:  # settings that do not go together
            trial = _failed(trial, str(error))
        self._write(trials, [trial])

    def _due(self, trials: Sequence[Trial], runs: dict[Pair, RunRow]) -> list[tuple[Trial, int]]:
        """Runs to be begun or let go on, the farthest first; a run that others are still to be forked from waits."""
        live = [trial for trial in trials if trial.is_live and not trial.has_reached_target]
        held = {
            (trial.parent, seed)
            for trial in live
            for seed in self.search.cfg.seeds
            if trial.parent is not None and (trial.number, seed) not in runs
        }
        due = []
        for trial in sorted(live, key=lambda trial: (trial.parent is None, -trial.target, trial.number)):
            for seed in self.search.cfg.seeds:
                run = runs.get((trial.number, seed))
                goes_on = run is not None and _waits(run) and not self._is_there(run, trial)
                if (run is None or goes_on) and (trial.number, seed) not in held:
                    due.append((trial, seed))
        return due

    def _send(self, trials: list[Trial], trial: Trial, seed: int, runs: dict[Pair, RunRow]) -> bool:
        """Begin one run or let it go on; False where that failed. A mistake in its settings fails the trial."""
        run = runs.get((trial.number, seed))
        try:
            if run is not None:
                fence = self._sweeps.fence(self.sweep)
                self._store.resume(run.id, changes={"pause_at": pause_at(self.search, trial)}, fence=fence)
            elif trial.parent is not None:
                parent = runs.get((trial.parent, seed))
                if parent is None:
                    raise UserError(f"the run of trial {trial.parent} that it begins with was removed")
                self._actions.fork(self.search, self.sweep, trial, seed, parent)
            else:
                self._actions.begin(self.search, self.sweep, trial, seed)
        except (Conflict, RunNotFound):
            return False  # another process changed the run: the next step reads it again
        except UserError as error:
            self._write(trials, [_failed(trial, str(error))])
            return False
        return True


def pause_at(search: SweepSearch, trial: Trial) -> int:
    """For the store: the last epoch is the run's own end."""
    return 0 if trial.target >= search.epochs else trial.target


def _waits(run: RunRow) -> bool:
    """Whether a run waits to be let go on by its sweep; one that its user paused waits for the user."""
    return (run.state, run.reason) == (RunState.INTERRUPTED, Reason.PAUSED) and not run.is_paused


def is_active(run: RunRow) -> bool:
    """Whether a run is in the queue, runs, or will be tried again."""
    return run.is_owned or run.state == RunState.QUEUED or (run.is_managed and run.may_retry)


def _failed(trial: Trial, message: str) -> Trial:
    return replace(trial, state=TrialState.FAILED, message=" ".join(message.split()))


def watch(driver: Driver, wait: Callable[[SweepProgress], None]) -> SweepProgress:
    """Step to the end. `wait` gets the progress and returns when it is time for the next step."""
    while not (progress := driver.step()).is_over:
        wait(progress)
    return progress
