"""What a step of PettingZoo's columns costs beside a loop that one writes by hand; see `benchmarks/multi_agent.py`."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.records import provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ours
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env

OVERHEAD = {"mpe2/simple_spread_v3": 8, "pettingzoo/classic/tictactoe-v3": 8}
STEPS, ROUNDS = 250, 7


def overhead(id: str) -> dict[str, Any]:
    """Median CPU seconds of a step of all environments, of the vector and of a loop that keeps nothing."""
    cfg, num_envs = EnvConfig(id=id), OVERHEAD[id]
    env = make_vec_env(cfg, num_envs, seed=0, vectorization="sync")
    loop = _Loop(id, num_envs)
    times: dict[str, list[float]] = {"vector": [], "loop": []}
    env.reset()
    for number in range(ROUNDS):
        actions = np.random.default_rng(number).integers(0, 9, (STEPS, env.num_envs))
        for name, play in (("vector", lambda rows: _stepped(env, rows)), ("loop", loop.play)):
            began = time.process_time()
            play(actions)
            times[name].append((time.process_time() - began) / STEPS)
    env.close()
    seconds = {name: median(values) for name, values in times.items()}
    return {
        "what": "overhead",
        "env": id,
        "num_envs": num_envs,
        "agents": env.agents,
        **seconds,
        **provenance({OURS: ours().versions}),
    }


def _allowed(mask: np.ndarray, choice: int) -> int:
    options = np.flatnonzero(mask)
    return int(options[choice % len(options)]) if len(options) else 0


def _stepped(env: Any, actions: np.ndarray) -> None:
    """By the same rule as the loop: of what is allowed, the choice with the drawn number."""
    observations = env.reset()
    for drawn in actions:
        if isinstance(observations, dict):
            masks = observations["action_mask"]
            chosen = np.array([_allowed(mask, choice) for mask, choice in zip(masks, drawn.tolist(), strict=True)])
        else:
            chosen = drawn % env.spaces.action.n
        observations = env.step(chosen).observations


class _Loop:
    """What one writes by hand: environments one after the other, reset when nobody is left."""

    def __init__(self, id: str, num_envs: int) -> None:
        if id.startswith("mpe2/"):
            from mpe2 import simple_spread_v3

            self.envs, self.play = [simple_spread_v3.parallel_env() for _ in range(num_envs)], self._at_once
        else:
            import pettingzoo

            name = id.removeprefix("pettingzoo/")
            self.envs, self.play = [pettingzoo.make("aec", name) for _ in range(num_envs)], self._in_turn

    def _at_once(self, actions: np.ndarray) -> None:
        for env in self.envs:
            env.reset(seed=0)
        for row in actions % 5:
            for number, env in enumerate(self.envs):
                env.step({agent: row[3 * number + place] for place, agent in enumerate(env.agents)})
                if not env.agents:
                    env.reset(seed=0)

    def _in_turn(self, actions: np.ndarray) -> None:
        for env in self.envs:
            env.reset(seed=0)
        for row in actions.tolist():
            for number, env in enumerate(self.envs):
                observation, *_ = env.last()
                place = env.possible_agents.index(env.agent_selection)
                env.step(_allowed(observation["action_mask"], row[2 * number + place]))
                while env.agents and (env.terminations[env.agent_selection] or env.truncations[env.agent_selection]):
                    env.last()
                    env.step(None)
                if not env.agents:
                    env.reset(seed=0)
