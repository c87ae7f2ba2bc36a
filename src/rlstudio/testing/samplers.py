"""What every sampler promises: a choice is in the space, and depends on the trial's number and the others alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from rlstudio.control.sweep.config import SweepConfig
from rlstudio.control.sweep.samplers import Sampler, make_sampler
from rlstudio.control.sweep.space import Space, number_of
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.config import parse

RANGES: Mapping[str, Mapping[str, object]] = {
    "train.lr": {"low": 1e-5, "high": 1e-2, "log": True},
    "train.rollout_steps": {"low": 8, "high": 64, "step": 8},
}
EPOCHS = 9


class SamplerContract:
    """The contract of a sampler as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the sampler."""

    settings: ClassVar[Mapping[str, object]] = {}
    """Its own, where it needs some."""

    space: ClassVar[Mapping[str, Mapping[str, object]]] = RANGES
    """Settings it can choose."""

    seeded: ClassVar[bool] = True
    """Whether the seed decides anything."""

    def __init_subclass__(cls) -> None:
        """Where chance has no part, no seed is tested."""
        if not cls.seeded:
            cls.test_another_seed_chooses_otherwise = None  # type: ignore[method-assign, assignment]

    def sweep(self, **changed: object) -> SweepConfig:
        sampler = {"kind": self.part, **self.settings, **changed}
        return parse(
            SweepConfig, {"name": "s", "experiment": {}, "trials": 12, "sampler": sampler, "space": dict(self.space)}
        )

    def make(self, **changed: object) -> tuple[Sampler, Space]:
        cfg = self.sweep(**changed)
        space = Space(cfg.space, {})
        return make_sampler(cfg.sampler, space), space

    def played(self, count: int, **changed: object) -> list[Trial]:
        """Trials one after the other; of every four one fails, one is given up early and one is still running."""
        sampler, _ = self.make(**changed)
        trials: list[Trial] = []
        for number in range(count):
            params = sampler.choose(number, trials)
            score = -abs(len(json.dumps(params)) - 40.0)
            ended = (TrialState.COMPLETED, TrialState.FAILED, TrialState.PRUNED, TrialState.RUNNING)[number % 4]
            epoch = 3 if ended == TrialState.PRUNED else EPOCHS
            known = ended in (TrialState.COMPLETED, TrialState.PRUNED)
            results = {epoch: {0: score}} if known else {}
            trials.append(Trial(number, params, epoch, ended, results, score if known else None))
        return trials

    def test_every_choice_is_in_the_space(self) -> None:
        _, space = self.make()
        for trial in self.played(8):
            assert trial.params.keys() == {axis.path for axis in space.axes if space.active(axis, trial.params)}
            for axis in space.axes:
                if axis.path in trial.params:
                    value = trial.params[axis.path]
                    if axis.choices is not None:
                        assert value in axis.choices
                    else:
                        assert axis.low <= number_of(value) <= axis.high
                    assert not axis.whole or isinstance(value, int)

    def test_choices_are_plain_values_of_json(self) -> None:
        for trial in self.played(8):
            assert json.loads(json.dumps(trial.params)) == trial.params

    def test_a_new_sampler_chooses_the_same_from_the_same_trials(self) -> None:
        """A driver that was killed goes on with nothing but the store."""
        trials = self.played(8)
        for number in (0, 3, 7):
            fresh, _ = self.make()
            assert fresh.choose(number, trials[:number]) == trials[number].params

    def test_asking_again_changes_nothing(self) -> None:
        trials = self.played(4)
        sampler, _ = self.make()
        assert sampler.choose(4, trials) == sampler.choose(4, trials)

    def test_another_seed_chooses_otherwise(self) -> None:
        first, second = ([trial.params for trial in self.played(4, seed=seed)] for seed in (1, 2))
        assert first != second
