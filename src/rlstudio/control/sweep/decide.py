"""What a sweep does next, as pure functions of its trials. The driver carries it out and asks again.

Two ways. Without `deterministic`: as soon as something is known it is used; a trial waits at its rung until enough
others are worse, and at the end those that still wait are pruned. With it: trials are chosen in waves of a fixed size,
a wave knows exactly what those before it came to, and a rung is judged when all of its wave have reached it. Then
neither timing nor the number of runs at the same time decides anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlstudio.control.sweep import pbt
from rlstudio.control.sweep.rungs import promoted, score, wave_size
from rlstudio.control.sweep.samplers import population_of
from rlstudio.control.sweep.search import SweepSearch
from rlstudio.control.sweep.sweeps import Trial, TrialState

PRUNED_BY = {
    "asha": "not among the best at epoch {epoch}",
    "hyperband": "not among the best of its bracket at epoch {epoch}",
    "median": "below the median at epoch {epoch}",
}


def score_at(search: SweepSearch, trial: Trial, epoch: int) -> float:
    values = trial.results[epoch].values()
    return score(values, minimize=search.cfg.direction == "minimize", confidence=search.cfg.confidence)


def wave_of(search: SweepSearch, number: int) -> int:
    size = wave_size(search.cfg, search.trials, population_of(search.cfg.sampler, len(search.space.axes)))
    return number // size


# -- choosing ---------------------------------------------------------------------------------------------------------


def is_askable(search: SweepSearch, trials: Sequence[Trial], deterministic: bool) -> bool:
    """Whether another trial may be chosen now, if there is room for it."""
    number = len(trials)
    if number >= search.trials or search.cfg.sampler.kind == "pbt":
        return number < search.trials
    if not deterministic:
        return True
    wave = wave_of(search, number)
    return not any(trial.is_live for trial in trials if wave_of(search, trial.number) < wave)


def known_to(search: SweepSearch, trials: Sequence[Trial], number: int, deterministic: bool) -> list[Trial]:
    """What the choice of trial `number` may depend on. Of its own wave: only what was chosen, not what came of it."""
    if not deterministic:
        return list(trials[:number])
    wave = wave_of(search, number)
    return [
        trial
        if wave_of(search, trial.number) < wave
        else Trial(trial.number, trial.params, trial.target, bracket=trial.bracket)
        for trial in trials[:number]
    ]


# -- judging ----------------------------------------------------------------------------------------------------------


def verdicts(search: SweepSearch, trials: Sequence[Trial], deterministic: bool) -> list[Trial]:
    """The trials that go on or are given up now, as they are from now on; new ones where members of pbt are copied."""
    if search.cfg.sampler.kind == "pbt":
        return pbt.evolve(search, trials)
    changed: list[Trial] = []
    for bracket in sorted({trial.bracket for trial in trials}):
        of_bracket = [trial for trial in trials if trial.bracket == bracket]
        for rung in search.targets(bracket)[:-1]:
            if deterministic:
                changed += _at_barrier(search, trials, of_bracket, rung)
            else:
                changed += _at_once(search, of_bracket, rung)
    if not changed and not deterministic and _is_drained(search, trials):
        changed = _last_ones(search, trials)
    return changed


def _at_barrier(search: SweepSearch, trials: Sequence[Trial], of_bracket: Sequence[Trial], rung: int) -> list[Trial]:
    changed: list[Trial] = []
    waves = sorted({wave_of(search, trial.number) for trial in of_bracket if trial.is_live})
    for wave in waves:
        members = [trial for trial in of_bracket if wave_of(search, trial.number) == wave]
        complete = len(trials) == search.trials or wave_of(search, len(trials)) > wave
        if not complete or any(
            trial.is_live and trial.target <= rung and not trial.has_reached_target for trial in members
        ):
            continue
        if any(trial.is_live and trial.target < rung for trial in members):
            continue
        earlier = [trial for trial in of_bracket if wave_of(search, trial.number) <= wave and rung in trial.results]
        on = promoted(search.cfg.pruner, _scores(search, earlier, rung), final=True)
        waiting = [trial for trial in members if trial.is_live and trial.target == rung]
        changed += [_promote(search, trial) if trial.number in on else _prune(search, trial) for trial in waiting]
    return changed


def _at_once(search: SweepSearch, of_bracket: Sequence[Trial], rung: int) -> list[Trial]:
    at_rung = [trial for trial in of_bracket if rung in trial.results]
    on = promoted(search.cfg.pruner, _scores(search, at_rung, rung), final=False)
    waiting = [trial for trial in at_rung if trial.is_live and trial.target == rung]
    changed = [_promote(search, trial) for trial in waiting if trial.number in on]
    if search.cfg.pruner.kind == "median":
        changed += [_prune(search, trial) for trial in waiting if trial.number not in on]
    return changed


def _is_drained(search: SweepSearch, trials: Sequence[Trial]) -> bool:
    """All were chosen, and all that live wait to be judged."""
    live = [trial for trial in trials if trial.is_live]
    return len(trials) == search.trials and bool(live) and all(trial.has_reached_target for trial in live)


def _last_ones(search: SweepSearch, trials: Sequence[Trial]) -> list[Trial]:
    """Nothing more will come: where a rung has promoted no trial so far its best goes on, the others are given up."""
    waiting = [trial for trial in trials if trial.is_live]
    for bracket in sorted({trial.bracket for trial in waiting}):
        for rung in reversed(search.targets(bracket)[:-1]):
            at_rung = [trial for trial in trials if trial.bracket == bracket and rung in trial.results]
            on = promoted(search.cfg.pruner, _scores(search, at_rung, rung), final=True)
            going = [trial for trial in waiting if trial.target == rung and trial.number in on]
            if going:
                return [_promote(search, trial) for trial in going]
    return [_prune(search, trial) for trial in waiting]


def _scores(search: SweepSearch, trials: Sequence[Trial], rung: int) -> dict[int, float]:
    return {trial.number: score_at(search, trial, rung) for trial in trials}


def _promote(search: SweepSearch, trial: Trial) -> Trial:
    targets = search.targets(trial.bracket)
    return replace(trial, target=targets[targets.index(trial.target) + 1])


def _prune(search: SweepSearch, trial: Trial) -> Trial:
    why = PRUNED_BY[search.cfg.pruner.kind].format(epoch=trial.target)
    return replace(trial, state=TrialState.PRUNED, message=why)
