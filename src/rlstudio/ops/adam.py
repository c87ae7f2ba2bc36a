"""One step of Adam on flat storage."""

from __future__ import annotations

import torch
from torch import Tensor

from rlstudio.ops.flat import Flat


def adam_(
    flat: Flat,
    mean: Tensor,
    square: Tensor,
    age: Tensor,
    lr: Tensor,
    betas: tuple[float, float],
    eps: float,
    *,
    grad_scale: Tensor | None,
    skip: Tensor,
) -> None:
    """Weights and moments change in place; where `skip` is 1 nothing does. Gradients are divided by `grad_scale`.

    It is the kernel of `torch.optim.Adam(fused=True)`: building that class imports dynamo, which takes a second.
    """
    torch._fused_adam_(
        [flat.data],
        [flat.grad],
        [mean],
        [square],
        [],
        [age],
        lr=lr,
        beta1=betas[0],
        beta2=betas[1],
        weight_decay=0.0,
        eps=eps,
        amsgrad=False,
        maximize=False,
        grad_scale=grad_scale,
        found_inf=skip,
    )
