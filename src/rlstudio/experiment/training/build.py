"""From a config to the parts of one run: runtime and trainer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rlstudio.core.catalog import LANES
from rlstudio.core.contracts import Group, Lane, Runtime, Trainer, VecEnv
from rlstudio.core.errors import ConfigError, EnvFault, Incompatible
from rlstudio.core.host.trace import TRACE
from rlstudio.core.rng import Rng
from rlstudio.data.checks.guard import RowGuard
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.named_players import evaluation_players
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.self_play.build import with_opponents
from rlstudio.experiment.training.culprit import refuse_changed_torch
from rlstudio.experiment.training.elsewhere.ranks import device_of, led, other_ranks, part_of
from rlstudio.experiment.training.elsewhere.workers import LoggedRounds, workers_runtime
from rlstudio.experiment.training.machine import set_threads
from rlstudio.experiment.training.refusals import (
    check_actions,
    check_agents,
    check_dataset,
    check_eval_params,
    check_memory,
    check_processes,
)
from rlstudio.experiment.training.run_curriculum import curriculum_named, training_env
from rlstudio.experiment.training.teams import teams_trainer
from rlstudio.ops.group import ALONE


@dataclass(frozen=True)
class Built:
    """Where the experience of a run comes from and the trainer over it, as they are before the first step."""

    runtime: Runtime
    trainer: Trainer

    def close(self) -> None:
        self.runtime.close()


def build(cfg: ExperimentConfig, *, rounds: LoggedRounds | None = None) -> Built:
    """Everything that can be refused is refused here, so before a run appears; a `Session` goes on with the result.
    `rounds`: what an earlier asynchronous run learned from, to be learned from again."""
    set_threads(cfg.runtime.threads)
    runtime = build_runtime(cfg, rounds=rounds)
    try:
        built = Built(runtime, build_trainer(cfg, runtime))
        check_dataset(cfg, runtime.spaces)
        check_eval_params(cfg)
        return built
    except BaseException:
        runtime.close()
        raise


def build_runtime(cfg: ExperimentConfig, group: Group | None = None, *, rounds: LoggedRounds | None = None) -> Runtime:
    """The training environments: in this process, divided among workers, or those of one rank where several learn.
    `group`: of a rank other than 0, which is in it already."""
    if group is None:
        check_processes(cfg)
    if group is not None:
        TRACE.join(f"rank {group.rank}")
    elif cfg.runtime.trace:
        TRACE.start("training")
    else:
        TRACE.stop()
    rails = cfg.guardrails
    new_guard = partial(RowGuard, rails.reward_clip, rails.reward_range, rails.check_actions)
    others = other_ranks(cfg) if group is None else None
    group = others.group if others is not None else group or ALONE
    if cfg.rollout.workers is not None:
        return workers_runtime(cfg, new_guard, group, others, rounds)
    own, device = part_of(cfg), device_of(cfg, group.rank)
    step_timeout, max_restarts = cfg.rollout.step_timeout, cfg.rollout.max_restarts
    with curriculum_named(cfg):
        env: VecEnv = make_vec_env(
            training_env(own),
            first_env=group.rank * own.env.num_envs,
            step_timeout=step_timeout,
            max_restarts=max_restarts,
        )
    try:
        if cfg.eval.opponents:
            evaluation_players(env, cfg.eval_env, cfg.eval.opponents)
        if cfg.self_play is not None:
            env = with_opponents(env, cfg.self_play, cfg.env)
        check_agents(cfg, env)
        refuse_changed_torch(cfg.env.id)
    except (ConfigError, EnvFault, Incompatible):
        env.close()
        raise
    if group.size == 1:
        return LocalRuntime(env, new_guard, own.buffer.capacity, device, own.env, quarantine=cfg.buffer.quarantine)
    from rlstudio.scale.ranks.runtime import RankRuntime  # a run that learns alone needs none of it

    return RankRuntime(
        env,
        new_guard,
        own.buffer.capacity,
        device,
        own.env,
        group=group,
        backend=cfg.runtime.backend,
        others=others,
        quarantine=cfg.buffer.quarantine,
    )


def build_trainer(cfg: ExperimentConfig, runtime: Runtime, attempt: int = 0) -> Trainer:
    """What learns over this runtime. A later attempt (after a roll-back) has other random numbers."""
    rng = Rng(cfg.env.seed)
    if attempt:
        rng = rng.fork(f"attempt-{attempt}")
    if cfg.teams:
        return teams_trainer(cfg, runtime, lambda own, part, name: _one_trainer(own, part, rng.fork(f"team-{name}")))
    return led(_one_trainer(cfg, runtime, rng), cfg, runtime, attempt)


def _one_trainer(cfg: ExperimentConfig, runtime: Runtime, rng: Rng) -> Trainer:
    """The algorithm over this runtime."""
    check_actions(cfg, runtime.spaces)
    check_memory(cfg, runtime.spaces)
    lane: Lane = LANES.load(cfg.runtime.lane)()
    algo, network = cfg.policy.algo, cfg.policy.network
    if reason := lane.refuses(algo, cfg.train, network, runtime):
        raise Incompatible(f"runtime.lane: {cfg.runtime.lane} cannot train this: {reason}; use eager")
    return lane.trainer(algo, part_of(cfg).train, runtime, network, rng)
