"""`ls`, `show`, `logs` and `rm` tell the truth about folders, also about strange ones."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from support.cli_scenario import Rlctl

SHOWN = {
    "id": str,
    "name": str,
    "state": str,
    "reason": str,
    "algo": str,
    "env_id": str,
    "env_steps": int,
    "gradient_steps": int,
    "epoch": int,
    "eval_return": float,
    "config_hash": str,
    "state_hash": str,
    "exact": bool,
    "checkpoints": list,
}
CHECKPOINT = {"step": int, "epoch": int, "state_hash": str, "path": str, "size": int}


def make(place: Path, name: str = "some", state: RunState = RunState.COMPLETED) -> RunFolder:
    folder = RunFolder.create(
        place / "runs", NewRun(name=name, algo="ppo", env_id="CartPole-v1", config_yaml="{}"), state=state
    )
    folder.close()
    return folder


def test_no_runs_yet(rlctl: Rlctl) -> None:
    result = rlctl("ls")
    assert (result.code, result.err) == (0, "")
    assert "rlctl launch" in result.out
    assert rlctl("ls", "--json").document == []


def test_newest_first_and_no_more_than_asked(rlctl: Rlctl, place: Path) -> None:
    runs = [make(place, f"run{i}") for i in range(25)]
    newest = [run.id for run in reversed(runs)]
    lines = rlctl("ls").out.splitlines()
    assert [line.split()[:2] for line in lines[1:21]] == [
        [run.id[-4:], f"run{24 - n}"] for n, run in enumerate(runs[:4:-1])
    ]
    assert lines[21].startswith("5 older ones")
    assert len(rlctl("ls", "--limit", 0).out.splitlines()) == 26
    assert [run["id"] for run in rlctl("ls", "--json").document] == newest
    assert [run["id"] for run in rlctl("ls", "--json", "-n", 2).document] == newest[:2]


def test_where_runs_are_looked_for(rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(place)
    (place / "runs").rename(place / "elsewhere")
    assert rlctl("ls", "--json").document == []
    assert rlctl("ls", "--json", "--runs-dir", "elsewhere").document[0]["id"] == folder.id
    monkeypatch.setenv("RLSTUDIO_RUNS_DIR", "elsewhere")
    assert rlctl("show", "last", "--json").document["id"] == folder.id


def test_a_run_whose_process_is_gone_is_interrupted(rlctl: Rlctl, place: Path) -> None:
    folder = make(place, state=RunState.RUNNING)
    folder.write_status(dataclasses.replace(folder.read_status(), pid_start=1))
    assert rlctl("ls", "--json").document[0]["state"] == "INTERRUPTED"
    shown = rlctl("show", "last").out
    assert "INTERRUPTED: orphaned" in shown
    assert f"rlctl resume {folder.id}" in shown


def test_a_strange_name_cannot_steer_the_terminal(rlctl: Rlctl, place: Path) -> None:
    folder = make(place)
    evil = "\x1b]0;owned\x07\n\u202egnp"
    folder.write_status(dataclasses.replace(folder.read_status(), name=evil, message=evil, reason="\x1b[2J"))
    folder.event("note", text=evil)
    for command in ("ls", "show", "logs"):
        result = rlctl(command, *([] if command == "ls" else ["last"]))
        assert result.code == 0
        assert all(line.isprintable() for line in result.out.splitlines())
        assert "\\x1b" in result.out
    assert rlctl("ls", "--json").document[0]["name"] == evil


def test_show_has_every_promised_field(rlctl: Rlctl, trained: Path) -> None:
    run = rlctl("show", "last", "--json", "--runs-dir", trained).document
    assert {name: type(run[name]) for name in SHOWN} == SHOWN
    assert (run["state"], run["reason"], run["exact"]) == ("COMPLETED", "", True)
    assert (run["env_steps"], run["epoch"], run["algo"], run["env_id"]) == (192, 3, "ppo", "CartPole-v1")
    for checkpoint in run["checkpoints"]:
        assert {name: type(checkpoint[name]) for name in CHECKPOINT} == CHECKPOINT
        assert Path(checkpoint["path"]).is_dir()
    assert [checkpoint["step"] for checkpoint in run["checkpoints"]] == [128, 192]
    assert run["checkpoints"][-1]["state_hash"] == run["state_hash"]


@pytest.mark.parametrize("reference", ["last", "tiny", "2"])
def test_every_way_to_name_a_run(reference: str, rlctl: Rlctl, trained: Path) -> None:
    run = rlctl("show", reference, "--json", "--runs-dir", trained).document
    assert rlctl("show", run["id"], "--json", "--runs-dir", trained).document == run


def test_show_for_a_person(rlctl: Rlctl, trained: Path) -> None:
    out = rlctl("show", "last", "--runs-dir", trained).out
    for words in ("COMPLETED", "epoch 3/3, 192 environment steps", "exact resume  yes", "checkpoint  epoch"):
        assert words in out
    assert "numerics      native, fingerprint 1-" in out
    assert "\x1b" not in out
    checkpoints = [line for line in out.splitlines() if "checkpoints/step-" in line]
    assert checkpoints
    assert max(map(len, checkpoints)) <= 80


def test_logs_tell_events_and_epochs_in_order(rlctl: Rlctl, trained: Path) -> None:
    lines = rlctl("logs", "last", "--runs-dir", trained).out.splitlines()
    messages = [line.split(maxsplit=1)[1] for line in lines]
    assert messages[0] == "created"
    assert [line.split(" steps")[0] for line in messages if " steps  train" in line] == ["64", "128", "192"]
    assert "eval" in next(line for line in messages if line.startswith("128 steps"))
    assert messages[-1].startswith("completed")
    assert not re.search("[0-9a-f]{13}", " ".join(lines))  # digests by their beginning


def test_logs_as_json_lines(rlctl: Rlctl, trained: Path) -> None:
    lines = [json.loads(line) for line in rlctl("logs", "last", "--json", "--runs-dir", trained).out.splitlines()]
    assert {line["type"] for line in lines} == {"event", "metric"}
    assert [line["ts"] for line in lines] == sorted(line["ts"] for line in lines)
    metric = next(line for line in lines if line["type"] == "metric")
    assert set(metric) == {"type", "ts", "step", "key", "value", "tags"}


def test_following_a_run_that_is_over_ends(rlctl: Rlctl, trained: Path) -> None:
    followed = rlctl("logs", "last", "-f", "--runs-dir", trained)
    assert followed == rlctl("logs", "last", "--runs-dir", trained)


def test_logs_of_damaged_files(rlctl: Rlctl, place: Path) -> None:
    folder = make(place)
    with (folder.path / "events.jsonl").open("ab") as file:
        file.write(b'{"kind": "odd", "ts": "late"}\n{"ts": 1e300, "kind": "far"}\nnot json\n{"half')
    (folder.path / "metrics.jsonl").write_bytes(
        b'{"ts": 1.0, "step": 3, "key": "rollout/return_mean", "value": null, "tags": ["nan"]}\nx\n'
    )
    result = rlctl("logs", "last")
    assert result.code == 0
    assert "3 steps  train -" in result.out
    assert "odd" in result.out


def test_rm_removes_only_what_was_named(rlctl: Rlctl, place: Path) -> None:
    kept, gone, also = make(place, "kept"), make(place, "gone"), make(place, "also")
    result = rlctl("rm", "gone", also.id, "gone", "--yes")
    assert result.code == 0
    assert result.out.count("removed") == 2
    assert not gone.path.exists()
    assert not also.path.exists()
    assert kept.path.exists()


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("", 130)])
def test_rm_asks(answer: str, code: int, rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(place)
    monkeypatch.setattr("sys.stdin", Keyboard(answer))
    assert rlctl("rm", "last").code == code
    assert folder.path.exists() == (code != 0)
