"""Learned dynamics: what follows an action, its reward, and whether the episode goes on, from experience.

    (o' - o, r) ~ N(mean_k(o, a), std_k(o, a)^2)      P(goes on) = sigmoid(evidence_k(o, a) + log odds seen so far)

Chua et al. 2018 (PETS), arXiv:1805.12114: K networks, each on a resample of the rows; a particle of a plan keeps to one
network from beginning to end, so that what the networks disagree about shows as spread. Networks see and predict
standardised numbers; the statistics are buffers of the Model, and ship with it. With one member that has no spread this
is the plain MLP.

Dims: K members, N rows, O numbers of an observation, D features (O + actions); P particles, E environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Dynamics, Group, Outcome
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces, describe
from rlstudio.models.networks.ensemble import EnsembleMLP
from rlstudio.models.networks.normalizer import Normalizer
from rlstudio.models.policies.bounds import Bounds
from rlstudio.ops.group import ALONE

NOISE_STEPS = 256
"""Rows in the table of noise; a longer plan begins it anew."""

RAREST = 1e-3
"""Share of ends that is assumed at least."""


CERTAIN = 0.95
"""Above it an episode goes on: where all plans survive, a last doubt is noise, and all that would tell them apart."""


class Prediction(NamedTuple):
    """For each member, in standardised numbers."""

    mean: Tensor  # [K, N, O + 1]: change of the observation, reward
    log_variance: Tensor | None  # the same shape; None of a Model without spread
    evidence: Tensor  # [K, N]: for going on, as a logarithm; to be added to the log odds of all rows


class LearnedDynamics(nn.Module):
    """Implements `core.contracts.Dynamics`. `particles` of a plan are shared evenly among the members; with `noise`
    each of them is moved by the predicted spread, by the same numbers for all candidates: a function of particle and
    step, so that the Model stays pure and candidates are compared under equal noise."""

    variant = "dynamics"

    def __init__(
        self,
        spaces: Spaces,
        *,
        members: int,
        spread: bool,
        hidden_sizes: Sequence[int],
        activation: str,
        particles: int,
        noise: bool,
        rng: Rng,
        judge: Dynamics | None = None,
    ) -> None:
        """`judge` is a model that knows rewards and ends where only the motion is to be learned."""
        super().__init__()
        if not isinstance(spaces.observation, Box) or len(spaces.observation.shape) != 1:
            raise Incompatible(
                f"learned dynamics predict a row of numbers; the env shows {describe(spaces.observation)}:"
                " flatten it (env.wrappers: [FlattenObservation]) or use ppo"
            )
        self.members, self.particles, self.judge = members, particles, judge
        self.size = spaces.observation.size
        self.actions: Bounds | Discrete = _actions(spaces)
        features = self.size + (self.actions.n if isinstance(self.actions, Discrete) else self.actions.size)
        targets = self.size + 1
        outputs = targets * (2 if spread else 1) + 1
        self.net = EnsembleMLP(members, features, hidden_sizes, outputs, activation, rng)
        self.inputs, self.targets, self.ends = Normalizer(self.size), Normalizer(targets), Normalizer(1)
        self.low_high: nn.Parameter | None = None
        if spread:  # where log variances are held, learned with the rest
            self.low_high = nn.Parameter(torch.tensor([[-10.0], [0.5]]).repeat(1, targets))
        self.noise = noise
        table = rng.fork("noise").generator().standard_normal((NOISE_STEPS, particles, targets), "float32")
        self.register_buffer("table", torch.from_numpy(table), persistent=False)

    table: Tensor

    # -- learning ---------------------------------------------------------------------------------------------------

    def forward(self, observations: Tensor, actions: Tensor) -> Prediction:
        """The predictions of all members for the same rows, [N, O] with the environment's own actions."""
        if not isinstance(self.actions, Discrete):
            actions = self.actions.unit(actions)
        return self._prediction(self.net(self._features(observations.float(), actions)))

    def changes(self, observations: Tensor, next_observations: Tensor, rewards: Tensor) -> Tensor:
        """The targets of the predictions, [N, O + 1]."""
        raw = torch.cat((next_observations.float() - observations.float(), rewards.unsqueeze(-1)), -1)
        return (raw - self.targets.mean) * self.targets.inverse_std

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Known only with a `judge`: learned rewards have no bounds, because a later one may be larger."""
        return None if self.judge is None else self.judge.reward_range

    @property
    def end_share(self) -> Tensor:
        """Share of the rows so far that ended an episode."""
        return self.ends.mean.clamp(RAREST, 0.5)

    @torch.no_grad()
    def learn_statistics(self, rows: Batch, group: Group = ALONE) -> None:
        """Fold new rows [N] of all ranks in, each once; a rank without any takes part too."""
        if group.size == 1 and not len(rows):
            return
        observations = rows.observations.float()
        changes = torch.cat((rows.next_observations.float() - observations, rows.rewards.unsqueeze(-1)), -1)
        self.inputs.update(observations, rows.weights, group)
        self.targets.update(changes, rows.weights, group)
        self.ends.update(rows.terminated.float().unsqueeze(-1), rows.weights, group)

    # -- planning ---------------------------------------------------------------------------------------------------

    def start(self, observations: Tensor, candidates: int) -> Tensor:
        """[P, E, K, O], or with noise [P, E, K, O + 1]: the last number counts the steps."""
        states = F.pad(observations, (0, 1)) if self.noise else observations
        return states[None, :, None].expand(self.particles, len(states), candidates, states.shape[-1])

    def step(self, states: Tensor, actions: Tensor) -> Outcome:
        lead = states.shape[:-1]
        observations = self.observe(states)
        features = self._features(observations, actions.expand(len(states), *actions.shape))
        rows = features.reshape(self.members, -1, features.shape[-1])  # a member's particles lie side by side
        prediction = self._prediction(self.net.each(rows), spread=self.noise)
        changes = prediction.mean.view(*lead, -1)
        if prediction.log_variance is not None:
            number = states[0, ..., -1].long() % NOISE_STEPS  # [E, K]: in a tree, nodes differ in depth
            noise = self.table[number].movedim(2, 0)  # [P, E, K, O + 1]
            changes = changes + torch.exp(0.5 * prediction.log_variance).view(*lead, -1) * noise
        changes = changes / self.targets.inverse_std + self.targets.mean
        following = observations + changes[..., :-1]
        if self.noise:
            following = torch.cat((following, states[..., -1:] + 1.0), -1)
        if self.judge is not None:
            rewards, continues = self._known_rewards(observations, actions)
            return Outcome(following, rewards, continues)
        share = self.end_share
        continues = torch.sigmoid(prediction.evidence + torch.log((1.0 - share) / share))
        continues = torch.where(continues > CERTAIN, 1.0, continues)
        return Outcome(following, changes[..., -1], continues.view(lead))

    def _known_rewards(self, observations: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards and continues from `judge`; each of our rows is one of its environments."""
        assert self.judge is not None
        lead = observations.shape[:-1]
        known = self.judge.start(observations.reshape(-1, self.size), 1)
        chosen = actions.expand(len(observations), *actions.shape).reshape(-1, 1, *actions.shape[2:])
        _, rewards, continues = self.judge.step(known, chosen)
        return rewards.view(lead), continues.view(lead)

    def observe(self, states: Tensor) -> Tensor:
        return states[..., : self.size]

    # -- both -------------------------------------------------------------------------------------------------------

    def _features(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Actions are choices from 0, or numbers in [-1, 1]."""
        if isinstance(self.actions, Discrete):
            actions = F.one_hot(actions.long(), self.actions.n)
        return torch.cat((self.inputs(observations), actions.to(observations.dtype)), -1)

    def _prediction(self, outputs: Tensor, spread: bool = True) -> Prediction:
        size = self.size + 1
        mean, evidence = outputs[..., :size], outputs[..., -1]
        if self.low_high is None or not spread:
            return Prediction(mean, None, evidence)
        return Prediction(mean, within(outputs[..., size:-1], *self.low_high), evidence)


def within(log_variance: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Softly held between two bounds that learn too (Chua et al. 2018, appendix A.1)."""
    log_variance = high - F.softplus(high - log_variance)
    return low + F.softplus(log_variance - low)


def _actions(spaces: Spaces) -> Bounds | Discrete:
    match spaces.action:
        case Discrete():
            return spaces.action
        case Box():
            return Bounds(spaces.action)
    raise Incompatible(f"learned dynamics take numbers or one choice; the env takes {describe(spaces.action)}")
