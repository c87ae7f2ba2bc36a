"""The zoo: trained policies that ship with RLStudio, one for every config of the learning table.

`zoo:ppo/cartpole` names the bundle in `rlstudio/zoo/ppo/cartpole`, made from `configs/ppo/cartpole.yaml`, wherever a
bundle can be named. `index.json` beside them says what each scored and how it was made; `make zoo` writes both.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from rlstudio.core.errors import UserError, suggest

FOLDER = Path(__file__).resolve().parents[1] / "zoo"
PREFIX = "zoo:"
_OF_A_REGISTRY = re.compile(r"zoo:([0-9]*|production|staging)")
"""Versions of a model that somebody called `zoo`."""


class ZooEntry(NamedTuple):
    """One trained policy: what it is, and the mean of the greedy episodes that it was judged by."""

    name: str
    config: str
    env: str
    env_steps: int
    score: float
    episodes: int
    seed: int
    size: int


def names_zoo(what: str) -> bool:
    """Whether it is meant as a policy of the zoo. A folder of that name must be given as ./zoo:NAME."""
    return what.startswith(PREFIX) and _OF_A_REGISTRY.fullmatch(what) is None


def zoo_entries() -> list[ZooEntry]:
    """All of them, by algorithm and world."""
    return [_entry(name, facts) for name, facts in sorted(_index().items())]


def zoo_folder(what: str) -> Path:
    """Where the bundle of `zoo:NAME` lies."""
    known = {f"{PREFIX}{name}": FOLDER / name for name in _index()}
    if what not in known:
        raise UserError(f"{what}: not in the zoo{suggest(what, known)}; list it with: rlctl zoo")
    return known[what]


def _index() -> dict[str, dict[str, Any]]:
    index = FOLDER / "index.json"
    if not index.exists():
        raise UserError(f"{FOLDER}: the zoo is missing from this installation; install RLStudio again")
    entries: dict[str, dict[str, Any]] = json.loads(index.read_text())
    return entries


def _entry(name: str, facts: dict[str, Any]) -> ZooEntry:
    return ZooEntry(
        name=f"{PREFIX}{name}",
        config=facts["config"],
        env=facts["env_id"],
        env_steps=facts["env_steps"],
        score=facts["score"],
        episodes=facts["episodes"],
        seed=facts["seed"],
        size=facts["size"],
    )
