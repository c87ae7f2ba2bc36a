"""Every lane in the catalog keeps the contract of lanes."""

from __future__ import annotations

from rlstudio.core.catalog import LANES
from rlstudio.testing import LaneContract
from support.contracts import suites

ALGOS = {
    "dqn": {},
    "mpc": {"rollout_steps": 5, "planner": {"horizon": 3, "candidates": 8, "iterations": 2}},
    "ppo": {"rollout_steps": 20},
}

globals().update(suites(LaneContract, {name: {"algos": ALGOS} for name in LANES.builtin}))
