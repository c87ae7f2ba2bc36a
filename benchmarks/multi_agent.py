"""PPO on three particle worlds of MPE2, seed by seed, and what a step costs: `python -m benchmarks.multi_agent`.

Each seed is a run of a shipped config as a user would launch it, with one thread; the last policy plays greedily in
MPE2's own environment. Spread is judged by the mean return of an agent. In the others the trained side plays beside
players by rule (`benchmarks/particle_players.py`), and what counts is how far it gets from a random player to the
scripted one: the speaker and the listener together, the hunters against a scripted prey, the prey against scripted
hunters. `--overhead` steps the vector and a plain Python loop over the same environments, with the same actions, in
turns. Every result is a line of `benchmarks/results/multi_agent.jsonl`, so the command can be stopped and started
again. The tables go to `docs/howto/pettingzoo.md`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from benchmarks import particle_players as players
from benchmarks.learning import append, read_store, stated
from benchmarks.multi_agent_overhead import OVERHEAD, overhead
from benchmarks.page import replace_between, table
from benchmarks.particle_players import HUNTERS, PREY, Player, at_random
from benchmarks.records import RESULTS, provenance
from benchmarks.seed_table import newest, train_missing
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio import orchestrator
from rlstudio.envs.gym.action_mask import OBSERVATION
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment
from rlstudio.ops.statistics import bootstrap_interval
from rlstudio.orchestrator import Run

STORE = RESULTS / "multi_agent.jsonl"
PAGE = ROOT / "docs" / "howto" / "pettingzoo.md"
SEEDS = 10
EPISODES = 200
"""Of the world, for each result."""

SPREAD, SPEAKER, TAG = "mpe2/simple_spread_v3", "mpe2/simple_speaker_listener_v4", "mpe2/simple_tag_v3"
WANTED = -12.4
"""Of an agent in spread."""
SHARE = 0.5
"""Of the way from a random player to the scripted one."""


class Side(NamedTuple):
    """Some agents of a world, who are judged, and the players by rule of all of them."""

    name: str
    agents: tuple[str, ...]
    by_rule: Mapping[str, Player]
    choices: Mapping[str, int]


HUNTED = {**dict.fromkeys(HUNTERS, players.hunt), PREY: players.flee}
MOVES = {name: 5 for name in HUNTED}
SIDES = {
    SPEAKER: (
        Side(
            "speaker and listener",
            ("speaker_0", "listener_0"),
            {"speaker_0": players.speak, "listener_0": players.listen},
            {"speaker_0": 3, "listener_0": 5},
        ),
    ),
    TAG: (Side("hunters", HUNTERS, HUNTED, MOVES), Side("prey", (PREY,), HUNTED, MOVES)),
}


class Case(NamedTuple):
    id: str
    config: str

    @property
    def sides(self) -> tuple[Side, ...]:
        return SIDES.get(self.id, ())


CASES = (
    Case(SPREAD, "configs/ppo/simple_spread.yaml"),
    Case(SPEAKER, "configs/ppo/simple_speaker_listener.yaml"),
    Case(TAG, "configs/ppo/simple_tag.yaml"),
)


def config(case: Case, seed: int = 0, overrides: tuple[str, ...] = ()) -> ExperimentConfig:
    return load_experiment(case.config, [f"env.seed={seed}", "runtime.threads=1", *overrides])


@cache
def reference(id: str, name: str, kind: str) -> float:
    """The mean return of an agent of a side that plays at random, or by rule; the others play by rule."""
    side = next(side for side in SIDES[id] if side.name == name)
    chance = {name: at_random(side.choices[name], number) for number, name in enumerate(side.agents)}
    return _mean(id, side, {**side.by_rule, **(chance if kind == "random" else {})}, 0)


def _mean(id: str, side: Side, playing: Mapping[str, Player], seed: int) -> float:
    returns = players.returns(id, playing, EPISODES, 10_000 + EPISODES * seed)
    return float(np.mean([returns[name] for name in side.agents]))


def judged(case: Case, run: Run, seed: int) -> dict[str, float]:
    """What is reported of a trained run: in spread the return of an agent, elsewhere shares of the way."""
    if not case.sides:
        return {"return": run.evaluate(EPISODES * 3, seed=1_000 + seed).summary.mean}
    agent, shares = run.agent(), {}
    for side in case.sides:
        own = {name: _alone(agent, name, run.config.env.state) for name in side.agents}
        worst, best = (reference(case.id, side.name, kind) for kind in ("random", "scripted"))
        shares[side.name] = (_mean(case.id, side, {**side.by_rule, **own}, seed) - worst) / (best - worst)
    return shares


def _alone(agent: Any, name: str, beside_state: bool) -> Player:
    """An agent by itself; one whose value read the state does not need it to act."""

    def choose(observation: np.ndarray) -> int:
        given = {OBSERVATION: observation} if beside_state else observation
        return int(agent.act({name: given})[name])

    return choose


def run(case: Case, seed: int, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    cfg = config(case, seed, overrides)
    used = time.process_time()
    with tempfile.TemporaryDirectory() as runs:
        scores = judged(case, orchestrator.run(cfg, runs_dir=runs, progress=False), seed)
    result = {"case": case.id, "seed": seed, "identity": stated(config(case, 0, overrides)), "scores": scores}
    times = {"env_steps": cfg.train.planned_steps, "cpu_seconds": round(time.process_time() - used, 1)}
    return {**result, **times, **provenance({OURS: ours().versions})}


def current(case: Case, stored: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return newest([line for line in stored if "case" in line], case.id, stated(config(case)))


def learned_rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    made = []
    for case in CASES:
        lines = [*current(case, stored).values()]
        for name in lines[0]["scores"] if lines else ():
            scores = [line["scores"][name] for line in lines]
            alone = len(scores) < 2
            low, high = (scores[0],) * 2 if alone else bootstrap_interval(scores, np.random.default_rng(0))
            goal = WANTED if name == "return" else SHARE
            reached = np.mean(scores) >= goal if name == "return" else low >= goal
            what = "return of an agent" if name == "return" else f"{name}: share of the way"
            by_seed = ", ".join(f"{score:.2f}" for score in scores)
            between = f"{np.mean(scores):.2f} [{low:.2f}, {high:.2f}]"
            steps, seconds = f"{lines[0]['env_steps']:,}", np.mean([line["cpu_seconds"] for line in lines])
            cells = [f"`{case.id}`", what, steps, by_seed, between]
            made.append([*cells, f"{goal}, {'reached' if reached else 'missed'}", f"{seconds:,.0f}"])
    return made


def overheads(stored: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {line["env"]: line for line in stored if line.get("what") == "overhead"}


def cost_rows(stored: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [
            f"`{line['env']}`",
            str(line["num_envs"]),
            f"{line['num_envs'] / line['vector']:,.0f}",
            f"{line['num_envs'] / line['loop']:,.0f}",
            f"{line['vector'] / line['loop']:.2f}",
        ]
        for line in overheads(stored).values()
    ]


def page(stored: list[dict[str, Any]]) -> str:
    learned, costs = learned_rows(stored), cost_rows(stored)
    head = ["environment", "what counts", "steps of agents", "by seed", "mean [95 %]", "goal", "CPU s a seed"]
    cost = ["environment", "copies", "steps of the world per CPU s, vector", "plain loop", "time, vector / loop"]
    parts = [table(head, learned) if learned else "", table(cost, costs) if costs else ""]
    return "\n\n".join(part for part in parts if part) or "Nothing is measured yet."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.multi_agent", description="Many agents.")
    parser.add_argument("--envs", nargs="+", choices=[case.id for case in CASES], help="(default: all)")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--overhead", action="store_true", help="measure a step of the vector instead of learning")
    parser.add_argument("--render", action="store_true", help="only write the tables again, from stored results")
    args = parser.parse_args()
    if args.overhead:
        for id in OVERHEAD.keys() - overheads(read_store(STORE)).keys():
            append(STORE, overhead(id))
    cases = [case for case in CASES if not args.envs or case.id in args.envs]
    train_missing(STORE, 0 if args.render or args.overhead else args.seeds, cases, current, run, _score)
    text = page(read_store(STORE))
    replace_between(PAGE, "multi_agent", text)
    print(text)


def _score(line: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in line["scores"].items())


if __name__ == "__main__":
    main()
