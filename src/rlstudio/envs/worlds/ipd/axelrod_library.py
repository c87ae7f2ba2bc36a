"""Strategies of the Axelrod library (extra `axelrod`), by the names of their classes; imported when one is asked for.

Those that remember no more than the last round are five probabilities, as our own strategies are.
"""

from __future__ import annotations

import re
from typing import Any

from rlstudio.core.errors import suggest
from rlstudio.core.host.extras import Extra

AXELROD = Extra("axelrod", "axelrod")
PREFIX = "axelrod:"
"""Before a name of theirs, where names of ours could be meant."""

UNFAIR = ("inspects_source", "manipulates_source", "manipulates_state")
"""Classes of strategies that read or change their opponent instead of playing."""


def library(field: str, wanted: str) -> Any:
    """The module; or one line that says how to install it. Importing it takes many seconds."""
    return AXELROD.load(field, wanted)


def player(name: str) -> Any:
    """A fresh player: `TitForTat`, also written `tit_for_tat` or `Tit For Tat`. ValueError where there is none."""
    known = {_plain(kind.__name__): kind for kind in library("env.kwargs", f"opponent {name}").strategies}
    kind = known.get(_plain(name))
    if kind is None:
        near = suggest(name, [kind.__name__ for kind in known.values()])
        raise ValueError(f"opponent {name!r} is no strategy of Axelrod{near or '; axelrod.strategies lists them'}")
    made = kind()
    if any(made.classifier.get(key) for key in UNFAIR):
        raise ValueError(f"opponent {name!r} reads or changes its opponent instead of playing; choose another")
    return made


def memory_one(name: str) -> tuple[float, ...]:
    """Five probabilities of cooperating: at first, and after CC, CD, DC, DD, its own action first."""
    made = player(name)
    elsewhere = f"; play against it in env.id=rlstudio/AxelrodIPD-v0 with env.kwargs.opponent={name}"
    if made.classifier["memory_depth"] > 1:
        raise ValueError(f"opponent {name!r} remembers more than the last round{elsewhere}")
    if (vector := getattr(made, "_four_vector", None)) is not None:
        return (_chance(made._initial), *(float(vector[outcome]) for outcome in _outcomes(made)))
    if made.classifier["stochastic"]:
        raise ValueError(f"opponent {name!r} draws, and tells no probabilities{elsewhere}")
    return (_chance(made.strategy(made.clone())), *(_reply(made, outcome) for outcome in _outcomes(made)))


def _outcomes(made: Any) -> list[tuple[Any, Any]]:
    actions = _actions(made)
    return [(mine, theirs) for mine in actions for theirs in actions]


def _actions(made: Any) -> tuple[Any, Any]:
    action = library("env.kwargs", made.name).Action
    return action.C, action.D


def _reply(made: Any, outcome: tuple[Any, Any]) -> float:
    """What it does after one round."""
    one, other = made.clone(), made.clone()
    one.update_history(*outcome)
    other.update_history(*reversed(outcome))
    return _chance(one.strategy(other))


def _chance(action: Any) -> float:
    return 1.0 if action.name == "C" else 0.0


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
