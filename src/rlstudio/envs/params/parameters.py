"""One entry of `env.params`: what it sets in an environment, and what its value is drawn from.

The short form is a number. The long form names a distribution, and where it differs from the usual also when it is
drawn, whether the agent sees it, and what it is in the environment:

    length: {uniform: [0.25, 1.5], observed: true}
    torso: {target: "mujoco:body_mass[torso]", uniform: [0.5, 2.0], op: scale, every: run}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import JsonValue

from rlstudio.core.errors import suggest
from rlstudio.envs.params.distributions import Constant, Distribution, distribution

Kind = Literal["", "attr", "kwarg", "reset", "mujoco"]
KINDS = ("attr", "kwarg", "reset", "mujoco")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:,\[\]-]{0,99}")
OPTIONS = ("every", "observed", "op", "target")
VALUES = ("value", "nominal", "uniform", "log_uniform", "normal", "choice")

ParamValue = float | dict[str, JsonValue]
"""An entry of `env.params` as configs have it."""


@dataclass(frozen=True)
class Parameter:
    """`kind` and `address` say what it sets; a plain name (kind "") is a World's parameter or an attribute. Without
    `drawn_from` the environment keeps its own value. With `scale` its own value is multiplied by what was drawn."""

    name: str
    kind: Kind
    address: str
    drawn_from: Distribution | None
    every: Literal["episode", "run"] = "episode"
    observed: bool = False
    scale: bool = False

    def nominal_form(self) -> ParamValue | None:
        """The entry that leaves this parameter at the environment's own value; None where that needs no entry."""
        if not self.observed:
            return None
        return {"nominal": True, "observed": True, **self._place()}

    def to_json(self) -> dict[str, JsonValue]:
        """The long form, without what is as usual."""
        if self.drawn_from is None:
            drawn: dict[str, JsonValue] = {"nominal": True}
        else:
            written = self.drawn_from.to_json()
            drawn = written if isinstance(written, dict) else {"value": written}
        if self.every != "episode":
            drawn["every"] = self.every
        if self.observed:
            drawn["observed"] = True
        return drawn | self._place()

    def _place(self) -> dict[str, JsonValue]:
        place: dict[str, JsonValue] = {"op": "scale"} if self.scale else {}
        target = f"{self.kind}:{self.address}" if self.kind else self.address
        return place if target == self.name else {**place, "target": target}


def parse_parameter(name: str, value: float | Mapping[str, object]) -> Parameter:
    """ValueError says what is wrong with it."""
    if not NAME.fullmatch(name):
        raise ValueError("is no name of a parameter; use letters, digits and _ . : , [ ] - only")
    if not isinstance(value, Mapping):
        return Parameter(name, *_place_of(name), distribution(value))
    options = {key: value[key] for key in value if key in OPTIONS}
    drawn = {key: value[key] for key in value if key not in OPTIONS}
    every, op = options.get("every", "episode"), options.get("op", "set")
    if every not in ("episode", "run"):
        raise ValueError(f"every is episode or run, got {every!r}")
    if op not in ("set", "scale"):
        raise ValueError(f"op is set or scale, got {op!r}")
    target, observed = options.get("target", name), options.get("observed", False)
    if not isinstance(target, str) or not isinstance(observed, bool):
        raise ValueError("target is a text and observed is true or false")
    kind, address = _place_of(target)
    if op == "scale" and kind in ("kwarg", "reset"):
        raise ValueError(f"op: scale needs a value of the environment's own, which {kind}: has not; use op: set")
    return Parameter(name, kind, address, _drawn_from(drawn), every, observed, scale=op == "scale")


def _place_of(target: str) -> tuple[Kind, str]:
    kind, colon, address = target.partition(":")
    if not colon:
        return "", target
    if kind not in KINDS or not address:
        near = suggest(kind, KINDS) or f"; known: {', '.join(KINDS)}"
        raise ValueError(f"{target!r} names no target{near}, as in attr:length or kwarg:gravity")
    return cast(Kind, kind), address


def _drawn_from(drawn: Mapping[str, object]) -> Distribution | None:
    if not any(key in drawn for key in VALUES):
        unknown = next(iter(drawn), None)
        near = "" if unknown is None else suggest(unknown, (*VALUES, *OPTIONS))
        raise ValueError(f"says nothing to draw from{near or ''}; use one of {', '.join(VALUES)}")
    for key, only in (("nominal", True), ("value", None)):
        if key in drawn:
            if len(drawn) > 1:
                other = next(name for name in drawn if name != key)
                raise ValueError(f"{key} and {other} exclude each other")
            if only is not None and drawn[key] is not only:
                raise ValueError("nominal is true, or left out")
            return None if key == "nominal" else Constant(distribution(cast(float, drawn[key])).range[0])
    return distribution(drawn)
