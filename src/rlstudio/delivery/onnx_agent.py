"""An agent that acts by the graph of a bundle, through onnxruntime: needs neither the Model nor torch's arithmetic."""

from __future__ import annotations

import numpy as np

from rlstudio.agents.agent import Agent
from rlstudio.core.contracts import Acted, Array, Carried
from rlstudio.core.errors import BundleError, UserError
from rlstudio.delivery.graphs import Arrays, onnx_run
from rlstudio.delivery.ports import ACTIONS, OUTPUTS
from rlstudio.delivery.spec import Spec


class OnnxAgent(Agent):
    """Greedy only: noise is for training."""

    acting = "onnx"

    def __init__(self, spec: Spec, data: bytes, label: str) -> None:
        self.spaces = spec.spaces
        self.remembers = bool(spec.carry_ports)
        self._observations, self._carry = spec.observation_ports, spec.carry_ports
        try:
            self._run = onnx_run(data, spec.inputs, spec.outputs)
        except UserError:
            raise
        except Exception as error:  # onnx, protobuf and onnxruntime each have errors of their own
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise BundleError(f"{label}: is not a graph of this policy: {reason}") from error
        self._start = np.asarray(getattr(self.spaces.action, "start", 0) or 0)

    def step(self, observations: Array, carry: Carried | None = None, noise: np.ndarray | None = None) -> Acted:
        results = self.results(observations, carry)
        after = {port.part: results[port.after.name] for port in self._carry} if self.remembers else carry
        actions = results[ACTIONS]
        return Acted(actions - self._start if self._start.any() else actions, {}, after)

    def deciding(self, observations: Array, carry: Carried | None = None) -> np.ndarray:
        return self.results(observations, carry)[OUTPUTS]

    def results(self, observations: Array, carry: Carried | None = None) -> Arrays:
        """All outputs of the graph by their names; actions in the environment's own numbering."""
        inputs = {}
        for port in self._observations:
            rows = observations[port.part] if isinstance(observations, dict) else observations
            inputs[port.name] = np.ascontiguousarray(rows, port.dtype)
        count = len(next(iter(inputs.values())))
        for port in self._carry:
            held = np.zeros((count, *port.shape), np.float32) if carry is None else carry[port.part]
            inputs[port.name] = np.ascontiguousarray(held, port.dtype)
        return self._run(inputs)
