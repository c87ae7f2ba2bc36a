"""Policies for the registry's tests without any training: small, written by hand, on episodes of twenty steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlstudio.core.spaces import Box, Discrete, Spaces, to_json
from rlstudio.delivery.bundle import CONFIG, EXAMPLE, README, Bundle, write_bundle
from rlstudio.delivery.spec import ActingFacts, BundleOrigin, Spec, derived
from rlstudio.models.config import NetworkConfig
from rlstudio.models.spec import ModelSpec

SPACES = Spaces(Box((4,), "float32", (-10.0,), (10.0,)), Discrete(2))
MODEL = ModelSpec(variant="policy-only", network=NetworkConfig(hidden_sizes=()))
EXPERIMENT = b"{name: toy, env: {id: CartPole-v1, max_episode_steps: 20}, policy: {algo: ppo}}"


def write_policy(target: Path, skill: float) -> Bundle:
    """Pushes the cart to where the pole falls with this much strength; none at all loses at once."""
    spec = Spec(
        format=1,
        rlstudio="0",
        name="toy",
        algo="ppo",
        origin=BundleOrigin(kind="run"),
        model=MODEL,
        observation=to_json(SPACES.observation),
        action=to_json(SPACES.action),
        parity={"rows": 1000},
        formats={},
        derived=derived(SPACES, MODEL, ActingFacts()),
    )
    weights = {
        "policy_net.layers.0.weight": np.outer([-skill, skill], [0, 0, 1, 1]).astype(np.float32),
        "policy_net.layers.0.bias": np.zeros(2, np.float32),
    }
    return write_bundle(target, spec, weights, {README: b"read me", EXAMPLE: b"pass", CONFIG: EXPERIMENT})
