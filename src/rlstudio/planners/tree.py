"""MCTS with Gumbel noise, batched over environments: Danihelka et al. 2022, Policy improvement by planning with Gumbel.

    q(a)   = r + gamma c V(child)               V(node) = (v + sum_a n_a q(a)) / (1 + sum_a n_a)
    pi'    = softmax(logits + sigma(q))          sigma(q) = (50 + max_a n_a) 0.1 q, q scaled to [0, 1] within its node
    root:  the m best of logits + Gumbel noise are tried alike, then the better half of them, and so on
    below: argmax_a pi'(a) - n_a / (1 + sum_b n_b)

v is the value that a node is created with (0 without a value), and a choice not tried yet is worth what `_completed`
says. Each simulation adds one node and costs one model step for all environments; a world is taken to be deterministic,
of an uncertain model the particles are averaged. A step whose numbers are not finite is never taken again.

Dims: E environments, N = simulations + 1 nodes, A choices, P particles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import torch
from torch import Tensor

from rlstudio.core.contracts import Planned, Score
from rlstudio.core.model.policies import Categorical, PlanPolicy
from rlstudio.planners.noise import Noise

VISITS_BASE, VALUE_SCALE = 50.0, 0.1
ROOT_CHOICES = 16
"""Choices of a root that are tried at most."""

NOT_NOW = 1e5
"""Taken off the rank of a choice whose turn it is not: more than any rank, and little enough to leave their order."""


@dataclass(frozen=True)
class TreeSearch:
    """Implements `core.contracts.Planner`; every plan is a new tree, so nothing is carried."""

    choices: int
    simulations: int
    policy: PlanPolicy | None = None  # None: all choices alike

    @property
    def noise(self) -> Noise:
        """For the choices of each root."""
        return Noise("gumbel", (self.choices,))

    @torch.no_grad()
    def plan(self, observations: Tensor, score: Score, carry: dict[str, Tensor] | None, noise: Tensor) -> Planned:
        """observations [E, O], and noise as `noise` draws it."""
        tree = _Tree(self, score, score.dynamics.start(observations, 1))
        for number, tries in enumerate(turns(min(self.choices, ROOT_CHOICES), self.simulations)):
            tree.simulate(number + 1, noise, tries)
        improved, visits = (of_nodes[:, 0] for of_nodes in tree.improved(1))
        actions = best_of_turn(improved + noise, visits, visits.amax(-1, keepdim=True))
        policy = improved.softmax(-1).nan_to_num(1.0 / self.choices)
        return Planned(actions, {}, {"score": tree.values[:, 0], "improved_policy": policy})


def turns(choices: int, simulations: int) -> list[int]:
    """Sequential halving: for each simulation, how often the choice to try has been tried before."""
    rounds = max(1, ceil(log2(choices)))
    left, tried = choices, 0
    order: list[int] = []
    while len(order) < simulations:
        for _ in range(max(1, simulations // (rounds * left))):
            order += [tried] * left
            tried += 1
        left = max(2, left // 2) if choices > 1 else 1
    return order[:simulations]


def best_of_turn(ranks: Tensor, visits: Tensor, wanted: Tensor | int) -> Tensor:
    """The best choice [E] among those with `wanted` visits, or of all where none has so many."""
    return (ranks - NOT_NOW * (visits != wanted)).argmax(-1)


class _Tree:
    """What is known of each node, and of the step that leads to it. A node's number is that of its simulation; 0 is the
    root."""

    def __init__(self, search: TreeSearch, score: Score, states: Tensor) -> None:
        particles, envs, _, size = states.shape
        nodes = search.simulations + 1
        self._search, self._score = search, score
        self._rows = torch.arange(envs, device=states.device)
        self.states = states.new_zeros(particles, envs, nodes, size)
        self.worths, self.values, self.counts, self.rewards, self.discounts = states.new_zeros(5, envs, nodes)
        # For each node the way to it from each node above, itself included: whether there is one, the discounted
        # rewards along it, and the discount at its end.
        self.above, self.earned, self.fading = states.new_zeros(3, envs, nodes, nodes)
        self.logits = states.new_zeros(envs, nodes, search.choices)
        self.children = torch.zeros_like(self.logits, dtype=torch.int64)  # 0: not there, for the root is no child
        self._place(0, states)
        self.worths[:, 0] = self.worths[:, 0].nan_to_num(0.0, 0.0, 0.0)
        self.values[:, 0] = self.worths[:, 0]
        self.counts[:, 0] = self.above[:, 0, 0] = self.fading[:, 0, 0] = 1.0

    def simulate(self, node: int, noise: Tensor, tries: int) -> None:
        """Go down to a choice that has no node yet, make it, and tell all nodes above."""
        rows = self._rows
        chosen = self._chosen(node, noise, tries)
        parents = self._leaves(chosen)
        choices = chosen[rows, parents]
        before = self.states[:, rows, parents].unsqueeze(2)  # [P, E, 1, S]
        states, rewards, continues = self._score.step(before, choices.unsqueeze(1))
        self._place(node, states)
        reward, goes_on, worth = rewards.mean((0, 2)), continues.mean((0, 2)), self.worths[:, node]
        sound = torch.isfinite(reward + goes_on + worth + states.sum((0, 2, 3)))
        known = torch.where(sound, torch.stack((reward, goes_on * self._score.gamma, worth)), 0.0)
        self.rewards[:, node], self.discounts[:, node], self.worths[:, node] = known
        self.children[rows, parents, choices] = torch.where(sound, node, 0)
        self.logits[rows, parents, choices] += torch.where(sound, 0.0, -torch.inf)
        self._back_up(node, parents, sound)

    def _place(self, node: int, states: Tensor) -> None:
        """What a node is worth and what the policy would do there, seen for the first time."""
        self.states[:, :, node] = states.squeeze(2)
        worth = self._score.worth(states)
        if worth is not None:
            self.worths[:, node] = worth.mean((0, 2))
        if self._search.policy is not None:
            policy = self._search.policy(self._score.dynamics.observe(states)[0, :, 0])
            assert isinstance(policy, Categorical)
            # What a policy forbids stays forbidden.
            self.logits[:, node] = policy.logits.log_softmax(-1).nan_to_num(0.0, neginf=-torch.inf)

    def _chosen(self, nodes: int, noise: Tensor, tries: int) -> Tensor:
        """The next choice of every node [E, nodes], were it asked."""
        improved, visits = self.improved(nodes)
        share = visits / (1.0 + visits.sum(-1, keepdim=True))
        chosen = torch.where(torch.isneginf(improved), -torch.inf, improved.softmax(-1) - share).argmax(-1)
        chosen[:, 0] = best_of_turn(improved[:, 0] + noise, visits[:, 0], tries)
        return chosen

    def _leaves(self, chosen: Tensor) -> Tensor:
        """Where each descent from the root ends [E]. A node points to its chosen child, or to itself where there is
        none; following pointers of pointers, a descent of any depth takes log2(nodes) hops."""
        nodes = chosen.shape[1]
        child = self.children[:, :nodes].gather(2, chosen.unsqueeze(2)).squeeze(2)
        pointers = torch.where(child > 0, child, torch.arange(nodes, device=chosen.device))
        for _ in range(nodes.bit_length()):
            pointers = pointers.gather(1, pointers)
        return pointers[:, 0]

    def _back_up(self, node: int, parents: Tensor, sound: Tensor) -> None:
        """Count the visit and average its estimates, in all nodes from the new one up to the root at once."""
        rows = self._rows
        fading = self.fading[rows, parents]
        self.above[:, node] = self.above[rows, parents]
        self.earned[:, node] = self.earned[rows, parents] + fading * self.rewards[:, node : node + 1]
        self.fading[:, node] = fading * self.discounts[:, node : node + 1]
        self.above[:, node, node] = self.fading[:, node, node] = 1.0
        estimates = self.earned[:, node] + self.fading[:, node] * self.worths[:, node : node + 1]
        visits = self.above[:, node] * sound.unsqueeze(1)
        self.counts += visits
        self.values += visits * (estimates - self.values) / self.counts.clamp(min=1.0)

    def improved(self, nodes: int) -> tuple[Tensor, Tensor]:
        """Logits of the policy improved by the estimates, and how often each choice was visited: [E, nodes, A]."""
        logits, children = self.logits[:, :nodes], self.children[:, :nodes]
        there = children.flatten(1)
        visits = torch.where(children > 0, self.counts.gather(1, there).view_as(logits), 0.0)
        q = (self.rewards + self.discounts * self.values).gather(1, there).view_as(logits)
        q = _completed(q, visits, logits, self.worths[:, :nodes])
        low, high = q.aminmax(dim=-1, keepdim=True)
        scaled = (q - low) / (high - low).clamp(min=1e-8)
        return logits + (VISITS_BASE + visits.amax(-1, keepdim=True)) * VALUE_SCALE * scaled, visits


def _completed(q: Tensor, visits: Tensor, logits: Tensor, worths: Tensor) -> Tensor:
    """A choice not tried yet is worth what its node is: v, and the tried ones by how likely the policy takes them."""
    tried = visits > 0
    likely = torch.where(tried, logits.softmax(-1).nan_to_num(0.0), 0.0)
    average = (likely * q).sum(-1) / likely.sum(-1).clamp(min=1e-8)
    count = visits.sum(-1)
    mixed = (worths + count * average) / (1.0 + count)
    return torch.where(tried, q, mixed.unsqueeze(-1))
