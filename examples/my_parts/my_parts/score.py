"""Smooth: the return of a sequence, less what its jumps cost."""

from pydantic import NonNegativeFloat

from rlstudio.planners.config import ScorePartConfig
from rlstudio.planners.score import ReturnScore


class SmoothConfig(ScorePartConfig):
    cost: NonNegativeFloat = 0.1
    """What a jump of 1 from one action to the next takes off."""


class Smooth(ReturnScore):
    Config = SmoothConfig

    def __init__(self, cfg, terms):
        super().__init__(**terms._asdict())
        self.cfg = cfg

    def returns(self, observations, actions):
        jumps = (actions[:, :, 1:] - actions[:, :, :-1]).square().sum((2, 3))
        return super().returns(observations, actions) - self.cfg.cost * jumps
