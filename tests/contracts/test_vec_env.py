"""Every kind of world and every kind of vector keeps the contract of VecEnv."""

from __future__ import annotations

import numpy as np
import pytest

from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.testing import VecEnvContract
from rlstudio.testing.vec_envs import equal, played, random_actions, same_infos
from support.contracts import suites
from support.env_toys import register_toys

register_toys()

NATIVE = [
    "CartPole-v1",
    "Pendulum-v1",
    "rlstudio/Chain-v0",
    "rlstudio/GridWorld-v0",
    "rlstudio/Identity-v0",
    "rlstudio/IdentityBox-v0",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
]
PLAIN = [
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "FrozenLake-v1",
    "rlstudio/Identity-v0",
    "toys/Choices-v0",
    "toys/Views-v0",
    "toys/Offset-v0",
    "toys/Leftover-v0",
]
EXACT = [
    *((id, "native") for id in NATIVE),
    *((id, "sync") for id in PLAIN),
    ("toys/Views-v0", "async"),
    ("CartPole-v1", "async"),
]
INEXACT = [(id, "envpool") for id in ("CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "LunarLander-v3")]
CERTAIN = ("rlstudio/Chain-v0", "rlstudio/GridWorld-v0", "toys/Offset-v0")
"""Chance has no part in them."""
REPEATED = [
    *(("Acrobot-v1", "sync"), ("rlstudio/Identity-v0", "sync")),
    ("LunarLander-v3", "envpool"),
    ("CartPole-v1", "async"),
]
"""In the slow suite: other equations in the same kind of vector, with spaces that another one has."""


def attributes(id: str, vectorization: str) -> dict[str, object]:
    exact = vectorization != "envpool"
    # Random play does not end within the limits of these two.
    fields = {"max_episode_steps": 40} if id.startswith(("Acrobot", "MountainCar")) else {}
    chance = {"is_random": id not in CERTAIN, "starts_alike": id in CERTAIN or id == "FrozenLake-v1"}
    again = {"pytestmark": pytest.mark.slow} if (id, vectorization) in REPEATED else {}
    return {"part": id, "vectorization": vectorization, "fields": fields, "exact": exact, **chance, **again}


def drawn(vectorization: str) -> dict[str, object]:
    """With parameters that are drawn for each episode, and shown."""
    params = {"gravity": {"uniform": [5.0, 15.0]}, "length": {"uniform": [0.25, 1.0], "observed": True}}
    fields = {"params": params, "vectorization": vectorization}
    return {**attributes("CartPole-v1", vectorization), "fields": fields}


cases = {f"{vectorization}-{id}": attributes(id, vectorization) for id, vectorization in EXACT + INEXACT}
cases |= {f"{vectorization}-drawn": drawn(vectorization) for vectorization in ("native", "sync", "async")}
globals().update(suites(VecEnvContract, cases))


@pytest.mark.parametrize(
    "id",
    [
        "toys/Choices-v0",
        "toys/Views-v0",
        "toys/Leftover-v0",
        pytest.param("CartPole-v1", marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", marks=pytest.mark.slow),
    ],
)
def test_workers_give_the_same_bits_as_one_process(id: str) -> None:
    here, there = (make_vec_env(EnvConfig(id=id), 5, 7, vectorization=kind) for kind in ("sync", "async"))
    assert equal(here.reset(), there.reset())
    actions = random_actions(here, 250)
    for left, right in zip(played(here, actions), played(there, actions), strict=True):
        assert all(equal(a, b) for a, b in zip(left[:5], right[:5], strict=True))
        assert same_infos(left.infos, right.infos)
    assert all(np.array_equal(here.position()[k], there.position()[k]) for k in here.position())
    there.close()
