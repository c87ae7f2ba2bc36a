"""Whether the sections of an experiment agree with each other and with the algorithm."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.config import refuse
from rlstudio.core.contracts import Algorithm
from rlstudio.core.errors import suggest
from rlstudio.envs.config import METRIC_NAMES, EnvConfig
from rlstudio.envs.params.section import numbers_only
from rlstudio.envs.pettingzoo_ids import is_pettingzoo
from rlstudio.experiment.config.judging import GatesConfig, GuardrailsConfig
from rlstudio.experiment.config.sections import BufferConfig, EvalConfig, PolicyConfig, RolloutConfig, RuntimeConfig

MAX_WEIGHTS = 10**9
"""Weights between hidden layers; Adam needs four floats for each (16 GB), more than any run of this kind wants."""

ALONE_ONLY = ("teams", "self_play", "curriculum")
"""SharedSections that several learners cannot have: their state would have to be the same in all ranks."""

ROLLOUT_NAMES = ("return_mean", "length_mean", "episodes", "episodes_without_return", "staleness_mean", "staleness_max")


class SharedSections(Protocol):
    """Those of an experiment that learners share."""

    @property
    def env(self) -> EnvConfig: ...

    @property
    def rollout(self) -> RolloutConfig: ...

    @property
    def buffer(self) -> BufferConfig: ...

    @property
    def runtime(self) -> RuntimeConfig: ...

    @property
    def train(self) -> RunLength: ...


def check_statements(policy: PolicyConfig, train: RunLength, chosen: Algorithm) -> None:
    """`policy.discrete` and `train.off_policy` choose nothing; one that contradicts the algorithm is an error."""
    if train.off_policy not in (None, chosen.off_policy):
        kind = "off-policy" if chosen.off_policy else "on-policy"
        refuse(("train", "off_policy"), f"{policy.algo} is {kind}; leave it out or change policy.algo")
    if chosen.discrete is not None and policy.discrete not in (None, chosen.discrete):
        kind = "discrete" if chosen.discrete else "continuous"
        refuse(("policy", "discrete"), f"{policy.algo} takes {kind} actions only; leave it out or change policy.algo")


def check_goal(gates: GatesConfig, evaluation: EvalConfig) -> None:
    if gates.stop_at is not None and not evaluation.every_epochs:
        refuse(("gates", "stop_at"), "evaluations during training decide it; set eval.every_epochs to 1 or more")
    if gates.plateau is not None and gates.plateau.metric.startswith("eval/") and not evaluation.every_epochs:
        refuse(("gates", "plateau"), "it follows evaluations during training; set eval.every_epochs to 1 or more")


def check_metric_names(gates: GatesConfig, guardrails: GuardrailsConfig, infos: Sequence[str]) -> None:
    """What cannot be the name of a metric is refused before there is a run. Which there are of `train/` and of parts of
    others shows the first epoch."""
    of_evaluations = [f"eval/{each}" for each in (*METRIC_NAMES, *infos)]
    of_epochs = [f"rollout/{each}" for each in (*ROLLOUT_NAMES, *infos)]
    if gates.plateau is not None:
        _check_metric(("gates", "plateau", "metric"), gates.plateau.metric, [*of_evaluations, *of_epochs])
    for name in guardrails.limits:
        if name.startswith("eval/"):
            refuse(("guardrails", "limits"), f"{name} is of evaluations, and limits are of epochs; see gates")
        _check_metric(("guardrails", "limits"), name, of_epochs)


def _check_metric(path: tuple[str, ...], name: str, known: Sequence[str]) -> None:
    """`known`: the names in `eval/` and `rollout/` that may stand there."""
    group, *rest = name.split("/")
    if not rest or (group in ("eval", "rollout") and len(rest) == 1 and name not in known):
        turned = [each for each in known if _words(each) == _words(name)]  # eval/mean_return
        hint = suggest(name, turned or known) or f"; there are train/NAME, own/NAME, {', '.join(known)}"
        refuse(path, f"no metric {name!r}{hint}")


def _words(name: str) -> list[str]:
    return sorted(name.replace("/", "_").split("_"))


def check_numerics(runtime: RuntimeConfig) -> None:
    if runtime.numerics == "portable" and runtime.device.startswith("cuda"):
        reason = f"portable is for the CPU, and runtime.device is {runtime.device}; use cpu, or native"
        refuse(("runtime", "numerics"), reason)


def check_workers(rollout: RolloutConfig, env: EnvConfig, runtime: RuntimeConfig) -> None:
    """Workers act in slices of environments that can be made one by one, from their number."""
    if rollout.max_staleness is not None and rollout.mode == "sync":
        refuse(("rollout", "max_staleness"), "synchronous workers have the newest weights; set rollout.mode to async")
    if rollout.workers is None:
        if rollout.backend != "auto":
            refuse(("rollout", "backend"), f"{rollout.backend} is where workers are; set rollout.workers too")
        if rollout.mode != "sync":
            refuse(("rollout", "mode"), f"{rollout.mode} is how workers collect; set rollout.workers too")
        return
    _check_slices(rollout.workers, env, is_async=rollout.mode == "async")
    if env.vectorization in ("async", "envpool", "vector"):
        reason = f"{env.vectorization} cannot be divided among rollout.workers; use auto or sync, or no rollout.workers"
        refuse(("env", "vectorization"), reason)
    if not numbers_only(env.params):
        refuse(("env", "params"), "with rollout.workers only numbers can be set; draw none of them")
    if runtime.numerics == "portable":
        refuse(("runtime", "numerics"), "portable is of the training process alone; leave rollout.workers out")


def _check_slices(workers: int, env: EnvConfig, *, is_async: bool) -> None:
    """Fragments that come in any order are counted in rows, and so must be of the same size."""
    if workers > env.num_envs:
        reason = f"{workers} workers for {env.num_envs} copies (env.num_envs); use {env.num_envs} or fewer"
        refuse(("rollout", "workers"), reason)
    if is_async and env.num_envs % workers:
        near = max(round(env.num_envs / workers), 1) * workers
        reason = f"{env.num_envs} cannot be divided evenly among {workers} asynchronous workers; {near} can"
        refuse(("env", "num_envs"), reason)


def check_apart(rollout: RolloutConfig, **sections: object) -> None:
    """These sections need all environments in the training process."""
    for name, section in sections.items():
        if rollout.workers is not None and section:
            refuse(("rollout", "workers"), f"they cannot go with {name}; leave one of them out")


def check_layers(policy: PolicyConfig) -> None:
    """What cannot fit is refused before anything is built."""
    sizes = policy.network.hidden_sizes
    weights = sum(sizes) + sum(first * second for first, second in itertools.pairwise(sizes))
    if weights > MAX_WEIGHTS:
        refuse(("policy", "network", "hidden_sizes"), f"{weights:,} weights; at most {MAX_WEIGHTS:,} are accepted")


def check_batch(train: RunLength, num_envs: int, capacity: int | None) -> None:
    """A minibatch is no larger than what it is drawn from: a buffer of that capacity, or without one a rollout."""
    rows, what = capacity, "buffer.capacity"
    if rows is None:
        steps = getattr(train, "rollout_steps", None)
        rows, what = (steps * num_envs if steps else train.steps_per_epoch), "one rollout"
    batch = getattr(train, "batch_size", None)
    if batch and batch > rows:
        refuse(("train", "batch_size"), f"{batch} rows, but {what} has only {rows}; lower it to {rows} or less")


def check_learners(cfg: SharedSections) -> None:
    runtime, ranks = cfg.runtime, cfg.runtime.learners
    if runtime.backend == "nccl" and not runtime.device.startswith("cuda"):
        refuse(("runtime", "backend"), f"nccl is for GPUs, and runtime.device is {runtime.device}; use gloo, or cuda")
    if ranks == 1 and runtime.ranks != "process":
        refuse(("runtime", "ranks"), f"{runtime.ranks} is where other learners are; set runtime.learners too")
    if ranks > 1:
        _check_ranks(cfg, ranks)


def _check_ranks(cfg: SharedSections, ranks: int) -> None:
    for name in ALONE_ONLY:
        if getattr(cfg, name):
            refuse(("runtime", "learners"), f"{ranks} learners cannot train with {name} yet; leave one of them out")
    if cfg.rollout.mode == "async":
        refuse(("rollout", "mode"), f"async workers fill one learner only, and runtime.learners is {ranks}; use sync")
    if is_pettingzoo(cfg.env.id):
        refuse(("runtime", "learners"), f"{cfg.env.id} is PettingZoo's, which learners cannot share yet; leave it out")
    if cfg.runtime.lane != "eager":
        refuse(("runtime", "learners"), f"runtime.lane {cfg.runtime.lane} computes in one process; use eager")
    for (section, field), size in divided_sizes(cfg).items():
        if size % ranks:
            near = max(round(size / ranks), 1) * ranks
            refuse((section, field), f"{size} cannot be divided among {ranks} learners (runtime.learners); {near} can")


def divided_sizes(cfg: SharedSections) -> dict[tuple[str, str], int]:
    """What is divided among the ranks, by section and field."""
    sizes = {
        ("env", "num_envs"): cfg.env.num_envs,
        ("buffer", "capacity"): cfg.buffer.capacity,
        ("train", "batch_size"): getattr(cfg.train, "batch_size", None),
        ("rollout", "workers"): cfg.rollout.workers,
    }
    return {place: size for place, size in sizes.items() if size is not None}
