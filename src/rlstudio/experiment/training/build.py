"""From a config to the parts of one run: runtime and trainer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rlstudio.core.catalog import LANES
from rlstudio.core.contracts import Lane, Runtime, Trainer
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.culprit import refuse_changed_torch
from rlstudio.experiment.training.machine import pick_device, set_threads
from rlstudio.experiment.training.refusals import (
    check_actions,
    check_agents,
    check_dataset,
    check_memory,
    refuse_unequal,
)


@dataclass(frozen=True)
class Built:
    """Where the experience of a run comes from and the trainer over it, as they are before the first step."""

    runtime: Runtime
    trainer: Trainer

    def close(self) -> None:
        self.runtime.close()


def build(cfg: ExperimentConfig) -> Built:
    """Everything that can be refused is refused here, so before a run appears; a `Session` goes on with the result."""
    set_threads(cfg.runtime.threads)
    runtime = build_runtime(cfg)
    try:
        built = Built(runtime, build_trainer(cfg, runtime))
        check_dataset(cfg, runtime.spaces)
        return built
    except BaseException:
        runtime.close()
        raise


def build_runtime(cfg: ExperimentConfig) -> Runtime:
    """The training environments, in this process."""
    device, rails = pick_device(cfg.runtime.device), cfg.guardrails
    env = make_vec_env(cfg.env, step_timeout=cfg.rollout.step_timeout, max_restarts=cfg.rollout.max_restarts)
    try:
        check_agents(cfg, env)
        refuse_unequal(cfg.env.id, env)
        refuse_changed_torch(cfg.env.id)
    except (ConfigError, EnvFault, Incompatible):
        env.close()
        raise
    new_guard = partial(RowGuard, rails.reward_clip, rails.reward_range, rails.check_actions)
    return LocalRuntime(env, new_guard, cfg.buffer.capacity, device, cfg.env)


def build_trainer(cfg: ExperimentConfig, runtime: Runtime, attempt: int = 0) -> Trainer:
    """The algorithm over this runtime. A later attempt (after a roll-back) has other random numbers."""
    check_actions(cfg, runtime.spaces)
    check_memory(cfg, runtime.spaces)
    rng = Rng(cfg.env.seed)
    if attempt:
        rng = rng.fork(f"attempt-{attempt}")
    lane: Lane = LANES.load(cfg.runtime.lane)()
    algo, network = cfg.policy.algo, cfg.policy.network
    if reason := lane.refuses(algo, cfg.train, network, runtime):
        raise Incompatible(f"runtime.lane: {cfg.runtime.lane} cannot train this: {reason}; use eager")
    return lane.trainer(algo, cfg.train, runtime, network, rng)
