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

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.ppo import PPO
from rlstudio.core.catalog import LANES, Part
from rlstudio.core.contracts import Outcome, Planned
from rlstudio.core.errors import RLStudioError
from rlstudio.core.model.layers import Linear
from rlstudio.core.spaces import Spaces
from rlstudio.experiment.metrics.sinks import CsvSink
from rlstudio.planners.score import ReturnScore
from rlstudio.testing import (
    DynamicsContract,
    LaneContract,
    ModelContract,
    PlannerContract,
    SamplerContract,
    ScoreContract,
    SinkContract,
    WorldContract,
)
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


def test_a_model_whose_plain_form_does_something_else() -> None:
    class Suite(ModelContract):
        part = "q-value"

        def make(self) -> Any:
            agent = super().make()
            plain = agent.model.plain()
            plain.net.layers[-1].bias.data += torch.arange(3.0)
            agent.model.plain = lambda: plain
            return agent

    with pytest.raises(AssertionError):
        Suite().test_its_plain_form_does_what_the_agent_does()


def test_a_model_that_acts_with_copies_of_its_weights() -> None:
    class Suite(ModelContract):
        part = "q-value"

        def make(self) -> Any:
            model = super().make().model
            layers = model.layers()
            copied = layers._replace(linears=tuple(Linear(*(part.clone() for part in one)) for one in layers.linears))
            model.layers = lambda: copied
            return QValueAgent(model, Spaces(self.observation, self.action))

    with pytest.raises(AssertionError):
        Suite().test_the_kernel_sees_every_change_of_the_weights()


def test_a_world_that_mixes_its_rows() -> None:
    class Suite(WorldContract):
        part = "Pendulum-v1"

        def make(self) -> Any:
            world = super().make()

            class Mixed(Around):
                def dynamics(self, states: Any, actions: Any, p: Any, xp: Any) -> Any:
                    transition = world.dynamics(states, actions, p, xp)
                    return transition._replace(rewards=transition.rewards - transition.rewards.mean())

            return Mixed(world)

    with pytest.raises(AssertionError):
        Suite().test_each_row_is_for_itself()


def test_a_world_that_shows_what_its_space_does_not_have() -> None:
    class Suite(WorldContract):
        part = "Pendulum-v1"

        def make(self) -> Any:
            world = super().make()

            class Louder(Around):
                def observe(self, states: Any, p: Any, xp: Any) -> Any:
                    return world.observe(states, p, xp) + 20.0

            return Louder(world)

    with pytest.raises(AssertionError):
        Suite().test_what_it_shows_is_what_its_space_says()


class OtherState:
    """A lane whose trainer has the optimizer's state under another name, and which refuses without a reason."""

    def refuses(self, algo: str, cfg: Any, network: Any, runtime: Any) -> str | None:
        return None if algo == "ppo" else " "

    def trainer(self, algo: str, cfg: Any, runtime: Any, network: Any, rng: Any) -> Any:
        trainer = PPO(cfg, runtime, network, rng)
        parts = trainer.stateful()
        parts["adam"] = parts.pop("optimizer")
        trainer.stateful = lambda: parts  # type: ignore[method-assign]
        return trainer


def test_a_lane_whose_state_is_not_that_of_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LANES.builtin, "other_state", Part(f"{__name__}:OtherState", "tests"))

    class Suite(LaneContract):
        part = "other_state"
        algos = {"ppo": {}}

    with pytest.raises((AssertionError, RLStudioError, KeyError)):
        Suite().test_a_checkpoint_of_the_algorithm_goes_on_in_it_and_back()
    with pytest.raises(AssertionError):
        Suite().test_what_it_cannot_train_is_refused_in_one_line()


@pytest.mark.real_process
def test_without_pytest_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['pytest'] = None\nimport rlstudio.testing"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert 'ImportError: rlstudio.testing needs pytest; run `pip install "pytest>=8"`' in done.stderr
