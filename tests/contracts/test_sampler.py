"""Every sampler in the catalog keeps the contract of samplers."""

from __future__ import annotations

from rlstudio.core.catalog import SAMPLERS
from rlstudio.testing import SamplerContract
from support.contracts import suites

STEPS = {"train.rollout_steps": {"low": 8, "high": 64, "step": 8}, "train.clip": {"choices": [0.1, 0.2]}}
CHOSEN = {"train.lr": {"low": 1e-5, "high": 1e-2, "log": True}, "train.clip": {"choices": [0.1, 0.2]}}
CONDITION = {"train.passes": {"low": 1, "high": 8, "when": {"train.clip": 0.1}}}

SPACES = {
    "grid": {"space": STEPS, "seeded": False},
    "random": {"space": CHOSEN | CONDITION},
    "tpe": {"space": CHOSEN | CONDITION},
}
globals().update(suites(SamplerContract, {name: SPACES.get(name, {}) for name in SAMPLERS.names()}))
