"""TrajectoryModel: a diffusion prior over action sequences, given what is seen at their start.

    x_t = cos(pi t / 2) x_0 + sin(pi t / 2) eps           t in [0, 1]: from data to noise (cosine schedule)
    model(x_t, t, s_0) ~ E[x_0 | x_t, s_0]                x_0: numbers in [-1, 1], choices as bits in {-1, 1}

Sampling goes back from noise to data in a few deterministic steps (DDIM, Song et al. 2021, arXiv:2010.02502), so the
noise that is passed in decides everything. Choices are one-hot "analog bits" (Chen et al. 2023, arXiv:2208.04202): the
largest wins in the end. Dims: N rows, H steps of horizon, D numbers of an action, O of an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from math import cos, pi, sin
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Group
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.networks.normalizer import Normalizer
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.models.planning.value import LearnedValue
from rlstudio.models.policies.bounds import Bounds
from rlstudio.ops.group import ALONE

NOISIEST = 0.98
"""Where sampling starts: at t = 1 nothing of the data is left to be guided by."""

FREQUENCIES = 8

Guess = Callable[[Tensor, float], Tensor]
"""x_t [N, H, D], t -> what x_0 is expected to be"""


Returns = Callable[[Tensor], Tensor]
"""x [E, K, H, D] -> what each sequence returns [E, K], with gradients"""


class Guidance(NamedTuple):
    """What sequences are bent towards while they are sampled."""

    returns: Returns
    strength: float = 1.0  # how much a point of return weighs
    unguided: float = 0.2  # share of the levels, at the end, without it


class TrajectoryModel(nn.Module):
    """forward(x, times, observations) -> x_0. Statistics of observations are part of it."""

    variant = "trajectory"

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, horizon: int) -> None:
        super().__init__()
        observed, self.space = spaces.observation, spaces.action
        if not isinstance(observed, Box) or len(observed.shape) != 1:
            raise Incompatible(f"a trajectory model needs a row of numbers to start from, not {describe(observed)}")
        match self.space:
            case Discrete():
                self.size = self.space.n
            case Box():
                self.bounds = Bounds(self.space)
                self.size = self.bounds.size
            case _:
                raise Incompatible(
                    f"a trajectory model needs numbers with bounds or one choice as actions; the env takes "
                    f"{describe(self.space)}"
                )
        self.horizon, self.observation_size = horizon, observed.size
        self.normalizer = Normalizer(self.observation_size)
        inputs = horizon * self.size + 2 * FREQUENCIES + self.observation_size
        outputs = horizon * self.size
        self.net = MLP(inputs, network.hidden_sizes, outputs, network.activation, rng.fork("denoiser"), gain=None)
        octaves = pi * 2.0 ** torch.arange(FREQUENCIES, dtype=torch.float32) / 2
        self.register_buffer("octaves", octaves, persistent=False)

    octaves: Tensor

    def forward(self, x: Tensor, times: Tensor, observations: Tensor) -> Tensor:
        angles = times[:, None] * self.octaves
        normalized = self.normalizer(observations.float())
        rows = torch.cat((x.flatten(1), angles.sin(), angles.cos(), normalized), 1)
        return self.net(rows).view_as(x)  # type: ignore[no-any-return]

    def encode(self, actions: Tensor) -> Tensor:
        """Actions of the environment [..., *shape], choices from 0, as x [..., D]."""
        if isinstance(self.space, Discrete):
            return 2.0 * F.one_hot(actions, self.space.n).float() - 1.0
        return self.bounds.unit(actions.float())

    def decode(self, x: Tensor) -> Tensor:
        """x [..., D] as a planner has them: numbers in [-1, 1], or choices."""
        return x.argmax(-1) if isinstance(self.space, Discrete) else x.clamp(-1.0, 1.0)

    def draw(self, observations: Tensor, noise: Tensor, levels: int, guidance: Guidance | None = None) -> Tensor:
        """Sequences x [E, K, H, D] from noise of that shape, in `levels` steps; with guidance bent towards what it
        finds good."""
        shape = noise.shape
        observed_N = observations.float().repeat_interleave(shape[1], 0)
        quiet = 0.0 if guidance is None else levels_of(levels)[levels - round(guidance.unguided * levels)]

        def guess(x: Tensor, time: float) -> Tensor:
            return self(x, x.new_full((len(x),), time), observed_N).clamp(-1.0, 1.0)  # type: ignore[no-any-return]

        def bent(x: Tensor, time: float) -> Tensor:
            if guidance is None or time <= quiet:
                return guess(x, time)
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                data = guess(x, time)
                (slope,) = torch.autograd.grad(guidance.returns(data.view(shape)).sum(), x)
            # eps - sigma * guidance * slope, written for the data that is left without that noise
            push = guidance.strength * sin(pi / 2 * time) ** 2 / cos(pi / 2 * time)
            return (data.detach() + push * slope.nan_to_num(0.0, 0.0, 0.0)).clamp(-1.0, 1.0)

        return ddim(bent, noise.flatten(0, 1), levels).view(shape)

    @torch.no_grad()
    def sample(
        self,
        obs: Tensor,
        horizon: int,
        guidance_fn: Returns | None = None,
        *,
        rng: np.random.Generator | None = None,
        levels: int = 10,
    ) -> Tensor:
        """One sequence of actions [H, ...] for one observation [O], or [E, H, ...] for several; the design document's
        call. `guidance_fn` says what sequences x [E, 1, H, D] return, [E, 1], and they are bent towards more of it.
        Without `rng` the middle of the prior."""
        if horizon != self.horizon:
            raise Incompatible(f"horizon: {horizon}, but the trajectory model has {self.horizon} steps")
        given = torch.as_tensor(obs, dtype=torch.float32)
        observations = given.reshape(-1, self.observation_size)
        shape = (len(observations), 1, horizon, self.size)
        normal = np.zeros(shape, np.float32) if rng is None else rng.standard_normal(shape, "float32")
        guidance = None if guidance_fn is None else Guidance(guidance_fn)
        actions = self.decode(self.draw(observations, torch.from_numpy(normal), levels, guidance))[:, 0]
        return actions if given.dim() > 1 else actions[0]


def noised(x: Tensor, times: Tensor, noise: Tensor) -> Tensor:
    """x_t of data x [N, ...] at times [N]."""
    angles = times.view(-1, *[1] * (x.dim() - 1)) * (pi / 2)
    return angles.cos() * x + angles.sin() * noise


def drawn(generator: np.random.Generator, shape: tuple[int, ...], device: torch.device | str) -> tuple[Tensor, Tensor]:
    """What a batch of this shape [N, ...] is noised with: times [N], and normal numbers."""
    times, normal = generator.random(shape[0], "float32"), generator.standard_normal(shape, "float32")
    return torch.from_numpy(times).to(device), torch.from_numpy(normal).to(device)


def levels_of(count: int) -> list[float]:
    """Times from noise to data, `count` steps apart; closer together near the data, where the spread is decided."""
    return [NOISIEST * (1 - number / count) ** 2 for number in range(count + 1)]


def ddim(guess: Guess, noise: Tensor, levels: int) -> Tensor:
    """From noise [N, H, D] to data in `levels` steps: less and less of the noise is mixed with what the data is guessed
    to be."""
    x = noise
    for time, following in pairwise(levels_of(levels)):
        data = guess(x, time)
        eps = (x - cos(pi / 2 * time) * data) / sin(pi / 2 * time)
        x = cos(pi / 2 * following) * data + sin(pi / 2 * following) * eps
    return x


class DiffusionModel(nn.Module):
    """Everything that acts: the prior with its averaged weights, and the dynamics and the value where they are
    learned."""

    variant = "diffusion"

    def __init__(
        self, prior: TrajectoryModel, dynamics: LearnedDynamics | None = None, value: LearnedValue | None = None
    ) -> None:
        super().__init__()
        self.prior = prior
        self.dynamics = dynamics
        self.value = value

    def learn_statistics(self, rows: Batch, group: Group = ALONE) -> None:
        """Fold new experience of all ranks in, each row once."""
        self.prior.normalizer.update(rows.observations, rows.weights, group)
        for part in (self.dynamics, self.value):
            if part is not None:
                part.learn_statistics(rows, group)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue | None:
        return self.value

    def policy_for_plan(self) -> PlanPolicy | None:
        return None
