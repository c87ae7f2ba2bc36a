"""Checks that an exported graph acts as the trained agent does, on recorded episodes.

A graph is refused unless it takes the same choices, or moves within 1e-5. A choice may differ only where the agent
itself was undecided: its two best within 1e-5 of each other (of their size, where they are large: products are summed
in another order). What decided is compared too, loosely, so that a wrong weight shows even where no action changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.teams import TeamsAgent
from rlstudio.core.action_mask import ActionMask, choices
from rlstudio.core.contracts import Acted, Array, Carried
from rlstudio.core.errors import ParityFailed
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Leaf, MultiDiscrete, Spaces
from rlstudio.delivery.deployed import Deployed
from rlstudio.delivery.graphs import Arrays, Run
from rlstudio.delivery.ports import ACTIONS, OUTPUTS
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env, real_vectorization
from rlstudio.experiment.judging.play import Vary, play

ROWS, ENVS = 1024, 8
RANDOM_SHARE = 0.25
BATCHES = (257, 3, 1)
CHAINED = 32  # steps that a graph goes on by its own carry
NEAR = 1e-5
NEAR_OUTPUTS = 1e-3


@dataclass(frozen=True)
class ParityRecord:
    """Rows of episodes, step after step: row t * envs + i is environment i at step t."""

    inputs: Arrays
    actions: np.ndarray
    outputs: np.ndarray  # what decided
    carry: Arrays  # what is remembered after each row, by the name of the graph's output
    resets: np.ndarray  # [T, envs]: whether an episode begins at the row
    envs: int

    def __len__(self) -> int:
        return len(self.actions)


@dataclass(frozen=True)
class Agreement:
    """How close a graph came."""

    difference: float  # the largest between actions, or between outputs where actions are choices
    ties: int  # rows in which the agent itself was undecided and the graph took the other choice

    def to_json(self) -> dict[str, float]:
        return {"max_difference": self.difference, "ties": self.ties}


def played_rows(agent: Agent, policy: Deployed, env_cfg: EnvConfig, seed: int, rows: int = ROWS) -> ParityRecord:
    """Episodes of the environment, played greedily but for a quarter of random actions, so that states vary."""
    env = make_vec_env(env_cfg, num_envs=ENVS, seed=seed, vectorization=real_vectorization(env_cfg))
    table, resets = _Table(policy), []
    try:
        for played in islice(play(agent, env, env.reset(), varied(agent, seed)), -(-rows // env.num_envs)):
            table.add(agent, played.observations, played.carry, played.acted)
            resets.append(played.lengths == 1)
    finally:
        env.close()
    return table.recorded(np.stack(resets), env.num_envs)


def team_rows(
    agent: Agent, policy: Deployed, teams: TeamsAgent, team: str, env_cfg: EnvConfig, seed: int, rows: int = ROWS
) -> ParityRecord:
    """The same of one team among others, which act greedily: the rows are those of its own agents."""
    columns, own_vary = teams.columns[team], varied(agent, seed)

    def vary(observations: Array, actions: np.ndarray) -> np.ndarray:
        changed = actions.copy()
        columns.put(changed, own_vary(columns.observations(observations), columns.actions(actions)))
        return changed

    env = make_vec_env(env_cfg, num_envs=ENVS, seed=seed, vectorization=real_vectorization(env_cfg))
    table, resets, own = _Table(policy), [], columns.among(env.num_envs)
    try:
        for played in islice(play(teams, env, env.reset(), vary), -(-rows // len(own))):
            observations = columns.observations(played.observations)
            table.add(agent, observations, None, Acted(columns.actions(played.acted.actions), {}, None))
            resets.append(played.lengths[own] == 1)
    finally:
        env.close()
    return table.recorded(np.stack(resets), len(own))


def varied(agent: Agent, seed: int) -> Vary:
    """Replaces a quarter of an agent's actions by random ones."""
    generator = Rng(seed).fork("parity").generator()
    mask = ActionMask.of(agent.spaces)

    def vary(observations: Array, actions: np.ndarray) -> np.ndarray:
        changed, replaced = actions.copy(), generator.random(len(actions)) < RANDOM_SHARE
        changed[replaced] = _random(agent.spaces, mask, observations, actions, generator)[replaced]
        return changed

    return vary


