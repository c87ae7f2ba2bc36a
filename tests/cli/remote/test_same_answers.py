"""What looks says the same here and at a server: the same lines, and the same documents but for places of that machine
and what a server adds."""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from rlstudio.cli.remote.dispatch import REMOTE
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.workers import Workers
from rlstudio.control.workspace import Workspace
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import Reason, RunState
from rlstudio.server.api.work.tasks import Tasks
from rlstudio.server.api.work.workbench import Workbench
from support.cli_scenario import rlctl_in_process
from support.control_world import request
from support.http_server import TOKEN, one_token, running
from support.reading_world import fill
from support.studio import studio

LOOKING = {
    "ls": ("ls",),
    "ls of a state": ("ls", "--state", "running"),
    "show": ("show", "{trained}"),
    "show a trial": ("show", "a-trial"),
    "show a group": ("show", "living"),
    "show, lineage": ("show", "{trained}", "--lineage"),
    "logs": ("logs", "{trained}"),
    "plot": ("plot", "{trained}", "--metric", "rollout/return_mean"),
    "compare": ("compare", "{trained}", "--metric", "rollout/return_mean"),
    "metrics": ("metrics", "{trained}"),
    "diff": ("diff", "living", "dead"),
    "queue": ("queue",),
    "models": ("models",),
    "models of a name": ("models", "cartpole"),
    "sweep ls": ("sweep", "ls"),
    "sweep show": ("sweep", "show", "found"),
    "algos": ("algos",),
    "envs": ("envs",),
    "presets": ("presets",),
    "presets of a name": ("presets", "ppo/cartpole"),
    "schema": ("schema", "ppo"),
    "token ls": ("token", "ls"),
}
ABOUT_NO_RUNS = ("algos", "envs", "presets", "schema")
NO_DOCUMENT = ("plot", "metrics", "schema", "presets of a name", "logs", "show a group", "show, lineage")
"""They have no --json, or one that is many lines; their text is compared."""

CHANGING = {"launch", "run", "resume", "fork", "stop", "pause", "cancel", "tag", "note", "rm", "export", "promote"}
CHANGING |= {"rollback", "sweep", "sweep stop", "sweep rm", "token add", "token revoke"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    place = tmp_path_factory.mktemp("same")
    workspace = Workspace(place / "runs")
    made = fill(workspace)
    _run_at_a_rung(workspace)
    Workers(workspace.store.database).register("here", this_process(), Slots(2, 0, 1000))
    workspace.store.database.close()
    file = place / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)

    def do(bench, task, arguments):
        return Tasks(bench._workspace.runs_dir, ()).known()[task](**arguments)

    with patch.object(Workbench, "do", do), running(partial(studio, place / "runs", access=one_token())) as server:
        remote = ("--server", f"http://{server.host}", "--token-file", file)
        yield SimpleNamespace(
            trained=made.trained_folder_only, here=("--runs-dir", place / "runs"), remote=remote, host=server.host
        )


def _run_at_a_rung(workspace):
    run = workspace.store.create(request(name="a-trial", sweep="found", trial=0, pause_at=1), owner=this_process())
    folder_of(workspace, run).close()
    workspace.store.move(run.id, run.token, RunState.RUNNING)
    workspace.store.move(run.id, run.token, RunState.INTERRUPTED, Reason.PAUSED, facts={"epoch": 1})


def plain(world, text):
    """Without what names the place, and without seconds that go by."""
    text = text.replace(f" --server http://{world.host}", "").replace(f"at http://{world.host}", "in PLACE")
    text = text.replace(f" --runs-dir {world.here[1]}", "").replace(f"in {world.here[1]}", "in PLACE")
    text = re.sub(r"^  (folder|curve) .*\n?", "", text, flags=re.MULTILINE)  # of files that lie there
    text = text.replace(f"{world.here[1]}/", " PATH ")
    text = re.sub(r" (PATH \S*|checkpoints/\S+)", "", text)
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)?s\b", "now", text)).replace(" \n", "\n").rstrip()


def asked(world, name):
    return [word.format(trained=world.trained) for word in LOOKING[name]]


def both(world, capsys, name, *more):
    rlctl, words = rlctl_in_process(capsys), asked(world, name)
    here = rlctl(*words, *more, *(() if words[0] in ABOUT_NO_RUNS else world.here))
    there = rlctl(*words, *more, *world.remote)
    assert (here.code, there.code, here.err, there.err) == (0, 0, "", "")
    return here, there


def test_every_command_of_a_server_is_asked_here_or_in_the_story():
    looking = {" ".join(words[: 2 if words[0] in ("sweep", "token") else 1]) for words in LOOKING.values()}
    assert looking | CHANGING == {*REMOTE}


@pytest.mark.parametrize("name", LOOKING)
def test_the_lines_are_the_same(world, capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "200")
    here, there = both(world, capsys, name)
    assert plain(world, here.out) == plain(world, there.out)
    assert here.out


@pytest.mark.parametrize("name", [name for name in LOOKING if name not in NO_DOCUMENT])
def test_the_documents_are_the_same(world, capsys, name):
    here, there = both(world, capsys, name, "--json")
    assert_within(here.document, there.document)


def assert_within(ours, theirs, place=""):
    """All that is here is there as well, but for paths."""
    if isinstance(ours, dict):
        for key in ours.keys() - {"path", "folder"}:
            assert key in theirs, f"{place}.{key}"
            assert_within(ours[key], theirs[key], f"{place}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), place
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_within(mine, other, f"{place}[{number}]")
    else:
        assert ours == theirs, place
