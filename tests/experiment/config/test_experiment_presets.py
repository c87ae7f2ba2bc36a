"""The experiments that ship: all valid, found by algorithm and environment, and from any folder."""

import re
from pathlib import Path

import pytest

from rlstudio.core.errors import ConfigError
from rlstudio.experiment.config.experiment import load_experiment
from rlstudio.experiment.config.presets import FOLDER, described_presets, find_preset, locate, presets


@pytest.mark.parametrize("path", presets(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_shipped_experiment_is_valid(path):
    cfg = load_experiment(path)
    folder, stem = path.parent.name, path.stem
    assert cfg.policy.algo in (folder, stem)
    assert cfg.name == (f"{folder}_{stem}" if cfg.policy.algo == folder else f"{stem}_{folder}")


def test_presets_are_found_by_algorithm_and_environment():
    assert find_preset("ppo", "CartPole-v1") == FOLDER / "ppo" / "cartpole.yaml"
    assert find_preset("dqn", "Acrobot-v1") == FOLDER / "dqn" / "acrobot.yaml"
    assert find_preset("dqn", "Pendulum-v1") is None


def test_shipped_experiments_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert locate("configs/ppo/cartpole.yaml") == FOLDER / "ppo" / "cartpole.yaml"
    assert load_experiment("./configs/ppo/cartpole.yaml", ["train.epochs=1"]).train.epochs == 1
    with pytest.raises(
        ConfigError, match=r"configs/ppo/cartpol.yaml: no such file; did you mean configs/ppo/cartpole.yaml\?"
    ):
        locate("configs/ppo/cartpol.yaml")
    own = tmp_path / "configs" / "ppo" / "cartpole.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("env: {id: Own-v0}\npolicy: {algo: ppo}\n")
    assert locate("configs/ppo/cartpole.yaml") == Path("configs/ppo/cartpole.yaml")  # the user's own file comes first
    assert load_experiment("configs/ppo/cartpole.yaml").name == "ppo_Own-v0"


def test_a_config_that_needs_a_dataset_says_how_it_comes_to_be():
    """The commands of its comment, in order: train, record under the name that it reads, launch this file."""
    needing = [path for path in presets() if getattr(load_experiment(path).train, "dataset", None) is not None]
    assert [path.parent.name for path in needing] == ["bc"]
    for path in needing:
        commands = re.findall(r"rlctl .*", path.read_text())
        assert [command.split()[1] for command in commands] == ["launch", "record", "launch"]
        trained, recorded, cloned = (command.split() for command in commands)
        name = trained[trained.index("--name") + 1]
        expert = load_experiment(trained[trained.index("-f") + 1])
        assert recorded[2] == name
        assert recorded[recorded.index("--dataset") + 1] == load_experiment(path).train.dataset
        assert expert.env.id == load_experiment(path).env.id
        assert locate(cloned[3]).samefile(path)


def test_every_preset_says_what_it_is():
    """Also the one whose text is that of the requirement document, without a comment."""
    described = {preset.name: preset.summary for preset in described_presets()}
    assert described["configs/ppo/cartpole_mvp.yaml"] == "PPO on CartPole-v1"
    assert all(described.values())
