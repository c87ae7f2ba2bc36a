"""From settings to a Search: each kind of planner is a row of choices for the one loop."""

from __future__ import annotations

from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Discrete, Space, describe
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.proposals import Categorical, Gaussian, Proposal
from rlstudio.planners.search import Search
from rlstudio.planners.updates import Weigh, elites, softmax

ROUNDS = {"random_shooting": 1, "cem": 4, "icem": 3, "mppi": 1, "annealed": 4}
ICEM_DECAY = 1.25
"""Candidates of iCEM become fewer from round to round by this factor, as its authors have it."""


def build_planner(cfg: PlannerConfig, actions: Space) -> Search:
    rounds = cfg.iterations or ROUNDS[cfg.kind]
    kept = max(1, round(cfg.keep * _elite_count(cfg))) if cfg.kind == "icem" else 0
    proposal = _proposal(cfg, actions)
    return Search(
        proposal=proposal,
        weigh=_weigh(cfg),
        counts=tuple(_count(cfg, number) for number in range(rounds)),
        scales=tuple(cfg.shrink**number if cfg.kind == "annealed" else 1.0 for number in range(rounds)),
        select=_select(cfg, actions),
        momentum=cfg.momentum if cfg.kind in ("cem", "icem") else 0.0,
        kept=kept,
    )


def _proposal(cfg: PlannerConfig, actions: Space) -> Proposal:
    match actions:
        case Box():
            if not actions.bounded:
                raise Incompatible(f"planner {cfg.kind}: needs actions with bounds; the env takes {describe(actions)}")
            colour = cfg.colour if cfg.kind == "icem" else 0.0
            learns = cfg.kind not in ("mppi", "annealed")
            return Gaussian(cfg.horizon, actions.size, cfg.std, cfg.min_std, colour, learns)
        case Discrete():
            return Categorical(cfg.horizon, actions.n, sticky=cfg.sticky)
    raise Incompatible(f"planner {cfg.kind}: plans numbers or one choice at a time; the env takes {describe(actions)}")


def _weigh(cfg: PlannerConfig) -> Weigh | None:
    match cfg.kind:
        case "random_shooting":
            return None
        case "cem" | "icem":
            return elites(_elite_count(cfg))
        case "mppi":
            return softmax(cfg.temperature)
        case "annealed":
            return softmax(cfg.temperature, standardize=True)


def _select(cfg: PlannerConfig, actions: Space) -> str:
    if cfg.select == "first_action" and not isinstance(actions, Discrete):
        raise Incompatible(f"planner select first_action: needs one choice; the env takes {describe(actions)}")
    if cfg.select != "auto":
        if cfg.select == "mean" and cfg.kind == "random_shooting":
            raise Incompatible("planner random_shooting learns no proposal whose mean could be taken; use select best")
        return cfg.select
    if cfg.kind == "random_shooting":
        return "first_action" if isinstance(actions, Discrete) else "best"
    return "best" if cfg.kind == "icem" else "mean"


def _count(cfg: PlannerConfig, number: int) -> int:
    if cfg.kind != "icem":
        return cfg.candidates
    return max(2 * _elite_count(cfg), round(cfg.candidates * ICEM_DECAY**-number))


def _elite_count(cfg: PlannerConfig) -> int:
    return max(2, round(cfg.elites * cfg.candidates))
