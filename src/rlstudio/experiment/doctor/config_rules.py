"""Settings that are allowed and hardly ever meant. Each rule looks at the config alone."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from rlstudio.experiment.config.algorithm import train_section
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.doctor.advice import Advice

LARGEST_LR = 0.02
LARGEST_CLIP = 0.5
LARGEST_ENTROPY_COEF = 0.3
MOST_RANDOM = 0.3
"""Share of random actions at the end of exploration."""

FEWEST_REFRESHES = 5
"""Of a target network, in a run."""


def config_rules(cfg: ExperimentConfig) -> Iterator[Advice]:
    yield from _learning(cfg)
    yield from _exploration(cfg)
    yield from _replay(cfg)
    yield from _judging(cfg)
    yield from _saving(cfg)


def usual(cfg: ExperimentConfig, field: str) -> object:
    """The algorithm's own default of a setting of `train`."""
    return train_section(cfg.policy.algo).model_fields[field].default


def _learning(cfg: ExperimentConfig) -> Iterator[Advice]:
    lr: float | None = getattr(cfg.train, "lr", None)
    if lr is not None and lr > LARGEST_LR:
        text = f"train.lr {lr:g} is far above what any algorithm here learns with; weights would jump about"
        yield Advice("warning", "learning_rate", text, f"train.lr={usual(cfg, 'lr'):g}")
    clip: float | None = getattr(cfg.train, "clip", None)
    if clip is not None and clip > LARGEST_CLIP:
        text = f"train.clip {clip:g} lets a policy change by more than one and a half times: hardly anything is clipped"
        yield Advice("warning", "clip", text, f"train.clip={usual(cfg, 'clip'):g}")


def _exploration(cfg: ExperimentConfig) -> Iterator[Advice]:
    end: float | None = getattr(cfg.train, "epsilon_end", None)
    if end is not None and end > MOST_RANDOM:
        text = f"train.epsilon_end {end:g}: that share of actions stays random, so late data is hardly its own"
        yield Advice("warning", "random_to_the_end", text, f"train.epsilon_end={usual(cfg, 'epsilon_end'):g}")
    coefficient: float = getattr(cfg.train, "entropy_coef", 0.0)
    if coefficient > LARGEST_ENTROPY_COEF:
        text = f"train.entropy_coef {coefficient:g}: acting at random would pay more than most rewards"
        yield Advice("warning", "entropy", text, "train.entropy_coef=0.01")


def _replay(cfg: ExperimentConfig) -> Iterator[Advice]:
    starts: int | None = getattr(cfg.train, "learning_starts", None)
    if starts is None:
        return
    planned = cfg.train.planned_steps
    if starts > planned / 2:
        text = f"train.learning_starts {starts:,}: nothing is learned in the first {starts / planned:.0%} of the run"
        yield Advice("warning", "late_start", text, f"train.learning_starts={max(planned // 20, 1)}")
    every: int | None = getattr(cfg.train, "target_every", None)
    updates = (planned - starts) // getattr(cfg.train, "train_every", 1) * getattr(cfg.train, "gradient_steps", 1)
    if every is not None and updates / every < FEWEST_REFRESHES:
        text = f"train.target_every {every:,} updates: this run makes {updates:,}, so its target hardly ever moves"
        yield Advice("warning", "target_stands_still", text, f"train.target_every={max(updates // 40, 1)}")


def _judging(cfg: ExperimentConfig) -> Iterator[Advice]:
    every, epochs = cfg.eval.every_epochs, cfg.train.epochs
    if every > epochs:
        text = (
            f"eval.every_epochs {every:,}: the run has {epochs:,} epochs, so it is never evaluated and no best is kept"
        )
        yield Advice("warning", "never_evaluated", text, f"eval.every_epochs={ceil(epochs / 10)}")


def _saving(cfg: ExperimentConfig) -> Iterator[Advice]:
    if cfg.ckpt.every_seconds is None and cfg.ckpt.every_epochs is None:
        text = "ckpt saves neither by time nor by epochs: a crash can cost everything since the last evaluation"
        yield Advice("warning", "no_checkpoints", text, "ckpt.every_seconds=30")
