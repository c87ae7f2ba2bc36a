"""What a check of an environment says: findings in plain words. An error breaks training or exact resume, a warning is
worth a look."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "info"]

WORN = "a used env differs from a fresh one after reset(seed): it is rebuilt for every episode"


@dataclass(frozen=True)
class Finding:
    severity: Severity
    text: str
    kind: str = ""
    """The mistake by a short name, where others say what to do about it (`experiment/doctor`)."""


@dataclass
class EnvReport:
    """`steps` and `episodes` are what was played on one object; further short episodes are compared with each other."""

    id: str
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0
    episodes: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def add(self, severity: Severity, text: str, kind: str = "") -> None:
        self.findings.append(Finding(severity, text, kind))
