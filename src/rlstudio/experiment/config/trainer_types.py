"""The class of a Trainer, as far as a config needs it: its settings, and what it can be used for."""

from __future__ import annotations

from typing import Protocol

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import UserError


class TrainerType(Protocol):
    """What an experiment asks of the class of a Trainer."""

    Config: type[RunLength]
    off_policy: bool


def trainer_type(algo: str) -> TrainerType:
    """The Trainer class behind a name; this imports the algorithm."""
    trainer: TrainerType = ALGOS.load(algo)
    config = getattr(trainer, "Config", None)
    if not (isinstance(config, type) and issubclass(config, RunLength) and hasattr(trainer, "off_policy")):
        target = ALGOS.find(algo).target
        raise UserError(
            f"algo {algo!r}: {target} must have a Config that extends TrainConfig or RunLength, and say off_policy"
        )
    return trainer
