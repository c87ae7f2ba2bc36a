"""From settings to a planner and its score: each kind is a row of choices for the one loop of `search`."""

from __future__ import annotations

from math import ceil

from rlstudio.core.contracts import Dynamics, Planner
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue
from rlstudio.core.spaces import Box, Discrete, Space, describe
from rlstudio.envs.worlds.equations import dense_reward, physical_value
from rlstudio.planners.config import PlannerConfig, ScoreConfig
from rlstudio.planners.guide import Guide
from rlstudio.planners.proposals import CategoricalProposal, GaussianProposal, Proposal
from rlstudio.planners.score import Score
from rlstudio.planners.search import Search
from rlstudio.planners.tree import TreeSearch
from rlstudio.planners.updates import Weigh, best_softmax, elites, softmax

ROUNDS = {"random_shooting": 1, "cem": 4, "icem": 3, "mppi": 1, "annealed": 4, "guided": 6}
STDS = {"annealed": 0.5}
STD = 1.0
"""The std of all other kinds. With less, a plan at one bound never samples the other: Pendulum stays at full torque."""

TEMPERATURES = {"mppi": 0.1, "annealed": 0.05, "guided": 2.0}
"""In units of the return (mppi, guided) or of its spread (annealed)."""

ICEM_DECAY = 1.25
"""Candidates of iCEM become fewer from round to round by this factor, as its authors have it."""


def build_planner(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None = None) -> Planner:
    """`policy` is what guided planning follows, and what a tree search takes to be likely."""
    if cfg.kind == "mcts":
        if not isinstance(actions, Discrete):
            raise Incompatible(f"planner mcts: needs one choice; the env takes {describe(actions)}: use cem")
        return TreeSearch(actions.n, cfg.simulations, policy)
    if cfg.kind == "diffusion":
        raise Incompatible(
            "planner diffusion: needs a trajectory model, which only a run of algo diffusion has; that plans so by"
            " itself, without --planner"
        )
    rounds = cfg.iterations or ROUNDS[cfg.kind]
    if cfg.kind == "random_shooting" and rounds > 1:
        raise Incompatible("planner random_shooting learns nothing from round to round; raise candidates instead")
    kept = ceil(cfg.keep * _elite_count(cfg)) if cfg.kind == "icem" else 0
    proposal = _proposal(cfg, actions)
    return Search(
        proposal=proposal,
        weigh=_weigh(cfg),
        counts=tuple(_count(cfg, number) for number in range(rounds)),
        scales=tuple(cfg.shrink**number if cfg.kind == "annealed" else 1.0 for number in range(rounds)),
        select=_select(cfg, actions),
        momentum=cfg.momentum if cfg.kind in ("cem", "icem") else 0.0,
        kept=kept,
        guide=_guide(cfg, policy),
    )


def build_score(
    cfg: ScoreConfig, dynamics: Dynamics, env_id: str, *, gamma: float, own: PlanValue | None = None
) -> Score:
    """What sequences are worth in a model of this environment; `own` is the agent's own value."""
    return Score(
        dynamics,
        gamma=gamma,
        reward=dense_reward(env_id) if cfg.reward == "dense" else None,
        value=_value(cfg, env_id, own),
        pessimism=cfg.pessimism,
    )


def _value(cfg: ScoreConfig, env_id: str, own: PlanValue | None) -> PlanValue | None:
    match cfg.value:
        case "own":
            return own
        case "physics":
            return physical_value(env_id)
    return None


def _proposal(cfg: PlannerConfig, actions: Space) -> Proposal:
    match actions:
        case Box():
            if not actions.bounded:
                raise Incompatible(f"planner {cfg.kind}: needs actions with bounds; the env takes {describe(actions)}")
            learns = cfg.kind not in ("mppi", "annealed")
            std = cfg.std or STDS.get(cfg.kind, STD)
            return GaussianProposal(cfg.horizon, actions.size, std, cfg.min_std, cfg.colour, learns)
        case Discrete():
            return CategoricalProposal(cfg.horizon, actions.n, sticky=cfg.sticky)
    raise Incompatible(f"planner {cfg.kind}: plans numbers or one choice at a time; the env takes {describe(actions)}")


def _guide(cfg: PlannerConfig, policy: PlanPolicy | None) -> Guide | None:
    if cfg.kind != "guided":
        return None
    if policy is None:
        raise Incompatible("planner guided: needs a policy to follow, and there is none; use cem or mppi")
    return Guide(policy, cfg.policy_candidates, cfg.horizon)


def _weigh(cfg: PlannerConfig) -> Weigh | None:
    temperature = cfg.temperature or TEMPERATURES.get(cfg.kind, 1.0)
    match cfg.kind:
        case "cem" | "icem":
            return elites(_elite_count(cfg))
        case "mppi":
            return softmax(temperature)
        case "annealed":
            return softmax(temperature, standardize=True)
        case "guided":
            return best_softmax(_elite_count(cfg), temperature)
    return None


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
    return min(cfg.candidates, max(2 * _elite_count(cfg), round(cfg.candidates * ICEM_DECAY**-number)))


def _elite_count(cfg: PlannerConfig) -> int:
    return min(cfg.candidates, max(2, round(cfg.elites * cfg.candidates)))
