"""Between a living run and the content of a checkpoint: what is captured, and how it is put back.

A trainer names its parts in `stateful()`; a checkpoint is exactly those, the session's own parts and the seed. Models
go to `module_state`, everything else to `trainer_state`, as the checkpoint schema says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
        with naming_misfits(name):
            if isinstance(part, nn.Module):
                load_weights(part, content["module_state"][name])
            else:
                part.load_state_dict(content["trainer_state"][name])


def attempt_of(content: Content) -> int:
    """How often the run was rolled back before."""
    with naming_misfits("its random numbers"):
        return int(content["rng_state"]["attempt"])


@contextmanager
def naming_misfits(what: str) -> Iterator[None]:
    """Around what takes up values of a checkpoint. Its hashes say that they are those that were written, not that they
    are what this part of a run holds: who wrote a folder also wrote the hashes."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        last = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise CheckpointError(f"the checkpoint does not fit {what}: {last[0].strip()}") from error
