"""Tiny runs in forked children that can be killed, and what must be equal between two of them.

Forking a warmed parent costs milliseconds where a new interpreter costs the import of torch.
"""

from collections.abc import Collection
from pathlib import Path

from rlstudio.core.run_state import RunState
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from
from rlstudio.experiment.folder.run_folder import RunFolder, list_runs
from rlstudio.experiment.run.session import Session
from support.experiments import tiny_data
from support.metrics import first_difference
from support.sessions import resume, start

TRAIN = {
    "a2c": {"epochs": 12, "steps_per_epoch": 120, "rollout_steps": 5, "normalize_rewards": True},
    "diffusion": {"epochs": 12, "steps_per_epoch": 32, "batch_size": 8, "learning_starts": 40, "train_every": 8,
                  "gradient_steps": 2, "gamma": 0.95, "behaviour": "own",
                  "dynamics": {"kind": "ensemble", "members": 2},
                  "planner": {"horizon": 4, "candidates": 8, "levels": 3, "select": "mean", "kl_budget": 0.5,
                              "value": "own"}},
    "mbmpc": {"epochs": 12, "steps_per_epoch": 16, "batch_size": 16, "learning_starts": 24, "train_every": 8,
              "gradient_steps": 2, "n_step": 3, "dynamics": {"members": 2, "hidden_sizes": [8], "noise": True},
              "planner": {"kind": "guided", "horizon": 3, "candidates": 8, "iterations": 2, "policy_candidates": 2}},
    "mpc": {"epochs": 12, "steps_per_epoch": 32, "rollout_steps": 8,
            "planner": {"kind": "icem", "horizon": 4, "candidates": 8}},
    "ppo": {"epochs": 12, "steps_per_epoch": 128, "rollout_steps": 16, "batch_size": 32, "passes": 2},
    "dqn": {"epochs": 12, "steps_per_epoch": 128, "batch_size": 32, "learning_starts": 64, "target_every": 20,
            "train_every": 4, "n_step": 3},
    "qrdqn": {"epochs": 12, "steps_per_epoch": 128, "batch_size": 32, "learning_starts": 64, "target_every": 20,
              "train_every": 4, "n_step": 2, "quantiles": 8, "dueling": True, "prioritized": {}},
    "sac": {"epochs": 12, "steps_per_epoch": 64, "batch_size": 16, "learning_starts": 80, "train_every": 8,
            "gradient_steps": 3, "n_step": 3},
    "td3": {"epochs": 12, "steps_per_epoch": 64, "batch_size": 16, "learning_starts": 32, "random_steps": 80,
            "train_every": 8, "gradient_steps": 3, "noise": "ornstein_uhlenbeck", "lr_schedule": "linear"},
}  # fmt: skip


def config(algo: str, vectorization: str, **sections) -> ExperimentConfig:
    """Small, but with everything in play: normalizer, evaluation, roll-back grid, several checkpoints.

    For `bc` the section `train` is the test's, with its dataset."""
    exploration = {"exploration": "state_dependent", "exploration_hold": 8} if algo == "sac" else {}
    network = {"hidden_sizes": [16], **exploration, "normalize_observations": algo in ("ppo", "a2c", "bc")}
    data = tiny_data(
        algo,
        env={"seed": 7, "vectorization": vectorization},
        policy={"network": network},
        buffer={"capacity": 512},
        eval={"every_epochs": 4, "episodes": 2},
        ckpt={"every_seconds": None, "every_epochs": 3, "keep_last": 2},
        guardrails={"rollback_every_epochs": 5},
    )
    return experiment_from({**data, "train": TRAIN.get(algo, {}), **sections})


def run_to_the_end(cfg: ExperimentConfig, runs_dir: Path) -> RunFolder:
    """Train the run, or what is left of the one that is there."""
    there = list_runs(runs_dir)
    if there and there[0].state == RunState.COMPLETED:
        return RunFolder(runs_dir / there[0].id)
    with open_run(cfg, runs_dir) as session:
        for _ in session:
            pass
        return session.folder


def assert_a_cut_changes_nothing(cfg: ExperimentConfig, place: Path) -> None:
    """A run that is left in the midst of its second epoch and goes on ends as one that was never left."""
    whole = run_to_the_end(cfg, place / "whole")
    with start(cfg, place / "left") as session:
        for tick in session:
            if tick.epoch == 2 and tick.report is None:
                break
    run_to_the_end(cfg, place / "left")
    assert_same_result(only_run(place / "left"), whole)


def open_run(cfg: ExperimentConfig, runs_dir: Path) -> Session:
    """Start the run, or resume the one that is there."""
    there = list_runs(runs_dir)
    return resume(RunFolder(runs_dir / there[0].id)) if there else start(cfg, runs_dir)


def only_run(runs_dir: Path) -> RunFolder:
    (status,) = list_runs(runs_dir)
    return RunFolder(runs_dir / status.id)


def assert_same_result(run: RunFolder, reference: RunFolder, without: Collection[str] = ()) -> None:
    """The promise: state (models, optimizer, replay, randomness, normalizer, envs) and every metric, bit for bit.
    `without`: metrics that one of them could not know yet."""
    mine, theirs = run.read_status(), reference.read_status()
    assert mine.state == RunState.COMPLETED, mine.message
    assert mine.state_hash == theirs.state_hash
    assert first_difference(run.path, reference.path, without) is None
    assert mine.eval_return == theirs.eval_return
    assert mine.exact
