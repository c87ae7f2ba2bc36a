"""Sections inside an annotation, and which class reads one: a `kind` may name a part with settings of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeGuard, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from pydantic_core.core_schema import ErrorType

OF_PYDANTIC = frozenset(get_args(ErrorType))


class Reasoned(Protocol):
    @property
    def reason(self) -> str: ...


class Section(Protocol):
    """The class of a section's settings: a Config, which this module must not import."""

    @property
    def model_fields(self) -> Mapping[str, FieldInfo]: ...

    @property
    def retired(self) -> Mapping[str, Reasoned]: ...

    @property
    def usual(self) -> Mapping[str, Section]: ...

    @property
    def other_names(self) -> Mapping[str, Sequence[str]]: ...

    def chosen(self, data: Mapping[str, object]) -> Section: ...

    def section_type(self, name: str, data: Mapping[str, object]) -> object: ...

    def model_validate(self, obj: object) -> object: ...


def section_in(annotation: object) -> Section | None:
    """The Config class inside `Section`, `Section | None` or `tuple[Section, ...]`; None where there is none."""
    if _is_section(annotation):
        return annotation
    return next(filter(None, map(section_in, get_args(annotation))), None)


def _is_section(annotation: object) -> TypeGuard[Section]:
    return hasattr(annotation, "section_type")


def read_chosen(annotation: object, value: object) -> object:
    """The value of a field, with each section that another class reads already read by that class."""
    section = None if get_origin(annotation) is dict else section_in(annotation)
    if section is None or not hasattr(section, "parts"):
        return value
    if isinstance(value, Mapping):
        chosen = section.chosen(value)
        return value if chosen is section is annotation else chosen.model_validate(value)
    if isinstance(value, list | tuple):
        return [_item(annotation, index, item) for index, item in enumerate(value)]
    return value


def _item(annotation: object, index: int, item: object) -> object:
    """One of a list, with its place in what is wrong with it."""
    try:
        return read_chosen(annotation, item)
    except ValidationError as error:
        placed = [_placed(index, finding) for finding in error.errors(include_url=False)]
        raise ValidationError.from_exception_data("Config", placed) from None


def _placed(index: int, finding: ErrorDetails) -> InitErrorDetails:
    loc, given, context = (index, *finding["loc"]), finding["input"], finding.get("ctx", {})
    if finding["type"] in OF_PYDANTIC:
        return InitErrorDetails(type=finding["type"], loc=loc, input=given, ctx=context)
    template = " ".join(f"{{{name}}}" for name in context)
    return InitErrorDetails(type=PydanticCustomError(finding["type"], template, context), loc=loc, input=given)
