"""The lane that every algorithm has: its own file, operation by operation."""

from __future__ import annotations

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Runtime, Trainer
from rlstudio.core.rng import Rng
from rlstudio.models.config import NetworkConfig


class Eager:
    def refuses(self, algo: str, cfg: RunLength, network: NetworkConfig, runtime: Runtime) -> str | None:
        return None

    def trainer(self, algo: str, cfg: RunLength, runtime: Runtime, network: NetworkConfig, rng: Rng) -> Trainer:
        trainer: Trainer = ALGOS.load(algo)(cfg, runtime, network, rng)
        return trainer
