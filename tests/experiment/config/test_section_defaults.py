"""Defaults that an algorithm brings for sections it shares with others."""

import re
from pathlib import Path

import numpy as np
import pytest

from rlstudio.algos.sac import SACConfig
from rlstudio.core.catalog import ALGOS
from rlstudio.core.config import config_hash, to_yaml
from rlstudio.core.errors import UserError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, Spaces
from rlstudio.experiment.config.algorithm import algorithm, train_section
from rlstudio.experiment.config.experiment import ExperimentConfig, experiment_from, load_experiment
from rlstudio.experiment.config.presets import FOLDER, presets
from rlstudio.models.build import build_policy_value
from rlstudio.models.config import NetworkConfig

PAGE = Path(__file__).parents[3] / "docs" / "decisions" / "0041-defaults.md"
LEARNERS = ("a2c", "dqn", "ppo", "qrdqn", "sac", "td3")


def least(algo, **sections) -> ExperimentConfig:
    policy = {"algo": algo, **sections.pop("policy", {})}
    return experiment_from({"env": {"id": "any", **sections.pop("env", {})}, "policy": policy, **sections})


@pytest.mark.parametrize("algo", LEARNERS)
def test_an_algorithm_says_its_network_and_its_number_of_environments(algo):
    wanted = train_section(algo).section_defaults
    cfg = least(algo)
    assert cfg.env.num_envs == wanted["env"]["num_envs"]
    network = wanted["policy"]["network"]
    assert {"hidden_sizes", "activation"} <= network.keys()
    assert cfg.policy.network.model_dump(mode="json", include=set(network)) == network
    assert ("buffer" in wanted) == algorithm(algo).off_policy
    name = {"qrdqn": "QR-DQN"}.get(algo, algo.upper())
    assert re.search(rf"^\| (?:[\w-]+, )*{name}\b", PAGE.read_text(), re.MULTILINE), f"{name}: say where they are from"


def test_what_a_file_sets_counts_and_the_rest_is_the_algorithm_s():
    cfg = least("sac", policy={"network": {"activation": "tanh"}}, env={"num_envs": 4})
    assert cfg.policy.network.activation == "tanh"
    assert cfg.policy.network.hidden_sizes == (256, 256)
    assert (cfg.env.num_envs, cfg.buffer.capacity) == (4, 1_000_000)
    assert cfg.model_dump(exclude_unset=True)["policy"] == {"algo": "sac", "network": {"activation": "tanh"}}
    assert least("sac", train={"steps_per_epoch": 500}).env.num_envs == 1  # divided by one, not by eight


def test_a_stored_config_keeps_what_it_means_whatever_the_defaults_are_now(monkeypatch):
    cfg = least("sac")
    text = to_yaml(cfg)
    monkeypatch.setattr(SACConfig, "section_defaults", {"policy": {"network": {"hidden_sizes": [3]}}})
    for stored in (True, False):  # also copied and launched anew: it is complete
        again = experiment_from(read_text(text, "config.yaml"), stored=stored)
        assert config_hash(again) == config_hash(cfg)
    old = experiment_from({"env": {"id": "any"}, "policy": {"algo": "sac"}}, stored=True)
    assert (old.policy.network.hidden_sizes, old.env.num_envs) == ((64, 64), 8)  # as before there were such defaults


@pytest.mark.parametrize(
    ("defaults", "reason"),
    [
        ({"env": {"num_envs": 0}}, "env.num_envs: .* greater than or equal to 1; correct it there"),
        ({"policy": {"network": {"width": 3}}}, "policy.network.width: .*; correct it there"),
        ({"networks": {}}, "there is no section 'networks'; leave it out"),
    ],
)
def test_a_default_that_cannot_be_is_the_algorithm_s_mistake(monkeypatch, defaults, reason):
    monkeypatch.setattr(SACConfig, "section_defaults", defaults)
    with pytest.raises(UserError, match=f"^rlstudio.algos.sac:SACConfig: section_defaults: {reason}$"):
        least("sac")


def test_other_algorithms_have_the_defaults_of_the_sections():
    for algo in set(ALGOS.builtin) - set(LEARNERS):
        assert train_section(algo).section_defaults == {}


def test_a_shipped_config_hangs_on_no_default_that_an_algorithm_brings():
    """But for the file that runs as it was given."""
    for path in presets():
        stated = load_experiment(path).model_dump(exclude_unset=True)
        cfg = load_experiment(path)
        if path == FOLDER / "ppo" / "cartpole_mvp.yaml" or not train_section(cfg.policy.algo).section_defaults:
            continue
        wanted = train_section(cfg.policy.algo).section_defaults
        left = {name for name in wanted["policy"]["network"] if name not in stated["policy"]["network"]}
        left |= {"num_envs"} - stated["env"].keys() | (wanted.keys() & {"buffer"}) - stated.keys()
        assert not left, f"{path.name}: state {left}"


def box(shape, dtype="float32"):
    size = int(np.prod(shape))
    return Box(shape, dtype, (0.0,) * size, (1.0 if dtype == "float32" else 255.0,) * size)


NUMBERS, BYTES, IMAGE, PUSH, TWO = box((3,)), box((5,), "uint8"), box((40, 40, 3), "uint8"), box((1,)), Discrete(2)


@pytest.mark.parametrize(
    ("setting", "observation", "action", "normalized"),
    [
        ("auto", NUMBERS, PUSH, True),
        ("auto", NUMBERS, TWO, False),
        ("auto", BYTES, TWO, True),
        ("auto", TWO, PUSH, False),
        ("auto", IMAGE, PUSH, False),
        ("auto", Dict((("a", IMAGE), ("b", NUMBERS))), PUSH, True),
        ("numeric", NUMBERS, PUSH, True),
        ("numeric", NUMBERS, TWO, True),
        ("numeric", BYTES, TWO, True),
        ("numeric", TWO, TWO, False),
        ("numeric", IMAGE, TWO, False),
        ("numeric", Dict((("a", IMAGE), ("b", NUMBERS))), TWO, True),
    ],
)
def test_rows_of_numbers_are_normalized_and_neither_choices_nor_images(setting, observation, action, normalized):
    network = NetworkConfig(hidden_sizes=(4,), normalize_observations=setting)
    model = build_policy_value(Spaces(observation, action), network, Rng(0))
    assert (model.encoder.normalizer is not None) == normalized
    assert model.spec()["network"]["normalize_observations"] is normalized  # what ships says true or false
