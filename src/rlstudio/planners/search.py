"""The planner loop: propose, roll out and score, update, and in the end select.

    for each round:  A ~ proposal        G = score(A)        proposal <- fit(A, weights(G))
    act: the best sequence's first action, the proposal's own, or the first choice that is best on average

Random shooting, CEM (De Boer et al. 2005), iCEM (Pinneri et al. 2020, 2008.06389), MPPI (Williams et al. 2017),
annealed planning (model-based diffusion, Pan et al. 2024, 2407.01573: its reverse step is exactly MPPI with a shrinking
spread) and planning guided by a policy (TD-MPC2, Hansen et al. 2024, 2310.16828) are settings of this loop (`build`).

Batched over environments and candidates; shapes depend on the settings alone. Noise is passed in, and what one plan
leaves to the next is carry, zero where an episode starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rlstudio.core.contracts import Planned, Score
from rlstudio.planners.guide import Guide
from rlstudio.planners.noise import Noise
from rlstudio.planners.proposals import CategoricalProposal, Parameters, Proposal
from rlstudio.planners.updates import Weigh, best_first_action, effective_samples, mean_per_first_action


@dataclass(frozen=True)
class Search:
    proposal: Proposal
    weigh: Weigh | None  # None: nothing is learned between rounds
    counts: tuple[int, ...]  # candidates of each round
    scales: tuple[float, ...]  # of the spread in each round
    select: str
    momentum: float = 0.0
    kept: int = 0  # best candidates that come along into the next round and the next plan
    guide: Guide | None = None  # proposes sequences of its own, the same in every round

    @property
    def noise(self) -> Noise:
        """The noise of all candidates of all rounds, and of the guide's."""
        guided = 0 if self.guide is None else self.guide.count
        shape = (sum(self.counts) + guided, *self.proposal.noise_shape)
        return Noise("normal" if self.proposal.is_normal else "uniform", shape)

    @torch.no_grad()
    def plan(
        self,
        observations: Tensor,
        score: Score,
        carry: dict[str, Tensor] | None,
        noise: Tensor,
    ) -> Planned:
        """observations [E, O], and noise as `noise` draws it."""
        parameters, elite = self._begin(observations, carry)
        total = sum(self.counts)
        guided = [] if self.guide is None else [self.guide(observations, score, noise[:, total:])]
        rounds = torch.split(noise[:, :total], list(self.counts), dim=1)
        weights: Tensor | None = None
        for number, (draws, scale) in enumerate(zip(rounds, self.scales, strict=True)):
            tried = [self.proposal.sample(parameters, draws, scale), *guided, *([] if elite is None else [elite])]
            if number + 1 == len(rounds) and self.weigh is not None and len(rounds) > 1:
                tried.append(self.proposal.mode(parameters).unsqueeze(1))  # the middle itself, in the last round
            candidates = torch.cat(tried, 1) if len(tried) > 1 else tried[0]
            scores = score(observations, candidates)
            if self.weigh is not None:
                weights = self.weigh(scores)
                parameters = self.proposal.fit(parameters, candidates, weights, self.momentum)
            if self.kept:
                best = scores.topk(self.kept, dim=1).indices
                elite = candidates.gather(1, _expanded(best, candidates))
        metrics = {"score": scores.max(1).values, "score_mean": _finite_mean(scores)}
        if weights is not None:
            metrics["effective_samples"] = effective_samples(weights)
        return Planned(self._selected(parameters, candidates, scores), self._end(parameters, elite), metrics)

    def _begin(self, observations: Tensor, carry: dict[str, Tensor] | None) -> tuple[Parameters, Tensor | None]:
        """Without a carry as with an empty one, so that shapes are always the same."""
        fresh = self.proposal.fresh(len(observations), observations)
        if carry is None:
            still = self.proposal.mode(fresh).unsqueeze(1)
            return fresh, torch.zeros_like(still).repeat_interleave(self.kept, 1) if self.kept else None
        return {**fresh, **{name: carry[name] for name in fresh if name != "std"}}, carry.get("elite")

    def _end(self, parameters: Parameters, elite: Tensor | None) -> dict[str, Tensor]:
        after = {name: part for name, part in self.proposal.shifted(parameters).items() if name != "std"}
        if elite is not None and self.kept:
            after["elite"] = torch.cat((elite[:, :, 1:], elite[:, :, -1:]), 2)
        return after

    def _selected(self, parameters: Parameters, candidates: Tensor, scores: Tensor) -> Tensor:
        if self.select == "first_action":
            assert isinstance(self.proposal, CategoricalProposal)
            return mean_per_first_action(candidates, scores, self.proposal.choices)
        if self.select == "mean":
            return self.proposal.mode(parameters)[:, 0]
        return best_first_action(candidates, scores)


def _expanded(indices: Tensor, candidates: Tensor) -> Tensor:
    """Indices [E, n] for a gather of whole sequences."""
    shape = (*indices.shape, *candidates.shape[2:])
    return indices.view(*indices.shape, *[1] * (candidates.dim() - 2)).expand(shape)


def _finite_mean(scores: Tensor) -> Tensor:
    finite = torch.isfinite(scores)
    return torch.where(finite, scores, 0.0).sum(1) / finite.sum(1).clamp(min=1)
