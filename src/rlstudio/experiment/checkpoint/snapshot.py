"""Between a living run and the content of a checkpoint: what is captured, and how it is put back.

A trainer names its parts in `stateful()`; a checkpoint is exactly those, the session's own parts and the seed. Models
go to `module_state`, everything else to `trainer_state`, as the checkpoint schema says.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from rlstudio.core.contracts import Stateful, Trainer
from rlstudio.core.errors import CheckpointError
from rlstudio.core.timestamps import timestamp
from rlstudio.experiment.checkpoint.checkpoints import Content
from rlstudio.experiment.checkpoint.manifest import VERSION, Meta
from rlstudio.models.weights import load_weights


def capture(trainer: Trainer, parts: Mapping[str, Stateful], *, seed: int, attempt: int, meta: Meta) -> Content:
    """The whole state; `parts` are the session's own (loop position, gates, best so far)."""
    every = {**trainer.stateful(), **parts}
    return {
        "version": VERSION,
        "module_state": {name: dict(part.state_dict()) for name, part in every.items() if isinstance(part, nn.Module)},
        "trainer_state": {name: part.state_dict() for name, part in every.items() if not isinstance(part, nn.Module)},
        "replay_meta": {"size": trainer.source.size},
        "rng_state": {"seed": seed, "attempt": attempt},
        "meta": {"created_at": timestamp(), **meta},
    }


def restore(content: Content, trainer: Trainer, parts: Mapping[str, Stateful]) -> None:
    """Put a captured state into freshly built parts."""
    for name, part in {**trainer.stateful(), **parts}.items():
        try:
            if isinstance(part, nn.Module):
                load_weights(part, content["module_state"][name])
            else:
                part.load_state_dict(content["trainer_state"][name])
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"the checkpoint does not fit {name}: {str(error).splitlines()[-1].strip()}"
            ) from error
