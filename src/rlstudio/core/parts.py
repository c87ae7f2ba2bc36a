"""Sections whose `kind` names a part of a catalog, ours or one of another package with settings of its own.

A part is whatever its entry point leads to and can be called: a class or a function. It gets its settings first, and
then what its kind gives it. Its settings are read by its attribute `Config`, which extends the section of its kind; a
part without one has those of the section.

    class MyPlannerConfig(PlannerConfig):
        tries: PositiveInt = 8
        \"""How often.\"""

    class MyPlanner:
        Config = MyPlannerConfig

        def __init__(self, cfg, actions, policy): ...

    planner: {kind: my_planner, tries: 3}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, ClassVar

from pydantic import (
    GetJsonSchemaHandler,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rlstudio.core.catalog import Catalog
from rlstudio.core.config import Config, refuse
from rlstudio.core.errors import UserError

_described: ContextVar[tuple[type[Config], ...]] = ContextVar("_described", default=())
"""Sections whose schema is being written."""


class PartConfig(Config):
    """A section that extends this says which catalog knows its kinds."""

    parts: ClassVar[Catalog]

    configured: ClassVar[frozenset[str]] = frozenset()
    """Our own kinds that have a `Config` of their own, as plug-ins may have."""

    kind: str
    """Name of the part."""

    @classmethod
    def chosen(cls, data: Mapping[str, object]) -> type[Config]:
        """Of an unknown kind the settings cannot be judged: it is refused alone."""
        kind = data.get("kind")
        if "kind" not in data and cls.model_fields["kind"].is_required():
            refuse(("kind",), f"required, but missing; add one of {', '.join(cls.parts.names())}")
        if not isinstance(kind, str):
            return cls
        try:
            cls.parts.find(kind)
            return cls.config_of(kind)
        except UserError as error:
            refuse(("kind",), str(error))

    @classmethod
    def config_of(cls, kind: str) -> type[PartConfig]:
        """What reads the settings of a kind. A plug-in is imported for it, and one of ours that is `configured`; others
        of ours, and unknown ones, are not."""
        if kind not in cls.configured and (kind in cls.parts.builtin or kind not in cls.parts.plugins):
            return cls
        section = _section_of(cls)
        config = getattr(cls.parts.load(kind), "Config", section)
        if not (isinstance(config, type) and issubclass(config, section)):
            where = cls.parts.find(kind).target
            raise UserError(f"{cls.parts.kind} {kind!r}: the Config of {where} must extend {section.__name__}")
        return config

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        return known_part(cls.parts, value)

    @model_serializer(mode="wrap")
    def _every_setting(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, object]:
        """A field is declared with the section of the kind, and pydantic would write the settings of that alone."""
        if type(self) is _section_of(type(self)) or info.context is self:
            whole: dict[str, object] = handler(self)
            return whole
        return self.model_dump(
            mode=info.mode,
            include=info.include,  # type: ignore[arg-type]
            exclude=info.exclude,  # type: ignore[arg-type]
            exclude_unset=info.exclude_unset,
            exclude_defaults=info.exclude_defaults,
            context=self,
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The kinds that are installed, each with its settings."""
        reference, section = handler(core_schema), _section_of(cls)
        kinds = {kind: section.config_of(kind) for kind in (*sorted(section.configured), *section.parts.plugins)}
        others: list[JsonSchemaValue] = []
        if cls is section and cls not in _described.get():  # a plug-in's settings may hold this section again
            token = _described.set((*_described.get(), cls))
            for config in dict.fromkeys(config for config in kinds.values() if config is not cls):
                other = handler(config.__pydantic_core_schema__)
                other["properties"]["kind"] = {"enum": [kind for kind in kinds if kinds[kind] is config]}
                others.append({**other, "required": sorted({"kind", *other.get("required", ())})})
            _described.reset(token)
        own = handler.resolve_ref_schema(reference)
        own["properties"]["kind"]["enum"] = [n for n in section.parts.names() if kinds.get(n, section) is cls]
        if others:
            ours = dict(own)
            own.clear()
            own["anyOf"] = [ours, *others]
        return reference

    def build(self, *given: object) -> Any:
        """The part that the section names, from its settings and what its kind gives it."""
        config = self.config_of(self.kind)
        settings = self if isinstance(self, config) else config.model_validate(self.model_dump(exclude_unset=True))
        return self.parts.load(self.kind)(settings, *given)


def known_part(catalog: Catalog, name: str) -> str:
    """For validators: the name, if a part has it; nothing is imported."""
    try:
        catalog.find(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    return name


def _section_of(cls: type[PartConfig]) -> type[PartConfig]:
    """The section of a kind, which is where its catalog is stated; a plug-in's Config extends it."""
    return next(base for base in cls.__mro__ if "parts" in vars(base))
