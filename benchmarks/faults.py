"""Faults that the guardrails have to notice: how each is put into a run, and what a healthy run of it looks like.

A fault of the environments changes what `VecEnv.step` gives; one of the updates changes the loss, the gradient or the
weights; one of the configuration is a setting. Those of the environments stay until they are repaired; those of the
memory happen once. All begin after so many updates as `BEGIN` says, which differ by seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlstudio.core.batch import Batch
from rlstudio.core.contracts import Step
from rlstudio.data.collect.collector import Collector
from rlstudio.experiment.run.session import Session

BEGIN = (28, 34)
NEVER = 10**9

PPO = {
    "policy": {"algo": "ppo", "network": {"hidden_sizes": [32]}},
    "train": {"epochs": 52, "steps_per_epoch": 512, "rollout_steps": 64, "batch_size": 128, "passes": 4, "lr": 0.005},
}
DQN = {
    "policy": {"algo": "dqn", "network": {"hidden_sizes": [32]}},
    "train": {"epochs": 24, "steps_per_epoch": 256, "batch_size": 32, "learning_starts": 512, "train_every": 8,
              "gradient_steps": 4, "n_step": 1},
    "buffer": {"capacity": 20_000},
}  # fmt: skip
CARTPOLE = {"id": "CartPole-v1", "num_envs": 8}
PENDULUM = {"id": "Pendulum-v1", "num_envs": 8}


@dataclass
class Injection:
    """One fault in one session. `at`: the update it begins with; `env`: the environment it hits."""

    session: Session
    at: int
    env: int
    rng: random.Random
    steps: int = 0  # calls of what is changed, since the process began: a roll-back repairs nothing
    updates: int = 0  # train steps, likewise
    began: int | None = None  # the train step in which the fault was there for the first time
    memory: dict[str, Any] = field(default_factory=dict)

    def is_on(self) -> bool:
        if self.steps < self.at:
            return False
        if self.began is None:
            self.began = self.updates
        return True


Change = Callable[[Injection, Step], Step]


def in_environment(change: Change, injection: Injection, steps_per_update: int) -> None:
    """`change` what every step gives, once the environments were stepped that often."""
    env, injection.at = injection.session.runtime.env, injection.at * steps_per_update  # type: ignore[attr-defined]
    step = env.step

    def changed(actions: np.ndarray) -> Step:
        given: Step = step(actions)
        injection.steps += 1
        return change(injection, given) if injection.is_on() else given

    env.step = changed


def in_rollout(change: Callable[[Injection, Batch], None], injection: Injection) -> None:
    collect = Collector.collect

    def changed(self: Collector, steps: int) -> Batch:
        rollout = collect(self, steps)
        injection.steps += 1
        if injection.is_on():
            change(injection, rollout)
        return rollout

    Collector.collect = changed  # type: ignore[method-assign]


def before_update(change: Callable[[Injection], None], injection: Injection) -> None:
    """`change` something of the first attempt's trainer before its update of that number, and before each later one."""
    trainer = injection.session.trainer
    train_step = trainer.train_step

    def changed() -> Any:
        injection.steps += 1
        if injection.is_on():
            change(injection)
        return train_step()

    trainer.train_step = changed  # type: ignore[method-assign]


# -- of the environments ----------------------------------------------------------------------------------------------


def larger_rewards(injection: Injection, step: Step) -> Step:
    return step._replace(rewards=step.rewards * np.float32(1e6))


def not_a_number(injection: Injection, step: Step) -> Step:
    observations, successors = np.array(step.observations), np.array(step.successors)
    observations[injection.env] = successors[injection.env] = np.nan
    return step._replace(observations=observations, successors=successors)


def frozen(injection: Injection, step: Step) -> Step:
    env, memory = injection.env, injection.memory
    observations, successors = np.array(step.observations), np.array(step.successors)
    picture = memory.setdefault("picture", observations[env].copy())
    observations[env] = successors[env] = picture
    rewards, terminated, truncated = (np.array(part) for part in (step.rewards, step.terminated, step.truncated))
    rewards[env] = memory.setdefault("reward", rewards[env])
    terminated[env] = truncated[env] = False
    return Step(observations, successors, rewards, terminated, truncated, step.infos)


def stuck_rewards(injection: Injection, step: Step) -> Step:
    rewards = np.array(step.rewards)
    rewards[injection.env] = injection.memory.setdefault("reward", rewards[injection.env])
    return step._replace(rewards=rewards)


def poisoned(injection: Injection, step: Step) -> Step:
    rewards = np.array(step.rewards)
    rewards[[injection.rng.random() < 0.005 for _ in rewards]] *= 100
    return step._replace(rewards=rewards)


def shifted(injection: Injection, step: Step) -> Step:
    """Successors are those of the step before."""
    before = injection.memory.get("successors", step.successors)
    injection.memory["successors"] = np.array(step.successors)
    return step._replace(successors=before)


def duplicated(injection: Injection, rollout: Batch) -> None:
    """Some rows are given twice, in place of those after them."""
    for time in range(0, len(rollout) - 1, 16):
        for name in ("observations", "actions", "rewards", "next_observations"):
            column = getattr(rollout, name)
            column[time + 1, injection.env] = column[time, injection.env]


# -- of the updates ---------------------------------------------------------------------------------------------------


