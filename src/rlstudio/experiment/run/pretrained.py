"""Begin a run with what another one learned: weights and normalizers. Everything else is as in a new run.

A run that is forked from a checkpoint goes on with the whole state. Of a policy that was exported or imported there are
only the weights of the Model that acts, with the statistics that normalize its observations, and those that its rewards
were scaled by. What the Model of the algorithm has besides (a value, critics) begins by chance, and a target network
begins as a copy of its Model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import nn

from rlstudio.agents.rebuild import described
from rlstudio.core.contracts import Trainer
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Spaces, describe
from rlstudio.data.collect.reward_scale import RewardScale
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.training.build import Built, build_runtime, build_trainer
from rlstudio.experiment.training.machine import set_threads
from rlstudio.models.config import NetworkConfig
from rlstudio.models.weights import load_weights
from rlstudio.ops.target import Target


@dataclass(frozen=True)
class ReturnMoments:
    count: float
    mean: float
    variance: float


class Pretrained(NamedTuple):
    """What a run may begin with."""

    label: str  # where it comes from, for messages
    spaces: Spaces
    network: NetworkConfig
    weights: Mapping[str, np.ndarray]
    returns: ReturnMoments | None = None  # what rewards were scaled by; None: begins anew


def build_pretrained(cfg: ExperimentConfig, given: Pretrained) -> Built:
    """The parts of a new run with these weights; what does not fit is refused by its field, before a run appears."""
    if cfg.teams:
        raise Incompatible(
            f"{given.label}: teams: the run would have the teams {', '.join(cfg.teams)}, and this is one policy; leave"
            " teams out"
        )
    _check_statistics(cfg, given)
    set_threads(cfg.runtime.threads)
    runtime = build_runtime(cfg)
    try:
        is_central = given.network.critic == "central"
        if not is_central:
            _check_spaces(cfg, given, runtime.spaces)
        trainer = build_trainer(cfg, runtime)
        if is_central:  # what is given is what its policy sees, without the state of the world
            _check_spaces(cfg, given, getattr(trainer.agent, "spaces", runtime.spaces))
        _check_network(trainer, given)
        _load(trainer, given)
    except BaseException:
        runtime.close()
        raise
    return Built(runtime, trainer)


def _check_statistics(cfg: ExperimentConfig, given: Pretrained) -> None:
    if given.network.normalize_observations and algorithm(cfg.policy.algo).off_policy:
        raise Incompatible(
            f"{given.label}: policy.network.normalize_observations: its observations are normalized, and"
            f" {cfg.policy.algo} keeps no running statistics; it can be evaluated, exported and served, not trained on"
        )


def _check_spaces(cfg: ExperimentConfig, given: Pretrained, spaces: Spaces) -> None:
    for field in ("observation", "action"):
        theirs, ours = getattr(given.spaces, field), getattr(spaces, field)
        bounds = field == "action" and isinstance(theirs, Box) and isinstance(ours, Box)
        if describe(theirs) != describe(ours) or (bounds and not _same_bounds(theirs, ours)):
            raise Incompatible(
                f"{given.label}: its {field} is {describe(theirs)}, that of env.id {cfg.env.id} is {describe(ours)}"
                f"{' with other bounds' if describe(theirs) == describe(ours) else ''}; leave env as it was trained"
                " with, or launch a new run"
            )


def _same_bounds(one: Box, other: Box) -> bool:
    return all(np.array_equal(mine, yours) for mine, yours in zip(one.bounds(), other.bounds(), strict=True))


def _check_network(trainer: Trainer, given: Pretrained) -> None:
    spec = described(trainer.agent)
    if spec is None:
        return  # its Model does not describe itself: names and shapes of the weights are compared all the same
    ours, theirs = spec.network.model_dump(), given.network.model_dump()
    for field, value in theirs.items():
        if ours[field] != value:
            raise Incompatible(
                f"{given.label}: its weights are of policy.network.{field} {_text(value)}, the run would have"
                f" {_text(ours[field])}; leave it as it was trained with, or launch a new run"
            )


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value).lower()


def _load(trainer: Trainer, given: Pretrained) -> None:
    parts = trainer.stateful()
    model = parts.get("model")
    if not isinstance(model, nn.Module):
        raise Incompatible(f"{given.label}: policy.algo: this algorithm has no Model to give the weights to")
    own = {name: tensor.numpy(force=True) for name, tensor in model.state_dict().items()}
    if unknown := sorted(given.weights.keys() - own.keys()):
        raise Incompatible(
            f"{given.label}: policy.algo: {unknown[0]} has no place in the Model of this algorithm; leave policy as it"
            " was trained with"
        )
    try:
        load_weights(model, {**own, **given.weights})
    except (ValueError, RuntimeError) as error:
        raise Incompatible(f"{given.label}: does not fit: {str(error).splitlines()[-1].strip()}") from error
    for part in parts.values():
        if isinstance(part, Target):
            part.start_over()
    scale = parts.get("reward_scale")
    if isinstance(scale, RewardScale) and given.returns is not None:
        scale.begin_with(given.returns.count, given.returns.mean, given.returns.variance)
