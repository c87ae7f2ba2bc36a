"""One plan for one observation, as one call: for a notebook or a loop of one's own. An agent (`agents/planning.py`)
plans for many environments and goes on from where its last plan stopped.

    action = planner.act(obs, policy, dynamics, value, cfg, rng)
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from rlstudio.core.contracts import Dynamics, Planner, Score
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue
from rlstudio.core.spaces import Box, Space
from rlstudio.planners.build import build_planner
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import ReturnScore


class OnePlan:
    """Chooses an action of `actions` by planning once; nothing is remembered from call to call."""

    def __init__(self, actions: Space) -> None:
        self.actions = actions

    def act(
        self,
        obs: ArrayLike,
        policy: PlanPolicy | None,
        dynamics: Dynamics,
        value: PlanValue | None,
        cfg: PlannerConfig,
        rng: np.random.Generator,
    ) -> int | np.ndarray:
        """A choice in the environment's own numbering, or numbers within its bounds."""
        if cfg.reward != "native" or cfg.value == "physics":
            raise Incompatible("planner.act: knows no world; give it reward native, and the value itself as `value`")
        planner = build_planner(cfg, self.actions, policy)
        score = ReturnScore(dynamics, gamma=cfg.gamma, value=value, pessimism=cfg.pessimism)
        return act_once(planner, score, obs, self.actions, rng)


def act_once(
    planner: Planner, score: Score, obs: ArrayLike, actions: Space, rng: np.random.Generator | None
) -> int | np.ndarray:
    """Without `rng` by the noise of an episode's first step."""
    observations = torch.as_tensor(np.asarray(obs, np.float32))[None]
    noise = planner.noise.at_ages(np.zeros(1, np.int64)) if rng is None else planner.noise(rng, 1)
    planned = planner.plan(observations, score, None, noise).actions[0].numpy()
    if isinstance(actions, Box):
        low, high = actions.bounds()
        inside: np.ndarray = np.clip(low + (planned.reshape(low.shape) + 1.0) * (0.5 * (high - low)), low, high)
        return inside.astype(low.dtype, copy=False)
    return int(planned) + getattr(actions, "start", 0)
