"""Mirrored: random shooting in which every sequence is tried with its mirror image.

A ~ U(-1, 1)        tried: A and -A        act: the first action of the best
"""

import torch
from pydantic import PositiveInt

from rlstudio.core.contracts import Planned
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, describe
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.noise import Noise


class MirroredConfig(PlannerConfig):
    pairs: PositiveInt = 32
    """Sequences that are tried, each with its mirror image."""


class Mirrored:
    Config = MirroredConfig

    def __init__(self, cfg, actions, policy):
        if not isinstance(actions, Box):
            raise Incompatible(f"planner mirrored: only numbers have a mirror image; the env takes {describe(actions)}")
        self.cfg = cfg
        self.noise = Noise("uniform", (cfg.pairs, cfg.horizon, actions.size))

    @torch.no_grad()
    def plan(self, observations, score, carry, noise):
        """Every plan is new, so nothing is carried."""
        drawn = 2.0 * noise - 1.0
        candidates = torch.cat((drawn, -drawn), 1)
        scores = score(observations, candidates)
        best = scores.argmax(1)
        first = candidates[torch.arange(len(candidates)), best, 0]
        return Planned(first, {}, {"score": scores.amax(1)})
