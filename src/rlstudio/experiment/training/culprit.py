"""Whose fault a crash is: an environment in this process can change what all code in it relies on."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from rlstudio.core.errors import EnvFault, FilesClosed, RLStudioError, message_of


def refuse_changed_torch(env_id: str, ended: str = "") -> None:
    """Raise EnvFault where torch is not as this process set it up. Asked for after the environment was built and tried
    out, and after a crash: looking at every step would cost more than it finds."""
    if changes := ", ".join(_changes()):
        raise EnvFault(
            f"env {env_id}: changed {changes} for the whole process{ended}; leave torch as it is in the environment, or"
            " run it with env.vectorization=async"
        )


def with_culprit(error: Exception | SystemExit, env_id: str) -> Exception:
    """The error, or an EnvFault where a crash of our code follows from what the environment changed in torch. An exit
    that no environment asked for comes from an algorithm or another part."""
    if isinstance(error, SystemExit):
        return RuntimeError(
            f"a part of the run called for the end of the process: {type(error).__name__} {message_of(error)}"
        )
    if isinstance(error, FilesClosed):
        return EnvFault(
            f"env {env_id}: closes files that it did not open ({error}); let it close only its own, or run it with"
            " env.vectorization=async"
        )
    if isinstance(error, RLStudioError):
        return error
    try:
        refuse_changed_torch(env_id, f", which ended the run with {type(error).__name__}: {message_of(error)}")
    except EnvFault as fault:
        return fault
    return error


def _changes() -> Iterator[str]:
    if torch.get_default_dtype() != torch.float32:
        yield f"torch's default dtype to {str(torch.get_default_dtype()).removeprefix('torch.')}"
    if not torch.is_grad_enabled():
        yield "torch to compute no gradients"
