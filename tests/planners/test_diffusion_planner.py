"""The diffusion planner: what it selects, what it reports, and that guidance draws from the exact posterior."""

from __future__ import annotations

from math import cos, log, pi, sin
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Space, Spaces
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.denoiser import TrajectoryModel
from rlstudio.planners.diffusion import DiffusionPlanner, DiffusionPlannerConfig
from rlstudio.planners.score import ReturnScore
from support.line_world import Line

OBSERVATION = Box((1,), "float32", (-5.0,), (5.0,))
NUMBERS = Box((1,), "float32", (-1.0,), (1.0,))
WAYS: list[dict[str, Any]] = [
    {},
    {"select": "mean", "beta": 0.7},
    {"select": "mean", "kl_budget": 0.5},
    {"guidance": 0.3},
]


def planner(space: Space = NUMBERS, **settings: Any) -> DiffusionPlanner:
    network = NetworkConfig(hidden_sizes=(16,), activation="silu")
    model = TrajectoryModel(Spaces(OBSERVATION, space), network, Rng(3), horizon=4)
    return DiffusionPlanner(DiffusionPlannerConfig(**{"horizon": 4, "candidates": 32, "levels": 5, **settings}), model)


def start(envs: int) -> Tensor:
    return torch.linspace(-2, 2, envs)[:, None]


