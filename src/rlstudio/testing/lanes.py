"""What every lane promises: it trains an algorithm or says why not, and its trainer's state is the algorithm's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from rlstudio.core.catalog import ALGOS, LANES
from rlstudio.core.contracts import Runtime, Trainer
from rlstudio.core.errors import Incompatible
from rlstudio.experiment.checkpoint.snapshot import capture, restore
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.testing.trainers import as_loaded, hash_of, small_config, weights_of

OTHERS = ("a2c", "dqn", "mpc", "ppo", "sac")
"""Algorithms that every lane is asked about."""

STEPS = 3


class LaneContract:
    """The contract of a lane as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the lane."""

    algos: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Algorithms that it trains, each with settings that make it small."""

    def config(self, algo: str, lane: str) -> ExperimentConfig:
        cfg = small_config(algo, self.algos.get(algo, {}))
        return cfg.model_copy(update={"runtime": cfg.runtime.model_copy(update={"lane": lane})})

    def test_it_trains_what_it_says(self) -> None:
        for algo in self.algos:
            with trainers(self.config(algo, self.part)) as (trainer, _):
                before = weights_of(trainer)
                metrics = trained(trainer)
                assert all(bool(torch.isfinite(value)) for value in metrics.values()), algo
                assert trainer.lr is None or (trainer.gradient_steps > 0 and weights_of(trainer) != before), algo

    def test_a_checkpoint_of_the_algorithm_goes_on_in_it_and_back(self) -> None:
        for algo in self.algos:
            own, lane = self.config(algo, "eager"), self.config(algo, self.part)
            with trainers(own) as (first, last), trainers(lane) as (between, _):
                trained(first)
                for trainer, following in ((first, between), (between, last)):
                    restore(as_loaded(capture(trainer, {}, seed=0, attempt=0, meta={})), following, {})
                    assert hash_of(following) == hash_of(trainer), algo
                    assert following.gradient_steps == trainer.gradient_steps, algo
                    trained(following)

    def test_it_goes_on_bit_for_bit(self) -> None:
        for algo in self.algos:
            with trainers(self.config(algo, self.part)) as (straight, resumed):
                trained(straight)
                restore(as_loaded(capture(straight, {}, seed=0, attempt=0, meta={})), resumed, {})
                for trainer in (straight, resumed):
                    trained(trainer)
                assert hash_of(resumed) == hash_of(straight), algo

    def test_what_it_cannot_train_is_refused_in_one_line(self) -> None:
        lane = LANES.load(self.part)()
        for algo in {*OTHERS, *self.algos} & set(ALGOS.names()):
            cfg = self.config(algo, self.part)
            runtime = build_runtime(cfg)
            reason = lane.refuses(algo, cfg.train, cfg.policy.network, runtime)
            if reason is None:
                assert build_trainer(cfg, runtime).stateful().keys() == self.own_state(algo, runtime).keys()
            else:
                assert algo not in self.algos
                assert reason.strip()
                assert "\n" not in reason
                assert self.refusal(cfg, runtime).startswith(f"runtime.lane: {self.part} cannot train this: {reason}")
            runtime.close()

    def own_state(self, algo: str, runtime: Runtime) -> dict[str, Any]:
        return dict(build_trainer(self.config(algo, "eager"), runtime).stateful())

    def refusal(self, cfg: ExperimentConfig, runtime: Runtime) -> str:
        try:
            build_trainer(cfg, runtime)
        except Incompatible as error:
            return str(error)
        return "it was not refused"


@contextmanager
def trainers(cfg: ExperimentConfig) -> Iterator[tuple[Trainer, Trainer]]:
    """Two alike, each with environments of its own."""
    runtimes = [build_runtime(cfg) for _ in range(2)]
    first, second = (build_trainer(cfg, runtime) for runtime in runtimes)
    yield first, second
    for runtime in runtimes:
        runtime.close()


def trained(trainer: Trainer) -> dict[str, torch.Tensor]:
    """After a few steps; the metrics of the last."""
    for _ in range(STEPS):
        trainer.progress(0.5)
        metrics = trainer.train_step()
    return metrics
