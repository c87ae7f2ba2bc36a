"""What learning a policy and a value from fresh rollouts shares: the stream, the scale of rewards, what observations
are normalized by."""

from __future__ import annotations

from rlstudio.agents.policy import PolicyAgent
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Metrics, Runtime, Stateful
from rlstudio.core.rng import Rng
from rlstudio.data.collect.reward_scale import RewardScale, is_wanted
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig


class OnPolicy(Trainer):
    off_policy = False

    def __init__(self, runtime: Runtime, network: NetworkConfig, rng: Rng, steps: int) -> None:
        """With rollouts of so many `steps` in each environment."""
        self.group = runtime.group
        self.model = build_policy_value(runtime.spaces, network, rng.fork("init"), runtime.device)
        self.agent = PolicyAgent(self.model, runtime.spaces)
        self.source = runtime.stream(self.agent, rng, steps)
        self.reward_scale: RewardScale | None = None
        if is_wanted(self.cfg.normalize_rewards, runtime.spaces.action):
            self.reward_scale = RewardScale(self.cfg.gamma, runtime.num_envs, runtime.device, self.group)

    def update(self, rollout: Batch) -> Metrics:
        """Acting and learning see the same normalizer: it changes after what it was used for."""
        metrics = self.learn(rollout if self.reward_scale is None else self.reward_scale(rollout))
        if self.model.encoder.normalizer is not None:
            flat = rollout.flatten()
            self.model.encoder.normalizer.update(self.model.encoder.raw(flat.observations), flat.weights, self.group)
        return metrics

    def learn(self, rollout: Batch) -> Metrics:
        """From rewards as they are scaled now."""
        raise NotImplementedError  # abstract

    def losses(self, batch: Batch) -> Metrics:
        return self.losses_of(batch if self.reward_scale is None else self.reward_scale.apply(batch))

    def losses_of(self, rollout: Batch) -> Metrics:
        """Of rewards as they are scaled now."""
        raise NotImplementedError  # abstract

    def stateful(self) -> dict[str, Stateful]:
        parts: dict[str, Stateful] = {"model": self.model, "optimizer": self.optimizer, "source": self.source}
        return parts if self.reward_scale is None else {**parts, "reward_scale": self.reward_scale}
