"""From the description of a Model, the spaces and stored weights to an agent, without environment, algorithm or
trainer. Checkpoints (`experiment/run/checkpoint_agent.py`) and bundles (`delivery/bundle.py`) both hold these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from pydantic import ValidationError

from rlstudio.agents.agent import Agent
from rlstudio.agents.bounded import BoundedAgent
from rlstudio.agents.policy import PolicyAgent
from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.catalog import MODELS
from rlstudio.core.contracts import Model, Player
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.model.layers import RuleKind
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.build import build_model
from rlstudio.models.networks.initialize import at_most
from rlstudio.models.spec import ModelSpec, read_model_fields
from rlstudio.models.weights import load_weights

AGENTS: dict[RuleKind, type[PolicyAgent | QValueAgent | BoundedAgent]] = {
    "policy": PolicyAgent,
    "values": QValueAgent,
    "bounded": BoundedAgent,
}


def model_spec(model: object) -> ModelSpec:
    """The description of a Model; Incompatible where it could not be built again from one."""
    variant = getattr(model, "variant", type(model).__name__)
    if not isinstance(model, Model):
        raise Incompatible(f"a {variant} Model does not describe itself, so it cannot be built again from its weights")
    try:
        known = MODELS.load(model.variant)
    except UserError as error:
        raise Incompatible(
            f"a {variant} Model cannot be built again from its weights: {error}; offer its class as an entry point of"
            f" {MODELS.group}"
        ) from error
    if type(model) is not known:
        raise Incompatible(
            f"a {type(model).__name__} cannot be built again from its weights: the name {variant} is that of"
            f" {known.__name__}; give it a variant of its own"
        )
    try:
        return read_model_fields(model.spec())
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Incompatible(f"a {variant} Model describes itself wrongly: spec().{where}: {first['msg']}") from error


def described(agent: Player) -> ModelSpec | None:
    """The description of an agent's Model where that and the spaces suffice to act as it does: not of an agent that
    plans, nor of a subclass, which may do more than the class it extends."""
    model = getattr(agent, "model", None)
    if not isinstance(model, Model) or type(agent) is not AGENTS.get(model.action_rule().kind):
        return None
    try:
        return model_spec(model)
    except Incompatible:
        return None


def blank_agent(spaces: Spaces, spec: ModelSpec) -> Agent:
    """The agent before it has its weights."""
    known = MODELS.load(spec.variant)
    try:
        model = build_model(lambda s, n, r: known(s, n, r, **spec.arguments), spaces, spec.network, Rng(0))
    except TypeError as error:
        raise Incompatible(f"a {spec.variant} Model is not built like this: {error}") from error
    return AGENTS[cast(Model, model).action_rule().kind](cast(Model, model), spaces)


def rebuilt(spaces: Spaces, spec: ModelSpec, weights: Mapping[str, np.ndarray]) -> Agent:
    """The agent with these weights; names, shapes and dtypes must be those of its Model."""
    try:
        with at_most(sum(array.size for array in weights.values())):
            agent = blank_agent(spaces, spec)
        load_weights(agent.model, weights)
    except (ValueError, RuntimeError, Incompatible, KeyError) as error:
        raise Incompatible(f"does not fit the Model of the spec: {str(error).splitlines()[-1].strip()}") from error
    return agent
