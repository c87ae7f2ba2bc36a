"""Every algorithm and every kind of Model keeps the contract of loaded agents."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlstudio.core.catalog import ALGOS
from rlstudio.core.contracts import Trainer
from rlstudio.experiment.checkpoint.agent_spec import read_agent
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.testing import LoadedAgentContract
from rlstudio.testing.agents import after_updates, written
from support import tiny_runs
from support.contracts import suites
from support.export_toys import CASES, EVERY_KIND, PLANNING, trained_trainer


@cache
def planner(algo: str) -> tuple[Trainer, ExperimentConfig]:
    """A planning algorithm after a few updates."""
    cfg = tiny_runs.config(algo, "native")
    return after_updates(cfg), cfg


def test_every_algorithm_is_here() -> None:
    assert {*(case.algo for case in CASES), *PLANNING} == set(ALGOS.names())


class Contract(LoadedAgentContract):
    def trained(self) -> tuple[Trainer, ExperimentConfig]:
        return planner(self.part) if self.part in PLANNING else trained_trainer(self.part)

    def test_a_model_is_described_unless_the_agent_plans(self, tmp_path: Path) -> None:
        trainer, _ = self.trained()
        spec = read_agent(written(trainer, tmp_path).info)
        assert spec is not None
        assert (spec.model is None) == (trainer.agent.acting == "planner")


parts: dict[str, dict[str, Any]] = {algo: {} for algo in PLANNING}
parts |= {case.id: {} if case.id in EVERY_KIND else {"pytestmark": pytest.mark.slow} for case in CASES}
globals().update(suites(Contract, parts))
