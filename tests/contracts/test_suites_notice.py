"""The suites notice parts that break their contracts."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from rlstudio.core.contracts import Outcome, Planned
from rlstudio.experiment.metrics.sinks import CsvSink
from rlstudio.planners.score import ReturnScore
from rlstudio.testing import DynamicsContract, PlannerContract, SamplerContract, ScoreContract, SinkContract
from rlstudio.testing.worlds import NUMBERS
from support.deadlines import PATIENCE


class Around:
    """Another part, but for what a test changes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Drawing(Around):
    def plan(self, observations: Tensor, score: Any, carry: Any, noise: Tensor) -> Planned:
        planned: Planned = self.inner.plan(observations, score, carry, noise)
        return planned._replace(actions=torch.rand_like(planned.actions))


class Mixing(Around):
    def plan(self, observations: Tensor, score: Any, carry: Any, noise: Tensor) -> Planned:
        planned: Planned = self.inner.plan(observations, score, carry, noise)
        return planned._replace(actions=planned.actions.mean(0, keepdim=True).expand_as(planned.actions))


def test_a_planner_that_draws_by_itself() -> None:
    class Suite(PlannerContract):
        part = "cem"

        def make(self, env_id: str) -> Any:
            return Drawing(super().make(env_id))

    with pytest.raises(AssertionError):
        Suite().test_the_same_noise_and_carry_give_the_same_plan(NUMBERS)
    with pytest.raises(AssertionError):
        Suite().test_nothing_is_changed_and_no_global_generator_is_used(NUMBERS)


def test_a_planner_that_mixes_environments() -> None:
    class Suite(PlannerContract):
        part = "cem"

        def make(self, env_id: str) -> Any:
            return Mixing(super().make(env_id))

    with pytest.raises(AssertionError):
        Suite().test_each_environment_is_planned_for_itself(NUMBERS)


def test_dynamics_that_write_into_what_they_get() -> None:
    class Writing(Around):
        def step(self, states: Tensor, actions: Tensor) -> Outcome:
            outcome: Outcome = self.inner.step(states, actions)
            actions.mul_(0.5)
            return outcome

    class Suite(DynamicsContract):
        part = "analytic"

        def make(self) -> Any:
            return Writing(super().make())

    with pytest.raises(AssertionError):
        Suite().test_it_is_pure()


def test_a_score_that_lets_through_what_is_no_number() -> None:
    class Lenient(ReturnScore):
        __call__ = ReturnScore.returns

    class Suite(ScoreContract):
        part = "returns"

        def make(self, gamma: float = 0.9) -> Any:
            return Lenient(super().make(gamma).dynamics, gamma=gamma)

    with pytest.raises(AssertionError):
        Suite().test_what_is_no_number_counts_for_nothing()


def test_a_sink_that_does_not_come_back(tmp_path: Path) -> None:
    class Staying(CsvSink):
        def cut_back(self, offset: int) -> int:
            return 0

    class Suite(SinkContract):
        part = "csv"

        def make(self, run_dir: Path) -> Any:
            return Staying(run_dir)

    (tmp_path / "artifacts").mkdir()
    with pytest.raises(AssertionError):
        Suite().test_it_comes_back_to_where_it_stood_and_goes_on(tmp_path)


def test_a_sampler_that_remembers() -> None:
    class Counting:
        def __init__(self) -> None:
            self.numbers = itertools.count(random.Random(0).randrange(8))

        def choose(self, number: int, known: Sequence[Any]) -> dict[str, Any]:
            return {"train.lr": 1e-5 * (1 + next(self.numbers)), "train.rollout_steps": 8}

    class Suite(SamplerContract):
        part = "random"

        def make(self, **changed: Any) -> Any:
            return Counting(), super().make(**changed)[1]

    Suite().test_every_choice_is_in_the_space()
    with pytest.raises(AssertionError):
        Suite().test_asking_again_changes_nothing()
    with pytest.raises(AssertionError):
        Suite().test_a_new_sampler_chooses_the_same_from_the_same_trials()


@pytest.mark.real_process
def test_without_pytest_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None\nimport rlstudio.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "ImportError: rlstudio.testing needs pytest; run: pip install pytest" in done.stderr
