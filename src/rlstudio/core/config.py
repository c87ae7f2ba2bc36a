"""Configuration as frozen pydantic models: unknown keys refused, numbers finite, a line of meaning beside each field.

`parse` turns data from a file, overrides or Python into a Config, or raises one ConfigError with a line per problem:
place, dotted field, reason, remedy. `config_hash` names what defines a result; `to_yaml` writes a Config so that it
parses back to an equal one.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple, NoReturn, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from rlstudio.core.contracts import State
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.kinds import fit, kinds_of
from rlstudio.core.parsing.problems import Problem, dotted, problems, value_text
from rlstudio.core.parsing.sections import Section, read_chosen
from rlstudio.core.parsing.yaml_file import Document, KeyPath, read_value
from rlstudio.core.parsing.yaml_text import write_text


class Retired(NamedTuple):
    """A field that a section had once and that changed nothing."""

    default: object
    reason: str  # why there is nothing to set


class Config(BaseModel):
    """Root of every configuration section. `Field(description=...)` or the attribute docstring documents a field."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )

    not_hashed: ClassVar[tuple[str, ...]] = ()
    """Dotted names of fields that do not define the result."""

    retired: ClassVar[dict[str, Retired]] = {}
    """Fields of earlier versions. A file that names one is refused. A stored config may have them, and hashes still
    count them, so that the hash of an older run stays what it was."""

    hashed_if_set: ClassVar[tuple[str, ...]] = ()
    """Fields that were added later and whose default means what was done before: hashes count them only when they
    differ from it, so that the hash of an older config stays what it was."""

    other_names: ClassVar[dict[str, tuple[str, ...]]] = {}
    """What other libraries call a setting -> dotted names here, for hints on an unknown key."""

    usual: ClassVar[dict[str, type[Config]]] = {}
    """For sections whose class other data decides: the one that most have, for hints on a misplaced key."""

    @field_validator("*", mode="before")
    @classmethod
    def _exact_kinds(cls, value: object, info: ValidationInfo) -> object:
        """Pydantic alone would take true for 1, "yes" for true and "1_000" for a number. A section whose lines are all
        commented out reads as null and means its defaults."""
        annotation = cls.model_fields[str(info.field_name)].annotation
        if value is None and isinstance(annotation, type) and issubclass(annotation, Config):
            return {}
        return fit(read_chosen(annotation, value), kinds_of(annotation))

    @classmethod
    def chosen(cls, data: Mapping[str, object]) -> type[Config]:
        """The class that reads this section: another one where the data names a part that brings its own settings."""
        return cls

    @classmethod
    def section_type(cls, name: str, data: Mapping[str, object]) -> object:
        """The annotation of a field; a Config that chooses a section's class by other data answers with that class."""
        field = cls.model_fields.get(name)
        return field.annotation if field else None


C = TypeVar("C", bound=Config)
Stored = Mapping[str, Mapping[str, object] | None]
"""A config file's sections as they were read."""


def refuse(path: KeyPath, reason: str) -> NoReturn:
    """For validators that compare fields: refuse the field at `path`, so that the message names its place."""
    error = PydanticCustomError("refused", "{reason}", {"reason": reason})
    raise ValidationError.from_exception_data("Config", [InitErrorDetails(type=error, loc=path, input=None)])


def parse(
    cls: type[C], document: Document | Mapping[str, object], source: str = "config", *, context: object = None
) -> C:
    """A valid Config, or one ConfigError that names every problem found, a line each. `context` is for validators."""
    if not isinstance(document, Document):
        document = Document(dict(document), source)
    if document.data is None:
        raise ConfigError(f"{document.source}: is empty; expected `key: value` lines")
    if not isinstance(document.data, dict):
        raise ConfigError(f"{document.where()}: expected `key: value` lines, got {value_text(document.data)}")
    wrong = [Problem(path, f"must be finite, got {value}") for path, value in _non_finite(document.data)]
    try:
        cfg = cls.model_validate(document.data, context=context)
    except ValidationError as error:
        known = {problem.path for problem in wrong}
        refused = problems(error, cast("Section", cls), document.data)
        wrong += [problem for problem in refused if problem.path not in known]
    if wrong:
        lines = [": ".join(filter(None, (document.where(p.path), dotted(p.path), p.reason))) for p in wrong]
        raise ConfigError("\n".join(lines))
    return cfg


