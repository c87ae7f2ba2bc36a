"""QValueAgent: takes the choice of the highest value. Exploration belongs to the Collector, not here."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.kernels import acting_kernel
from rlstudio.core.contracts import Acted, Array
from rlstudio.core.spaces import Spaces
from rlstudio.models.q_values import QValue


class QValueAgent(Agent):
    fits = ("q-value",)

    def __init__(self, model: QValue, spaces: Spaces) -> None:
        super().__init__(model, spaces)
        self._outputs = acting_kernel(model.encoder, model.q_net)
        self.acting = self._outputs.name

    def step(self, observations: Array, carry: Any = None, noise: np.ndarray | None = None) -> Acted:
        return Acted(self._outputs(observations).argmax(-1), {}, carry)
