"""Which parts of a trainer are the same in all ranks, and which each rank has for itself.

Weights, optimizers and target networks are the same bits everywhere, since every rank applies the same gradient.
Everything else (environments, replay, open returns, counters) may differ and is kept for each rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import torch
from torch import nn

from rlstudio.core.contracts import State, Stateful, Trainer
from rlstudio.models.weights import load_weights
from rlstudio.ops.optimizer import Optimizer
from rlstudio.ops.target import Target


def is_shared(part: Stateful) -> bool:
    return isinstance(part, nn.Module | Optimizer | Target)


def shared_state(trainer: Trainer) -> State:
    return {name: dict(part.state_dict()) for name, part in trainer.stateful().items() if is_shared(part)}


def own_state(trainer: Trainer) -> State:
    return {name: part.state_dict() for name, part in trainer.stateful().items() if not is_shared(part)}


def first_state(trainer: Trainer) -> State:
    """Of a run that begins: all but where its experience comes from may have been given to rank 0."""
    parts = trainer.stateful().items()
    return {name: dict(part.state_dict()) for name, part in parts if part is not trainer.source}


def load(trainer: Trainer, state: Mapping[str, State]) -> None:
    """These parts, as another process has them."""
    parts = trainer.stateful()
    for name, own in state.items():
        part = parts[name]
        if isinstance(part, nn.Module):
            load_weights(part, own)
        else:
            part.load_state_dict(own)


@torch.no_grad()
def digest(trainer: Trainer) -> str:
    """Of all that must be the same bits in every rank."""
    hashed = sha256()
    for name, state in sorted(shared_state(trainer).items()):
        for key, value in sorted(state.items()):
            hashed.update(f"{name}/{key}".encode())
            is_tensor = isinstance(value, torch.Tensor)
            hashed.update(value.numpy(force=True).tobytes() if is_tensor else repr(value).encode())
    return hashed.hexdigest()
