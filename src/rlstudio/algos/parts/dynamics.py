"""The model of the world that an algorithm plans in: the equations, or one that is learned; and how it is learned.

    loss = E_kn[ w_kn ( (y - mean)^2 e^-s + s ) / 2 ]  +  0.01 (sum high - sum low)  +  E_kn[ w_kn b_n BCE(goes on) ]

Dims: K members, N rows, O + 1 targets y (change of the observation, reward), s log variances within learned bounds; the
plain MLP has s = 0. w_kn is how often row n is in the resample of member k, b_n makes ends count as much as the rest.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.catalog import DYNAMICS, Catalog
from rlstudio.core.config import refuse
from rlstudio.core.contracts import Dynamics, EnvFacts, Metrics, Runtime
from rlstudio.core.errors import Incompatible
from rlstudio.core.parts import PartConfig
from rlstudio.core.rng import Rng
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.equations import AnalyticDynamics, dynamics_of
from rlstudio.models.config import Activation
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.ops.means import weighted_mean

BOUNDS_WEIGHT = 0.01
"""How strongly the bounds of log variances are drawn together, as PETS has it."""

RESAMPLED_ROWS = 2**14
"""Rows after which the resamples repeat."""


class DynamicsConfig(PartConfig):
    """Which model of the environment is used, and how it is learned."""

    parts: ClassVar[Catalog] = DYNAMICS

    kind: str = "ensemble"
    """The world's own equations (`analytic`), one network (`mlp`), several that also know how sure they are
    (`ensemble`), or a model of another package (`rlctl plugins`)."""

    members: PositiveInt = Field(5, le=64)
    """Networks of an ensemble."""

    hidden_sizes: tuple[PositiveInt, ...] = Field((64, 64), max_length=32)
    """Width of each hidden layer of a learned model."""

    activation: Activation = "silu"
    """Non-linearity of a learned model."""

    particles: PositiveInt | None = Field(None, le=1024)
    """Futures that a plan follows for each candidate (ensemble); null takes one for each network."""

    noise: bool = False
    """Move the particles by the spread that they are predicted with, instead of following the means (ensemble)."""

    reward: Literal["learned", "known"] = "learned"
    """Rewards and ends of episodes: learned like the motion, or known from the equations of the environment."""

    @model_validator(mode="after")
    def _shared_evenly(self) -> DynamicsConfig:
        if self.kind == "ensemble" and self.particles is not None and self.particles % self.members:
            refuse(("particles",), f"{self.particles} cannot be shared evenly among {self.members} members")
        return self


def build_dynamics(cfg: DynamicsConfig, env: EnvFacts, rng: Rng) -> Dynamics:
    """Build the model of the environment; one that does not fit is refused by name. An algorithm trains a
    `LearnedDynamics` and uses any other as it is."""
    dynamics: Dynamics = cfg.build(env, rng)
    return dynamics


def analytic(cfg: DynamicsConfig, env: EnvFacts, rng: Rng) -> AnalyticDynamics:
    """The world's own equations: no learning, no error."""
    return _equations(env)


def mlp(cfg: DynamicsConfig, env: EnvFacts, rng: Rng) -> LearnedDynamics:
    """One network that learns how the world moves."""
    return _learned(cfg, env, rng, members=1)


def ensemble(cfg: DynamicsConfig, env: EnvFacts, rng: Rng) -> LearnedDynamics:
    """Several networks that learn how the world moves and how sure they are (PETS: Chua et al. 2018)."""
    return _learned(cfg, env, rng, members=cfg.members, spread=True, particles=cfg.particles, noise=cfg.noise)


def _learned(
    cfg: DynamicsConfig,
    env: EnvFacts,
    rng: Rng,
    *,
    members: int,
    spread: bool = False,
    particles: int | None = None,
    noise: bool = False,
) -> LearnedDynamics:
    return LearnedDynamics(
        env.spaces,
        members=members,
        spread=spread,
        hidden_sizes=cfg.hidden_sizes,
        activation=cfg.activation,
        particles=particles or members,
        noise=noise,
        rng=rng,
        judge=_equations(env) if cfg.reward == "known" else None,
    ).to(env.device)


def _equations(env: EnvFacts) -> AnalyticDynamics:
    if not isinstance(env.env_config, EnvConfig):
        raise Incompatible("dynamics analytic: the runtime does not say which world this is; give it `env_config`")
    return dynamics_of(env.env_config)


def resamples(members: int, rng: Rng) -> Tensor:
    """How often each row is in the bootstrap of each member, [rows, K]: Poisson(1), the limit of drawing with
    replacement from a stream (Oza and Russell 2001). A single member sees every row once."""
    if members == 1:
        return torch.ones(1, 1)
    return torch.from_numpy(rng.generator().poisson(1.0, (RESAMPLED_ROWS, members)).astype("float32"))


def learned_part(dynamics: Dynamics) -> LearnedDynamics | None:
    """The dynamics where they are learned here; None where they are taken as they are."""
    return dynamics if isinstance(dynamics, LearnedDynamics) else None


def own_resamples(learned: LearnedDynamics | None, runtime: Runtime, rng: Rng) -> Tensor | None:
    """The resamples of this rank, on its device; None where no dynamics are learned."""
    if learned is None:
        return None
    return resamples(learned.members, runtime.group.own(rng.fork("resamples"))).to(runtime.device)


def dynamics_loss(model: LearnedDynamics, batch: Batch, counts: Tensor) -> tuple[Tensor, Metrics]:
    """`counts` as `resamples` draws them."""
    prediction = model(batch.observations, batch.actions)
    targets_NO = model.changes(batch.observations, batch.next_observations, batch.rewards)
    weights_KN = counts[batch.rows % len(counts)].T
    if batch.weights is not None:
        weights_KN = weights_KN * batch.weights
    squares_KNO = (prediction.mean - targets_NO).square()
    if prediction.log_variance is None:
        errors_KN = 0.5 * squares_KNO.sum(-1)
    else:
        precise_KNO = squares_KNO * torch.exp(-prediction.log_variance)
        errors_KN = 0.5 * (precise_KNO + prediction.log_variance).sum(-1)
    loss = weighted_mean(errors_KN, weights_KN)
    if model.low_high is not None:
        low_O, high_O = model.low_high
        loss = loss + BOUNDS_WEIGHT * (high_O - low_O).sum()
    # Ends are rare and matter most: together they count as much as all other rows. A plan adds the odds again.
    goes_on_KN = (~batch.terminated).float().expand(len(weights_KN), -1)
    balance_N = torch.where(batch.terminated, 0.5 / model.end_share, 0.5 / (1.0 - model.end_share))
    surprise_KN = balance_N * F.binary_cross_entropy_with_logits(prediction.evidence, goes_on_KN, reduction="none")
    loss = loss + weighted_mean(surprise_KN, weights_KN)
    with torch.no_grad():
        error = weighted_mean(squares_KNO.mean(-1), weights_KN)
    return loss, {"dynamics_loss": loss.detach(), "dynamics_error": error}
