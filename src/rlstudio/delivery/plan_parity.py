"""Checks that a bundle plans as the live agent does, on recorded episodes.

The agent that is built again from spec and weights must take the same actions, bit for bit: by its own memory through
whole episodes, and with noise from outside, where the same seed must give the same plan. A graph computes the same in
another order. Where two sequences are as good as each other but for the last bits, it may follow the other one: at most
one row in 100, all others within 1e-5.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np

from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.contracts import Carried
from rlstudio.core.contracts.planning import AGE
from rlstudio.core.errors import ParityFailed
from rlstudio.data.collect.carry import without_rows
from rlstudio.delivery.graphs import Arrays, Run
from rlstudio.delivery.parity import ENVS, NEAR, ROWS, Agreement, varied
from rlstudio.delivery.planned import DeployedPlan
from rlstudio.delivery.ports import ACTIONS, NOISE, OBSERVATIONS
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env, real_vectorization
from rlstudio.experiment.judging.play import play

SEEDED = 8
"""Steps that are also planned with noise from outside."""

MOST_TIES = 0.01


class PlanStep(NamedTuple):
    """One step of all environments."""

    observations: np.ndarray
    carry: Carried | None
    ended: np.ndarray  # environments whose episode ended with it
    actions: np.ndarray
    after: Carried


def played_plans(agent: PlanningAgent, env_cfg: EnvConfig, seed: int, rows: int = ROWS) -> list[PlanStep]:
    """Episodes as `parity.played_rows` has them."""
    steps = []
    env = make_vec_env(env_cfg, num_envs=ENVS, seed=seed, vectorization=real_vectorization(env_cfg))
    try:
        for played in islice(play(agent, env, env.reset(), varied(agent, seed)), -(-rows // env.num_envs)):
            assert isinstance(played.observations, np.ndarray)
            after = {part: np.array(held) for part, held in (played.acted.carry or {}).items()}
            actions = np.array(played.acted.actions)
            steps.append(PlanStep(played.observations, played.carry, played.ended, actions, after))
    finally:
        env.close()
    return steps


def check_rebuilt(live: PlanningAgent, rebuilt: PlanningAgent, recorded: list[PlanStep], seed: int) -> Agreement:
    """The agent of the bundle against the record; `ParityFailed` names the first step."""
    carry: Carried | None = None
    for number, step in enumerate(recorded):
        acted = rebuilt.step(step.observations, carry)
        _same(number, acted.actions, step.actions)
        for part, held in step.after.items():
            _same(number, (acted.carry or {})[part], held, f"remembers {part}")
        carry = without_rows(acted.carry, step.ended) if len(step.ended) else acted.carry
    ours, theirs = (
        agent.noise(np.random.default_rng(seed), SEEDED, len(recorded[0].actions)) for agent in (live, rebuilt)
    )
    for number, step in enumerate(recorded[:SEEDED]):
        expected = live.step(step.observations, step.carry, ours[number]).actions
        _same(number, rebuilt.step(step.observations, step.carry, theirs[number]).actions, expected, "with a seed acts")
    return Agreement(0.0, 0)


def _same(number: int, theirs: np.ndarray, ours: np.ndarray, what: str = "acts") -> None:
    if theirs.dtype != ours.dtype or not np.array_equal(theirs, ours):
        raise ParityFailed(
            f"bundle: step {number} {what} {theirs.tolist()}, the agent {ours.tolist()}; nothing was exported, please"
            " report this"
        )


def check_graph(name: str, run: Run, policy: DeployedPlan, recorded: list[PlanStep]) -> Agreement:
    """A graph against the record, row by row; `ParityFailed` says how many differ."""
    inputs, expected = _inputs(policy, recorded)
    largest, ties = 0.0, 0
    for row, ours in enumerate(expected):
        theirs = run({part: values[row : row + 1] for part, values in inputs.items()})[ACTIONS][0]
        apart = float(np.abs(theirs.astype(np.float64) - ours).max())
        if apart <= NEAR * max(1.0, float(np.abs(ours).max())):
            largest = max(largest, apart)
        else:
            ties += 1
    if ties > MOST_TIES * len(expected):
        raise ParityFailed(
            f"{name}: plans otherwise than the agent for {ties} of {len(expected)} observations: among sequences that"
            " are equally good its operations take others; nothing was exported, use --format bundle"
        )
    return Agreement(largest, ties)


def _inputs(policy: DeployedPlan, recorded: list[PlanStep]) -> tuple[Arrays, np.ndarray]:
    """What a graph is given for each row, and the actions of the agent in the environment's own numbering."""
    ages = [np.zeros(len(step.actions), np.int64) if step.carry is None else step.carry[AGE] for step in recorded]
    noise = policy.agent.planner.noise.at_ages(np.concatenate(ages)).numpy()
    inputs = {OBSERVATIONS: np.concatenate([step.observations for step in recorded]), NOISE: noise}
    for port in policy.carry:
        zeros = np.zeros((ENVS, *port.shape), port.dtype)
        held = [zeros if step.carry is None else step.carry[port.part] for step in recorded]
        inputs[port.name] = np.concatenate(held)
    actions = np.concatenate([step.actions for step in recorded])
    start = getattr(policy.spaces.action, "start", 0)
    return {port.name: inputs[port.name].astype(port.dtype) for port in policy.inputs}, actions + start
