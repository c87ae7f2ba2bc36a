"""An algorithm from a package of its own, as CONTRIBUTING.md shows it: no line of RLStudio knows it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.deadlines import PATIENCE
from support.plugins import install_package
from support.rlctl_process import end_all, rlctl, show, start, wait_until_trained

pytestmark = pytest.mark.real_process

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add an algorithm in one file")[2].partition("\n## ")[0]
BLOCKS = {language: body for language, body in re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)}
PROJECT = tomllib.loads(BLOCKS["toml"])["project"]
COMMANDS = [shlex.split(line, comments=True) for line in BLOCKS["bash"].splitlines()]
LAUNCH = next(words[1:] for words in COMMANDS if words[:2] == ["rlctl", "launch"])
SMALL = ["env.num_envs=4", "train.rollout_steps=16", "train.steps_per_epoch=64", "train.batch_size=64"]
QUICK = [*SMALL, "eval.every_epochs=0", "eval.final_episodes=2"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `pip install my-algos` puts beside other packages: the code, and metadata with its entry points."""
    folder = tmp_path_factory.mktemp("site")
    for name in re.findall(r"^  (my_algos/\w+\.py)$", TEXT, re.MULTILINE):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        example = ROOT / "examples" / path.name
        shutil.copy(example, path) if example.exists() else path.write_text("")
    install_package(folder, PROJECT["name"], PROJECT["version"], PROJECT["entry-points"], {})
    return folder


@pytest.fixture
def installed(site: Path) -> Iterator[dict[str, str]]:
    """The variables of a shell in which the package is installed."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    yield {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    end_all()


def test_it_is_listed_with_the_package_it_comes_from(installed: dict[str, str], tmp_path: Path) -> None:
    answer = rlctl(tmp_path, "algos", env=installed)
    assert re.search(r"^reinforce +my-algos +any +any +REINFORCE: ", answer.stdout, re.MULTILINE), answer


def test_a_killed_run_of_it_goes_on_exactly(installed: dict[str, str], tmp_path: Path) -> None:
    process = start(tmp_path, *LAUNCH, *QUICK, "train.epochs=1000000", "ckpt.every_epochs=1", env=installed)
    wait_until_trained(tmp_path)
    process.kill()
    process.communicate(timeout=PATIENCE)
    interrupted = show(tmp_path)
    assert (interrupted["state"], interrupted["algo"]) == ("INTERRUPTED", "reinforce")

    epochs = interrupted["epoch"] + 3
    resumed = rlctl(tmp_path, "resume", "last", f"train.epochs={epochs}", "-q", env=installed)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    straight = rlctl(tmp_path, *LAUNCH, *QUICK, f"train.epochs={epochs}", "-q", "--runs-dir", "straight", env=installed)
    assert (straight.returncode, straight.stderr) == (0, "")
    ended = show(tmp_path)
    assert ended["state"] == "COMPLETED"
    assert ended["epoch"] == epochs
    assert ended["state_hash"] == show(tmp_path, "straight")["state_hash"]

    judged = rlctl(tmp_path, "eval", "last", "--episodes", 2, env=installed)
    assert (judged.returncode, judged.stderr) == (0, "")

    # On a machine without the package, the run says what it lacks and stays as it is.
    alone = rlctl(tmp_path, "resume", "last", f"train.epochs={epochs + 1}")
    assert alone.returncode == 2
    assert alone.stderr.count("\n") == 1
    assert "unknown algo 'reinforce'" in alone.stderr
    assert show(tmp_path)["state_hash"] == ended["state_hash"]


def test_its_settings_are_checked_by_its_own_config(installed: dict[str, str], tmp_path: Path) -> None:
    wrong = rlctl(tmp_path, *LAUNCH, "train.rollout_step=3", env=installed)
    assert wrong.returncode == 2
    message = "train.rollout_step: unknown key; did you mean rollout_steps?"
    assert wrong.stderr == f"rlctl: override train.rollout_step=3: {message}\n"
    assert not (tmp_path / "runs").exists()
