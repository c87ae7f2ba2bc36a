"""Population based training (Jaderberg et al. 2017, arXiv:1711.09846), in step.

All members train to the next interval. Then each of the worst quarter is given up, and in its place a copy of one of
the best quarter goes on from that one's checkpoint, with its settings perturbed: a number times one of two factors, a
choice kept or moved to one beside it. The copy is a trial of its own whose runs are forks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rlstudio.control.sweep.rungs import best_first, score
from rlstudio.control.sweep.search import SweepSearch
from rlstudio.control.sweep.space import Axis, Params, number_of
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.rng import Rng


def evolve(search: SweepSearch, trials: Sequence[Trial]) -> list[Trial]:
    """All changes of one interval, once every member has reached it; nothing before that."""
    live = [trial for trial in trials if trial.is_live]
    if len(trials) < search.trials or not live or not all(trial.has_reached_target for trial in live):
        return []
    epoch = min(trial.target for trial in live)
    if epoch >= search.epochs:
        return []
    ranked = best_first({trial.number: _score(search, trial, epoch) for trial in live})
    count = min(max(1, int(len(ranked) * search.cfg.sampler.quantile)), len(ranked) // 2)
    by_number = {trial.number: trial for trial in live}
    following = next(target for target in search.targets(0) if target > epoch)
    losers, changed = ranked[len(ranked) - count :], []
    for place, number in enumerate(losers):
        winner = by_number[ranked[place]]
        copy = len(trials) + place
        why = f"below trial {winner.number} at epoch {epoch}; trial {copy} goes on from that one"
        changed.append(replace(by_number[number], state=TrialState.PRUNED, message=why))
        generator = Rng(search.cfg.sampler.seed, "sweep/pbt").at(str(epoch), number)
        changed.append(Trial(copy, perturbed(search, winner.params, generator), following, parent=winner.number))
    changed += [replace(by_number[number], target=following) for number in ranked[: len(ranked) - count]]
    return changed


def perturbed(search: SweepSearch, params: Mapping[str, object], generator: np.random.Generator) -> Params:
    """Every setting moved a little. One that a condition now asks for is chosen anew, one it no longer does is gone."""
    chosen: Params = {}
    for axis in search.space.axes:
        draw = float(generator.random())
        if search.space.active(axis, chosen):
            chosen[axis.path] = (
                _moved(axis, params[axis.path], draw, search) if axis.path in params else axis.value(draw)
            )
    return chosen


def _moved(axis: Axis, value: object, draw: float, search: SweepSearch) -> object:
    if axis.choices is not None:
        index = axis.choices.index(value) + (-1 if draw < 1 / 3 else 1 if draw > 2 / 3 else 0)
        return axis.choices[min(max(index, 0), len(axis.choices) - 1)]
    down, up = search.cfg.sampler.perturb
    return axis.fit(number_of(value) * (down if draw < 0.5 else up))


def _score(search: SweepSearch, trial: Trial, epoch: int) -> float:
    values = trial.results[epoch].values()
    return score(values, minimize=search.cfg.direction == "minimize", confidence=search.cfg.confidence)
