"""Small worlds with every kind of space, agents trained for a moment on them, and an exporter that is quick to ask."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rlstudio.agents.agent import Agent
from rlstudio.agents.rebuild import model_spec
from rlstudio.algos.parts.trainer import Trainer
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.delivery.export import export_agent
from rlstudio.delivery.spec import BundleOrigin
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.build import build_runtime, build_trainer
from support.experiments import tiny

LENGTH = 8


class Anything(gymnasium.Env):
    """Random observations of a space, random rewards; refuses actions that are not in its space or are forbidden."""

    def __init__(self, observation: spaces.Space, action: spaces.Space) -> None:
        self.observation_space, self.action_space = observation, action

    def _shown(self) -> Any:
        shown = self.observation_space.sample()
        if isinstance(shown, dict) and "action_mask" in shown:
            ends = np.cumsum([0, *np.atleast_1d(getattr(self.action_space, "nvec", len(shown["action_mask"])))])
            for begin, end in itertools.pairwise(ends):
                shown["action_mask"][self.np_random.integers(begin, end)] = 1
            self.mask = shown["action_mask"]
        return shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps, self.mask = 0, None
        return self._shown(), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        if self.mask is not None and isinstance(self.action_space, spaces.Discrete):
            assert self.mask[action - self.action_space.start] or not self.mask.any(), f"{action} is forbidden"
        self.steps += 1
        return self._shown(), float(self.np_random.normal()), self.steps == LENGTH, False, {}


NUMBERS = spaces.Box(-1, 1, (3,), np.float32)
TWO = spaces.Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32))
FROM_FIVE = spaces.Discrete(4, start=5)
PARTS = spaces.MultiDiscrete([3, 2], start=[5, -1])
MIXED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (36, 36, 1), np.uint8),
        "choice": spaces.Discrete(3),
        "several": spaces.MultiDiscrete([2, 4]),
        "numbers": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
        "thumb": spaces.Box(0, 255, (4, 4), np.uint8),
    }
)
TOYS: dict[str, tuple[spaces.Space, spaces.Space]] = {
    "Numbers": (NUMBERS, FROM_FIVE),
    "Parts": (NUMBERS, PARTS),
    "Moves": (NUMBERS, TWO),
    "Free": (NUMBERS, spaces.Box(-np.inf, np.inf, (2,), np.float32)),
    "Choice": (spaces.Discrete(5, start=-2), spaces.Discrete(3)),
    "Choices": (spaces.MultiDiscrete([5, 3]), spaces.MultiBinary(3)),
    "Image": (spaces.Box(0, 255, (36, 36), np.uint8), FROM_FIVE),
    "Mixed": (MIXED, FROM_FIVE),
    "MixedMoves": (MIXED, TWO),
    "Masked": (spaces.Dict({"action_mask": spaces.MultiBinary(4), "numbers": NUMBERS}), FROM_FIVE),
    "MaskedParts": (spaces.Dict({"action_mask": spaces.MultiBinary(5), "actions": NUMBERS}), PARTS),
}
STACK = ({"FrameStackObservation": {"stack_size": 4}},)


def register_toys() -> None:
    for name, (observation, action) in TOYS.items():
        if (id := f"export/{name}-v0") not in gymnasium.registry:
            gymnasium.register(id, Anything, kwargs={"observation": observation, "action": action})


class Case(NamedTuple):
    algo: str
    env: str
    network: dict[str, Any] = {}
    train: dict[str, Any] = {}
    wrappers: tuple = ()

    @property
    def id(self) -> str:
        extras = "-".join(f"{k}={v}" for k, v in {**self.network, **self.train}.items())
        return "-".join(filter(None, (self.algo, self.env, "stack" if self.wrappers else "", extras)))


GRU, LSTM = ({"memory": kind, "memory_size": 8} for kind in ("gru", "lstm"))
GSDE = {"exploration": "state_dependent"}
NORMAL = {"normalize_observations": True}

CASES = [
    Case("ppo", "Numbers"),
    Case("ppo", "Parts", NORMAL),
    Case("ppo", "Moves", {"log_std_init": 1.0}),
    Case("ppo", "Free", {"activation": "silu"}),
    Case("ppo", "Moves", GSDE),
    Case("ppo", "Choice", {"hidden_sizes": []}),
    Case("ppo", "Choices", {"activation": "gelu"}),
    Case("ppo", "Image", {}, {}, STACK),
    Case("ppo", "Image", GRU, {}, STACK),
    Case("ppo", "Mixed", NORMAL),
    Case("ppo", "MixedMoves"),
    Case("ppo", "Masked"),
    Case("ppo", "MaskedParts", GRU),
    Case("ppo", "Numbers", LSTM | NORMAL),
    Case("a2c", "Numbers", {"activation": "elu"}),
    Case("a2c", "Mixed", LSTM),
    Case("a2c", "Moves", GRU),
    Case("a2c", "Image", {}, {}, STACK),
    Case("a2c", "MaskedParts"),
    Case("dqn", "Numbers"),
    Case("dqn", "Choice", {}, {"dueling": True}),
    Case("dqn", "Image", {}, {"dueling": True}, STACK),
    Case("dqn", "Mixed"),
    Case("dqn", "Masked", {}, {"dueling": True}),
    Case("qrdqn", "Numbers", {}, {"quantiles": 7}),
    Case("qrdqn", "Image", {}, {"quantiles": 5}, STACK),
    Case("qrdqn", "Mixed", {}, {"quantiles": 5}),
    Case("qrdqn", "Masked", {}, {"quantiles": 5, "dueling": True}),
    Case("sac", "Moves"),
    Case("sac", "Moves", GSDE),
    Case("sac", "MixedMoves"),
    Case("td3", "Moves"),
    Case("td3", "MixedMoves"),
    Case("bc", "Numbers"),
    Case("bc", "Moves", NORMAL, {"loss": "mse"}),
]
EVERY_KIND = {
    "ppo-Numbers",
    "ppo-Parts-normalize_observations=True",
    "ppo-Moves-log_std_init=1.0",
    "ppo-Free-activation=silu",
    "ppo-Moves-exploration=state_dependent",
    "ppo-Choice-hidden_sizes=[]",
    "ppo-Choices-activation=gelu",
    "ppo-Masked",
    "ppo-MaskedParts-memory=gru-memory_size=8",
    "a2c-Mixed-memory=lstm-memory_size=8",
    "a2c-Moves-memory=gru-memory_size=8",
    "dqn-Numbers",
    "dqn-Image-stack-dueling=True",
    "qrdqn-Mixed-quantiles=5",
    "sac-Moves",
    "td3-Moves",
    "td3-MixedMoves",
    "bc-Numbers",
}
"""Each algorithm, each kind of space, each kind of network; the other cases combine them, in the slow suite."""

PLANNING = ("diffusion", "mbmpc", "mpc")  # what plans has a plan in its spec, not a Model


def config(case: Case, **more: Any) -> ExperimentConfig:
    register_toys()
    train: dict[str, Any] = {"lr": 0.01, **case.train}
    if case.algo == "bc":
        train |= {"dataset": recorded(case.env)}
    env_id = case.env if "-v" in case.env else f"export/{case.env}-v0"
    env = {"id": env_id, "wrappers": list(case.wrappers)}
    return tiny(case.algo, **{"env": env, "policy": {"network": case.network}, "train": train, **more})


@cache
def recorded(env: str) -> str:
    """Episodes of an agent that learned nothing, as the folder of a dataset."""
    cfg = config(Case("ppo", env))
    agent = build_trainer(cfg, build_runtime(cfg)).agent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", tempfile.mkdtemp())
        episodes = recorded_episodes(agent, cfg.env, episodes=4, seed=0)
        return str(write_dataset("x-v0", episodes, agent.spaces, None, algorithm="", code="", description=""))


def trained(case_id: str) -> tuple[Agent, ExperimentConfig]:
    """The agent after a few updates: no weight and no statistic is as it was at birth."""
    trainer, cfg = trained_trainer(case_id)
    return trainer.agent, cfg


@cache
def trained_trainer(case_id: str) -> tuple[Trainer, ExperimentConfig]:
    case = next(case for case in CASES if case.id == case_id)
    cfg = config(case)
    env = build_runtime(cfg)
    trainer = build_trainer(cfg, env)
    for _ in range(12 if trainer.off_policy else 2):
        trainer.progress(0.0)
        trainer.train_step()
    env.close()
    return trainer, cfg


@contextmanager
def quick_registry() -> Iterator[None]:
    """The ONNX exporter reads its whole library of operators anew for each graph, five seconds: here once is enough."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    original = ONNXRegistry.__dict__["from_torchlib"]
    kept: dict[Any, Any] = {}

    def from_torchlib(cls, opset_version=None):
        if opset_version not in kept:
            kept[opset_version] = original.__func__(cls, *(() if opset_version is None else (opset_version,)))
        return kept[opset_version]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", classmethod(from_torchlib))
        yield


ALL = ("bundle", "onnx", "torchscript", "torch-export")


def ship(case_id: str, target: Path, formats=ALL):
    """A trained toy as a bundle."""
    agent, cfg = trained(case_id)
    return export_agent(
        agent,
        target,
        model=model_spec(agent.model),
        formats=formats,
        name="toy",
        algo=cfg.policy.algo,
        origin=BundleOrigin(kind="run", run_id="r", checkpoint=5, state_hash="0" * 64, config_hash="1" * 64),
        env=cfg.env,
        config_yaml="{}\n",
    )
