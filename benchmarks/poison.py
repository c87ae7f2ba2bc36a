"""Is an environment that lies found, and is what is left enough? `python -m benchmarks.poison [--seeds 3]`.

DQN learns CartPole and SAC learns Pendulum from four environments. One tells the truth for 1,000 steps and then
lies (`lying_env.py`). Counted are the rows of the replay from the first lie to the quarantine, over all environments.
Then the same runs are trained to their end, with and without `buffer.quarantine`, and evaluated where nobody lies.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.lying_env import LIES, LyingEnvs
from benchmarks.page import table
from rlstudio.data.replay.source import ReplaySource
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.experiment.training.loop import train
from rlstudio.experiment.training.position import Position

ENVS, AFTER = 4, 1000
WITHIN = 5000
TRAIN = {
    "dqn": {"batch_size": 64, "lr": 1e-3, "learning_starts": 1000, "train_every": 4, "gradient_steps": 2, "n_step": 3,
            "target_every": 1, "tau": 0.01, "epsilon_fraction": 0.16, "epsilon_end": 0.04, "lr_schedule": "linear"},
    "sac": {"batch_size": 128, "lr": 1e-3, "learning_starts": 400, "train_every": 2, "gradient_steps": 2},
}  # fmt: skip
WORLDS = {"dqn": ("CartPole-v1", [128, 128], 48 * 1024), "sac": ("Pendulum-v1", [64, 64], 14_000)}
SCORE = {"dqn": 450.0, "sac": -200.0}


class Poisoned(NamedTuple):
    rows: int | None  # of all environments, from the first lie to the quarantine
    found: str  # who, and why
    score: float | None


def experiment(algo: str, seed: int, steps: int, *, quarantine: bool = True, **train: int) -> ExperimentConfig:
    world, hidden, _ = WORLDS[algo]
    return experiment_from(
        {
            "env": {"id": world, "num_envs": ENVS, "seed": seed},
            "policy": {"algo": algo, "network": {"hidden_sizes": hidden, "activation": "relu"}},
            "train": {**TRAIN[algo], "epochs": 1, "steps_per_epoch": steps, **train},
            "buffer": {"capacity": 100_000, "quarantine": quarantine},
        }
    )


def poisoned(cfg: ExperimentConfig, lie: str, *, to_the_end: bool = False) -> Poisoned:
    """One run with a liar; of the seed depends which environment that is."""
    runtime = build_runtime(cfg)
    liar = cfg.env.seed % ENVS
    if lie:
        runtime.env = LyingEnvs(runtime.env, liar, lie, AFTER)  # type: ignore[attr-defined]
    try:
        trainer = build_trainer(cfg, runtime)
        source = trainer.source
        assert isinstance(source, ReplaySource)
        assert source.sources is not None
        rows: int | None = None
        for tick in train(trainer, cfg.train, Position()):
            if rows is None and source.sources.quarantined:
                rows = tick.env_steps - AFTER * ENVS
                if not to_the_end:
                    break
        found = ", ".join(f"{source.sources.origins[n].name}: {why}" for n, why in source.sources.quarantined.items())
        score = None
        if to_the_end:
            score = evaluate(trainer.agent, cfg.env, episodes=20, seed=cfg.env.seed).summary.mean
        return Poisoned(rows, found, score)
    finally:
        runtime.close()


def report(algos: Sequence[str], seeds: int) -> None:
    print(table(["algorithm", "lie", "found", "rows until then", "score without its rows", "with them"], []))
    for algo in algos:
        for lie in LIES:
            ends = [
                [
                    poisoned(experiment(algo, seed, WORLDS[algo][2], quarantine=on), lie, to_the_end=True)
                    for on in (True, False)
                ]
                for seed in range(1, seeds + 1)
            ]
            rows = [left.rows for left, _ in ends if left.rows is not None and left.rows <= WITHIN]
            scores = (", ".join(f"{end[side].score:.0f}" for end in ends) for side in (0, 1))
            print(
                f"| {algo} | {lie} | {len(rows)} of {seeds} | {max(rows, default=0):,} | {' | '.join(scores)} |",
                flush=True,
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algos", nargs="+", choices=list(TRAIN), default=list(TRAIN))
    parser.add_argument("--seeds", type=int, default=3, help="runs of each lie")
    given = parser.parse_args(arguments)
    report(given.algos, given.seeds)


if __name__ == "__main__":
    main()
