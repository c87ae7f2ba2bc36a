import subprocess
import sys

import pytest
from pydantic import ValidationError

from rlstudio.envs.config import MINIGRID_WRAPPERS, WRAPPERS, EnvConfig


def test_defaults():
    cfg = EnvConfig(id="CartPole-v1")
    assert (cfg.num_envs, cfg.seed, cfg.vectorization, cfg.kwargs, cfg.wrappers) == (8, 42, "auto", {}, ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "mymodule:Env-v0"}, "--import mymodule"),
        ({"id": "a b"}, "not an environment id"),
        ({"id": ""}, "not an environment id"),
        ({"num_envs": 0}, "greater than or equal to 1"),
        ({"num_envs": 65537}, "less than or equal to 65536"),
        ({"seed": -1}, "greater than or equal to 0"),
        ({"seed": 2**32}, "less than or equal to"),
        ({"vectorization": "thread"}, "native"),
        ({"kwargs": {"x": float("nan")}}, "finite"),
        ({"kwargs": {"x": object()}}, "valid JSON|json"),
        ({"wrappers": ["FlatenObservation"]}, "did you mean FlattenObservation"),
        ({"wrappers": ["HumanRendering"]}, "unknown wrapper"),
        ({"wrappers": ["TimeLimit"]}, "env.max_episode_steps"),
        ({"wrappers": ["NormalizeObservation"]}, "set policy.network.normalize_observations"),
        ({"wrappers": [{"ClipReward": {}, "RepeatAction": {}}]}, "2 names"),
        (
            {"wrappers": [{"FrameStackObservation": {"stack_size": 10**9}}]},
            "stack_size is 1,000,000,000; at most 10,000",
        ),
        ({"wrappers": [{"ResizeObservation": {"shape": [84, 10**6]}}]}, "shape is 1,000,000; at most 10,000"),
        ({"max_episode_steps": 0}, "greater than or equal to 1"),
        ({"workers": 2}, "env.vectorization is auto; set that to async or leave this out"),
        ({"workers": 2, "vectorization": "sync"}, "only async has worker processes"),
        ({"workers": 9, "vectorization": "async"}, "9 worker processes for 8 copies; use 8 or fewer"),
        ({"workers": 0, "vectorization": "async"}, "greater than or equal to 1"),
        ({"sed": 1}, "Extra inputs"),
    ],
)
def test_refusals(fields, message):
    with pytest.raises(ValidationError, match=message):
        EnvConfig(**{"id": "CartPole-v1", **fields})


def test_wrappers_as_calls_and_through_json():
    cfg = EnvConfig(id="x", wrappers=["FlattenObservation", {"FrameStackObservation": {"stack_size": 4}}])
    assert cfg.wrapper_calls() == [("FlattenObservation", {}), ("FrameStackObservation", {"stack_size": 4})]
    assert EnvConfig.model_validate_json(cfg.model_dump_json()) == cfg


def test_every_allowed_wrapper_exists():
    import gymnasium.wrappers
    import minigrid.wrappers

    assert all(hasattr(gymnasium.wrappers, name) for name in WRAPPERS)
    assert all(hasattr(minigrid.wrappers, name) for name in MINIGRID_WRAPPERS)


def test_every_field_is_documented():
    assert all(field.description for field in EnvConfig.model_fields.values())


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("rlstudio.envs.config", ("torch", "gymnasium", "numpy")),
        ("rlstudio.envs.make", ("torch", "gymnasium")),
        ("rlstudio.envs.gym.worker", ("torch",)),
        ("rlstudio.envs.check", ("torch",)),
    ],
)
def test_imports_stay_light(module, absent):
    code = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
