"""Models and their versions as JSON documents: what `rlctl models --json` prints and the HTTP API answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlstudio.control.registry.promotion import PromotionVerdict
    from rlstudio.control.registry.records import Decision, Version

Document = dict[str, Any]


def version_document(version: Version) -> Document:
    return {**vars(version), "name": version.name}


def release_document(version: Version, verdict: PromotionVerdict | None) -> Document:
    """A version with the numbers by which it was judged; `verdict` is null where it was not."""
    return {**version_document(version), "verdict": None if verdict is None else verdict.to_json()}


def decision_document(decision: Decision) -> Document:
    return {**vars(decision), "verdict": decision.numbers}


def models_document(versions: Sequence[Version], history: Sequence[Decision]) -> Document:
    return {
        "versions": [version_document(version) for version in versions],
        "history": [decision_document(decision) for decision in history],
    }
