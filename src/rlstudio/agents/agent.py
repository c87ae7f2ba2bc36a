"""What every agent offers besides `step`: acting on one observation or many, as a user or a service does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, overload

import numpy as np
import torch
from numpy.typing import ArrayLike

from rlstudio.core.action_mask import FORBIDDEN, ActionMask
from rlstudio.core.batch import Batch, Column
from rlstudio.core.contracts import Acted, Array, Carried, Model, NoiseBlock
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.model.layers import RuleKind
from rlstudio.core.model.policies import Policy
from rlstudio.core.spaces import Dict, Spaces
from rlstudio.data.collect.carry import without_rows
from rlstudio.models.policies.distributions import log_prob


class Agent:
    """Owns Models, chooses actions, knows no algorithm. Actions are choices from 0 or numbers inside the bounds."""

    rule: RuleKind  # how outputs of a Model become actions here
    acting: str
    remembers = False
    model: Any  # a Model; of an agent that plans, all that it learned

    def __init__(self, model: Model, spaces: Spaces) -> None:
        rule = model.action_rule().kind
        if rule != self.rule:
            raise Incompatible(
                f"{type(self).__name__} acts by {self.rule}; the outputs of a {model.variant} Model are for {rule}"
            )
        self.model = model
        # A Model that learns from more than it acts by says what is enough.
        self.spaces: Spaces = getattr(model, "acting_spaces", spaces)
        self._mask = ActionMask.of(self.spaces)

    def noise(self, generator: np.random.Generator, steps: int, num_envs: int) -> NoiseBlock:
        """Agents without randomness of their own draw nothing."""
        return np.empty((steps, num_envs, 0), np.float32)

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        raise NotImplementedError  # abstract: each agent acts its own way

    def deciding(self, observations: Array, carry: Carried | None = None) -> np.ndarray:
        """What decides without noise, [N, O]: logits, values or means, forbidden choices left out."""
        raise NotImplementedError  # abstract

    @overload
    def act(self, observations: Batch) -> Batch: ...

    @overload
    def act(self, observations: ArrayLike | Mapping[str, ArrayLike]) -> np.ndarray: ...

    def act(self, observations: Batch | ArrayLike | Mapping[str, ArrayLike]) -> Batch | np.ndarray:
        """The greedy action for one observation or many, in the environment's own numbering; of a `Batch`, the Batch
        with actions and log-probabilities (`with_actions`)."""
        if isinstance(observations, Batch):
            return self.with_actions(observations)
        if self.remembers:
            raise UserError(
                "this agent remembers, and `agent.act` would forget after each step; "
                "call `episode = agent.episode()` at the start of an episode and `episode.act(observation)` in it"
            )
        return self.episode().act(observations)

    def episode(self) -> Episode:
        """A new episode, to act in step by step; for a vector of environments, an episode in each."""
        return Episode(self)

    def permitted(self, outputs: np.ndarray, observations: Array) -> np.ndarray:
        """Logits or values [N, choices] without those that the observation's action mask forbids."""
        if self._mask is None:
            return outputs
        return np.where(self._mask.allowed(observations), outputs, FORBIDDEN)

    @torch.no_grad()
    def with_actions(self, batch: Batch) -> Batch:
        """The batch with greedy actions added, and where the Model gives a policy with their log-probabilities; of an
        agent that remembers, each from the carry stored with its row.

        For code of users: the architecture draft promises it (decision 0018), and RLStudio itself never calls it.
        """
        carry = {name: rows.numpy(force=True) for name, rows in batch.carry.items()} if self.remembers else None
        acted = self.step(_arrays(batch.observations), carry)
        batch = batch.with_(actions=torch.from_numpy(acted.actions.copy()))
        model = getattr(self, "model", None)  # a graph has none
        if not isinstance(model, Model):
            return batch
        rows = batch.to(next(model.parameters()).device)
        given = model(**rows.only(model.reads))  # a policy, perhaps beside values, or no policy
        policy = given[0] if isinstance(given, tuple) and not isinstance(given, Policy) else given
        if not isinstance(policy, Policy):
            return batch
        return batch.with_(log_probs=log_prob(policy, rows.actions).to(batch.device))


class ValuingAgent(Agent):
    """An agent whose Model may also say what states are worth. For code of users, like `with_actions`."""

    @torch.no_grad()
    def with_values(self, batch: Batch) -> Batch:
        """The batch with the Model's value estimates added."""
        return batch.with_(values=self.model.value(**batch.only(self.model.reads)))

    def value(self, batch: Batch) -> Batch:
        """`with_values` by the name that the architecture draft has for it."""
        return self.with_values(batch)


class Episode:
    """An agent in the midst of an episode: keeps what the agent remembers from one `act` to the next."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.carry: Carried | None = None

    def act(self, observations: ArrayLike | Mapping[str, ArrayLike]) -> np.ndarray:
        """The greedy action for one observation or a batch of them, in the environment's own numbering."""
        space = self.agent.spaces.observation
        if isinstance(space, Dict):
            entries = cast("Mapping[str, ArrayLike]", observations)
            arrays = {name: np.asarray(entries[name]) for name, _ in space.items()}
            name, entry = space.items()[0]
            single = arrays[name].ndim == len(entry.shape)
            rows: Array = {k: v[None] for k, v in arrays.items()} if single else arrays
        else:
            array = np.asarray(cast("ArrayLike", observations))
            single = array.ndim == len(space.shape)
            rows = array[None] if single else array
        acted = self.agent.step(rows, self.carry)
        self.carry = acted.carry
        start = getattr(self.agent.spaces.action, "start", 0)
        actions: np.ndarray = acted.actions + np.asarray(start) if start else acted.actions
        return actions[0] if single else actions

    def restart(self, envs: ArrayLike | None = None) -> None:
        """Start afresh: everywhere, or in the environments given by their numbers or as a mask (`terminated`)."""
        self.carry = None if envs is None else without_rows(self.carry, np.asarray(envs))


def _arrays(column: Column) -> Array:
    if isinstance(column, dict):
        return {name: rows.numpy(force=True) for name, rows in column.items()}
    return column.numpy(force=True)
