"""What is refused before a run begins: an algorithm for other actions, a dataset that is missing, rows that do not fit
into memory."""

from __future__ import annotations

from typing import NamedTuple

from rlstudio.core.contracts import NamedAgents, VecEnv
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.host.ram import usable_ram
from rlstudio.core.spaces import Box, Spaces, describe
from rlstudio.data.replay.buffer import row_bytes
from rlstudio.data.replay.priorities import ROW_BYTES as PRIORITY_BYTES
from rlstudio.data.replay.rows import row_dtype
from rlstudio.envs.make import make_vec_env, real_vectorization
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.fitting import fitting
from rlstudio.scale.ranks.starting.seat import seat

MEMORY_SHARE = 0.9
"""The part of the usable memory that rows, or processes, may take."""

PROCESS_MB = {"env.workers": 25, "rollout.workers": 10, "runtime.learners": 100}
"""What a process has for itself at least; measured with CartPole: 30, 14 and 141."""


def check_actions(cfg: ExperimentConfig, spaces: Spaces) -> None:
    """The algorithm, what the config states and the environment must agree on the kind of actions."""
    action = spaces.action
    discrete = not isinstance(action, Box)
    chosen = algorithm(cfg.policy.algo)
    if chosen.discrete not in (None, discrete):
        needs = "Discrete" if chosen.discrete else "Box"
        raise Incompatible(
            f"policy.algo: {cfg.policy.algo} needs {needs} actions, but {cfg.env.id} takes {describe(action)};"
            f" choose one of {', '.join(fitting(spaces)) or 'another package'} (rlctl algos), or another environment"
        )
    if cfg.policy.discrete not in (None, discrete):
        raise Incompatible(
            f"policy.discrete: {str(cfg.policy.discrete).lower()} contradicts {cfg.env.id},"
            f" which takes {describe(action)}; leave it out"
        )


def check_agents(cfg: ExperimentConfig, env: VecEnv) -> None:
    """Agents have no memory, and each of them counts as an environment; with opponents that play the others, only one
    does."""
    if cfg.policy.network.memory != "none" and getattr(env, "resets_take_a_step", False):
        raise Incompatible(
            f"policy.network.memory: {cfg.env.id} resets by autoreset NEXT_STEP, in a step that a memory would"
            " remember; let it use SAME_STEP, or leave the memory out"
        )
    if env.agents == 1 and cfg.self_play is None:
        return
    if not cfg.teams:
        refuse_unequal(cfg.env.id, env)
        _check_steps(cfg, env)
    for team in cfg.teams:
        _check_steps(cfg.of_team(team), env, f"teams.{team}.")


def _check_steps(cfg: ExperimentConfig, env: VecEnv, place: str = "") -> None:
    """Of all agents, or of one team, which learns in steps of all agents too."""
    who = f"{cfg.env.num_envs} environments of {env.agents} agents"
    if cfg.policy.network.memory != "none":
        raise Incompatible(
            f"{place}policy.network.memory: {cfg.env.id} has several agents, which may wait for a turn, and those"
            " cannot have one; leave it out"
        )
    epoch, steps = cfg.train.steps_per_epoch, getattr(cfg.train, "rollout_steps", None) or 1
    if epoch % (rollout := steps * env.num_envs):
        near = max(1, round(epoch / rollout)) * rollout
        rows = f"{steps} steps of {who}" if steps > 1 else who
        raise ConfigError(f"train.steps_per_epoch: {epoch} is not a multiple of {rollout} ({rows}); {near} is")


def refuse_unequal(id: str, env: VecEnv) -> None:
    """One policy for all agents sees and does the same for each of them."""
    if not isinstance(env, NamedAgents):
        return
    first = env.agent_spaces[0]
    for name, spaces in zip(env.agent_names, env.agent_spaces, strict=True):
        if spaces != first:
            mine, other = (f"{describe(part.observation)} and {describe(part.action)}" for part in (first, spaces))
            raise Incompatible(
                f"env.id: {id}: {env.agent_names[0]} has {mine}, {name} has {other}; one policy for all agents needs"
                " equal spaces; give each kind a team (docs/howto/teams.md)"
            )


def check_dataset(cfg: ExperimentConfig, spaces: Spaces) -> None:
    """Rows are read when the first sample is asked for, which is after a run has begun: that they are there and fit is
    found out before."""
    if (name := getattr(cfg.train, "dataset", None)) is not None:
        from rlstudio.data.datasets.minari_files import check_there

        check_there(name, spaces)


def check_eval_params(cfg: ExperimentConfig) -> None:
    """Parameters that only evaluations have are set in an environment of theirs, before the run begins."""
    if not cfg.eval.params:
        return
    try:
        make_vec_env(cfg.eval_env, 1, vectorization=real_vectorization(cfg.eval_env)).close()
    except ConfigError as error:
        raise ConfigError(str(error).replace("env.params", "eval.params")) from error


class RowMemory(NamedTuple):
    """What the rows of a run take once they are all there; `field` is the setting that decides it."""

    field: str
    rows: int
    row_bytes: int

    @property
    def needed(self) -> int:
        return self.rows * self.row_bytes

    def check(self, total: int) -> None:
        """Refuse what cannot fit into so many bytes."""
        if self.needed > MEMORY_SHARE * total:
            raise ConfigError(
                f"{self.field}: {self.rows:,} rows of {self.row_bytes:,} bytes need {self.needed / 2**30:,.1f} GiB,"
                f" this process may use {total / 2**30:,.1f}; lower it"
            )


def row_memory(cfg: ExperimentConfig, spaces: Spaces) -> RowMemory:
    if not algorithm(cfg.policy.algo).off_policy:
        return RowMemory("train.steps_per_epoch", cfg.train.steps_per_epoch, row_dtype(spaces).itemsize)
    priorities = PRIORITY_BYTES if getattr(cfg.train, "prioritized", None) else 0
    return RowMemory("buffer.capacity", cfg.buffer.capacity, row_bytes(spaces) + priorities)


def check_memory(cfg: ExperimentConfig, spaces: Spaces) -> None:
    """A buffer that cannot fit is refused now, not after hours when it fills."""
    row_memory(cfg, spaces).check(usable_ram())


def check_processes(cfg: ExperimentConfig) -> None:
    """Processes that cannot fit are refused before the first of them starts; those of a cluster are not counted."""
    is_own = cfg.runtime.learners > 1 and cfg.runtime.ranks == "process" and seat() is None
    counts = {
        "env.workers": cfg.env.workers or 0,
        "rollout.workers": (cfg.rollout.workers or 0) if cfg.rollout.backend in ("auto", "process") else 0,
        "runtime.learners": cfg.runtime.learners if is_own else 0,
    }
    total = usable_ram()
    for field, count in counts.items():
        needed = count * PROCESS_MB[field] << 20
        if needed > MEMORY_SHARE * total:
            raise ConfigError(
                f"{field}: {count:,} processes need at least {needed / 2**30:,.1f} GiB, this one may use"
                f" {total / 2**30:,.1f}; lower it"
            )
