"""An environment of this Python process: a class, a function or an object. Its run goes on with the same one only."""

from __future__ import annotations

import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.core.errors import UserError
from rlstudio.envs.python_envs import FACTORIES
from support.experiments import tiny_data


class Slope(gymnasium.Env):
    def __init__(self, length: int = 10) -> None:
        self.observation_space = gymnasium.spaces.Box(-20, 20, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length

    def reset(self, *, seed=None, options=None):  # type: ignore[no-untyped-def]
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):  # type: ignore[no-untyped-def]
        self.steps += 1
        return np.full(1, self.steps, np.float32), float(action), self.steps >= self.length, False, {}


def experiment() -> dict[str, object]:
    data = tiny_data(train={"epochs": 1}, eval={"final_episodes": 1})
    del data["env"]
    return data


@pytest.fixture(autouse=True)
def _no_factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FACTORIES.clear()


@pytest.mark.parametrize(
    ("env", "id"), [(Slope, "python:Slope"), (lambda: Slope(5), "python:_lambda_"), (Slope(7), "python:Slope")]
)
def test_a_class_a_function_or_an_object_is_trained_on(env: object, id: str) -> None:
    """Newcomer: an env object instead of an id was missed."""
    run = orchestrator.run(experiment(), "env.num_envs=2", env=env, progress=False)
    assert (run.state, run.config.env.id) == ("COMPLETED", id)
    lengths = run.metrics("rollout/length_mean")["rollout/length_mean"]
    assert float(lengths.iloc[0]) == {"python:_lambda_": 5.0}.get(id, 7.0 if isinstance(env, Slope) else 10.0)


def test_such_a_run_goes_on_from_python_with_the_same_environment_only(capsys: pytest.CaptureFixture[str]) -> None:
    first = orchestrator.run(experiment(), env=Slope, progress=False)
    whole = orchestrator.run(experiment(), "train.epochs=2", env=Slope, progress=False)
    FACTORIES.clear()  # as in another process
    assert main(["resume", first.id, "train.epochs=2"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "env.id: python:Slope was given as an object in Python" in line
    assert "orchestrator.resume(RUN, env=...)" in line
    with pytest.raises(UserError, match="was started with python:Slope, and python:CartPoleEnv was given"):
        orchestrator.resume(first.id, "train.epochs=2", env=gymnasium.make("CartPole-v1"), progress=False)
    FACTORIES.clear()
    assert orchestrator.resume(first.id, "train.epochs=2", env=Slope, progress=False).state == "COMPLETED"
    assert first.status.state_hash == whole.status.state_hash


def test_what_cannot_work_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    done = orchestrator.run(experiment(), env=Slope, progress=False)
    with pytest.raises(UserError, match=r"the queue opens a run in another; .* env.id=FILE.py:Class"):
        orchestrator.launch({**experiment(), "env": {"id": "python:Slope"}})
    assert main(["resume", done.id, "train.epochs=3", "--detach"]) == 2
    assert "the queue opens a run in another" in capsys.readouterr().err
    with pytest.raises(UserError, match="a int is no environment; give a class"):
        orchestrator.run(experiment(), env=3)
    held = Slope()
    held.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(UserError, match=r"this object cannot be copied \(TypeError: .*give a function that makes one"):
        orchestrator.run(experiment(), env=held)
    cart = orchestrator.run({**experiment(), "env": {"id": "CartPole-v1", "num_envs": 2}}, progress=False)
    with pytest.raises(UserError, match="its environment CartPole-v1 is known by its id; leave env out"):
        cart.resume(env=Slope)
