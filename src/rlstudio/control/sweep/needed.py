"""What a sweep still wants of its runs: those it needs, which `rm` and `gc` leave alone, and those it gave up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.records import RunRow
from rlstudio.control.sweep.report import best_of
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, Trial
from rlstudio.core.run_state import Reason

GIVEN_UP, WAITS = "pruned", "waits"


def standing_at_rungs(store: StoreReader, among: Iterable[RunRow]) -> dict[str, str]:
    """Of those of these runs that stopped where their sweep compares trials: whether they wait for it to decide, or no
    longer, by their ids. A trial that failed, or whose sweep was removed, waits for nothing. A run that its user paused
    has a place in the queue instead."""
    at_rung = [run for run in among if run.sweep and run.reason == Reason.PAUSED and run.is_at_rung]
    sweeps = Sweeps(store.database)
    undecided = {
        (name, trial.number)
        for name in {run.sweep for run in at_rung}
        for trial in sweeps.trials(name)
        if trial.is_live
    }
    return {run.id: WAITS if (run.sweep, run.trial) in undecided else GIVEN_UP for run in at_rung if not run.is_paused}


@dataclass(frozen=True)
class Need:
    """What a sweep needs a run for, and what is lost with it."""

    sweep: str
    why: str
    lost: str


def needed_runs(store: StoreReader, among: Collection[RunRow]) -> dict[str, Need]:
    """Those of these runs that a sweep needs, by their ids. A sweep that is over, or was removed, needs none."""
    names = {run.sweep for run in among if run.sweep}
    if not names:
        return {}
    sweeps = Sweeps(store.database)
    open_sweeps = [sweep for sweep in sweeps.all() if sweep.name in names and sweep.state != SweepState.COMPLETED]
    ids = {run.id for run in among}
    needed: dict[str, Need] = {}
    for sweep in open_sweeps:
        needed |= _needs(sweep.name, sweeps.trials(sweep.name), store.runs(sweep=sweep.name))
    return {run_id: need for run_id, need in needed.items() if run_id in ids}


def _needs(name: str, trials: Sequence[Trial], runs: Sequence[RunRow]) -> dict[str, Need]:
    by_number = {trial.number: trial for trial in trials}
    best = best_of(trials)
    forked = {(run.trial, run.seed) for run in runs}
    needs: dict[str, Need] = {}
    for run in runs:
        trial = by_number.get(-1 if run.trial is None else run.trial)
        if trial is None:
            continue
        children = [other.number for other in trials if other.is_live and other.parent == trial.number]
        unborn = [number for number in children if (number, run.seed) not in forked]
        if unborn:
            why = f"trial {unborn[0]} of sweep {name} is to be forked from it"
            needs[run.id] = Need(name, why, f"trial {unborn[0]} fails without it")
        elif trial.is_live:
            again = "its first epoch" if trial.parent is None else f"the checkpoint of trial {trial.parent}"
            why = f"trial {trial.number} of sweep {name} goes on with it"
            needs[run.id] = Need(name, why, f"trial {trial.number} begins again at {again}")
        elif best is not None and best.number == trial.number:
            why = f"it is the best of sweep {name} so far"
            needs[run.id] = Need(name, why, "its weights are gone; its settings and its result stay in the sweep")
    return needs
