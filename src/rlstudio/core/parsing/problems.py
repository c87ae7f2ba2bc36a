"""Pydantic's findings in plain words: which field, what is wrong with it, what would be right."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rlstudio.core.errors import UserError, suggest
from rlstudio.core.parsing.sections import Section, section_in
from rlstudio.core.parsing.yaml_file import KeyPath

UNKNOWN = "extra_forbidden"
CONSEQUENCES = ("default_factory_not_called", "not_judged")
"""Findings that only say that another one came first."""

EXPECTED = "expected "

BOUNDS = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be finite",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_parsing_size": "is too large a number",
}
WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "list": "a list",
    "model": "a section (`key: value` lines)",
    "dict": "a section (`key: value` lines)",
}


class Problem(NamedTuple):
    path: KeyPath
    reason: str


def value_text(value: object, *, quote: bool = True) -> str:
    """A value in a message: one line, not long."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if len(value) > 8 or len(repr(value)) > 60 else repr(list(value))
    if isinstance(value, int) and value.bit_length() > 200:
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    text = repr(value) if quote or not isinstance(value, str) else value
    text = _printable(text)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def dotted(path: KeyPath) -> str:
    """`policy.network.hidden_sizes[1]`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{value_text(part, quote=False)}" for part in path)
    return text.removeprefix(".")


def problems(error: ValidationError, cls: Section, data: Mapping[str, object]) -> list[Problem]:
    """One problem per field: the failed branches of a union are joined with "or"."""
    wanted: dict[KeyPath, list[str]] = {}
    got: dict[KeyPath, str] = {}
    for finding in error.errors(include_url=False):
        if finding["type"] in CONSEQUENCES:
            continue
        path = finding["loc"] if finding["type"] in ("missing", "refused") else _present(finding["loc"], data)
        reason, tail = (_unknown_key(path, cls, data), "") if finding["type"] == UNKNOWN else _reason(finding)
        wanted.setdefault(path, []).append(reason)
        got[path] = max(got.get(path, ""), tail, key=len)
    return [
        Problem(path, _printable(_either(list(dict.fromkeys(reasons))) + got[path])) for path, reasons in wanted.items()
    ]


def _either(reasons: Sequence[str]) -> str:
    """`expected text or a section`."""
    first, *others = reasons
    return " or ".join(
        [first, *(reason.removeprefix(EXPECTED if first.startswith(EXPECTED) else "") for reason in others)]
    )


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _present(loc: KeyPath, data: object) -> KeyPath:
    """The parts of pydantic's location that lead through the data; the others name branches of unions."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(data, Mapping):
            leads = part in data
        else:
            leads = isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)
        if leads:
            path.append(part)
            data = _entry(data, part)
    return tuple(path)


def _entry(data: object, part: str | int) -> object:
    """What a section or list of the file has at a key or place."""
    return cast("Mapping[str | int, object]", data)[part]


def _unknown_key(path: KeyPath, cls: Section, data: Mapping[str, object]) -> str:
    section, key = _section_at(path[:-1], cls, data), str(path[-1])[:80]
    if key in section.retired:
        return f"{section.retired[key].reason}; leave it out"
    ours = (name for name in cls.other_names.get(key, ()) if _has(cls, data, name))
    if name := next(ours, None):
        return f"unknown key; here it is called {name}"
    known = list(section.model_fields)
    lower = _section_of(key, cls) if len(path) == 1 else None
    near = f"; did you mean {lower}.{key}?" if lower else suggest(key, known)
    return "unknown key" + (near or f"; known: {', '.join(known)}")


def _has(cls: Section, data: Mapping[str, object], name: str) -> bool:
    """Whether there is a setting of this dotted name."""
    *above, last = name.split(".")
    section: Section | None = cls
    for part in above:
        try:
            section = section_in(section.section_type(part, data)) if section else None
        except (KeyError, TypeError, UserError):
            return False  # what decides it is missing or wrong itself, which is said of its own field
    return section is not None and last in section.model_fields


def _section_of(key: str, cls: Section) -> str | None:
    """The section a key was meant for that stands above all of them: `lr=1e-3` instead of `train.lr=1e-3`."""
    sections = ((name, cls.usual.get(name) or section_in(field.annotation)) for name, field in cls.model_fields.items())
    return next((name for name, section in sections if section and key in section.model_fields), None)


def _section_at(path: KeyPath, annotation: object, data: object) -> Section:
    """The Config class that a path leads to, through lists, tables and optional sections."""
    for part in path:
        if get_origin(annotation) is dict:
            annotation = get_args(annotation)[1]  # of any key
        elif isinstance(part, str):
            section = cast("Mapping[str, object]", data)
            annotation = _chosen(annotation, section).section_type(part, section)
        data = _entry(data, part)
    return _chosen(annotation, cast("Mapping[str, object]", data))


def _chosen(annotation: object, data: Mapping[str, object]) -> Section:
    section = section_in(annotation)
    assert section is not None  # pydantic knows no keys anywhere else
    return section.chosen(data)


def _reason(finding: ErrorDetails) -> tuple[str, str]:
    """What was wanted, and what there was instead."""
    kind, limits, value = finding["type"], finding.get("ctx", {}), finding["input"]
    if kind in ("refused", "value_error"):
        return str(limits.get("reason") or limits["error"]), ""
    if kind == "missing":
        return "required, but missing; add it", ""
    got = f", got {value_text(value)}"
    if kind == "literal_error":
        return f"expected {limits['expected']}", got + _nearest(value, limits["expected"])
    if kind in BOUNDS:
        whole = {name: int(v) if isinstance(v, float) and v.is_integer() else v for name, v in limits.items()}
        return re.sub(r"\b1 (item|character)s", r"1 \1", BOUNDS[kind].format(**whole)), got
    wanted = limits["wanted"] if kind == "kind" else WANTED.get(kind.split("_")[0])
    return (f"expected {wanted}" if wanted else finding["msg"].lower()), got


def _nearest(value: object, expected: str) -> str:
    return suggest(value, expected.replace(" or ", ", ").replace("'", "").split(", ")) if isinstance(value, str) else ""
