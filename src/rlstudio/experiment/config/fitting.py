"""Which algorithms take which actions and observations, as their source says: nothing is imported for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import UserError
from rlstudio.core.spaces import Box, Dict, Discrete, Space, Spaces, describe

ACTIONS = ("Discrete", "MultiDiscrete", "Box")
OBSERVATIONS = (*ACTIONS, "Dict")
OF_DISCRETE = {True: ACTIONS[:2], False: ACTIONS[2:], None: ACTIONS}


class Taken(NamedTuple):
    """What an algorithm can be used for."""

    actions: tuple[str, ...]
    observations: tuple[str, ...]
    needs: str  # what it cannot do without beside an environment
    needs_equations: bool = False  # those of the environment

    def refusal(self, spaces: Spaces, has_equations: bool = True) -> str:
        """Why it does not fit these spaces; empty where it does."""
        if self.needs_equations and not has_equations:
            return f"needs {self.needs}"
        if kind(spaces.action) not in self.actions:
            return f"needs {' or '.join(self.actions)} actions, not {describe(spaces.action)}"
        if kind(spaces.observation) not in self.observations:
            return f"needs {' or '.join(self.observations)} observations, not {describe(spaces.observation)}"
        return ""


def kind(space: Space) -> str:
    match space:
        case Box():
            return "Box"
        case Dict():
            return "Dict"
        case Discrete():
            return "Discrete"
    return "MultiDiscrete"


def taken(algo: str) -> Taken:
    """An algorithm of another package may say only `discrete`, or nothing: then it is taken to take everything."""
    try:
        facts = _constants(algo)
    except (OSError, SyntaxError, ValueError, UserError):  # `summary` tells why it cannot be used
        return Taken((), (), "")
    discrete = facts.get("discrete")
    by_flag = OF_DISCRETE[discrete] if isinstance(discrete, bool) else ACTIONS
    actions, observations = (_names(facts.get(name)) for name in ("action_kinds", "observation_kinds"))
    needs, in_equations = str(facts.get("needs") or ""), facts.get("needs_equations") is True
    return Taken(actions or by_flag, observations or OBSERVATIONS, needs, in_equations)


def _names(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()


def _constants(algo: str) -> dict[str, object]:
    """What the class of an algorithm assigns in its body, as far as that is a constant."""
    name = ALGOS.find(algo).attribute
    constants: dict[str, object] = {}
    for node in ALGOS.source(algo).body:
        for line in node.body if isinstance(node, ast.ClassDef) and node.name == name else ():
            if isinstance(line, ast.Assign):
                with suppress(ValueError):
                    constants[ast.unparse(line.targets[0])] = ast.literal_eval(line.value)
    return constants


def fitting(spaces: Spaces) -> Iterator[str]:
    """The algorithms that can be used on these spaces without more, in the order of their names."""
    for name in ALGOS.names():
        facts = taken(name)
        if facts.actions and not facts.needs and not facts.refusal(spaces):
            yield name
