"""What a checkpoint's manifest says of the agent in it: enough to act without environment and trainer.

    "agent": {"observation": SPACE, "action": SPACE, "model": MODEL or null, "reward_scale": 1.0}

`model` is null for an agent that plans, which the algorithm builds from the run's config, and for one from
another package, which only its trainer builds. Checkpoints of an older RLStudio have no such field.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rlstudio.agents.rebuild import described
from rlstudio.core.contracts import Trainer
from rlstudio.core.errors import CheckpointError, RLStudioError
from rlstudio.core.spaces import Spaces, check_sizes, from_json, to_json
from rlstudio.data.collect.reward_scale import RewardScale
from rlstudio.experiment.checkpoint.manifest import CheckpointInfo, folder_name
from rlstudio.models.spec import ModelSpec
from rlstudio.storage.verified import MANIFEST

FIELD = "agent"


class AgentSpec(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    observation: dict[str, object]
    action: dict[str, object]
    model: ModelSpec | None
    reward_scale: float
    """What rewards were divided by in training, and the agent's value with them."""

    @property
    def spaces(self) -> Spaces:
        return Spaces(from_json(self.observation), from_json(self.action))


def describe_agent(trainer: Trainer, spaces: Spaces) -> dict[str, object]:
    """The field as the manifest holds it."""
    spec = AgentSpec(
        observation=to_json(spaces.observation),
        action=to_json(spaces.action),
        model=described(trainer.agent),
        reward_scale=reward_scale_of(trainer),
    )
    return {**spec.model_dump(mode="json"), "reward_scale": spec.reward_scale}  # JSON would have no infinity


def reward_scale_of(trainer: Trainer) -> float:
    scale = trainer.stateful().get("reward_scale")
    return float(scale.std) if isinstance(scale, RewardScale) else 1.0


def read_agent(info: CheckpointInfo) -> AgentSpec | None:
    """What the manifest says; None where it is older than the field, CheckpointError where the field is not valid."""
    return read_field(info, FIELD, AgentSpec, lambda spec: [spec.spaces])


S = TypeVar("S", bound=BaseModel)


def read_field(info: CheckpointInfo, field: str, kind: type[S], spaces_of: Callable[[S], list[Spaces]]) -> S | None:
    """A field of the manifest that describes agents, with their spaces checked; None where it is not there."""
    if field not in info.fields:
        return None
    label = f"{folder_name(info.step)}/{MANIFEST}: {field}"
    try:
        spec = kind.model_validate_json(json.dumps(info.fields[field]))
        for spaces in spaces_of(spec):
            check_sizes(spaces.observation)
            check_sizes(spaces.action)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join((label, *map(str, first["loc"])))
        raise CheckpointError(f"{where}: {first['msg']}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RLStudioError) as error:
        raise CheckpointError(f"{label}: not a description of an agent: {type(error).__name__} {error}") from error
    return spec