def made_up_rows(agent: Agent, policy: Deployed, seed: int, rows: int = ROWS) -> ParityRecord:
    """Observations drawn from the space, where no environment is known."""
    generator = Rng(seed).fork("parity").generator()
    table, resets = _Table(policy), []
    carry = None
    for t in range(-(-rows // ENVS)):
        space = agent.spaces.observation
        observations: Array = (
            {name: _drawn(entry, generator) for name, entry in space.items()}
            if isinstance(space, Dict)
            else _drawn(space, generator)
        )
        acted = agent.step(observations, carry)
        table.add(agent, observations, carry, acted)
        resets.append(np.full(ENVS, t == 0))
        carry = acted.carry
    return table.recorded(np.stack(resets), ENVS)


def check(name: str, run: Run, policy: Deployed, recorded: ParityRecord, spaces: Spaces) -> Agreement:
    """The graph `run` against the record, in batches of 257, 3 and 1; `ParityFailed` names the first row."""
    agreement = Agreement(0.0, 0)
    for size in BATCHES:
        for begin, rows in _batches(len(recorded), size):
            results = run({port.name: recorded.inputs[port.name][rows] for port in policy.inputs})
            agreement = _merged(agreement, _compared(name, results, recorded, begin, spaces))
    if policy.carry:
        agreement = _merged(agreement, _chained(name, run, policy, recorded, spaces))
    return agreement


def _batches(rows: int, size: int) -> Iterator[tuple[int, slice]]:
    """All rows in large batches; in small ones some, spread over the record."""
    stride = size if size > 3 else max(size, rows // 64)
    for begin in range(0, rows, stride):
        yield begin, slice(begin, min(begin + size, rows))


def _chained(name: str, run: Run, policy: Deployed, recorded: ParityRecord, spaces: Spaces) -> Agreement:
    """Several steps by the graph's own memory: small differences must not grow."""
    carry = {port.name: np.zeros((recorded.envs, *port.shape), np.float32) for port in policy.carry}
    agreement = Agreement(0.0, 0)
    for t in range(min(CHAINED, len(recorded.resets))):
        rows = slice(t * recorded.envs, (t + 1) * recorded.envs)
        for part in carry.values():
            part[recorded.resets[t]] = 0.0
        observations = {port.name: recorded.inputs[port.name][rows] for port in policy.observations}
        results = run({**observations, **carry})
        agreement = _merged(agreement, _compared(name, results, recorded, rows.start, spaces, "by its own memory, "))
        carry = {port.name: results[port.after.name].copy() for port in policy.carry}
    return agreement


def _compared(
    name: str, results: Arrays, recorded: ParityRecord, begin: int, spaces: Spaces, how: str = ""
) -> Agreement:
    actions, outputs = results[ACTIONS], results[OUTPUTS]
    rows = slice(begin, begin + len(actions))
    expected, decided = recorded.actions[rows], recorded.outputs[rows]
    ties = 0

    def refuse(bad: np.ndarray, what: str, theirs: np.ndarray, ours: np.ndarray) -> None:
        row = int(bad.nonzero()[0][0])
        raise ParityFailed(
            f"{name}: {how}row {begin + row} of {len(recorded)} {what} {np.asarray(theirs[row]).tolist()}, the agent"
            f" {np.asarray(ours[row]).tolist()}; nothing was exported, please report this"
        )

    if actions.shape != expected.shape or actions.dtype != expected.dtype:
        raise ParityFailed(
            f"{name}: gives actions {actions.dtype}{list(actions.shape)}, the agent"
            f" {expected.dtype}{list(expected.shape)}; nothing was exported, please report this"
        )
    if isinstance(spaces.action, Box):
        apart = np.abs(actions - expected) / np.maximum(1.0, np.abs(expected))
        refused = ~(_per_row(apart) <= NEAR)
        if refused.any():
            refuse(refused, "acts", actions, expected)
        difference = float(apart.max(initial=0.0))
    else:
        other = _per_row(actions != expected)
        ties = int(np.count_nonzero(other))
        refused = other & ~_undecided(decided, choices(spaces.action) or ())
        if refused.any():
            refuse(refused, "chooses", actions, expected)
        difference = float((np.abs(outputs - decided) / np.maximum(1.0, np.abs(decided))).max(initial=0.0))
    scale = np.maximum(1.0, np.abs(decided).max(-1))
    refused = ~(np.abs(outputs - decided).max(-1) <= NEAR_OUTPUTS * scale)
    if refused.any():
        refuse(refused, "decides by", outputs, decided)
    for part, rows_after in recorded.carry.items():
        refused = ~(_per_row(np.abs(results[part] - rows_after[rows])) <= NEAR_OUTPUTS)
        if refused.any():
            refuse(refused, f"remembers {part}", results[part], rows_after[rows])
    return Agreement(difference, ties)


def _undecided(outputs: np.ndarray, nvec: tuple[int, ...]) -> np.ndarray:
    """Rows in which the two best of some part are as good as equal."""
    undecided = np.zeros(len(outputs), bool)
    for part in np.split(outputs, np.cumsum(nvec)[:-1], axis=-1):
        if part.shape[-1] > 1:
            second, first = np.partition(part, -2, axis=-1)[:, -2:].T
            undecided |= first - second <= NEAR * np.maximum(1.0, np.abs(first))
    return undecided


def _per_row(values: np.ndarray) -> np.ndarray:
    """The largest of each row."""
    worst: np.ndarray = values.reshape(len(values), -1).max(-1)
    return worst


def _merged(a: Agreement, b: Agreement) -> Agreement:
    return Agreement(max(a.difference, b.difference), a.ties + b.ties)


class _Table:
    """What is recorded, step by step."""

    def __init__(self, policy: Deployed) -> None:
        self.policy = policy
        self.columns: dict[str, list[np.ndarray]] = {}

    def add(self, agent: Agent, observations: Array, carry: Carried | None, acted: Acted) -> None:
        start = np.asarray(getattr(agent.spaces.action, "start", 0) or 0)
        rows = len(acted.actions)
        self._put(ACTIONS, acted.actions + start if start.any() else acted.actions)
        self._put(OUTPUTS, agent.deciding(observations, carry))
        for port in self.policy.observations:
            self._put(port.name, observations[port.part] if isinstance(observations, dict) else observations)
        for port in self.policy.carry:
            assert acted.carry is not None
            before = np.zeros((rows, *port.shape), np.float32) if carry is None else carry[port.part]
            self._put(port.name, before)
            self._put(port.after.name, acted.carry[port.part])

    def _put(self, name: str, rows: np.ndarray) -> None:
        self.columns.setdefault(name, []).append(np.array(rows))

    def recorded(self, resets: np.ndarray, envs: int) -> ParityRecord:
        columns = {name: np.concatenate(blocks) for name, blocks in self.columns.items()}
        inputs = {port.name: columns[port.name].astype(port.dtype, copy=False) for port in self.policy.inputs}
        carry = {port.after.name: columns[port.after.name] for port in self.policy.carry}
        return ParityRecord(inputs, columns[ACTIONS], columns[OUTPUTS], carry, resets, envs)


def _random(
    spaces: Spaces, mask: ActionMask | None, observations: Array, actions: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """An action for each environment that has nothing to do with its policy, but is allowed."""
    space = spaces.action
    if isinstance(space, Box):
        low, high = space.bounds()
        if space.bounded:
            return generator.uniform(low, high, actions.shape).astype(actions.dtype)
        return np.clip(actions + generator.standard_normal(actions.shape), low, high).astype(actions.dtype)
    nvec = choices(space) or ()
    scores = generator.random((len(actions), sum(nvec)))
    if mask is not None:
        scores = np.where(mask.allowed(observations), scores, -1.0)
    parts = [part.argmax(-1) for part in np.split(scores, np.cumsum(nvec)[:-1], axis=-1)]
    return np.stack(parts, -1) if isinstance(space, MultiDiscrete) else parts[0]


def _drawn(space: Leaf, generator: np.random.Generator) -> np.ndarray:
    if not isinstance(space, Box):
        nvec = choices(space) or ()
        drawn = np.stack([generator.integers(0, n, ENVS) for n in nvec], -1)
        return drawn if isinstance(space, MultiDiscrete) else drawn[:, 0]
    if space.dtype == "uint8":
        return generator.integers(0, 256, (ENVS, *space.shape), np.uint8)
    return (3.0 * generator.standard_normal((ENVS, *space.shape))).astype(space.dtype)
