"""Everything that planning by experience learns, as one Model: policy, value and (where it is learned) the dynamics.

The policy speaks the units of a plan: choices, or numbers in [-1, 1].
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Group
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue, Policy
from rlstudio.core.model.protocol import Weights
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Spaces
from rlstudio.models.config import NetworkConfig, PartNetworkConfig, ValueConfig
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.models.planning.value import LearnedValue
from rlstudio.models.policies.bounds import Bounds
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.ops.group import ALONE

SAME, SAME_VALUE = PartNetworkConfig(), ValueConfig()


class PlanningModel(nn.Module):
    variant = "planning"

    def __init__(
        self,
        spaces: Spaces,
        network: NetworkConfig,
        rng: Rng,
        dynamics: LearnedDynamics | None,
        gamma: float,
        *,
        policy: PartNetworkConfig = SAME,
        value: ValueConfig = SAME_VALUE,
    ) -> None:
        """`policy` and `value` say where their networks differ from `network`."""
        super().__init__()
        if network.normalize_observations:
            raise Incompatible(
                "policy.network.normalize_observations: what plans keeps statistics of its own; set it to false"
            )
        standardised = policy.over(network).model_copy(update={"normalize_observations": True})
        self.behaviour = PolicyOnly(spaces, standardised, rng)
        size, own = self.behaviour.encoder.size, value.over(network)
        self.value = LearnedValue(size, own, rng.fork("value"), gamma, value.memory)
        assert self.behaviour.encoder.normalizer is not None
        self.value.normalizer = self.behaviour.encoder.normalizer  # of the same rows
        self.dynamics = dynamics
        self.bounds = Bounds(spaces.action) if isinstance(spaces.action, Box) else None

    def policy(self, observations: Tensor) -> Policy:
        return self.behaviour.policy(observations)

    def value_for_plan(self, learned: Mapping[str, Weights]) -> PlanValue:
        return self.value

    def policy_for_plan(self) -> PlanPolicy:
        return self.policy

    def unit(self, actions: Tensor) -> Tensor:
        """The environment's actions in the units of a plan."""
        return actions if self.bounds is None else self.bounds.unit(actions)

    def learn_statistics(self, rows: Batch, group: Group = ALONE) -> None:
        """Fold new experience of all ranks in, each row once."""
        self.value.learn_statistics(rows, group)
        if self.dynamics is not None:
            self.dynamics.learn_statistics(rows, group)
