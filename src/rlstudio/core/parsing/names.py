"""Patterns of names that more than one room checks. Free of pydantic: `rlctl models` must not wait for it."""

from typing import Literal

MODEL_NAME = r"[a-z0-9][a-z0-9_.-]{0,63}"
"""A model in the registry: a name and nothing else, not a path, not an option."""

Rule = Literal[
    "not_finite",
    "skipped",
    "spike",
    "weights",
    "kl",
    "q_scale",
    "entropy",
    "dead_value",
    "frozen_env",
    "stuck_reward",
    "reward_scale",
    "reward_outliers",
    "broken_rows",
]
"""What guardrails look for at every update: named by incidents, and by a config that does without one."""
