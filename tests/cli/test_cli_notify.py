"""`--notify` of `resume` and `fork`: which command gets how a run ended. Of `launch`: test_cli_consent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlstudio.control.workspace import Workspace
from support.cli_scenario import Rlctl


def ends(file: Path) -> list[dict[str, object]]:
    """What `tee -a FILE` was given, in order."""
    return [json.loads(line) for line in file.read_text().replace("}{", "}\n{").splitlines()]


@pytest.mark.real_process
def test_resume_and_fork_name_a_command_of_their_own(rlctl: Rlctl, place: Path) -> None:
    run_id = rlctl("launch", "-f", "tiny.yaml", "--notify", "tee -a first", "--json").document["id"]
    assert rlctl("resume", run_id, "train.epochs=4", "--notify", "tee -a second", "-q").code == 0
    assert rlctl("resume", run_id, "train.epochs=5", "-q").code == 0
    assert [end["epoch"] for end in ends(place / "second")] == [4, 5]
    assert len(ends(place / "first")) == 1
    assert rlctl("fork", run_id, "train.epochs=6", "-q").code == 0
    assert len(ends(place / "second")) == 2  # a parent's command is its own
    assert rlctl("fork", run_id, "train.epochs=6", "--notify", "tee -a third", "-q").code == 0
    assert [(end["event"], end["epoch"]) for end in ends(place / "third")] == [("completed", 6)]


def test_runs_that_wait_in_the_queue_get_another_command(rlctl: Rlctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlstudio.control.queue.service.ensure_worker", lambda workspace: None)
    ids = [
        run["id"] for run in rlctl("launch", "-f", "tiny.yaml", "--seeds", 2, "--name", "g", "-d", "--json").document
    ]
    assert rlctl("resume", "g", "-d", "--notify", "tee x").code == 0
    store = Workspace(Path("runs")).store
    assert [store.consent(run).notify for run in ids] == [("tee", "x")] * 2
    assert rlctl("pause", ids[0]).code == 0
    assert rlctl("resume", ids[0], "-d", "--notify", "tee y").code == 0
    assert store.consent(ids[0]).notify == ("tee", "y")
