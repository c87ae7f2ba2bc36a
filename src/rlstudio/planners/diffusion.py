"""Diffusion planning: sequences of a learned prior, judged by rolling them out.

    tau_k ~ p0(tau | s_0)        R_k = score(tau_k)        q ~ p0 exp(beta R)

Act by the best of them (sample and select, as Lu et al. 2025, arXiv:2503.00535, find hard to beat), or by the mean of
q, with beta given or from a budget of KL(q || p0). With `guidance` the prior is bent towards high returns while it is
sampled, by the gradient of the return of what the sequence is expected to become (Tweedie's x_0; Janner et al. 2022,
arXiv:2205.09991; Chung et al. 2023, arXiv:2209.14687); the model of the world must then be differentiable.

Dims: E environments, K candidates, H steps of horizon, D numbers of an action. No loop over environments or candidates.
"""

from __future__ import annotations

from functools import partial
from math import log
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from rlstudio.core.config import refuse
from rlstudio.core.contracts import Dynamics, Planned, Score
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanValue
from rlstudio.core.spaces import Discrete
from rlstudio.models.planning.denoiser import Guidance, TrajectoryModel
from rlstudio.planners.config import ScoreConfig
from rlstudio.planners.noise import Noise
from rlstudio.planners.one_plan import act_once
from rlstudio.planners.posterior import Posterior, best, beta_for, log_z, posterior
from rlstudio.planners.score import ReturnScore


class DiffusionPlannerConfig(ScoreConfig):
    horizon: PositiveInt = Field(16, le=1000)
    """Steps that a plan looks ahead; the trajectory model is made for it."""

    candidates: PositiveInt = Field(64, le=100_000)
    """Sequences that are drawn from the prior; 1 acts by the prior alone."""

    levels: PositiveInt = Field(10, le=1000)
    """Steps from noise to a sequence."""

    temperature: NonNegativeFloat = Field(1.0, le=10)
    """Scale of the noise samples start from: below 1 they are nearer to the middle of the prior, at 0 all are it."""

    select: Literal["best", "mean"] = "best"
    """What is done in the end: the best sequence, or the mean of the prior weighted by exp(beta * return)."""

    beta: NonNegativeFloat | None = None
    """How much a point of return weighs against the prior (select mean); 0 is the mean of the prior itself."""

    kl_budget: PositiveFloat | None = None
    """Finds beta instead: nats that the weighted samples may be away from the prior, less than log(candidates)."""

    value: Literal["own", "none", "physics"] = "none"
    """What comes after the horizon: a value that is learned from the same experience, nothing, or a guess by the energy
    or the balance (MountainCar-v0, Acrobot-v1, CartPole-v1)."""

    guidance: NonNegativeFloat = 0.0
    """How much a point of return, value included, weighs while the prior is sampled; needs a differentiable model. 0
    switches it off."""

    unguided: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of the levels, at the end, without guidance."""

    @model_validator(mode="after")
    def _one_beta(self) -> DiffusionPlannerConfig:
        if self.select == "best" and (self.beta is not None or self.kl_budget is not None):
            field = "beta" if self.beta is not None else "kl_budget"
            refuse((field,), "the best sequence has no use for it; set select to mean")
        if self.beta is not None and self.kl_budget is not None:
            refuse(("kl_budget",), "finds the beta that is given too; leave one of them out")
        if self.select == "mean" and self.beta is None and self.kl_budget is None:
            refuse(("select",), "mean needs beta or kl_budget")
        if self.kl_budget is not None and self.kl_budget >= log(self.candidates):
            most = f"{log(self.candidates):.2f}"
            refuse(("kl_budget",), f"{self.candidates} candidates are at most {most} nats away; lower it")
        return self


class DiffusionPlanner:
    """Implements `core.contracts.Planner`. Nothing travels from plan to plan: every plan is drawn afresh."""

    def __init__(self, cfg: DiffusionPlannerConfig, model: TrajectoryModel) -> None:
        if cfg.guidance and isinstance(model.space, Discrete):
            raise Incompatible("planner.guidance: a return has no gradient by choices; set it to 0")
        if cfg.horizon != model.horizon:
            raise Incompatible(f"planner.horizon: {cfg.horizon}, but the trajectory model has {model.horizon} steps")
        self.cfg = cfg
        self.model = model

    @property
    def noise(self) -> Noise:
        return Noise("normal", (self.cfg.candidates, self.cfg.horizon, self.model.size))

    @torch.no_grad()
    def plan(self, observations: Tensor, score: Score, carry: dict[str, Tensor] | None, noise: Tensor) -> Planned:
        x = self.sample(observations, noise * self.cfg.temperature, score if self.cfg.guidance else None)
        returns = score(observations, self.model.decode(x))
        q, beta = self._weighted(returns)
        first = torch.einsum("ek,ekd->ed", q.weights, x[:, :, 0])
        metrics = {
            "score": returns.amax(1),
            "expected_return": q.expected_return,
            "kl": q.kl,
            "effective_samples": q.effective_samples,
        }
        if beta is not None:
            metrics |= {"beta": beta, "log_z": log_z(returns, beta)}
        return Planned(self.model.decode(first), {}, metrics)

    def sample(self, observations: Tensor, noise: Tensor, score: Score | None = None) -> Tensor:
        """Sequences [E, K, H, D] of the prior, bent towards what `score` finds good, where one is given."""
        if score is None:
            return self.model.draw(observations, noise, self.cfg.levels)
        guide = Guidance(partial(score.returns, observations), self.cfg.guidance, self.cfg.unguided)
        return self.model.draw(observations, noise, self.cfg.levels, guide)

    @classmethod
    def act(
        cls,
        obs: ArrayLike,
        diffusion: TrajectoryModel,
        dynamics: Dynamics,
        value: PlanValue | None,
        cfg: DiffusionPlannerConfig,
        rng: np.random.Generator | None = None,
    ) -> int | np.ndarray:
        """The action of one plan for one observation, in the environment's own units; the design document's call. A
        plan without `rng` has the noise of an episode's first step."""
        planner = cls(cfg, diffusion)
        return act_once(planner, ReturnScore(dynamics, value=value), obs, diffusion.space, rng)

    def _weighted(self, returns: Tensor) -> tuple[Posterior, Tensor | None]:
        if self.cfg.select == "best":
            return best(returns), None
        if self.cfg.kl_budget is not None:
            beta = beta_for(returns, self.cfg.kl_budget)
        else:
            beta = returns.new_full((len(returns),), self.cfg.beta or 0.0)
        return posterior(returns, beta), beta
