"""PPO on simple_spread, seed by seed, and what a step of the vector costs: `python -m benchmarks.multi_agent`.

Each seed is a run of `configs/ppo/simple_spread.yaml` as a user would launch it, with one thread; the last policy plays
greedily, and its return is the mean of one agent. `--overhead` steps the vector and a plain Python loop over the same
environments, with the same actions, in turns. Every result is a line of `benchmarks/results/multi_agent.jsonl`, so the
command can be stopped and started again. The tables go to `docs/howto/pettingzoo.md`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from statistics import median
from typing import Any

import numpy as np

from benchmarks.learning import append, read_store, stated
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment

STORE = RESULTS / "multi_agent.jsonl"
PAGE = ROOT / "docs" / "howto" / "pettingzoo.md"
CONFIG = "configs/ppo/simple_spread.yaml"
SEEDS = 10
EPISODES = 600  # of agents: 200 of the world
WANTED = -12.4
OVERHEAD = {"mpe2/simple_spread_v3": 8, "pettingzoo/classic/tictactoe-v3": 8}
STEPS, ROUNDS = 250, 7


def config(seed: int = 0, overrides: tuple[str, ...] = ()) -> ExperimentConfig:
    return load_experiment(CONFIG, [f"env.seed={seed}", "runtime.threads=1", *overrides])


def run(seed: int, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    cfg = config(seed, overrides)
    used = time.process_time()
    with tempfile.TemporaryDirectory() as runs:
        trained = orchestrator.run(cfg, runs_dir=runs, progress=False)
        summary = trained.evaluate(EPISODES, seed=1_000 + seed).summary
    score = {"return_mean": summary.mean, "interval": [summary.ci_low, summary.ci_high]}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {
        "what": "learning",
        "seed": seed,
        "identity": stated(config(0, overrides)),
        **score,
        **times,
        **_made_with(),
    }


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
    return {"what": "overhead", "env": id, "num_envs": num_envs, "agents": env.agents, **seconds, **_made_with()}


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


def _made_with() -> dict[str, Any]:
    return provenance({OURS: ours().versions})


def current(stored: list[dict[str, Any]], what: str) -> dict[Any, dict[str, Any]]:
    """The newest line of each seed of the shipped config, or of each environment."""
    if what == "overhead":
        return {line["env"]: line for line in stored if line["what"] == what}
    now = stated(config())
    return {line["seed"]: line for line in stored if line["what"] == what and line["identity"] == now}


def page(stored: list[dict[str, Any]]) -> str:
    lines = [line for _, line in sorted(current(stored, "learning").items())]
    learned = [
        [
            str(line["seed"]),
            f"{line['env_steps']:,}",
            f"{line['return_mean']:.2f}",
            f"{line['interval'][0]:.2f} to {line['interval'][1]:.2f}",
            "yes" if line["return_mean"] >= WANTED else "no",
            f"{line['cpu_seconds']:,.0f}",
        ]
        for line in lines
    ]
    cost = [
        [
            f"`{line['env']}`",
            str(line["num_envs"]),
            f"{line['num_envs'] / line['vector']:,.0f}",
            f"{line['num_envs'] / line['loop']:,.0f}",
            f"{line['vector'] / line['loop']:.2f}",
        ]
        for line in current(stored, "overhead").values()
    ]
    head = ["seed", "steps of agents", "return of an agent", "interval", f">= {WANTED}", "CPU s"]
    costs = ["environment", "copies", "steps of the world per CPU s, vector", "plain loop", "time, vector / loop"]
    parts = [table(head, learned) if learned else "", table(costs, cost) if cost else ""]
    return "\n\n".join(part for part in parts if part) or "Nothing is measured yet."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi_agent", description="Many agents.")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--overhead", action="store_true", help="measure a step of the vector instead of learning")
    parser.add_argument("--render", action="store_true", help="only write the tables again, from stored results")
    args = parser.parse_args()
    if args.overhead:
        for id in OVERHEAD.keys() - current(read_store(STORE), "overhead").keys():
            append(STORE, overhead(id))
    for seed in range(0 if args.render or args.overhead else args.seeds):
        if seed in current(read_store(STORE), "learning"):
            continue
        line = run(seed)
        append(STORE, line)
        print(f"seed {seed}  {line['return_mean']:.2f} in {line['cpu_seconds']:.0f} s", file=sys.stderr, flush=True)
    text = page(read_store(STORE))
    replace_between(PAGE, "multi_agent", text)
    print(text)


if __name__ == "__main__":
    main()
