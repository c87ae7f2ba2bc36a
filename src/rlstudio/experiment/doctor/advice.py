"""What the doctor says: one thing that is wrong or likely to go wrong, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Advice:
    """An error keeps the run from going well for certain; a warning is worth a look. `mistake` is the name of what was
    found, the same in every version; `remedy` is the setting to type, or what to change in the environment."""

    severity: Literal["error", "warning"]
    mistake: str
    text: str
    remedy: str
