"""What there is to choose from: algorithms by what they take, settings as a list, a file to begin with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rlstudio.core.catalog import ALGOS
from rlstudio.core.config import config_hash
from rlstudio.core.errors import Incompatible
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.experiment.config.algorithm import algorithm
from rlstudio.experiment.config.experiment import experiment_from, load_experiment
from rlstudio.experiment.config.fitting import OF_DISCRETE, fitting, taken
from rlstudio.experiment.config.settings import PLACEHOLDER, settings, settings_text, starting_file
from rlstudio.experiment.training.build import build
from support.cli_scenario import Rlctl
from support.experiments import tiny

ROW = Box((3,), "float32", (-1,), (1,))


def test_algorithms_are_listed_with_the_spaces_they_take(rlctl: Rlctl) -> None:
    """Newcomer S3: "choose another algorithm (rlctl algos)", which did not say which actions each takes."""
    rows = {row["name"]: row for row in rlctl("algos", "--json").document}
    assert rows["sac"]["actions"] == ["Box"]
    assert rows["dqn"]["actions"] == ["Discrete"]
    assert rows["mbmpc"]["observations"] == ["Box"]
    assert rows["bc"]["needs"] == "a dataset (train.dataset)"
    out = rlctl("algos").out
    assert re.search(r"^ppo +rlstudio +any +any +PPO: ", out, re.M)
    assert "mpc needs a world whose equations are known" in out


def test_what_the_source_says_is_what_the_class_says() -> None:
    for name in ALGOS.names():
        loaded, facts = algorithm(name), taken(name)
        assert (loaded.action_kinds, loaded.observation_kinds, loaded.needs) == facts[:3]  # type: ignore[attr-defined]
        assert set(facts.actions) <= set(OF_DISCRETE[loaded.discrete])


def test_what_fits_an_environment_is_listed_with_reasons(rlctl: Rlctl) -> None:
    out = rlctl("algos", "--env", "FrozenLake-v1").out
    assert out.startswith("FrozenLake-v1 shows Discrete(16) and takes Discrete(4)\n")
    assert re.search(r"^sac +no +needs Box actions, not Discrete\(4\)$", out, re.M)
    assert re.search(r"^mbmpc +no +needs Box observations, not Discrete\(16\)$", out, re.M)
    assert re.search(r"^dqn +yes$", out, re.M)
    assert re.search(r"^mpc +yes$", rlctl("algos", "--env", "CartPole-v1").out, re.M)
    # Newcomer S3: it said yes, and the launch was refused.
    assert re.search(r"^mpc +no +needs a world whose equations are known$", out, re.M)
    rows = {row["name"]: row["fits"] for row in rlctl("algos", "--env", "FrozenLake-v1", "--json").document}
    assert [name for name, fits in rows.items() if not fits] == ["diffusion", "mbmpc", "mpc", "sac", "td3"]


@pytest.mark.parametrize(
    ("spaces", "names"),
    [
        (Spaces(ROW, Discrete(2)), ["a2c", "diffusion", "dqn", "mbmpc", "ppo", "qrdqn"]),
        (Spaces(ROW, MultiDiscrete((2, 3))), ["a2c", "ppo"]),
        (Spaces(ROW, ROW), ["a2c", "diffusion", "mbmpc", "ppo", "sac", "td3"]),
        (Spaces(Dict((("a", ROW),)), ROW), ["a2c", "ppo", "sac", "td3"]),
    ],
)
def test_algorithms_that_fit(spaces: Spaces, names: list[str]) -> None:
    assert [name for name in fitting(spaces) if name in ALGOS.builtin] == names


def test_a_refusal_names_algorithms_that_fit() -> None:
    """Newcomer S3: "sac needs Box actions, but ... Discrete(4)" did not name one that fits."""
    with pytest.raises(Incompatible, match=r"Discrete\(2\); choose one of a2c, diffusion, dqn, mbmpc, ppo, qrdqn \(rl"):
        build(tiny("sac", env={"id": "CartPole-v1"}))


@pytest.mark.parametrize("algo", sorted(ALGOS.builtin))
def test_settings_are_a_list_that_fits_a_terminal(algo: str) -> None:
    """Newcomer S4: `rlctl schema` was a JSON schema of thousands of lines, and there was no list for people."""
    text = settings_text(algo)
    assert max(map(len, text.splitlines())) <= 100
    for setting in settings(algo, "CartPole-v1"):
        assert setting.meaning, setting.path
        assert ".".join(setting.path) in text


def test_the_list_is_printed_for_one_algorithm(rlctl: Rlctl) -> None:
    assert rlctl("schema", "--text", "dqn").out == settings_text("dqn")
    assert rlctl("schema", "--text").out == settings_text("ppo")
    assert "train.prioritized" in rlctl("schema", "dqn", "--text").out
    assert "did you mean ppo?" in rlctl("schema", "--text", "pp0").err


@pytest.mark.parametrize("algo", sorted(ALGOS.builtin))
def test_a_starting_file_is_the_defaults_with_and_without_its_comment_signs(algo: str, tmp_path: Path) -> None:
    env_id = "Pendulum-v1" if algo in ("sac", "td3") else "CartPole-v1"
    text, file = starting_file(algo, env_id, "rlctl launch", "rlstudio.schema.json"), tmp_path / "begin.yaml"
    needed = {"dataset": PLACEHOLDER} if algo == "bc" else {}
    plain = experiment_from({"env": {"id": env_id}, "policy": {"algo": algo}, "train": needed})
    file.write_text(text)
    assert config_hash(load_experiment(file)) == config_hash(plain)
    file.write_text(uncommented(text, {setting.path[-1] for setting in settings(algo, env_id)}))
    full = load_experiment(file)
    assert config_hash(full) == config_hash(plain)
    assert full.train.model_fields_set == set(type(full.train).model_fields)


def uncommented(text: str, names: set[str]) -> str:
    """As if the sign was taken away from every default; the meanings stay comments."""
    lines = []
    for line in text.splitlines():
        hidden = re.fullmatch(r"( *)# ( *)(# .*|(\w+):.*)", line)
        is_setting = hidden is not None and (hidden[4] in names or hidden[3].startswith("# "))
        lines.append(f"{hidden[1]}{hidden[2]}{hidden[3]}" if hidden is not None and is_setting else line)
    return "\n".join(lines) + "\n"


def test_init_writes_a_file_that_runs_and_replaces_nothing(rlctl: Rlctl, place: Path) -> None:
    done = rlctl("init", "--algo", "dqn", "--env", "CartPole-v1", "mine/my.yaml")
    assert (done.code, done.err) == (0, "")
    assert "mine/my.yaml: run it with: rlctl launch -f mine/my.yaml" in done.out
    text = (place / "mine" / "my.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=rlstudio.schema.json\n# DQN: ")
    assert (place / "mine" / "rlstudio.schema.json").is_file()
    assert "# Settings that are known to do well: configs/dqn/cartpole.yaml" in text
    assert rlctl("launch", "-f", "mine/my.yaml", "--dry-run").code == 0
    again = rlctl("init", "--algo", "dqn", "mine/my.yaml")
    assert (again.code, again.err) == (2, "rlctl: mine/my.yaml: is there already; name another file\n")
    assert (place / "mine" / "my.yaml").read_text() == text
    own = rlctl("init", "--env", "drone_env.py:Drone", "drone.yaml")
    assert "rlctl launch -f drone.yaml --import drone_env.py" in own.out
    assert '  id: "drone_env:Drone"\n' in (place / "drone.yaml").read_text()
