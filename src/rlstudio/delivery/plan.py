"""An agent that plans, in words: what its algorithm builds it from besides spaces and weights. Free of torch until one
is built.

    "plan": {"settings": {"gamma": 0.99, "planner": {...}, "dynamics": {...}}, "network": {...}, "seed": 42,
             "world": {"id": "CartPole-v1", "params": {}, "kwargs": {}}}

A bundle is a foreign file. What it asks for is bounded before anything is built of it, and a part of another package
must be imported already: nothing is imported because a file names it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rlstudio.core.action_mask import choices
from rlstudio.core.catalog import ALGOS, DYNAMICS, PLANNERS, SCORES, WORLDS, Catalog
from rlstudio.core.config import parse
from rlstudio.core.contracts import BuildsAgent
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces
from rlstudio.envs.params.section import numbers_of
from rlstudio.models.config import NetworkConfig

if TYPE_CHECKING:
    import numpy as np

    from rlstudio.agents.planning import PlanningAgent
    from rlstudio.algos.parts.config import RunLength
    from rlstudio.experiment.config.experiment import ExperimentConfig

MOST_NUMBERS = 10**8
"""In the largest array of one plan."""

NOISE_STEPS = 256  # of `models/planning/dynamics.py`, which needs torch


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class WorldSpec(_Part):
    """The world whose equations it may plan in."""

    id: str = Field(max_length=200)
    params: dict[str, float] = {}
    kwargs: dict[str, JsonValue] = {}


class PlanSpec(_Part):
    """Part of a bundle's spec.json; spaces, algorithm and weights stand beside it."""

    settings: dict[str, JsonValue]  # of the section `train`, the algorithm's `acting_fields`
    network: NetworkConfig
    world: WorldSpec
    seed: int = Field(ge=0, le=2**32 - 1)  # of the noise that uncertain dynamics are followed with


def plan_spec(cfg: ExperimentConfig) -> PlanSpec:
    """What the agent of this experiment is built from; Incompatible where a bundle cannot hold it."""
    fields = set(getattr(cfg.train, "acting_fields", ()))
    if not fields:
        raise Incompatible(
            f"the Config of {cfg.policy.algo} names no acting_fields, so its agent cannot be built again from a bundle"
        )
    env = cfg.env
    return PlanSpec(
        settings=cfg.train.model_dump(mode="json", include=fields),
        network=cfg.policy.network,
        world=WorldSpec(id=env.id, params=numbers_of(env.params), kwargs=env.kwargs),
        seed=env.seed,
    )


def planning_agent(algo: str, plan: PlanSpec, spaces: Spaces, weights: Mapping[str, np.ndarray]) -> PlanningAgent:
    """The agent of a plan; names, shapes and dtypes of the weights must be those of its Model."""
    from rlstudio.core.rng import Rng
    from rlstudio.data.env_facts import EnvDescription
    from rlstudio.envs.config import EnvConfig
    from rlstudio.models.networks.initialize import at_most
    from rlstudio.models.weights import load_weights

    chosen, cfg = check_plan(algo, plan, spaces)
    world = parse(EnvConfig, plan.world.model_dump(), "plan.world")
    with at_most(sum(array.size for array in weights.values())):
        agent = chosen.build_agent(cfg, EnvDescription(spaces, world), plan.network, Rng(plan.seed))
    planning = cast("PlanningAgent", agent)
    load_weights(planning.model, weights)
    return planning


def check_plan(algo: str, plan: PlanSpec, spaces: Spaces) -> tuple[BuildsAgent, RunLength]:
    """The algorithm and its settings, of a size that can be planned with."""
    theirs = [(catalog, name) for catalog, name in _named_parts(algo, plan) if name not in catalog.builtin]
    absent = [
        (catalog.kind, name, part) for catalog, name in theirs if (part := catalog.find(name)).module not in sys.modules
    ]
    if absent:
        named = ", ".join(f"{kind} {name!r} of the package {part.package}" for kind, name, part in absent)
        allowed = " ".join(dict.fromkeys(f"--import {part.module}" for _, _, part in absent))
        raise Incompatible(
            f"plan: it needs {named}, and opening a bundle imports nothing; allow it with {allowed} (in Python: import"
            " them first)"
        )
    chosen = ALGOS.load(algo)
    config: type[RunLength] = chosen.Config
    if not isinstance(chosen, BuildsAgent) or set(plan.settings) - set(getattr(config, "acting_fields", ())):
        raise Incompatible(f"plan: {algo} is no algorithm that plans by the settings {', '.join(plan.settings)}")
    cfg = parse(config, plan.settings, "plan.settings")
    _check_size(cfg, plan.network, spaces)
    return chosen, cfg


def _named_parts(algo: str, plan: PlanSpec) -> Iterator[tuple[Catalog, str]]:
    """Every part that the file names, where it names one of a catalog."""
    yield ALGOS, algo
    planner, dynamics = (_section(plan.settings, name) for name in ("planner", "dynamics"))
    for catalog, section in ((PLANNERS, planner), (SCORES, _section(planner, "score")), (DYNAMICS, dynamics)):
        if isinstance(kind := section.get("kind"), str):
            yield catalog, kind
    by_equations = dynamics.get("kind", "analytic") == "analytic" or dynamics.get("reward") == "known"
    if by_equations and plan.world.id in WORLDS:
        yield WORLDS, plan.world.id


def _section(settings: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    section = settings.get(name)
    return section if isinstance(section, dict) else {}


def _check_size(cfg: RunLength, network: NetworkConfig, spaces: Spaces) -> None:
    """Incompatible where one plan needs an array that no small file may ask for."""
    largest = max(_sizes(cfg, network, spaces).items(), key=lambda item: item[1])
    if largest[1] > MOST_NUMBERS:
        raise Incompatible(
            f"plan: {largest[0]} of one plan would be {largest[1]:,} numbers; at most {MOST_NUMBERS:,} are accepted:"
            " lower planner.candidates, planner.horizon or dynamics.particles"
        )


def _sizes(cfg: RunLength, network: NetworkConfig, spaces: Spaces) -> dict[str, int]:
    """Numbers in the arrays of one plan for one observation, by what they hold."""
    settings = cfg.model_dump()
    planner, dynamics = settings["planner"], settings["dynamics"]
    observed = getattr(spaces.observation, "size", 1)  # other than numbers are refused by what plans
    acts = spaces.action.size if isinstance(spaces.action, Box) else sum(choices(spaces.action) or ())
    particles = 1 if dynamics["kind"] == "analytic" else (dynamics["particles"] or dynamics["members"])
    rounds = planner.get("iterations") or 6
    tried = planner["candidates"] + planner.get("policy_candidates", 0)
    parts = [settings.get(name) or {} for name in ("policy", "value", "dynamics")]
    widths = [width for part in parts for width in part.get("hidden_sizes") or ()]
    widest = max((*network.hidden_sizes, *widths, observed + 1))
    return {
        "the noise": tried * rounds * planner["horizon"] * max(acts, 2),
        "the rewards": tried * particles * planner["horizon"],
        "the networks' layers": tried * particles * widest,
        "the noise of the particles": NOISE_STEPS * particles * (observed + 1),
        "the tree": 3 * (planner.get("simulations", 0) + 1) ** 2,
    }
