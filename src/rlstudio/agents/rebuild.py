"""From the description of a Model, the spaces and stored weights to an agent, without environment, algorithm or
trainer. Checkpoints (`experiment/run/rebuild.py`) and bundles (`delivery/bundle.py`) both hold these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from rlstudio.agents.agent import Agent
from rlstudio.agents.bounded import BoundedAgent
from rlstudio.agents.policy import PolicyAgent
from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Spaces
from rlstudio.models.build import build_model
from rlstudio.models.networks.initialize import at_most
from rlstudio.models.policies.continuous import DeterministicPolicy, SquashedPolicy
from rlstudio.models.policies.policy_value import PolicyOnly, PolicyValue
from rlstudio.models.policies.q_values import Dueling, QuantileValue, QValue
from rlstudio.models.policies.recurrent import RecurrentPolicyValue
from rlstudio.models.spec import ModelSpec
from rlstudio.models.weights import load_weights


class _Kind(NamedTuple):
    model: type
    agent: Callable[[Any, Spaces], Agent]


KINDS: dict[str, _Kind] = {
    "policy-value": _Kind(PolicyValue, PolicyAgent),
    "policy-only": _Kind(PolicyOnly, PolicyAgent),
    "recurrent-policy-value": _Kind(RecurrentPolicyValue, PolicyAgent),
    "q-value": _Kind(QValue, QValueAgent),
    "quantile-value": _Kind(QuantileValue, QValueAgent),
    "squashed-policy": _Kind(SquashedPolicy, BoundedAgent),
    "deterministic-policy": _Kind(DeterministicPolicy, BoundedAgent),
}


def model_spec(model: nn.Module) -> ModelSpec:
    """The description of a Model that `build_model` built; Incompatible for other kinds of Models."""
    variant: Any = getattr(model, "variant", type(model).__name__)
    kind = KINDS.get(variant)
    network = getattr(model, "network", None)
    if kind is None or not isinstance(model, kind.model) or network is None:
        raise Incompatible(f"a {variant} Model cannot be exported; those that can: {', '.join(KINDS)}")
    return ModelSpec(
        variant=variant,
        network=network,
        quantiles=getattr(model, "quantiles", 1),
        dueling=isinstance(getattr(model, "q_net", None), Dueling),
    )


def described(agent: Any) -> ModelSpec | None:
    """The description of an agent's Model where that and the spaces suffice to act as it does: not of an agent that
    plans, nor of a subclass, which may do more than the class it extends."""
    model = getattr(agent, "model", None)
    kind = KINDS.get(getattr(model, "variant", ""))
    if kind is None or type(model) is not kind.model or type(agent) is not kind.agent or not hasattr(model, "network"):
        return None
    return model_spec(agent.model)


def blank_agent(spaces: Spaces, spec: ModelSpec) -> Agent:
    """The agent before it has its weights."""
    kind = KINDS[spec.variant]
    extra: dict[str, Any] = {}
    if spec.variant in ("q-value", "quantile-value"):
        extra["dueling"] = spec.dueling
    if spec.variant == "quantile-value":
        extra["quantiles"] = spec.quantiles
    model = build_model(lambda s, n, r: kind.model(s, n, r, **extra), spaces, spec.network, Rng(0))
    return kind.agent(model, spaces)


def rebuilt(spaces: Spaces, spec: ModelSpec, weights: Mapping[str, np.ndarray]) -> Agent:
    """The agent with these weights; names, shapes and dtypes must be those of its Model."""
    try:
        with at_most(sum(array.size for array in weights.values())):
            agent = blank_agent(spaces, spec)
        load_weights(agent.model, weights)
    except (ValueError, RuntimeError, Incompatible, KeyError) as error:
        raise Incompatible(f"does not fit the Model of the spec: {str(error).splitlines()[-1].strip()}") from error
    return agent
