"""Commands that open a run parse its config.yaml once, and name a module of the user that is missing in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from rlstudio import orchestrator
from rlstudio.core.errors import UserError
from support.cli_scenario import Rlctl

WORLD = """\
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

gymnasium.register("Stored-v0", entry_point=CartPoleEnv, max_episode_steps=20)
"""

OPENING = {
    "eval": ("eval", "last", "--episodes", 1),
    "export": ("export", "last", "-o", "bundle"),
    "fork": ("fork", "last", "train.epochs=6", "-q"),
    "fork --detach": ("fork", "last", "train.epochs=6", "--detach"),
    "play": ("play", "last", "--video", "film.mp4"),
    "promote": ("promote", "last", "--model", "cart"),
    "record": ("record", "last", "--episodes", 1, "--dataset", "cart/one-v0"),
    "resume": ("resume", "last", "train.epochs=4", "-q"),
    "resume --detach": ("resume", "last", "train.epochs=4", "--detach"),
}


@pytest.fixture(autouse=True)
def _datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


@pytest.fixture
def away(rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config.yaml of a run whose module cannot be imported any more."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (place / "stored_world.py").write_text(WORLD)
    done = rlctl("launch", "--import", "stored_world", "-f", "tiny.yaml", "env.id=Stored-v0", "-q")
    assert (done.code, done.err) == (0, "")
    (place / "stored_world.py").unlink()
    monkeypatch.delitem(sys.modules, "stored_world")
    return Path("runs") / done.out.strip() / "config.yaml"


def test_a_missing_module_is_told_with_the_run_and_the_remedy_by_every_command(rlctl: Rlctl, away: Path) -> None:
    for name, command in OPENING.items():
        done = rlctl(*command)
        assert (done.code, done.out) == (2, ""), name
        assert done.err == (
            f"rlctl: run {away.parent.name}: launched with --import stored_world: ModuleNotFoundError: No module named"
            " 'stored_world'; name its file (--import PATH/stored_world.py), run from the directory where it lies, or"
            " install it\n"
        ), name


def test_python_tells_it_as_well(away: Path) -> None:
    run = orchestrator.get("last")
    for ask in (run.agent, run.resume, run.evaluate, lambda: run.config):
        with pytest.raises(
            UserError, match=r"^run .*: launched with --import stored_world: .*; name its file .*, run from the dir"
        ):
            ask()


def test_imports_that_are_no_list_of_names_import_nothing(rlctl: Rlctl, away: Path) -> None:
    config = yaml.safe_load(away.read_text())
    Path("stored_world.py").write_text(WORLD)  # the store has it imported, whatever the file says
    for wrong in ("stored_world", [3], {"stored_world": 1}):
        away.write_text(yaml.safe_dump({**config, "imports": wrong}))
        done = rlctl("eval", "last")
        assert done.code == 2
        assert "imports" in done.err
        assert "ModuleNotFoundError" not in done.err


@pytest.mark.parametrize("name", ["eval", "fork", "record", "resume", "resume --detach"])
def test_the_config_of_a_run_is_parsed_once(
    rlctl: Rlctl, run_here: str, place: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    config = (place / "runs" / run_here / "config.yaml").read_text()
    parsed, parse = [], yaml.parse
    monkeypatch.setattr(yaml, "parse", lambda text, **loader: parsed.append(text) or parse(text, **loader))
    done = rlctl(*OPENING[name])
    assert (done.code, done.err) == (0, "")
    assert parsed.count(config) == 1
