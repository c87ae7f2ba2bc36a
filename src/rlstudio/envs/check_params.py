"""Does a parameter really change an env? The same actions are played with its lowest and its highest value; all others
stay in the middle of their ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from rlstudio.core.action_mask import ActionMask
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.probe import PROBE_SEEDS, permitted, random_actions
from rlstudio.envs.gym.rows import leaves
from rlstudio.envs.make import make_vec_env, resolve_vectorization
from rlstudio.envs.params.parameters import Parameter, ParamValue

STEPS = 100  # of each of the seeds, with a new episode where one ends

Trace = list[tuple[bytes, ...]]
"""Of the start and of each step: what was shown and paid, and whether the episode ended."""


def param_findings(cfg: EnvConfig) -> Iterator[tuple[Literal["info", "warning"], str]]:
    """A line for each entry of `env.params`, with its severity."""
    kind = "native" if resolve_vectorization(cfg) == "native" else "sync"
    for each in cfg.parameters:
        if each.drawn_from is None:
            continue
        low, high = each.drawn_from.range
        values = f"{low:g} against {high:g}" if low < high else f"{low:g} against its own value"
        traces = [_with(cfg, each, value) for value in ((low, high) if low < high else (low, None))]
        changed = _changes([[_played(one, kind, seed) for seed in PROBE_SEEDS] for one in traces])
        if changed:
            yield "info", f"env.params: {each.name} changes {changed} ({values}, with equal actions)"
        else:
            yield (
                "warning",
                f"env.params: {each.name} changed nothing ({values}, {STEPS} equal random actions in each of"
                f" {len(PROBE_SEEDS)} envs); is it what the env reads in `reset` and `step`?",
            )


def _with(cfg: EnvConfig, parameter: Parameter, value: float | None) -> EnvConfig:
    """One parameter at this value (None: the env's own), nothing drawn, nothing of it shown."""
    params: dict[str, ParamValue] = {}
    for each in cfg.parameters:
        if each.drawn_from is None or (each.name == parameter.name and value is None):
            continue
        middle = float(each.drawn_from.values(np.array([0.5]))[0])
        number = value if each.name == parameter.name and value is not None else middle
        target = f"{each.kind}:{each.address}" if each.kind else each.address
        params[each.name] = {"value": number, "op": "scale" if each.scale else "set", "target": target}
    return EnvConfig.model_validate({**cfg.model_dump(), "params": params})


def _played(cfg: EnvConfig, kind: str, seed: int) -> Trace:
    env = make_vec_env(cfg, 1, seed, vectorization=kind)
    try:
        observations, mask = env.reset(), ActionMask.of(env.spaces)
        trace: Trace = [tuple(rows.tobytes() for rows in leaves(observations))]
        of_agents = [random_actions(env.spaces, seed + 1000 * agent, STEPS) for agent in range(env.agents)]
        for drawn in zip(*of_agents, strict=True):
            chosen = [permitted(mask, observations, agent, action) for agent, action in enumerate(drawn)]
            step = env.step(np.array(chosen))
            observations = step.observations
            after = *leaves(step.successors), step.rewards, step.terminated
            trace.append(tuple(rows.tobytes() for rows in after))
        return trace
    finally:
        env.close()


def _changes(traces: list[list[Trace]]) -> str:
    pairs = list(zip(*traces, strict=True))
    parts = []
    if any(low[0] != high[0] for low, high in pairs):
        parts.append("the start")
    if any(low[0] == high[0] and low[1:] != high[1:] for low, high in pairs):
        parts.append("the dynamics")
    return " and ".join(parts)
