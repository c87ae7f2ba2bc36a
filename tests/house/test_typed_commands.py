"""The `rlctl` lines of pages and messages do what they are typed for: in order, in an empty home, without a network.

Runs are made small and episodes few; everything else is as it is written. What is not run stands below with its reason.
"""

from __future__ import annotations

import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.control.store.resources import Slots
from support.cli_scenario import rlctl_in_process
from support.experiments import tiny_yaml
from support.pages import EXAMPLES, ROOT, blocks
from support.pip_offline import offline
from support.rlctl_parser import as_typed
from support.short_lines import shortened
from support.typed_commands import SAMPLE, of_blocks, of_messages

TINY = tiny_yaml(env={"max_episode_steps": 20}, eval={"every_epochs": 1, "episodes": 2})

NOT_RUN = {
    "rlctl send": "needs the libraries or the servers of others; tests/experiment/metrics/test_sending.py",
    "rlctl worker": "serves until it is stopped",
    "rlctl serve-policy": "serves until it is stopped",
    "rlctl serve": "serves until it is stopped; tests/server/test_serve.py",
    "rlctl import sb3": "needs a file of another library, which tests/delivery has",
    "rlctl eval bundles/old": "made from that file",
    "rlctl fork bundles/cartpole": "trains as long as that run did; tests/cli/test_cli_control.py",
    "rlctl eval PPO_RUN": "needs a trained model of the world, which tests/cli/test_cli_planner.py has",
    "rlctl sweep show": "needs a sweep that has ended, which tests/cli/test_cli_sweep.py has",
    "rlctl launch -f found/best.yaml": "written by that sweep",
    "rlctl launch -f configs/ppo/cartpole.yaml runtime.numerics=portable": "is decided where a process starts, as in"
    " tests/repro/test_portable.py",
    "rlctl reproduce RUN train": "comes to other numbers on purpose; tests/cli/test_cli_reproduce.py",
    "rlctl rewind RUN --at 20000 --shell": "waits for a person; tests/cli/test_cli_rewind.py",
    "rlctl --install-completion": "writes into the shell that is around it",
}
"""Beginnings of lines."""

REFUSED = {
    "rlctl stop": "there is nothing to stop",
    "rlctl pause": "there is nothing to pause",
    "rlctl cancel": "there is nothing to cancel",
    "rlctl promote cartpole:staging": "nothing is in staging",
    "rlctl play cartpole:staging": "nothing is in staging",
    "rlctl promote cartpole:3": "has no version 3",
    "rlctl rollback cartpole": "none was before",
    "rlctl sweep logs": "not in the store; there are none",
    "rlctl sweep stop": "not in the store; there are none",
    "rlctl sweep --resume": "not in the store; there are none",
    "rlctl sweep rm": "not in the store; there are none",
}
"""Lines for a run that is under way, for the third version of a model or for a sweep: what they answer where there is
one run that has ended, one version and no sweep."""

BEFORE = {
    "docs/howto/metrics.md": [
        "rlctl launch -f tiny.yaml name=lr1e-3",
        "rlctl launch -f tiny.yaml name=lr1e-4",
        "rlctl tag paper lr1e-3",
    ],
}
"""What the reader of a page has done before."""

ELSEWHERE = {
    "CONTRIBUTING.md": "tests/e2e/test_plugin_package.py",
    "docs/README.md": "the first lines of README.md; tests/house/test_documentation.py",
    "docs/howto/cluster.md": "on a cluster; tests/control/queue/ray_cases.py",
    "docs/howto/from-rllib.md": "tests/house/test_coming_from.py",
    "docs/howto/learners.md": "tests/scale/test_rank_torchrun.py",
    "docs/howto/migrate.md": "needs what older versions wrote; tests/control/runs/test_upgrade.py",
    "docs/howto/plug-ins.md": "tests/e2e/test_plugin_parts.py",
    "docs/howto/replay.md": "on a run that has a replay; tests/cli/test_cli_replay.py",
    "docs/howto/serve.md": "serves until it is stopped; tests/server/test_serve.py",
    "docs/howto/teams.md": "on a world of the tests; tests/experiment/run/test_teams.py",
    "docs/howto/tracking.md": "needs servers of others; tests/experiment/metrics/test_sending.py",
    "docs/reference/cli.md": "a synopsis; tests/house/test_hints.py",
}
"""Pages whose lines another test types."""

