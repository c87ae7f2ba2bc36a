"""Plain Q: one-step Q-learning from replay, without a target network.  Watkins 1989.

    y = r + gamma max_a' q(s', a')        loss = E[(q(s, a) - y)^2]

Dims: N rows, A choices. The Model gives forbidden choices the lowest value, so a' is an allowed one.
"""

from functools import partial

from pydantic import Field, PositiveFloat, PositiveInt

from my_parts.model import ReluValues
from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.parts.config import TrainConfig
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.contracts import ReplayPlan
from rlstudio.data.collect.explore import EpsilonGreedy
from rlstudio.models.build import build_model
from rlstudio.ops.means import weighted_mean
from rlstudio.ops.optimizer import Optimizer


class PlainQConfig(TrainConfig):
    batch_size: PositiveInt = 32
    """Rows of one minibatch."""

    lr: PositiveFloat = 1e-2
    """Learning rate at the start."""

    width: PositiveInt = 16
    """Units of the Model."""

    learning_starts: PositiveInt = 64
    """Environment steps before the first update."""

    train_every: PositiveInt = 4
    """Environment steps between two updates."""

    epsilon: float = Field(0.2, ge=0, le=1)
    """Share of random actions."""


class PlainQ(Trainer):
    Config = PlainQConfig
    off_policy = True
    discrete = True

    def __init__(self, cfg, runtime, network, rng):
        self.cfg = cfg
        variant = partial(ReluValues, width=cfg.width)
        self.model = build_model(variant, runtime.spaces, network, rng.fork("init"), runtime.device)
        self.agent = QValueAgent(self.model, runtime.spaces)
        plan = ReplayPlan(cfg.batch_size, cfg.learning_starts, cfg.train_every, gamma=cfg.gamma)
        explore = EpsilonGreedy(runtime.spaces.action, cfg.epsilon, cfg.epsilon, until=1.0)
        self.source = runtime.replay(self.agent, rng, plan, explore)
        self.optimizer = Optimizer(self.model, cfg.lr, cfg.max_grad_norm, runtime.group)

    def update(self, batch):
        loss, metrics = plain_q_loss(*self.values(batch), batch)
        return metrics | {"grad_norm": self.optimizer.step(loss, weights=batch.weights)}

    def losses(self, batch):
        return plain_q_loss(*self.values(batch), batch)[1]

    def values(self, batch):
        """What the choices are worth before and after the step, [N, A] each."""
        return self.model(batch.observations), self.model(batch.next_observations)

    def stateful(self):
        return {"model": self.model, "optimizer": self.optimizer, "source": self.source}


def plain_q_loss(values_NA, next_values_NA, batch):
    q_N = values_NA.gather(1, batch.actions.unsqueeze(1)).squeeze(1)
    next_q_N = next_values_NA.detach().amax(1) * (~batch.terminated).float()
    errors_N = q_N - (batch.rewards + batch.discounts * next_q_N)
    loss = weighted_mean(errors_N.square(), batch.weights)
    return loss, {"loss": loss.detach(), "q": q_N.detach().mean()}
