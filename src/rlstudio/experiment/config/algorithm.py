"""The algorithm behind a name, as far as a config needs it: its settings, what it can be used for, and its own defaults
for sections that all algorithms share.

A field of those that nobody set takes the algorithm's default, and only then that of the section. A stored config is
complete, so a run that is resumed keeps what it was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pydantic import ValidationError

from rlstudio.algos.parts.config import RunLength
from rlstudio.core.catalog import ALGOS
from rlstudio.core.config import Config
from rlstudio.core.contracts import Algorithm
from rlstudio.core.errors import UserError


def algorithm(name: str) -> Algorithm:
    """The algorithm behind a name; this imports it."""
    loaded: Algorithm = ALGOS.load(name)
    config = getattr(loaded, "Config", None)
    is_config = isinstance(config, type) and issubclass(config, RunLength)
    if not (is_config and hasattr(loaded, "off_policy") and hasattr(loaded, "discrete")):
        target = ALGOS.find(name).target
        raise UserError(
            f"algo {name!r}: {target} must have a Config that extends TrainConfig or RunLength, and say off_policy and"
            " discrete"
        )
    return loaded


def train_section(algo: str) -> type[RunLength]:
    """The class of the section `train`."""
    return cast("type[RunLength]", algorithm(algo).Config)


def preferred_sections(cfg: Config, algorithm: type[RunLength]) -> dict[str, Config]:
    """The sections for which the algorithm of this Config has defaults, with those in the fields that were not set."""
    sections, place = {}, f"{algorithm.__module__}:{algorithm.__name__}: section_defaults"
    for name, fields in algorithm.section_defaults.items():
        section = getattr(cfg, name, None)
        if not isinstance(section, Config):
            raise UserError(f"{place}: there is no section {name!r}; leave it out")
        given = section.model_dump(mode="json", exclude_unset=True)
        try:
            sections[name] = _as_given(type(section).model_validate(_merged(fields, given)), section)
        except ValidationError as error:
            problem = error.errors()[0]
            field = ".".join(map(str, (name, *problem["loc"])))
            raise UserError(f"{place}: {field}: {problem['msg']}; correct it there") from None
    return sections


def _as_given(complete: Config, given: Config) -> Config:
    """`complete`, in which only what `given` has set counts as set: a default is nothing that a file says."""
    values = {
        name: _as_given(value, getattr(given, name)) if isinstance(value, Config) else value for name, value in complete
    }
    return type(complete).model_construct(_fields_set=set(given.model_fields_set), **values)


def _merged(defaults: Mapping[str, object], given: Mapping[str, object]) -> dict[str, object]:
    """Field by field, also inside sections of the section."""
    merged = {**defaults, **given}
    for name in defaults.keys() & given.keys():
        below, above = defaults[name], given[name]
        if isinstance(below, Mapping) and isinstance(above, Mapping):
            merged[name] = _merged(below, above)
    return merged
