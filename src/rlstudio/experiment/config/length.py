"""How long a run is: whole epochs of whole rollouts. What does not come out even is rounded up, and said."""

from __future__ import annotations

import warnings
from math import ceil

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.errors import Notice
from rlstudio.core.parsing.yaml_file import Document

EPOCHS, TOTAL = ("train", "epochs"), ("train", "total_steps")


def latest_length(document: Document) -> Document:
    """An override of `total_steps` counts more than `epochs` in the file, and the other way round."""
    overridden = [path for path in (EPOCHS, TOTAL) if path in document.overrides]
    if len(overridden) != 1 or not isinstance(document.data, dict) or not isinstance(document.data.get("train"), dict):
        return document
    _, other = EPOCHS if overridden == [TOTAL] else TOTAL
    train = {name: value for name, value in document.data["train"].items() if name != other}
    return Document({**document.data, "train": train}, document.source, document.marks, document.overrides)


def whole_epochs(train: RunLength, num_envs: int) -> RunLength:
    """The section with `epochs` and a `steps_per_epoch` that whole rollouts of all environments fill."""
    rollout = (getattr(train, "rollout_steps", None) or 1) * num_envs
    epochs, asked = train.epochs, train.steps_per_epoch
    if train.total_steps is not None and "steps_per_epoch" in train.model_fields_set:
        epochs = ceil(train.total_steps / asked)
    elif train.total_steps is not None:
        epochs = max(1, round(train.total_steps / asked))
        asked = ceil(train.total_steps / epochs)
    steps = ceil(asked / rollout) * rollout
    if (train.total_steps or epochs * train.steps_per_epoch) != epochs * steps:
        _say(train, epochs, steps, rollout, num_envs)
    return train.model_copy(update={"epochs": epochs, "steps_per_epoch": steps, "total_steps": None})


def _say(train: RunLength, epochs: int, steps: int, rollout: int, num_envs: int) -> None:
    asked = (
        f"train.total_steps={train.total_steps}"
        if train.total_steps
        else f"train.steps_per_epoch={train.steps_per_epoch}"
    )
    each = (
        f"rollouts of {rollout // num_envs} x {num_envs} steps"
        if rollout > num_envs
        else f"steps of {num_envs} environments"
    )
    total = f"{epochs} epoch{'s' * (epochs > 1)} of {steps:,} steps, {epochs * steps:,} in all"
    warnings.warn(f"{asked} is rounded up to whole {each}: {total}", Notice, stacklevel=2)
