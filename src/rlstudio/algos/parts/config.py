"""What the `train:` sections of the algorithms are made of. Each algorithm extends what it uses with its own fields:
`RunLength` alone where nothing is learned, `TrainConfig` where minibatches are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from rlstudio.core.config import Config, refuse
from rlstudio.core.contracts import ReplayPlan
from rlstudio.core.errors import ConfigError

SectionDefaults = Mapping[str, Mapping[str, object]]
"""By section and field."""


class RunLength(Config):
    """Settings that every algorithm has."""

    hashed_if_set: ClassVar[tuple[str, ...]] = ("total_steps",)
    section_defaults: ClassVar[SectionDefaults] = {}
    """The algorithm's own defaults for other sections of an experiment (`env`, `policy`, `buffer`, ...); a file that
    sets such a field overrules them, field by field."""

    acting_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that `Trainer.build_agent` reads: what a bundle holds, beside the weights, of an agent that plans."""

    epochs: PositiveInt = Field(50, le=10**9)
    """Epochs of the run; each reports its metrics once."""

    steps_per_epoch: PositiveInt = Field(4096, le=10**9)
    """Environment steps per epoch, all environments together; rounded up to whole rollouts."""

    total_steps: PositiveInt | None = Field(None, le=10**15)
    """Environment steps of the whole run, instead of `epochs`; rounded up to whole epochs, and stored as `epochs`."""

    gamma: float = Field(0.99, ge=0.0, le=1.0)
    """Discount factor."""

    off_policy: bool | None = None
    """States whether the algorithm is off-policy; refused if that is wrong. It changes nothing."""

    @property
    def planned_steps(self) -> int:
        """Environment steps of the whole run."""
        return self.total_steps or self.epochs * self.steps_per_epoch

    @model_validator(mode="after")
    def _one_length(self) -> RunLength:
        if self.total_steps is not None and "epochs" in self.model_fields_set:
            refuse(("total_steps",), "epochs is given too; leave one of them out")
        return self


class Learning(Config):
    """Settings of learning by gradients."""

    lr: PositiveFloat = Field(3e-4, le=10.0)
    """Learning rate at the start."""

    lr_schedule: Literal["constant", "linear"] = "constant"
    """`linear` goes from `lr` to zero over the run."""

    max_grad_norm: PositiveFloat | None = 0.5
    """Gradients are scaled down to this norm; null switches it off."""


class TrainConfig(Learning, RunLength):
    """Settings of learning from minibatches."""

    batch_size: PositiveInt = Field(256, le=10**7)
    """Rows of one minibatch."""


class OffPolicyConfig(TrainConfig):
    """Settings of learning from replay."""

    learning_starts: PositiveInt = 1000
    """Environment steps before the first update."""

    train_every: PositiveInt = 1
    """Environment steps between two rounds of updates."""

    gradient_steps: PositiveInt = 1
    """Updates per round."""

    tau: float = Field(0.005, gt=0, le=1)
    """How far a refresh moves the target towards the network; 1 copies it."""

    n_step: PositiveInt = Field(1, le=100)
    """Rewards summed before the bootstrap."""

    @property
    def replay_plan(self) -> ReplayPlan:
        return ReplayPlan(
            batch_size=self.batch_size,
            warmup=self.learning_starts,
            every=self.train_every,
            updates=self.gradient_steps,
            horizon=self.n_step,
            gamma=self.gamma,
        )

    @model_validator(mode="after")
    def _learns_at_all(self) -> OffPolicyConfig:
        if self.learning_starts >= self.planned_steps:
            end = f"the end, step {self.planned_steps}"
            refuse(("learning_starts",), f"{self.learning_starts} is not before {end}; lower it")
        return self


def refuse_early_start(cfg: OffPolicyConfig, run_envs: int) -> None:
    """For an algorithm whose random start counts in `learning_starts`: it cannot end before there is a first batch."""
    if (needed := cfg.replay_plan.first_sample(run_envs)) > cfg.learning_starts:
        raise ConfigError(
            f"train.learning_starts: {cfg.learning_starts} is less than train_every {cfg.train_every} or n_step"
            f" {cfg.n_step} in each environment; raise it to {needed}"
        )
