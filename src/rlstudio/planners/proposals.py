"""Proposals: a distribution over action sequences, whose parameters travel from plan to plan.

Numbers are planned in [-1, 1] and scaled to the bounds at the end, choices as numbers from 0. Parameters are tensors
with a row for each environment and are zero where an episode starts, so a fresh carry is an empty one. Noise comes from
outside, as standard normals or uniform numbers.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

Parameters = dict[str, Tensor]


class Proposal(Protocol):
    noise_shape: tuple[int, ...]  # of one candidate
    is_normal: bool  # whether the noise is normal, or uniform in [0, 1)

    def fresh(self, envs: int, like: Tensor) -> Parameters:
        """Where the search starts: nothing known."""
        ...

    def sample(self, parameters: Parameters, noise: Tensor, scale: float) -> Tensor:
        """Candidates [E, K, H, ...] from noise [E, K, ...]; `scale` widens or narrows what is not learned."""
        ...

    def fit(self, parameters: Parameters, candidates: Tensor, weights: Tensor, momentum: float) -> Parameters:
        """Towards the candidates by their weights [E, K], which sum to 1; `momentum` of the old stays."""
        ...

    def mode(self, parameters: Parameters) -> Tensor:
        """The most likely sequence [E, H, ...]."""
        ...

    def shifted(self, parameters: Parameters) -> Parameters:
        """One step later: the first action is done, the last one is unknown."""
        ...


class GaussianProposal:
    """Independent normals N(mean, std^2) for each step and number, cut to [-1, 1]; coloured noise makes neighbouring
    steps alike (Pinneri et al. 2020: power ~ f^-colour)."""

    is_normal = True

    def __init__(
        self,
        horizon: int,
        size: int,
        std: float,
        min_std: float = 0.0,
        colour: float = 0.0,
        learns_spread: bool = True,
    ) -> None:
        """`learns_spread`: whether a fit narrows the spread to where the weights are; otherwise it stays `std`."""
        self.horizon, self.size = horizon, size
        self.std, self.min_std = std, min_std
        self.learns_spread = learns_spread
        self.noise_shape: tuple[int, ...] = (horizon, size)
        self._spectrum = _spectrum(horizon, colour) if colour else None

    def fresh(self, envs: int, like: Tensor) -> Parameters:
        mean = like.new_zeros(envs, self.horizon, self.size)
        return {"mean": mean, "std": torch.full_like(mean, self.std)}

    def sample(self, parameters: Parameters, noise: Tensor, scale: float) -> Tensor:
        if self._spectrum is not None:
            noise = torch.matmul(self._spectrum.to(noise), noise)
        spread = parameters["std"].unsqueeze(1) * scale
        return torch.addcmul(parameters["mean"].unsqueeze(1), spread, noise).clamp_(-1.0, 1.0)

    def fit(self, parameters: Parameters, candidates: Tensor, weights: Tensor, momentum: float) -> Parameters:
        shares = weights[:, None, :]  # [E, 1, K]
        rows = candidates.flatten(2)  # [E, K, H * m]
        mean = (shares @ rows).view_as(parameters["mean"])
        std = parameters["std"]
        if self.learns_spread:
            spread = candidates - mean.unsqueeze(1)
            std = (shares @ spread.square().flatten(2)).view_as(mean).sqrt().clamp(min=self.min_std)
        kept = {"mean": mean, "std": std}
        if not momentum:
            return kept
        return {name: torch.lerp(part, parameters[name], momentum) for name, part in kept.items()}

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["mean"]

    def shifted(self, parameters: Parameters) -> Parameters:
        """The spread starts afresh with each plan; only where it points is kept."""
        mean = parameters["mean"]
        moved = torch.cat((mean[:, 1:], torch.zeros_like(mean[:, :1])), 1)
        return {"mean": moved, "std": torch.full_like(moved, self.std)}


class CategoricalProposal:
    """Independent choices for each step. `sticky`: how likely a step repeats the one before it; without it random
    sequences cancel out and reach nothing in a sparse task."""

    is_normal = False

    def __init__(self, horizon: int, choices: int, floor: float = 0.02, sticky: float = 0.0, mix: float = 0.3) -> None:
        self.horizon, self.choices = horizon, choices
        self.floor, self.sticky, self.mix = min(floor, 0.1 / choices), sticky, mix
        self.noise_shape: tuple[int, ...] = (horizon, 2)

    def fresh(self, envs: int, like: Tensor) -> Parameters:
        return {"gain": like.new_zeros(envs, self.horizon, self.choices)}

    def sample(self, parameters: Parameters, noise: Tensor, scale: float) -> Tensor:
        edges = self._probabilities(parameters).cumsum(-1)[..., :-1]  # [E, H, A - 1]
        drawn = (noise[..., :1] >= edges.unsqueeze(1)).sum(-1)
        if not self.sticky:
            return drawn
        fresh = noise[..., 1] >= self.sticky
        fresh[:, :, 0] = True
        # The place of the last fresh draw at or before each step, by a running maximum: no loop over steps.
        steps = torch.arange(self.horizon, device=drawn.device)
        return drawn.gather(2, torch.where(fresh, steps, 0).cummax(2).values)

    def fit(self, parameters: Parameters, candidates: Tensor, weights: Tensor, momentum: float) -> Parameters:
        chosen = torch.nn.functional.one_hot(candidates, self.choices).to(weights.dtype)  # [E, K, H, A]
        shares = torch.einsum("ek,ekha->eha", weights, chosen)
        old = self._probabilities(parameters)
        probabilities = torch.lerp(shares, old, momentum).clamp(min=self.floor)
        return {"gain": probabilities / probabilities.sum(-1, keepdim=True) - 1.0 / self.choices}

    def mode(self, parameters: Parameters) -> Tensor:
        return parameters["gain"].argmax(-1)

    def shifted(self, parameters: Parameters) -> Parameters:
        gain = parameters["gain"] * (1.0 - self.mix)  # a little back towards knowing nothing
        return {"gain": torch.cat((gain[:, 1:], torch.zeros_like(gain[:, :1])), 1)}

    def _probabilities(self, parameters: Parameters) -> Tensor:
        """`gain` is the probability over that of knowing nothing, so that zeros are a uniform choice."""
        return parameters["gain"] + 1.0 / self.choices


def _spectrum(horizon: int, colour: float) -> Tensor:
    """[H, H]: white noise times this is noise with power ~ f^-colour and unit variance at each step."""
    frequencies = torch.fft.rfftfreq(horizon, dtype=torch.float64)
    frequencies[0] = frequencies[1] if horizon > 1 else 1.0
    amplitudes = frequencies.pow(-colour / 2)
    white = torch.fft.rfft(torch.eye(horizon, dtype=torch.float64), dim=0)
    impulse = torch.fft.irfft(white * amplitudes[:, None], n=horizon, dim=0)
    spectrum: Tensor = impulse / impulse.square().sum(1, keepdim=True).sqrt()
    return spectrum.float()
