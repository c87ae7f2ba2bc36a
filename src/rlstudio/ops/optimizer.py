"""Adam and RMSprop on flat storage, with gradient clipping and a skip flag that a bad step cannot get past.

    g <- clip(mean over ranks(grad), max_grad_norm)        theta <- rule(theta, g)        unless skip or not finite(g)

A skipped step changes neither weights nor moments nor the step count. (Feeding zeros would not do: Adam's moments still
move the weights.) Nothing reads the flag on the host, so the same code runs eagerly and inside a CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlstudio.core.contracts import Group, State
from rlstudio.core.host.process import PULSE
from rlstudio.ops.adam import adam_
from rlstudio.ops.flat import flatten
from rlstudio.ops.group import ALONE, average_gradient


class Optimizer:
    """Adam. Owns the gradients of one Model: nothing else touches `.grad`."""

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        max_grad_norm: float | None = None,
        group: Group = ALONE,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.flat = flatten(model)
        self.max_grad_norm = max_grad_norm
        self.group = group
        self.betas = betas
        self.eps = eps
        data = self.flat.data
        self.mean, self.square = torch.zeros_like(data), torch.zeros_like(data)
        self.lr = torch.tensor(lr, device=data.device)
        self.count = torch.zeros((), device=data.device)
        self._age = self.count  # the step count used for bias correction
        self.skipped = torch.zeros((), device=data.device)
        self._one = torch.ones((), device=data.device)
        self.calls = 0
        self.never = torch.zeros((), dtype=torch.bool, device=data.device)
        self.limit = torch.full((), torch.inf, device=data.device)
        """A gradient of this norm or more is skipped like one that is not finite. Set by guardrails, which keep it."""

    def step(self, loss: Tensor, skip: Tensor | None = None, weights: Tensor | None = None) -> Tensor:
        """Backward, clip, update. Returns the gradient's norm before clipping.

        `skipped` counts the steps that were not finite or beyond `limit`; those that the caller asked to skip are not
        counted. `weights` are those of the rows that the loss is a mean of: ranks with fewer rows that count pull less.
        """
        flat = self.flat
        self.calls += 1
        PULSE.others += 1
        flat.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        if self.group.size > 1:
            average_gradient(flat.grad, weights, self.group)
        norm: Tensor = torch.linalg.vector_norm(flat.grad)
        # NaN compares false, so this is true for inf and NaN alike.
        bad = torch.logical_not(norm < self.limit)
        self.skipped.add_(bad)
        if skip is not None:
            bad = torch.logical_or(bad, skip)
        is_skipped = bad.float()
        keep = self._one - is_skipped
        self.count.add_(keep)
        scale = None
        if self.max_grad_norm is not None:
            scale = (norm / self.max_grad_norm).clamp_(min=1.0)
        adam_(flat, self.mean, self.square, self._age, self.lr, self.betas, self.eps, grad_scale=scale, skip=is_skipped)
        return norm

    def _tensors(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "count": self.count, "skipped": self.skipped, "lr": self.lr}

    def state_dict(self) -> State:
        return {**self._tensors(), "calls": self.calls}

    def load_state_dict(self, state: State) -> None:
        for name, tensor in self._tensors().items():
            tensor.copy_(torch.as_tensor(state[name]))
        self.calls = int(state["calls"])


class RMSprop(Optimizer):
    """Each weight's step divided by the running root mean square of its gradient (Tieleman and Hinton 2012).

        s <- alpha s + (1 - alpha) g^2        theta <- theta - lr g / (sqrt(s) + eps)

    That is Adam without momentum and with moments so old that nothing is left to correct, so the same kernel does it,
    with the same guarantees. The defaults are those usual for A2C.
    """

    def __init__(
        self,
        model: nn.Module,
        lr: float,
        max_grad_norm: float | None = None,
        group: Group = ALONE,
        alpha: float = 0.99,
        eps: float = 1e-5,
    ) -> None:
        super().__init__(model, lr, max_grad_norm, group, betas=(0.0, alpha), eps=eps)
        self._age = torch.full_like(self.count, torch.inf)  # alpha ** age = 0
