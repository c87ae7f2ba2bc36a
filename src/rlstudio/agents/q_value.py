"""QValueAgent: takes the choice of the highest value. Exploration belongs to the Collector, not here."""

from __future__ import annotations

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.agents.kernels import acting_kernel
from rlstudio.core.contracts import Acted, Array, Carried, Model
from rlstudio.core.spaces import Spaces


class QValueAgent(Agent):
    """Takes the choice of highest value; with a quantile-value Model that is the mean of its quantiles."""

    rule = "values"

    def __init__(self, model: Model, spaces: Spaces) -> None:
        super().__init__(model, spaces)
        self._outputs = acting_kernel(model)
        self._quantiles = model.action_rule().per_choice
        self.acting = self._outputs.name

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        return Acted(self.deciding(observations).argmax(-1), {}, carry)

    def deciding(self, observations: Array, carry: Carried | None = None) -> np.ndarray:
        values = self._outputs(observations)
        if self._quantiles > 1:
            values = values.reshape(len(values), -1, self._quantiles).mean(-1)
        return self.permitted(values, observations)
