"""The JSON schema names every field with its meaning and follows the chosen algorithm."""

import json

import pytest

from rlstudio.algos.dqn import DQNConfig
from rlstudio.algos.ppo import PPOConfig
from rlstudio.core.errors import UnknownName
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.config.schema import experiment_schema


def references(node):
    if isinstance(node, dict):
        yield from ([node["$ref"]] if "$ref" in node else [])
        node = list(node.values())
    if isinstance(node, list):
        for inner in node:
            yield from references(inner)


def test_every_field_is_there_and_says_what_it_is():
    schema = experiment_schema()
    assert set(schema["properties"]) == set(ExperimentConfig.model_fields) - {"imports"}
    assert schema["required"] == ["env", "policy"]
    for name, section in [("experiment", schema), *schema["$defs"].items()]:
        for field, described in section.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field} has no description"


def test_references_resolve_and_it_is_json():
    schema = json.loads(json.dumps(experiment_schema()))
    for reference in references(schema):
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def test_the_algorithm_decides_what_train_may_hold():
    schema = experiment_schema()
    assert set(schema["$defs"]["train.ppo"]["properties"]) == set(PPOConfig.model_fields)
    assert set(schema["$defs"]["train.dqn"]["properties"]) == set(DQNConfig.model_fields)
    assert {branch["if"]["properties"]["policy"]["properties"]["algo"]["const"] for branch in schema["allOf"]} >= {
        "ppo",
        "dqn",
    }
    one = experiment_schema("dqn")
    assert one["$defs"]["PolicyConfig"]["properties"]["algo"]["enum"] == ["dqn"]
    assert "train.ppo" not in one["$defs"]


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(UnknownName, match="did you mean ppo"):
        experiment_schema("pppo")


def test_the_schema_of_one_algorithm_has_the_defaults_that_it_brings():
    fields = {algo: experiment_schema(algo)["$defs"] for algo in ("ppo", "sac")}
    assert fields["ppo"]["NetworkConfig"]["properties"]["normalize_observations"]["default"] == "numeric"
    assert fields["sac"]["NetworkConfig"]["properties"]["hidden_sizes"]["default"] == [256, 256]
    assert fields["sac"]["BufferConfig"]["properties"]["capacity"]["default"] == 1_000_000
    assert experiment_schema()["$defs"]["NetworkConfig"]["properties"]["normalize_observations"]["default"] is False
