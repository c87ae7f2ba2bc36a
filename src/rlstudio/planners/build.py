"""From settings to a planner and its score. Each function below is a kind of planner, by its name in the catalog; most
are a row of choices for the one loop of `search`."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NoReturn

from rlstudio.core.contracts import Dynamics, Planner, Score
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanPolicy, PlanValue
from rlstudio.core.spaces import Box, Discrete, Space, describe
from rlstudio.envs.worlds.equations import AnalyticDynamics, dense_reward, physical_value
from rlstudio.planners.config import PlannerConfig, ScoreConfig
from rlstudio.planners.guide import Guide
from rlstudio.planners.proposals import CategoricalProposal, GaussianProposal, Proposal
from rlstudio.planners.score import Terms
from rlstudio.planners.search import Search
from rlstudio.planners.tree import TreeSearch
from rlstudio.planners.updates import Weigh, best_softmax, elites, softmax

ICEM_DECAY = 1.25
"""Candidates of iCEM become fewer from round to round by this factor, as its authors have it."""


def build_planner(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None = None) -> Planner:
    """Build a planner. Guided planning follows `policy`, and a tree search uses it as its prior."""
    planner: Planner = cfg.build(actions, policy)
    return planner


def build_score(
    cfg: ScoreConfig, dynamics: Dynamics, env_id: str, *, gamma: float, own: PlanValue | None = None
) -> Score:
    """Build the score of sequences in a model of this environment; `own` is the agent's own value."""
    reward = dense_reward(env_id) if cfg.reward == "dense" else None
    terms = Terms(dynamics, gamma, _value(cfg, env_id, own, dynamics), reward, cfg.pessimism)
    score: Score = cfg.score.build(terms)
    return score


def _value(cfg: ScoreConfig, env_id: str, own: PlanValue | None, dynamics: Dynamics) -> PlanValue | None:
    match cfg.value:
        case "own":
            return own
        case "physics":
            if isinstance(dynamics, AnalyticDynamics) and dynamics.changed:
                names = ", ".join(dynamics.changed)
                raise Incompatible(
                    f"planner value physics: knows {env_id} only as it is without env.params ({names}); use value own"
                    " or none"
                )
            return physical_value(env_id)
    return None


# -- the kinds --------------------------------------------------------------------------------------------------------


def random_shooting(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """Random shooting: the best of sequences that chance proposes."""
    if (cfg.iterations or 1) > 1:
        raise Incompatible("planner random_shooting learns nothing from round to round; raise candidates instead")
    if cfg.select == "mean":
        raise Incompatible("planner random_shooting learns no proposal whose mean could be taken; use select best")
    auto = "first_action" if isinstance(actions, Discrete) else "best"
    return _search(cfg, actions, _Choices(weigh=None, rounds=1, select=auto))


def cem(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """CEM: proposals are fitted to the best sequences, round after round (De Boer et al. 2005)."""
    weigh = elites(_elite_count(cfg))
    return _search(cfg, actions, _Choices(weigh, rounds=4, momentum=cfg.momentum))


def icem(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """iCEM: CEM that keeps its best sequences and tries fewer from round to round (Pinneri et al. 2020)."""
    best = _elite_count(cfg)
    choices = _Choices(
        elites(best), rounds=3, select="best", momentum=cfg.momentum, kept=ceil(cfg.keep * best), decay=ICEM_DECAY
    )
    return _search(cfg, actions, choices)


def mppi(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """MPPI: the mean of the sequences, weighted by exp(return / temperature) (Williams et al. 2017)."""
    weigh = softmax(cfg.temperature or 0.1)  # in units of the return
    return _search(cfg, actions, _Choices(weigh, rounds=1, learns_std=False))


def annealed(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """Annealed: MPPI whose spread shrinks from round to round, as in model-based diffusion (Pan et al. 2024)."""
    weigh = softmax(cfg.temperature or 0.05, standardize=True)  # in units of the spread of the returns
    return _search(cfg, actions, _Choices(weigh, rounds=4, std=0.5, shrink=cfg.shrink, learns_std=False))


def guided(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> Search:
    """Guided: a policy proposes sequences too, and the best of all are followed (TD-MPC2: Hansen et al. 2024)."""
    if policy is None:
        raise Incompatible("planner guided: needs a policy to follow, and there is none; use cem or mppi")
    weigh = best_softmax(_elite_count(cfg), cfg.temperature or 2.0)  # in units of the return
    guide = Guide(policy, cfg.policy_candidates, cfg.horizon)
    return _search(cfg, actions, _Choices(weigh, rounds=6, guide=guide))


def mcts(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> TreeSearch:
    """MCTS: a tree of choices, grown step by step where it promises most (Danihelka et al. 2022)."""
    if not isinstance(actions, Discrete):
        raise Incompatible(f"planner mcts: needs one choice; the env takes {describe(actions)}: use cem")
    return TreeSearch(actions.n, cfg.simulations, policy)


def diffusion(cfg: PlannerConfig, actions: Space, policy: PlanPolicy | None) -> NoReturn:
    """Diffusion: sequences drawn from a learned model of them; only algo diffusion, which learns it, plans so."""
    raise Incompatible(
        "planner diffusion: needs a trajectory model, which only a run of algo diffusion has; that plans so by"
        " itself, without --planner"
    )


# -- what the kinds share ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Choices:
    """What makes one kind of search differ from the others."""

    weigh: Weigh | None  # None: nothing is learned between rounds
    rounds: int  # where the settings do not say
    select: str = "mean"  # where the settings say auto
    std: float = 1.0  # with less, a plan at one bound never samples the other: Pendulum stays at full torque
    learns_std: bool = True
    momentum: float = 0.0
    kept: int = 0
    shrink: float = 1.0  # of the spread, from round to round
    decay: float = 1.0  # candidates become fewer by this factor, from round to round
    guide: Guide | None = None


def _search(cfg: PlannerConfig, actions: Space, choices: _Choices) -> Search:
    if cfg.select == "first_action" and not isinstance(actions, Discrete):
        raise Incompatible(f"planner select first_action: needs one choice; the env takes {describe(actions)}")
    rounds = range(cfg.iterations or choices.rounds)
    fewest = min(cfg.candidates, 2 * _elite_count(cfg))
    return Search(
        proposal=_proposal(cfg, actions, choices),
        weigh=choices.weigh,
        counts=tuple(max(fewest, round(cfg.candidates * choices.decay**-number)) for number in rounds),
        scales=tuple(choices.shrink**number for number in rounds),
        select=choices.select if cfg.select == "auto" else cfg.select,
        momentum=choices.momentum,
        kept=choices.kept,
        guide=choices.guide,
    )


def _proposal(cfg: PlannerConfig, actions: Space, choices: _Choices) -> Proposal:
    match actions:
        case Box():
            if not actions.bounded:
                raise Incompatible(f"planner {cfg.kind}: needs actions with bounds; the env takes {describe(actions)}")
            std = cfg.std or choices.std
            return GaussianProposal(cfg.horizon, actions.size, std, cfg.min_std, cfg.colour, choices.learns_std)
        case Discrete():
            return CategoricalProposal(cfg.horizon, actions.n, sticky=cfg.sticky)
    raise Incompatible(f"planner {cfg.kind}: plans numbers or one choice at a time; the env takes {describe(actions)}")


def _elite_count(cfg: PlannerConfig) -> int:
    return min(cfg.candidates, max(2, round(cfg.elites * cfg.candidates)))
