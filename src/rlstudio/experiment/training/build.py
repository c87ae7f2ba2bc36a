"""From a config to the parts of one run: environments, runtime, trainer."""

from __future__ import annotations

from dataclasses import dataclass

from rlstudio.algos.parts.trainer import Trainer
from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import VecEnv
from rlstudio.core.errors import EnvFault
from rlstudio.core.rng import Rng
from rlstudio.data.collect.guard import RowGuard
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.culprit import refuse_changed_torch
from rlstudio.experiment.training.machine import pick_device, set_threads
from rlstudio.experiment.training.refusals import check_actions, check_memory


@dataclass(frozen=True)
class Built:
    """The environments of a run and the trainer over them, as they are before the first step."""

    env: VecEnv
    trainer: Trainer

    def close(self) -> None:
        self.env.close()


def build(cfg: ExperimentConfig) -> Built:
    """Everything that can be refused is refused here, so before a run appears; a `Session` goes on with the result."""
    set_threads(cfg.runtime.threads)
    env = build_env(cfg)
    try:
        return Built(env, build_trainer(cfg, env, pick_device(cfg.runtime.device)))
    except BaseException:
        env.close()
        raise


def build_env(cfg: ExperimentConfig) -> VecEnv:
    """The training environments."""
    rollout = cfg.rollout
    env = make_vec_env(cfg.env, step_timeout=rollout.step_timeout, max_restarts=rollout.max_restarts)
    try:
        refuse_changed_torch(cfg.env.id)
    except EnvFault:
        env.close()
        raise
    return env


def build_trainer(cfg: ExperimentConfig, env: VecEnv, device: str = "cpu", attempt: int = 0) -> Trainer:
    """The algorithm over these environments. A later attempt (after a roll-back) has other random numbers."""
    check_actions(cfg, env)
    check_memory(cfg, env)
    rails = cfg.guardrails
    guard = RowGuard(rails.reward_clip, rails.reward_range, rails.check_actions)
    runtime = LocalRuntime(env, guard, cfg.buffer.capacity, device, cfg.env)
    rng = Rng(cfg.env.seed)
    if attempt:
        rng = rng.fork(f"attempt-{attempt}")
    trainer: Trainer = ALGOS.load(cfg.policy.algo)(cfg.train, runtime, cfg.policy.network, rng)
    return trainer
