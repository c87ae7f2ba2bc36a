"""Which kinds of plain value a field accepts, and the few conversions that are safe.

A field annotated `int` takes whole numbers (1e6 too), `float` takes numbers, both also as quoted text, neither a
boolean; `bool` takes only true and false. Where an annotation admits anything else (`Any`, a nested Config) the value
passes as it is.
"""

from __future__ import annotations

import types
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from rlstudio.core.parsing.yaml_file import KeyPath, plain_scalar

Kinds = frozenset[type] | None
"""Plain types a field admits at its leaves; None: open, nothing is judged here."""

PLAIN = (bool, int, float, str)
NUMBERS = frozenset({int, float})


def kinds_of(annotation: object) -> Kinds:
    """The plain types that an annotation admits at its leaves."""
    origin = get_origin(annotation)
    if origin is Literal:
        return frozenset(type(value) for value in get_args(annotation))
    if origin is Annotated:
        return kinds_of(get_args(annotation)[0])
    if isinstance(annotation, type) and annotation in PLAIN:
        return frozenset({annotation})
    if annotation is None or annotation is types.NoneType:
        return frozenset()
    if origin in (Union, types.UnionType, tuple, list, dict):
        inner = get_args(annotation)[1:] if origin is dict else get_args(annotation)
        admitted = [kinds_of(argument) for argument in inner if argument is not Ellipsis]
        return None if None in admitted else frozenset().union(*(kinds for kinds in admitted if kinds))
    return None


def fit(value: object, kinds: Kinds, path: KeyPath = ()) -> object:
    """The value with its leaves in a kind that the field admits; what pydantic itself judges rightly passes."""
    if kinds is None:
        return value
    if isinstance(value, list | tuple):
        return [fit(item, kinds, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {key: fit(item, kinds, (*path, key)) for key, item in value.items()}
    if isinstance(value, bool):
        wrong = bool not in kinds and bool(kinds & NUMBERS)
    elif isinstance(value, int | float):
        wrong = kinds == {bool}
    elif isinstance(value, str) and str not in kinds:
        number = _number(value) if kinds & NUMBERS else None
        if number is not None:
            return number
        wrong = bool(kinds)
    else:
        wrong = False
    if wrong:
        error = PydanticCustomError("kind", "expected {wanted}", {"wanted": _wanted(kinds)})
        raise ValidationError.from_exception_data("Config", [InitErrorDetails(type=error, loc=path, input=value)])
    return value


def _number(text: str) -> int | float | None:
    """Text that is a number by the rules of our YAML: "3e-4", not "1_000" or "0.1 "."""
    try:
        value = plain_scalar(text)
    except ValueError:
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _wanted(kinds: frozenset[type]) -> str:
    words = {"a number": float in kinds, "a whole number": int in kinds and float not in kinds}
    words["true or false"] = bool in kinds
    return " or ".join(word for word, admitted in words.items() if admitted)
