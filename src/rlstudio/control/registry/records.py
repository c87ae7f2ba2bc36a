"""What the registry gives out."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum

from rlstudio.core.errors import UserError
from rlstudio.core.parsing.names import MODEL_NAME
from rlstudio.delivery.zoo import names_zoo

_REFERENCE = re.compile(rf"(?P<model>{MODEL_NAME}):(?P<which>[^/]*)")
_NUMBER = re.compile(r"[0-9]{1,9}")
ROLLBACK = "rollback"
"""The kind of decision that put a version into production again."""


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
    def numbers(self) -> dict[str, object]:
        return json.loads(self.verdict) if self.verdict else {}


def check_model(name: str) -> None:
    """The name of a model is a name and nothing else: not a path, not an option, not two lines."""
    if not re.fullmatch(MODEL_NAME, name):
        raise UserError(f"model {name!a}: use 1 to 64 of a-z 0-9 _ . - and begin with a letter or digit")


def is_reference(text: str) -> bool:
    """Whether it is meant as a version of a model. Neither a run nor a path with a folder in it looks like that, nor
    does a policy of the zoo."""
    return _REFERENCE.fullmatch(text) is not None and not names_zoo(text)


def parse_reference(text: str) -> tuple[str, int | Stage]:
    """`MODEL:3`, `MODEL:production` or `MODEL:staging`."""
    match = _REFERENCE.fullmatch(text)
    if match is not None and _NUMBER.fullmatch(match["which"]):
        return match["model"], int(match["which"])
    if match is not None and match["which"] in (Stage.PRODUCTION, Stage.STAGING):
        return match["model"], Stage(match["which"])
    raise UserError(f"{text!r}: name a version as MODEL:3, MODEL:production or MODEL:staging; see: rlctl models")
