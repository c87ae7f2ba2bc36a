"""JSON schema of an experiment file, so that editors complete and check it: `rlctl schema > experiment.schema.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlstudio.core.catalog import ALGOS, SINKS
from rlstudio.experiment.config.algorithm import algorithm, train_section
from rlstudio.experiment.config.experiment import ExperimentConfig

Schema = dict[str, Any]
REFERENCES = "#/$defs/{model}"


def experiment_schema(algo: str | None = None) -> dict[str, object]:
    """The schema for one algorithm, with the defaults that it brings for other sections; or for all: then `policy.algo`
    decides what `train` may hold."""
    algos = [algo] if algo else ALGOS.names()
    schema = ExperimentConfig.model_json_schema(ref_template=REFERENCES)
    definitions, properties = schema["$defs"], schema["properties"]
    del properties["imports"]  # only the command line may name modules
    properties["name"].pop("default", None)
    definitions["PolicyConfig"]["properties"]["algo"]["enum"] = algos
    definitions["TrackingConfig"]["properties"]["sinks"]["items"]["anyOf"][0]["enum"] = SINKS.names()
    definitions.pop("RunLength", None)
    branches = []
    for name in algos:
        train = algorithm(name).Config.model_json_schema(ref_template=REFERENCES)
        definitions |= train.pop("$defs", {})
        definitions[f"train.{name}"] = train
        chosen = {"properties": {"policy": {"properties": {"algo": {"const": name}}, "required": ["algo"]}}}
        branches.append({"if": chosen, "then": {"properties": {"train": {"$ref": f"#/$defs/train.{name}"}}}})
    if algo:
        for section, defaults in train_section(algo).section_defaults.items():
            _set_defaults(properties[section], defaults, definitions)
    properties["train"] = {"type": "object", "description": properties["train"]["description"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "RLStudio experiment",
        "allOf": branches,
    }


def _set_defaults(section: Schema, defaults: Mapping[str, object], definitions: dict[str, Schema]) -> None:
    """Field by field, also inside sections of the section."""
    fields = definitions[section["$ref"].rpartition("/")[2]]["properties"]
    for name, value in defaults.items():
        if isinstance(value, Mapping) and "$ref" in fields[name]:
            _set_defaults(fields[name], value, definitions)
        else:
            fields[name]["default"] = value