def _non_finite(value: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, float]]:
    """NaN has no place anywhere, also not where a section takes any value: it is neither JSON nor equal to itself."""
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _non_finite(inner, (*path, key))


def apply_overrides(
    document: Document | Mapping[str, object], overrides: Sequence[str], source: str = "config"
) -> Document:
    """The document with `section.key=value` replaced or added, one after the other; it is not changed itself."""
    if not isinstance(document, Document):
        document = Document(dict(document), source)
    data, marks, placed = document.data, dict(document.marks), dict(document.overrides)
    for override in overrides:
        key, equals, text = override.partition("=")
        path = tuple(key.strip().split("."))
        label = value_text(override, quote=False)
        if not equals or not all(path):
            raise ConfigError(f"override {label}: expected section.key=value, for example train.lr=1e-3")
        value = read_value(text, f"override {label}")
        place, data = _put(data, path, value, label)
        for table in (marks, placed):
            for covered in [other for other in table if other[: len(place)] == place]:
                del table[covered]
        placed[place] = label
    return Document(data, document.source, marks, placed)


def _put(data: object, path: tuple[str, ...], value: object, label: str, done: KeyPath = ()) -> tuple[KeyPath, object]:
    """Where the value went (list positions are numbers) and a copy of the data along the way there."""
    if not path:
        return done, value
    head, *rest = path
    if data is None:
        data = {}
    if isinstance(data, dict):
        place, inner = _put(data.get(head), tuple(rest), value, label, (*done, head))
        return place, {**data, head: inner}
    if isinstance(data, list) and head.isdecimal() and int(head[:9]) < len(data):
        index = int(head[:9])
        place, inner = _put(data[index], tuple(rest), value, label, (*done, index))
        return place, [*data[:index], inner, *data[index + 1 :]]
    what = f"a list of {len(data)}" if isinstance(data, list) else f"the value {value_text(data)}"
    raise ConfigError(f"override {label}: {dotted(done)} is {what} and has no {head!a}")


def canonical(cfg: Config, stored: Stored | None = None) -> str:
    """What defines the result, as compact JSON with sorted keys. Defaults are part of it, `auto` stays `auto`.

    `stored` is the data of the file that `cfg` was read from, where that may hold values of retired fields.
    """
    data = cfg.model_dump(mode="json")
    _drop_later_defaults(cfg, data)
    for name, section in cfg:
        if isinstance(section, Config) and section.retired:
            earlier = {key: field.default for key, field in section.retired.items()}
            given = (stored or {}).get(name) or {}
            data[name] |= earlier | {key: given[key] for key in earlier.keys() & given.keys()}
    for name in cfg.not_hashed:
        *sections, last = name.split(".")
        inner = data
        for part in sections:
            inner = inner[part]
        inner.pop(last, None)  # at its default it may be gone already
    return json.dumps(_positive_zero(data), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _drop_later_defaults(cfg: Config, data: State) -> None:
    for name, value in cfg:
        if name in cfg.hashed_if_set and value == type(cfg).model_fields[name].get_default(call_default_factory=True):
            del data[name]
        elif isinstance(value, Config):
            _drop_later_defaults(value, data[name])


def _positive_zero(value: object) -> object:
    """Equal configs have equal hashes, and -0.0 equals 0.0."""
    if isinstance(value, dict):
        return {key: _positive_zero(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_positive_zero(inner) for inner in value]
    return value + 0.0 if isinstance(value, float) else value


def config_hash(cfg: Config, stored: Stored | None = None) -> str:
    """SHA-256 of the canonical form, in hexadecimal."""
    return hashlib.sha256(canonical(cfg, stored).encode()).hexdigest()


def to_yaml(cfg: Config) -> str:
    """The whole Config, defaults included, as YAML that parses back to an equal Config with the same hash."""
    return write_text(cfg.model_dump(mode="json"))