def nan_loss(injection: Injection) -> None:
    """The gradient of one update is no number."""
    _once(injection, lambda gradient: gradient * torch.nan)


def flipped_gradient(injection: Injection) -> None:
    _once(injection, lambda gradient: _flip(gradient.clone(), injection))


def flipped_weight(injection: Injection) -> None:
    if not injection.memory.setdefault("done", False):
        injection.memory["done"] = True
        _flip(injection.session.trainer.optimizer.flat.data, injection)  # type: ignore[attr-defined]


def certain_policy(injection: Injection) -> None:
    """The weights of the policy's head become a thousand times as large."""
    if not injection.memory.setdefault("done", False):
        injection.memory["done"] = True
        with torch.no_grad():
            _head(injection.session, "policy").mul_(1e3)


def dead_value(injection: Injection) -> None:
    with torch.no_grad():
        _head(injection.session, "value").zero_()


def fast_for_once(injection: Injection) -> None:
    """The learning rate is a thousand times as large for one update."""
    if not injection.memory.setdefault("done", False):
        injection.memory["done"] = True
        injection.session.trainer.optimizer.lr.mul_(1e3)  # type: ignore[attr-defined]


def _once(injection: Injection, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    if injection.memory.setdefault("done", False):
        return
    injection.memory["done"] = True
    parameter = max(injection.session.trainer.model.parameters(), key=torch.Tensor.numel)  # type: ignore[attr-defined]

    def hook(gradient: torch.Tensor) -> torch.Tensor:
        handle.remove()
        return change(gradient)

    handle = parameter.register_hook(hook)


def _flip(values: torch.Tensor, injection: Injection) -> torch.Tensor:
    """The highest exponent bit of one of the larger numbers below 1, which becomes huge."""
    flat = values.view(-1)
    sizes = torch.where(flat.abs() < 1, flat.abs(), 0.0)
    index = int(sizes.topk(8).indices[injection.rng.randrange(8)])
    bits = flat[index : index + 1].numpy(force=True).copy().view(np.uint32) ^ np.uint32(1 << 30)
    flat[index] = float(bits.view(np.float32)[0])
    return values


def _head(session: Session, name: str) -> torch.Tensor:
    """The last matrix of this part of the model."""
    named = [(key, value) for key, value in session.trainer.model.named_parameters() if value.ndim == 2]  # type: ignore[attr-defined]
    return [value for key, value in named if name in key][-1]


@dataclass(frozen=True)
class Fault:
    """`settings` belong to the fault itself; `put` places it in a session."""

    name: str
    experiment: Mapping[str, Any]
    env: Mapping[str, Any]
    put: Callable[[Injection], None] | None = None
    settings: tuple[str, ...] = ()
    in_environment: bool = False
    everywhere: bool = False  # not in one environment alone


def _env(change: Change, steps_per_update: int) -> Callable[[Injection], None]:
    return lambda injection: in_environment(change, injection, steps_per_update)


def _update(change: Callable[[Injection], None]) -> Callable[[Injection], None]:
    return lambda injection: before_update(change, injection)


def _of(name: str, put: Callable[[Injection], None], env: Mapping[str, Any] = CARTPOLE, **more: Any) -> Fault:
    return Fault(name, PPO, env, put, **more)


def _world(name: str, change: Change, everywhere: bool = False) -> tuple[Fault, Fault]:
    """In fresh rollouts, of 64 steps an update, and in replay."""
    ppo = Fault(name, PPO, CARTPOLE, _env(change, 64), in_environment=True, everywhere=everywhere)
    return ppo, Fault(name, DQN, CARTPOLE, _env(change, 10), in_environment=True, everywhere=everywhere)


FAULTS: dict[str, tuple[Fault, ...]] = {
    "learning rate far too high": (
        Fault("lr", PPO, CARTPOLE, settings=("train.lr=0.3",)),
        Fault("lr", DQN, CARTPOLE, settings=("train.lr=0.5",)),
    ),
    "learning rate x 1000 for one update": (_of("lr once", _update(fast_for_once)),),
    "Q without a target network, fast": (Fault("q", DQN, CARTPOLE, settings=("train.lr=0.1", "train.target_every=1")),),
    "rewards x 1e6": _world("reward scale", larger_rewards, everywhere=True),
    "rewards x 100 in 0.5 % of rows": _world("poisoned", poisoned, everywhere=True),
    "NaN in one environment": _world("nan env", not_a_number),
    "one environment frozen": _world("frozen", frozen),
    "reward stuck in one environment": (Fault("stuck", PPO, PENDULUM, _env(stuck_rewards, 64), in_environment=True),),
    "successors shifted": _world("shifted", shifted, everywhere=True),
    "rows duplicated": (_of("duplicated", lambda injection: in_rollout(duplicated, injection), in_environment=True),),
    "NaN gradient": (_of("nan loss", _update(nan_loss)), Fault("nan loss", DQN, CARTPOLE, _update(nan_loss))),
    "bit of a gradient": (
        _of("gradient", _update(flipped_gradient)),
        Fault("gradient", DQN, CARTPOLE, _update(flipped_gradient)),
    ),
    "bit of a weight": (
        _of("weight", _update(flipped_weight)),
        Fault("weight", DQN, CARTPOLE, _update(flipped_weight)),
    ),
    "policy certain at once": (_of("entropy", _update(certain_policy)),),
    "dead value": (_of("dead value", _update(dead_value)),),
}
