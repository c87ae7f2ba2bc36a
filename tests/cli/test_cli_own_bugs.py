"""A bug in the user's own code is shown: its line in the message, its traceback among the artifacts."""

from __future__ import annotations

import sys

import gymnasium
import pytest

from rlstudio.control.workspace import Workspace
from support.cli_scenario import Rlctl

BUGGY = """\
import sys

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv


class Buggy(CartPoleEnv):
    def __init__(self, early=False, render_mode=None):
        super().__init__()
        self.seen = [unknown] if early else []

    def step(self, action):
        if self.state is not None:
            self.newest()
        return super().step(action)

    def newest(self):
        return self.seen[-1]


gymnasium.register("Buggy-v0", entry_point="buggy_env:Buggy")
"""
LINE = BUGGY[: BUGGY.index("return self.seen[-1]")].count("\n") + 1
EARLY = BUGGY[: BUGGY.index("[unknown]")].count("\n") + 1


@pytest.fixture
def buggy(place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(place)
    (place / "buggy_env.py").write_text(BUGGY)
    yield ("launch", "-f", "tiny.yaml", "--import", "buggy_env", "env.id=Buggy-v0", "-q")
    gymnasium.registry.pop("Buggy-v0", None)
    sys.modules.pop("buggy_env", None)


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_s1_a_bug_in_an_env_has_its_line_and_its_traceback(
    vectorization: str, buggy: tuple[str, ...], rlctl: Rlctl, place
) -> None:
    result = rlctl(*buggy, f"env.vectorization={vectorization}", "env.num_envs=1", "rollout.max_restarts=0")
    run = Workspace(place / "runs").find("last")
    kept = run.folder.artifacts_path / "traceback.txt"
    assert result.code == 5
    assert result.err.count("\n") == 1
    assert f"raised IndexError: list index out of range at buggy_env.py:{LINE}; episode 0" in result.err
    assert result.err.endswith(f"; the traceback is in {kept}\n")
    text = kept.read_text()
    assert "return self.seen[-1]" in text
    assert "self.newest()" in text, "every line that led there"
    assert f"at buggy_env.py:{LINE}" in run.status.message


def test_s1_so_has_one_that_cannot_be_made(buggy: tuple[str, ...], rlctl: Rlctl) -> None:
    result = rlctl(*buggy, "env.kwargs.early=true")
    assert result.code == 2
    assert f"NameError: name 'unknown' is not defined at buggy_env.py:{EARLY}\n" in result.err


def test_s1_debug_shows_the_traceback_at_once(
    buggy: tuple[str, ...], rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLSTUDIO_DEBUG", "1")
    assert "return self.seen[-1]" in rlctl(*buggy, "env.vectorization=sync").err