HOWTO = (
    "compare",
    "config",
    "curriculum",
    "doctor",
    "environments",
    "export",
    "ipd",
    "memory",
    "metrics",
    "offline",
    "own-env",
    "own-vector-env",
    "own-world",
    "pettingzoo",
    "planning",
    "randomise",
    "reproduce",
    "rewind",
    "self-play",
    "workers",
)
PAGES = [f"docs/howto/{name}.md" for name in (*HOWTO, "queue", "registry", "resume", "sweeps")] + [
    "docs/tutorial.md",
    "docs/zoo.md",
]


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a checkout has and one run that has ended, an empty home beside it, no way out of here."""
    home, place = tmp_path / "home", tmp_path / "place"
    home.mkdir()
    place.mkdir()
    (place / "configs").symlink_to(ROOT / "configs")
    shutil.copytree(EXAMPLES, place / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, value in offline(home).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(socket.socket, "connect", _local_only(socket.socket.connect))
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(1))  # no worker beside
    monkeypatch.chdir(place)
    (place / "tiny.yaml").write_text(TINY)
    assert main(["launch", "-f", "tiny.yaml", "--quiet"]) == 0
    return place


def _local_only(connect: Any) -> Any:
    def only_here(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "localhost", "::1"):
            pytest.fail(f"a connection to {address} was asked for")
        connect(self, address)

    return only_here


def lines_of(page: str) -> list[str]:
    lines = [typed.line for typed in of_blocks() if typed.place == page and re.match("rlctl |cd ", typed.line)]
    return [line for line in lines if " [" not in line and not line.startswith(tuple(NOT_RUN))]


def interrupt_one(name: str) -> None:
    """A run that was left after its first epoch is the newest."""
    with orchestrator.session("tiny.yaml", f"name={name}") as session:
        next(iter(session))


def type_all(page: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rlctl = rlctl_in_process(capsys)
    for body in blocks(ROOT / page, "python"):
        if named := re.match(r"# ([a-z]+\.py)\b", body):
            (scratch / named[1]).write_text(body)
    for line in [*BEFORE.get(page, ()), *lines_of(page)]:
        words = as_typed(line)
        if words[0] == "cd":
            monkeypatch.chdir(scratch / words[1])
            continue
        if words[1] == "resume" and "train.epochs" not in line:
            interrupt_one(words[2].replace("RUN", "interrupted").replace("last", "interrupted"))
        result = rlctl(*shortened(words[1:]))
        answer = next((text for beginning, text in REFUSED.items() if line.startswith(beginning)), None)
        assert result.code == (0 if answer is None else 2), f"{line}: {result}"
        assert (answer or "") in result.err
        # How long a run took is the machine's affair.
        said = [text for text in result.err.splitlines() if not re.search(r"curve ends at .* seconds with", text)]
        assert len(said) == (0 if answer is None else 1), f"{line}: {result}"


@pytest.mark.slow
@pytest.mark.learning
def test_the_lines_of_the_readme_run(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the checkout; `test_wheel.py` types them from the wheel each time."""
    type_all("README.md", scratch, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page_run(
    page: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the reader's own is the whole experiment that the page shows, if it shows one; an environment of the
    reader's own is that of the examples."""
    wholes = [body for body in blocks(ROOT / page, "yaml") if "env:" in body and "policy:" in body]
    (scratch / "my.yaml").write_text(wholes[-1] if wholes else TINY)
    (scratch / "drone_env.py").write_text((EXAMPLES / "my_worlds.py").read_text().replace("Corridor", "Drone"))
    type_all(page, scratch, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.learning
def test_what_messages_say_to_type_is_answered(scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Done, or refused in one line for the state that things are in; what deletes goes last."""
    rlctl = rlctl_in_process(capsys)
    lines = {typed.line for typed in of_messages() if typed.program == "rlctl" and typed.line != "rlctl"}
    typed = [line for line in lines if not line.startswith(tuple(NOT_RUN))]
    assert len(typed) > 25
    for line in sorted(typed, key=lambda line: (line.startswith("rlctl rm"), line)):
        file = "configs/sweep/ppo_cartpole.yaml" if line.startswith("rlctl sweep") else "tiny.yaml"
        filled = re.sub(
            rf"-f ({SAMPLE}+|FILE)\b", f"-f {file}", line.replace(f"--runs-dir {SAMPLE}", "--runs-dir runs")
        )
        words = as_typed(re.sub(rf"(?<=\s){SAMPLE}(?=\s|$)", "last", filled))
        follow = [] if words[1] != "rm" else ["--yes"]
        result = rlctl(words[1], *follow, *shortened(words[1:])[1:])
        assert result.code in (0, 2), f"{line}: {result}"
        assert result.err.count("\n") <= 1, f"{line}: {result}"


def test_every_page_with_commands_is_typed_somewhere() -> None:
    pages = {typed.place for typed in of_blocks() if typed.program == "rlctl"}
    assert pages == {"README.md", *PAGES, *ELSEWHERE}
    assert all((ROOT / place.rpartition("; ")[2]).is_file() for place in ELSEWHERE.values())
    lines = [typed.line for typed in of_blocks()]
    assert [text for text in (*NOT_RUN, *REFUSED) if not any(line.startswith(text) for line in lines)] == []
