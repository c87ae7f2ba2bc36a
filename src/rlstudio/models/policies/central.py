"""Policy-value Model with a central critic: the value also sees the state of the whole world, the policy only what its
agent observes.  MAPPO: Yu et al. 2022, arXiv:2103.01955.

The state is the entry `state` of a Dict observation. Only learning needs it: the agent acts, is exported and served
without. One normalizer has the statistics of both, so that both are updated where that of any Model is.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import State
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.layers import Layers, Moments, Observations
from rlstudio.core.model.policies import PlanValue, Policy
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Space, Spaces, describe
from rlstudio.models.config import NetworkConfig
from rlstudio.models.networks.encoder import FlatEncoder, build_encoder
from rlstudio.models.networks.layout import layers_of
from rlstudio.models.networks.mlp import MLP
from rlstudio.models.networks.normalizer import CLIP, Normalizer
from rlstudio.models.plain import PlainNetwork, plain_network
from rlstudio.models.policies.head import PolicyHead
from rlstudio.models.policies.masking import Masking
from rlstudio.models.policies.policy_model import PolicyModel
from rlstudio.models.spec import model_fields

STATE = "state"


class CentralPolicyValue(PolicyModel):
    """forward(observations) -> (policy, values). Built again from what its agent is shown, it is told the `state_size`
    that its value was learned with."""

    variant = "central-policy-value"
    reads: tuple[str, ...] = ("observations",)

    def __init__(self, spaces: Spaces, network: NetworkConfig, rng: Rng, state_size: int | None = None) -> None:
        super().__init__()
        local, state = _split(spaces.observation, state_size)
        self.spaces = self.acting_spaces = Spaces(local, spaces.action, spaces.infos)
        self.network, self.state_size = network, state.size
        policy_encoder = build_encoder(local, network, rng.fork("encoder"))
        if not (isinstance(policy_encoder, FlatEncoder) and isinstance(policy_encoder.space, Dict)):
            raise Incompatible(
                "policy.network.critic: a central one needs observations without images; set it to local"
            )
        entries = (*policy_encoder.space.items(), (STATE, state))
        self.encoder = FlatEncoder(Dict(entries), bool(network.normalize_observations))
        self.local_encoder = _LocalEncoder(policy_encoder.space, self.encoder.normalizer)
        self.head = PolicyHead(spaces.action, network.log_std_init)
        hidden, activation = network.hidden_sizes, network.activation
        size = self.local_encoder.size
        self.policy_net = MLP(size, hidden, self.head.outputs, activation, rng.fork("policy"), gain=0.01)
        self.value_net = MLP(self.encoder.size, hidden, 1, activation, rng.fork("value"), gain=1.0)
        self._masking = Masking(self.acting_spaces)

    def forward(self, observations: Observations) -> tuple[Policy, Tensor]:
        whole = self.encoder(observations)
        return self._policy(whole[..., : self.local_encoder.size], observations), self.value_net(whole).squeeze(-1)

    def policy(self, observations: Observations) -> Policy:
        return self._policy(self.local_encoder(observations), observations)

    def _policy(self, local: Tensor, observations: Observations) -> Policy:
        return self.head(self._masking(self.policy_net(local), observations))  # type: ignore[no-any-return]

    def value(self, observations: Observations) -> Tensor:
        """Values only."""
        return self.value_net(self.encoder(observations)).squeeze(-1)  # type: ignore[no-any-return]

    def successor_values(self, rollout: Batch) -> Tensor:
        """V(next_observations), [T, B]: at the true successor of each row."""
        return self.value(rollout.next_observations)

    def spec(self) -> State:
        return model_fields(self.variant, self.network, settings={"state_size": self.state_size})

    def layers(self) -> Layers | None:
        return layers_of(self.local_encoder, self.policy_net)

    def outputs(self, observations: Observations, carry: object = None) -> tuple[Tensor, dict[str, Tensor]]:
        return self.policy_net(self.local_encoder(observations)), {}

    def plain(self) -> PlainNetwork:
        return plain_network(self.local_encoder, self.policy_net)

    def value_for_plan(self, learned: object) -> PlanValue | None:
        """None: a planner sees no state of the whole world."""
        return None


class _LocalEncoder(FlatEncoder):
    """What the policy sees. It learns nothing of its own: its statistics are the first ones of the whole encoder's."""

    def __init__(self, space: Space, whole: Normalizer | None) -> None:
        super().__init__(space, normalize=False)
        self.normalizer = None if whole is None else cast(Normalizer, _FirstMoments(whole, self.size))


class _FirstMoments:
    """The first part of a normalizer, as it is at that moment; no Module, so its buffers are nobody's twice."""

    def __init__(self, whole: Normalizer, size: int) -> None:
        self._whole, self._size = whole, size

    def moments(self) -> Moments:
        return Moments(self._whole.mean[: self._size], self._whole.inverse_std[: self._size], CLIP)

    def __call__(self, x: Tensor) -> Tensor:
        mean, inverse_std, clip = self.moments()
        return ((x - mean) * inverse_std).clamp(-clip, clip)


def _split(space: Space, state_size: int | None) -> tuple[Dict, Box]:
    """What an agent is shown, and the state of the whole world."""
    entries = dict(space.items()) if isinstance(space, Dict) else {}
    state = entries.pop(STATE, None)
    if state is not None:
        if not isinstance(state, Box):
            raise Incompatible(f"policy.network.critic: the entry {STATE!r} is {describe(state)}; it must be numbers")
        return Dict(tuple(entries.items())), state
    if state_size is None or not isinstance(space, Dict):
        raise Incompatible(
            f"policy.network.critic: a central one reads the entry {STATE!r} of observations, and these are"
            f" {describe(space)}; set env.state where the environment has one, or critic to local"
        )
    return space, Box((state_size,), "float32", (float("-inf"),), (float("inf"),))
