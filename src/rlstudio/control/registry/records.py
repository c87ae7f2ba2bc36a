"""What the registry gives out, and how its history adds up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    NONE = "none"
    STAGING = "staging"
    PRODUCTION = "production"
    ARCHIVED = "archived"


@dataclass(frozen=True)
class Version:
    """One version of a model. Its bundle never changes; only its stage does."""

    model: str
    version: int
    digest: str
    run_id: str
    step: int
    stage: Stage
    created_at: str

    @property
    def name(self) -> str:
        return f"{self.model}:{self.version}"


@dataclass(frozen=True)
class Decision:
    """One row of the audit log: a version got a stage, by whom, why, and by which numbers."""

    seq: int
    model: str
    version: int
    stage: Stage
    kind: str
    actor: str
    reason: str
    verdict: str
    at: str

    @property
    def numbers(self) -> dict[str, Any]:
        return json.loads(self.verdict) if self.verdict else {}


def replay(decisions: Iterable[Decision]) -> dict[tuple[str, int], Stage]:
    """The stages after all of these: what the table must say."""
    stages: dict[tuple[str, int], Stage] = {}
    for decision in decisions:
        stages[decision.model, decision.version] = decision.stage
    return stages