@pytest.mark.parametrize("settings", WAYS, ids=str)
def test_a_batch_of_environments_is_planned_as_one_by_one(settings: dict[str, Any]) -> None:
    plans, score = planner(**settings), ReturnScore(Line())
    noise = plans.noise(np.random.default_rng(1), 4)
    together = plans.plan(start(4), score, None, noise)
    assert together.carry == {}
    for env in range(4):
        own = slice(env, env + 1)
        alone = plans.plan(start(4)[own], score, None, noise[own])
        torch.testing.assert_close(together.actions[own], alone.actions, atol=1e-5, rtol=1e-4)
        for name, row in together.metrics.items():
            torch.testing.assert_close(row[own], alone.metrics[name], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("space", [NUMBERS, Discrete(3)], ids=["numbers", "choices"])
def test_the_noise_decides_everything(space: Space) -> None:
    plans, score = planner(space), ReturnScore(Line() if space is NUMBERS else Counting())
    first, other = (plans.noise(np.random.default_rng(seed), 8) for seed in (1, 2))
    state = torch.get_rng_state()
    one, again, another = (plans.plan(start(8), score, None, noise) for noise in (first, first, other))
    assert torch.equal(one.actions, again.actions)
    assert torch.equal(torch.get_rng_state(), state)
    if space is NUMBERS:
        assert not torch.equal(one.actions, another.actions)


class Counting(Line):
    """Choices: each adds its number to the place on the line."""

    def step(self, states: Tensor, actions: Tensor) -> Any:
        return super().step(states, actions[..., None].to(states.dtype) - 1.0)


def test_without_temperature_all_samples_are_the_middle_of_the_prior() -> None:
    cold = planner(temperature=0.0)
    one, other = (
        cold.plan(start(3), ReturnScore(Line()), None, cold.noise(np.random.default_rng(seed), 3)) for seed in (1, 2)
    )
    assert torch.equal(one.actions, other.actions)


def test_the_best_sequence_is_the_one_done() -> None:
    plans, score = planner(), ReturnScore(Line())
    noise = plans.noise(np.random.default_rng(0), 5)
    planned = plans.plan(start(5), score, None, noise)
    x = plans.sample(start(5), noise).detach()
    scores = score(start(5), x)
    for env in range(5):
        assert planned.actions[env] == pytest.approx(float(x[env, scores[env].argmax(), 0, 0]))
    torch.testing.assert_close(planned.metrics["expected_return"], scores.amax(1))
    torch.testing.assert_close(planned.metrics["kl"], torch.full((5,), log(32)))


def test_choices_are_voted_for_by_weight() -> None:
    plans = planner(Discrete(3), select="mean", beta=1e3)
    noise = plans.noise(np.random.default_rng(0), 6)
    scores_of = ReturnScore(Counting())
    bits = plans.sample(start(6), noise)
    top = scores_of(start(6), bits.argmax(-1)).argmax(1)
    planned = plans.plan(start(6), scores_of, None, noise)
    assert planned.actions.dtype == torch.int64
    assert planned.actions.shape == (6,)
    assert float(planned.metrics["effective_samples"].min()) < 32
    decisive = planned.metrics["effective_samples"] < 1.01
    chosen = bits[torch.arange(6), top, 0].argmax(-1)
    assert torch.equal(planned.actions[decisive], chosen[decisive])


def test_a_budget_of_kl_is_kept() -> None:
    plans = planner(select="mean", kl_budget=1.0)
    planned = plans.plan(start(5), ReturnScore(Line()), None, plans.noise(np.random.default_rng(0), 5))
    metrics = planned.metrics
    torch.testing.assert_close(metrics["kl"], torch.ones(5), atol=1e-2, rtol=0)
    torch.testing.assert_close(
        metrics["beta"] * metrics["expected_return"] - metrics["kl"], metrics["log_z"], atol=1e-3, rtol=1e-4
    )


@pytest.mark.parametrize("settings", WAYS, ids=str)
def test_a_score_that_is_no_number_never_wins(settings: dict[str, Any]) -> None:
    class Broken(ReturnScore):
        def returns(self, observations: Tensor, actions: Tensor) -> Tensor:
            begins = actions[:, :, 0, 0]
            return super().returns(observations, actions) + torch.where(begins > begins.median(), torch.nan, 0.0)

    plans, noise = planner(**settings), planner(**settings).noise(np.random.default_rng(0), 1)
    planned = plans.plan(start(1), Broken(Line()), None, noise)
    begins = plans.sample(start(1), noise, Broken(Line()) if settings.get("guidance") else None)[:, :, 0, 0]
    assert torch.isfinite(torch.stack(list(planned.metrics.values()))).all()
    assert planned.actions.item() <= begins.median()


class GaussianPrior(TrajectoryModel):
    """Knows the best guess for sequences of independent N(0, std^2)."""

    std = 0.1

    def forward(self, x: Tensor, times: Tensor, observations: Tensor) -> Tensor:
        a, b = cos(pi / 2 * float(times[0])), sin(pi / 2 * float(times[0]))
        return x * (a * self.std**2 / (a**2 * self.std**2 + b**2))


class Linear:
    """A return that is linear in the actions, for which the posterior is a Gaussian moved by beta std^2 c."""

    slope = torch.tensor([1.0, -0.5, 0.0, 2.0])

    def returns(self, observations: Tensor, actions: Tensor) -> Tensor:
        return actions[..., 0] @ self.slope

    __call__ = returns


def test_guidance_draws_from_the_exact_posterior_of_a_linear_return() -> None:
    model = GaussianPrior(Spaces(OBSERVATION, NUMBERS), NetworkConfig(hidden_sizes=(4,)), Rng(0), horizon=4)
    cfg = DiffusionPlannerConfig(horizon=4, candidates=4000, levels=100, guidance=8.0, unguided=0.0)
    plans = DiffusionPlanner(cfg, model)
    noise = plans.noise(np.random.default_rng(0), 1)
    drawn = plans.sample(torch.zeros(1, 1), noise, Linear())[0, :, :, 0]  # type: ignore[arg-type]
    exact = 8.0 * GaussianPrior.std**2 * Linear.slope
    torch.testing.assert_close(drawn.mean(0), exact, atol=0.012, rtol=0)
    torch.testing.assert_close(drawn.std(0), torch.full((4,), 0.1), atol=0.012, rtol=0)


def test_guidance_raises_the_return_of_a_model() -> None:
    free, bent = planner(candidates=64), planner(candidates=64, guidance=1.0)
    score, noise = ReturnScore(Line()), free.noise(np.random.default_rng(0), 5)
    plain = score(start(5), free.sample(start(5), noise)).mean(1)
    moved = score(start(5), bent.sample(start(5), noise, score)).mean(1)
    assert (moved >= plain - 1e-4).all()
    assert (moved[[0, -1]] > plain[[0, -1]] + 0.01).all()


def test_settings_that_contradict_each_other_are_refused() -> None:
    for settings in (
        {"beta": 1.0},
        {"kl_budget": 1.0},
        {"select": "mean"},
        {"select": "mean", "beta": 1.0, "kl_budget": 1.0},
    ):
        with pytest.raises(ValidationError):
            DiffusionPlannerConfig(**settings)  # type: ignore[arg-type]
    with pytest.raises(Incompatible, match="no gradient by choices"):
        planner(Discrete(3), guidance=0.1)
    with pytest.raises(Incompatible, match="has 4 steps"):
        planner(horizon=5)


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"select": "mean", "kl_budget": 0.5},
        pytest.param({"select": "mean", "beta": 0.7}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_compiled_plan_is_the_same(settings: dict[str, Any], backend: str) -> None:
    torch.compiler.reset()  # compilations of other tests count towards its limit
    plans, score = planner(**settings, candidates=8), ReturnScore(Line())
    noise = plans.noise(np.random.default_rng(1), 2)
    compiled = torch.compile(plans.plan, backend=backend)
    plain, graphed = plans.plan(start(2), score, None, noise), compiled(start(2), score, None, noise)
    torch.testing.assert_close(plain.actions, graphed.actions)
    for name, row in plain.metrics.items():
        torch.testing.assert_close(row, graphed.metrics[name])


def test_guidance_follows_a_value_too() -> None:
    """Without rewards, only what comes after the horizon says where to go."""
    plans = planner(guidance=5.0, candidates=4)
    noise = plans.noise(np.random.default_rng(1), 3)
    free = plans.sample(start(3), noise)
    for sign in (1.0, -1.0):
        score = ReturnScore(Line(reward=0.0), value=lambda seen, sign=sign: sign * seen[..., 0])  # type: ignore[misc]
        moved = (plans.sample(start(3), noise, score) - free).detach()
        assert float((sign * moved).mean()) > 0.001
