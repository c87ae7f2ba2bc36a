"""The lane that every algorithm has: its own file, operation by operation."""

from __future__ import annotations

from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Algorithm, Runtime, Trainer
from rlstudio.core.rng import Rng


class Eager:
    def refuses(self, algo: str, cfg: object, network: object, runtime: Runtime) -> str | None:
        return None

    def trainer(self, algo: str, cfg: object, runtime: Runtime, network: object, rng: Rng) -> Trainer:
        chosen: Algorithm = ALGOS.load(algo)
        return chosen(cfg, runtime, network, rng)
