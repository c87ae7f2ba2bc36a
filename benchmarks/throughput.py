"""Each algorithm's best throughput that still reaches its score: `python -m benchmarks.throughput`.

A setting is a shipped config with overrides (more environments, larger batches, fewer updates). It is trained to its
end over several seeds, one process at a time, and judged like a cell of the learning table: the last policy, on the
plain Gymnasium environment, against the published score less its spread. Steps per second are those of the whole run,
from building it to its last checkpoint. Every finished seed is one line of `results/throughput.jsonl`; what is there
with the same setting is not trained again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.cells import CELLS, Cell
from benchmarks.jobs import JobFailed, run_job
from benchmarks.learning import FIRST_SEED, append, read_store
from benchmarks.learning_page import score
from benchmarks.page import replace_between, table
from benchmarks.records import RESULTS, provenance
from benchmarks.settings import OURS
from benchmarks.venvs import ROOT, Venv, ours
from rlstudio.core.config import config_hash
from rlstudio.experiment.config.experiment import ExperimentConfig, load_experiment

STORE = RESULTS / "throughput.jsonl"
PAGE = ROOT / "docs" / "benchmarks.md"
TIMEOUT_S = 3600.0
UNJUDGED = ("eval.every_epochs=0", "eval.final_episodes=1")
"""Judging comes after the run here, so none of its time is spent on it."""


@dataclass(frozen=True)
class Setting:
    """What is changed in the config of a cell, and with how many threads it runs."""

    key: str
    overrides: tuple[str, ...]
    threads: int = 1

    @property
    def cell(self) -> Cell:
        return next(cell for cell in CELLS if cell.key == self.key)

    @property
    def experiment(self) -> ExperimentConfig:
        return load_experiment(self.cell.config, [*self.overrides, *UNJUDGED])

    @property
    def identity(self) -> str:
        """What the score and the speed depend on, besides the code."""
        return f"{config_hash(self.experiment)}-{self.threads}"

    @property
    def wanted(self) -> float:
        published = self.cell.published
        assert published is not None
        return published.mean - published.std

    def job(self, seed: int, episodes: int) -> dict[str, Any]:
        told = {"seed": seed, "threads": self.threads, "episodes": episodes, "first_seed": FIRST_SEED}
        return {**told, "config": self.cell.config, "overrides": [*self.overrides, *UNJUDGED]}


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "ppo_cartpole",
        ("env.num_envs=64", "train.batch_size=512", "train.passes=10", "train.lr=2e-3"),
    ),
    Setting("ppo_pendulum", ("env.num_envs=32", "train.rollout_steps=128", "train.batch_size=256", "train.lr=2e-3")),
    Setting("a2c_cartpole", ("env.num_envs=40", "train.epochs=50", "train.lr=3e-3")),
    Setting("a2c_pendulum", ("env.num_envs=64", "train.lr=5e-3")),
    Setting("dqn_cartpole", ()),  # 4 environments ended at 489, 8 at 165 and 473
    Setting("qrdqn_mountaincar", ()),  # 8 environments never found the flag
    Setting("sac_pendulum", ("env.num_envs=4", "train.epochs=40", "train.train_every=4", "train.gradient_steps=1")),
    Setting("td3_pendulum", ("env.num_envs=2", "train.epochs=40", "train.train_every=2", "train.gradient_steps=1")),
)


def train(settings: Sequence[Setting], seeds: int, episodes: int, venv: Venv) -> int:
    """Train what is missing, seed by seed over all settings; returns how many runs failed."""
    failed = 0
    for seed in range(seeds):
        for setting in settings:
            if any(line["seed"] == seed for line in lines_of(setting, read_store(STORE))):
                continue
            try:
                found = run_job(venv.python, "rlstudio_learner", setting.job(seed, episodes), timeout=TIMEOUT_S)
            except JobFailed as error:
                failed += 1
                print(f"{setting.key:17} seed {seed}  failed: {error}", file=sys.stderr, flush=True)
                continue
            told = {"key": setting.key, "identity": setting.identity, "seed": seed}
            line = {**told, **found, **provenance({OURS: venv.versions})}
            append(STORE, line)
            mean = sum(line["returns"]) / len(line["returns"])
            print(f"{setting.key:17} seed {seed}  {mean:8.1f}  {rate(line):,.0f} steps/s", file=sys.stderr, flush=True)
    return failed


def lines_of(setting: Setting, stored: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What today's setting gave: the newest line of each seed."""
    mine = [line for line in stored if line["key"] == setting.key and line["identity"] == setting.identity]
    return list({line["seed"]: line for line in mine}.values())


def rate(line: dict[str, Any]) -> float:
    return float(line["env_steps"] / line["seconds"])


def report(stored: Sequence[dict[str, Any]]) -> str:
    rows, notes = [], []
    for setting in SETTINGS:
        lines = lines_of(setting, stored)
        if not lines:
            continue
        mine = score(lines)
        reached = "yes" if mine.iqm >= setting.wanted else "**no**"
        rows.append(
            [
                f"`{setting.cell.config}`<br>{_overrides(setting)}",
                f"{median(map(rate, lines)):,.0f}",
                f"{mine.env_steps:,}",
                f"{mine} (n={len(lines)})",
                f">= {setting.wanted:g}",
                reached,
            ]
        )
        machine = lines[-1]["machine"]
        notes.append(f"{lines[-1]['date']}; {machine['cores']} cores ({machine['processor']})")
    if not rows:
        return "No setting has been trained yet."
    body = table(["setting", "steps/s", "steps", "IQM [95 %]", "wanted", "reached"], rows)
    return f"{body}\n\n<sub>`python -m benchmarks.throughput`, {'; '.join(dict.fromkeys(notes))}.</sub>"


def _overrides(setting: Setting) -> str:
    return " ".join(f"`{override}`" for override in setting.overrides) or "as it is"


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    keys = [setting.key for setting in SETTINGS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", description="Speed that still learns.")
    parser.add_argument("--settings", nargs="+", choices=keys, default=keys, help="which settings (default: all)")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each setting")
    parser.add_argument("--episodes", type=int, default=50, help="judging episodes of each seed")
    parser.add_argument("--render", action="store_true", help="only write the table again, from stored results")
    return parser.parse_args(argv)


def main() -> None:
    args = arguments()
    chosen = [setting for setting in SETTINGS if setting.key in args.settings]
    failed = 0 if args.render else train(chosen, args.seeds, args.episodes, ours())
    text = report(read_store(STORE))
    replace_between(PAGE, "throughput", text)
    print(text)
    if failed:
        raise SystemExit(f"{failed} runs failed; start the command again to repeat them")


if __name__ == "__main__":
    main()
