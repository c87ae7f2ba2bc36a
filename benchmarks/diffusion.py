"""What diffusion planning does: `python -m benchmarks.diffusion`.

- Pendulum-v1, `configs/diffusion/pendulum.yaml`: what the episodes it learned from returned, the prior alone, the best
  of many samples, and guidance.
- The same prior weighted by exp(beta * return), for one beta after the other: return, E_q[R], KL(q || p0), effective
  samples.
- The same with half the horizon, with and without a learned value of what comes after it.
- CartPole-v1 with the dense planning reward; and behavioural cloning from 50 episodes of a planner.

Every agent plays the same 50 starts. Raw numbers go to `benchmarks/results/diffusion.json`, tables to
`docs/algorithms/diffusion.md`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.page import replace_between, table
from benchmarks.records import provenance, read_result, write_result
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, ours
from rlstudio.agents.planning import PlanningAgent
from rlstudio.algos.diffusion import Diffusion
from rlstudio.core.contracts import Acted, Planned, Planner
from rlstudio.data.collect.carry import without_rows
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.envs.make import make_vec_env
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.diffusion import DiffusionPlanner, DiffusionPlannerConfig
from rlstudio.planners.score import ReturnScore

PAGE = ROOT / "docs" / "algorithms" / "diffusion.md"
STARTS = 50
SEED = 1_000
BETAS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ENOUGH = 5.0
"""Effective samples below which the weights stand for a few samples and not for a posterior."""

CARTPOLE: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "num_envs": 16},
    "policy": {"algo": "diffusion", "network": {"hidden_sizes": [128, 128], "activation": "silu"}},
    "train": {
        "epochs": 2,
        "steps_per_epoch": 3200,
        "batch_size": 256,
        "learning_starts": 3200,
        "train_every": 320,
        "gradient_steps": 50,
        "planner": {"horizon": 15, "candidates": 64, "levels": 5, "reward": "dense"},
        "behaviour": {"kind": "random_shooting", "horizon": 15, "candidates": 64},
        "random_share": 1.0,
    },
}
CLONED: dict[str, Any] = {"epochs": 4, "steps_per_epoch": 25_600, "batch_size": 256, "lr": 3e-3}


class Earned(NamedTuple):
    returns: list[float]
    metrics: dict[str, float]  # of the plans, over all steps

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def error(self) -> float:
        """Half the width of a 95 % interval."""
        return float(1.96 * np.std(self.returns, ddof=1) / len(self.returns) ** 0.5)

    def to_json(self) -> dict[str, Any]:
        return {"returns": self.returns, "metrics": self.metrics}


class Noting:
    """A planner that keeps what it reported."""

    def __init__(self, planner: Planner) -> None:
        self.planner, self.noise = planner, planner.noise
        self.noted: list[dict[str, float]] = []

    def plan(self, observations: Any, score: Any, carry: Any, noise: Any) -> Planned:
        planned = self.planner.plan(observations, score, carry, noise)
        self.noted.append({name: float(row.mean()) for name, row in planned.metrics.items()})
        return planned


def trained(cfg: ExperimentConfig) -> tuple[Diffusion, float]:
    """The trainer at its end, and what the episodes that it learned from returned."""
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    assert isinstance(trainer, Diffusion)
    returns: list[float] = []
    for tick in train(trainer, cfg.train, Position()):
        if tick.report is not None:
            told = tick.report.metrics
            returns += [told["rollout/return_mean"]] * int(told["rollout/episodes"])
    env.close()
    return trainer, float(np.mean(returns))


def earned(trainer: Diffusion, cfg: ExperimentConfig, **planner: Any) -> Earned:
    """The first episode of each start, with another planner over the same prior."""
    settings = DiffusionPlannerConfig(**{**cfg.train.planner.model_dump(), **planner})
    noting = Noting(DiffusionPlanner(settings, trainer.model.prior))
    agent = PlanningAgent(noting, trainer.agent.score, trainer.agent.spaces, trainer.model)
    env = make_vec_env(cfg.env, num_envs=STARTS, seed=SEED, vectorization="native")
    totals, alive = np.zeros(STARTS), np.ones(STARTS, bool)
    observations, carry = env.reset(), None
    generator = agent.noise(np.random.default_rng(SEED), 1, STARTS)
    for number in range(1000):
        acted: Acted = agent.step(observations, carry, generator[number])
        step = env.step(acted.actions)
        totals += step.rewards * alive
        ended = np.logical_or(step.terminated, step.truncated)
        alive &= ~ended
        observations, carry = step.observations, without_rows(acted.carry, ended.nonzero()[0])
        if not alive.any():
            break
    env.close()
    means = {name: float(np.mean([row[name] for row in noting.noted])) for name in noting.noted[0]}
    return Earned(totals.tolist(), means)


def pendulum() -> dict[str, Any]:
    cfg = load_experiment("configs/diffusion/pendulum.yaml")
    started = time.perf_counter()
    trainer, shown = trained(cfg)
    seconds = time.perf_counter() - started
    print(f"Pendulum: {seconds:.0f} s of training, episodes it learned from returned {shown:.1f}", flush=True)
    ways: dict[str, dict[str, Any]] = {
        "sample": {"candidates": 1},
        "still": {"candidates": 1, "temperature": 0.0},
        "prior": {"select": "mean", "beta": 0.0},
        "selected": {},
        "budget": {"select": "mean", "kl_budget": 2.0},
        "guided": {"guidance": 0.1},
    }
    found = {}
    for name, settings in ways.items():
        found[name] = earned(trainer, cfg, **settings)
        print(f"  {name:10} {found[name].mean:8.1f} +- {found[name].error:.1f}  {found[name].metrics}", flush=True)
    by_beta = []
    for beta in BETAS:
        row = earned(trainer, cfg, select="mean", beta=beta)
        by_beta.append({"beta": beta, **row.to_json()})
        print(f"  beta {beta:<5} {row.mean:8.1f} +- {row.error:.1f}  {row.metrics}", flush=True)
    return {
        "seconds": seconds,
        "dataset": shown,
        "ways": {name: row.to_json() for name, row in found.items()},
        "betas": by_beta,
    }


def value() -> dict[str, Any]:
    """A horizon too short for the task, and a value that is learned from the same episodes."""
    cfg = load_experiment(
        "configs/diffusion/pendulum.yaml",
        ["train.planner.horizon=8", "train.planner.value=own", "train.gamma=0.98"],
    )
    trainer, shown = trained(cfg)
    found = {"own": earned(trainer, cfg), "own guided": earned(trainer, cfg, guidance=0.1)}
    trainer.agent.score = ReturnScore(trainer.agent.score.dynamics, gamma=0.98)
    found |= {"none": earned(trainer, cfg), "none guided": earned(trainer, cfg, guidance=0.1)}
    told = ", ".join(f"{name} {row.mean:.1f} +- {row.error:.1f}" for name, row in found.items())
    print(f"Pendulum, 8 steps: learned from {shown:.1f}, value {told}", flush=True)
    return {"dataset": shown, "ways": {name: row.to_json() for name, row in found.items()}}


def cartpole() -> dict[str, Any]:
    cfg = experiment_from(CARTPOLE)
    trainer, shown = trained(cfg)
    found = {name: earned(trainer, cfg, **way) for name, way in {"prior": {"candidates": 1}, "selected": {}}.items()}
    print(
        f"CartPole: learned from {shown:.1f}, " + ", ".join(f"{k} {v.mean:.1f}" for k, v in found.items()), flush=True
    )
    return {"dataset": shown, "ways": {name: row.to_json() for name, row in found.items()}}


def cloning() -> dict[str, Any]:
    """50 episodes of a planner, and a policy cloned from them."""
    base = {
        "env": {"id": "CartPole-v1"},
        "policy": {"algo": "bc"},
        "train": {**CLONED, "dataset": "cartpole/expert-v0"},
    }
    cfg = experiment_from(base)
    env = build_runtime(cfg)
    planner = build_planner(PlannerConfig(kind="random_shooting", horizon=15, candidates=128), env.spaces.action)
    expert = PlanningAgent(planner, ReturnScore(analytic_dynamics("CartPole-v1")), env.spaces)
    shown = recorded_episodes(expert, cfg.env, episodes=50, seed=SEED, vectorization="native")
    returns = [float(episode.rewards.sum()) for episode in shown]
    with tempfile.TemporaryDirectory() as place:
        os.environ["MINARI_DATASETS_PATH"] = place
        write_dataset("cartpole/expert-v0", shown, env.spaces, None, algorithm="planner", code="", description="")
        trainer = build_trainer(cfg, env)
        started = time.perf_counter()
        for _ in train(trainer, cfg.train, Position()):
            pass
        seconds = time.perf_counter() - started
    judged = evaluate(trainer.agent, cfg.env, episodes=STARTS, seed=SEED)
    print(f"Cloning: expert {np.mean(returns):.1f}, clone {judged.summary.mean:.1f}, {seconds:.1f} s", flush=True)
    return {"expert": returns, "returns": list(judged.returns), "seconds": seconds}


PARTS = {"pendulum": pendulum, "value": value, "cartpole": cartpole, "cloning": cloning}


# -- the page ----------------------------------------------------------------------------------------------------------


def spearman(first: list[float], second: list[float]) -> float:
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


def page(result: dict[str, Any]) -> str:
    swing, cart, clone = result["pendulum"], result["cartpole"], result["cloning"]
    ways = {name: Earned(**row) for name, row in swing["ways"].items()}
    betas = [(row["beta"], Earned(row["returns"], row["metrics"])) for row in swing["betas"]]
    many = [(beta, row) for beta, row in betas if row.metrics["effective_samples"] >= ENOUGH]
    rank = spearman([beta for beta, _ in many], [row.mean for _, row in many])
    better = {name: ways[name].mean > swing["dataset"] for name in ("still", "prior")}
    best_of_all = ways["selected"].mean > max(ways[name].mean for name in ("sample", "still", "prior"))
    best = Earned(**cart["ways"]["selected"]).mean
    short = {name: Earned(**row) for name, row in result["value"]["ways"].items()}
    helps = {way: short[f"own{way}"].mean > short[f"none{way}"].mean for way in ("", " guided")}
    told = [
        ["Pendulum: episodes it learned from", f"{swing['dataset']:.0f}", "", ""],
        ["Pendulum: one sample of the prior", _told(ways["sample"]), "", ""],
        ["Pendulum: the prior without noise", _told(ways["still"]), "above the data", _met(better["still"])],
        ["Pendulum: mean of the prior", _told(ways["prior"]), "above the data", _met(better["prior"])],
        ["Pendulum: best of the samples", _told(ways["selected"]), "above the prior", _met(best_of_all)],
        ["Pendulum: mean of the posterior, 2 nats", _told(ways["budget"]), "", ""],
        ["Pendulum: best of guided samples", _told(ways["guided"]), "", ""],
        ["Pendulum: rank correlation of beta and return", f"{rank:.2f}", ">= 0.9", _met(rank >= 0.9)],
        ["Pendulum, 8 steps: best of the samples, no value", _told(short["none"]), "", ""],
        ["Pendulum, 8 steps: the same with a learned value", _told(short["own"]), "above no value", _met(helps[""])],
        ["Pendulum, 8 steps: best of guided samples, no value", _told(short["none guided"]), "", ""],
        [
            "Pendulum, 8 steps: guided by return and learned value",
            _told(short["own guided"]),
            "above no value",
            _met(helps[" guided"]),
        ],
        ["CartPole: best of the samples, dense reward", f"{best:.0f}", ">= 475", _met(best >= 475)],
        [
            f"CartPole: cloned from 50 episodes (of {np.mean(clone['expert']):.0f})",
            f"{np.mean(clone['returns']):.0f}",
            ">= 475",
            _met(float(np.mean(clone["returns"])) >= 475),
        ],
    ]
    rows = [
        [
            f"{beta:g}",
            _told(row),
            f"{row.metrics['expected_return']:.1f}",
            f"{row.metrics['kl']:.2f}",
            f"{row.metrics['effective_samples']:.1f}",
        ]
        for beta, row in betas
    ]
    return (
        f"{STARTS} starts each; the interval is 95 %.\n\n"
        + table(["what", "return", "wanted", "met"], told)
        + "\n\nPendulum, mean of the prior's samples weighted by exp(beta * return); the last three are means over\n"
        f"all plans. The rank correlation above counts betas with at least {ENOUGH:g} effective samples.\n\n"
        + table(["beta", "return", "E_q[R] of a plan", "KL(q, p0), nats", "effective samples"], rows)
    )


def _told(row: Earned) -> str:
    return f"{row.mean:.0f} ± {row.error:.0f}"


def _met(yes: bool) -> str:
    return "yes" if yes else "no"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diffusion", description="What diffusion planning does.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="the others stay as stored")
    args = parser.parse_args()
    torch.set_num_threads(1)
    stored = read_result("diffusion") or {}
    result = {name: part() if name in args.parts else stored[name] for name, part in PARTS.items()}
    write_result("diffusion", {**result, **provenance({OURS: ours().versions})})
    text = page(result)
    replace_between(PAGE, "diffusion", text)
    print(text)


if __name__ == "__main__":
    main()
