"""Every setting of an experiment for people: path, what it may be, its default and its meaning; as a list, and as a
file to begin with, in which each default stands behind a comment sign."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from rlstudio.core.catalog import ALGOS
from rlstudio.core.config import Config
from rlstudio.experiment.config.algorithm import train_section
from rlstudio.experiment.config.experiment import READING_ORDER, ExperimentConfig, experiment_from
from rlstudio.experiment.config.presets import find_preset, shipped_name

LIMITS = (("minimum", "≥ {}"), ("exclusiveMinimum", "> {}"), ("maximum", "≤ {}"), ("exclusiveMaximum", "< {}"))
WIDTH = 88
PLACEHOLDER = "CHANGE-ME"
ALWAYS_WRITTEN = {("env", "id"), ("policy", "algo")}


class Setting(NamedTuple):
    path: tuple[str, ...]
    meaning: str
    values: str  # what it may be
    default: str  # as YAML
    is_required: bool
    is_section: bool

    @property
    def is_written(self) -> bool:
        """Whether a file must have it."""
        return self.is_required or self.path in ALWAYS_WRITTEN


def settings(algo: str, env_id: str) -> list[Setting]:
    """All settings of an experiment with this algorithm, with the defaults that it brings; in reading order."""
    train = {name: PLACEHOLDER for name, field in train_section(algo).model_fields.items() if field.is_required()}
    cfg = experiment_from({"env": {"id": env_id}, "policy": {"algo": algo}, "train": train})
    return list(_settings(cfg, ()))


def _settings(section: Config, above: tuple[str, ...]) -> Iterator[Setting]:
    kind = type(section)
    properties, data = kind.model_json_schema()["properties"], section.model_dump(mode="json")
    first = READING_ORDER if isinstance(section, ExperimentConfig) else ()
    for name in [*first, *(name for name in kind.model_fields if name not in first)]:
        if name == "imports":  # only the command line may name modules
            continue
        field, value, path = kind.model_fields[name], getattr(section, name), (*above, name)
        meaning, is_section = " ".join((field.description or "").split()), isinstance(value, Config)
        default = "" if is_section else json.dumps(data[name])
        yield Setting(path, meaning, values_text(properties[name]), default, field.is_required(), is_section)
        if is_section:
            yield from _settings(value, path)


def values_text(schema: dict[str, Any], quote: str = "") -> str:
    """What a field may be, from its JSON schema; `quote` goes around literal values."""
    if "anyOf" in schema:
        return ", or ".join(values_text(option, quote) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"{quote}{_plain(value)}{quote}" for value in schema["enum"])
    if "const" in schema:
        return f"{quote}{_plain(schema['const'])}{quote}"
    if "$ref" in schema:
        return "section"
    kinds = {"array": "list", "object": "mapping", "string": "text", "boolean": "true, false"}
    kind = schema.get("type", "any")
    if schema.get("minimum", 0) > schema.get("exclusiveMinimum", math.inf):
        schema = {key: value for key, value in schema.items() if key != "exclusiveMinimum"}  # it says nothing more
    limits = [form.format(f"{schema[key]:.15g}") for key, form in LIMITS if key in schema]
    return " ".join([kinds.get(kind, kind), ", ".join(limits)]).strip()


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def settings_text(algo: str) -> str:
    """The list, in lines of at most `WIDTH` columns."""
    lines = [f"Settings with {algo} and their defaults; of another algorithm: rlctl schema --text ALGO"]
    for setting in settings(algo, "CartPole-v1"):
        path = ".".join(setting.path)
        if setting.is_section:
            lines += ["", *_wrapped(f"{path}: {setting.meaning}", "")]
            continue
        default = "required" if setting.is_written else f"default {setting.default}"
        lines += _wrapped(f"{path}  ({setting.values}; {default})", "  ")
        lines += _wrapped(setting.meaning, "      ")
    return "\n".join(lines) + "\n"


def starting_file(algo: str, env_id: str, launch: str, schema: str) -> str:
    """An experiment file to begin with. `launch`: the command that runs it; `schema`: where its JSON schema lies. A
    section inside a section is a comment as a whole: empty, it would mean its own defaults and not the algorithm's."""
    preset = find_preset(algo, env_id)
    lines = [f"# yaml-language-server: $schema={schema}", *_wrapped(ALGOS.summary(algo), "# ")]
    lines += [f"# Run it with: {launch}"]
    lines += [f"# Settings that are known to do well: {shipped_name(preset)}"] if preset is not None else []
    lines += ["# What stands behind a # is a default: take the # away to change it.", ""]
    for setting in settings(algo, env_id):
        lines += _lines(setting)
    return "\n".join(lines) + "\n"


def _lines(setting: Setting) -> list[str]:
    """One setting of a file, below its meaning."""
    depth, name = len(setting.path) - 1, setting.path[-1]
    if depth == 0 and setting.is_section:
        return ["", *_wrapped(setting.meaning, "# "), f"{name}:"]
    is_inside = depth > 1 or setting.is_section
    indent = f"  # {'  ' * (depth - 1)}" if is_inside else "  " * depth
    hidden = "" if is_inside or setting.is_written else "# "
    value = "" if setting.is_section else f" {setting.default}"
    return [*_wrapped(setting.meaning, f"{indent}# "), f"{indent}{hidden}{name}:{value}"]


def _wrapped(text: str, indent: str) -> list[str]:
    """Long words (paths, addresses) stay whole."""
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
