"""Runs killed at random moments: which kills count, what makes a run exact, and what is done when started again."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.kill_cases import CASES, VECTORIZATIONS
from benchmarks.killed_runs import Ending, KilledRun, difference, fork_rlctl, succeed
from benchmarks.trees import CommandFailed

from benchmarks import killed_runs, kills
from rlstudio.core.catalog import ALGOS
from rlstudio.experiment.config.experiment import experiment_from

TWIN = Ending("abc", True, 1.0, [(64, "train/loss", "0.5", ())], 0.01)
CASE = CASES[0]


def test_every_algorithm_that_learns_is_killed_with_every_way_to_step_environments() -> None:
    assert {case.algo for case in CASES} == set(ALGOS.builtin) - {"mpc"}
    assert len({case.name for case in CASES}) == len({case.identity for case in CASES}) == len(CASES)
    for algo in {case.algo for case in CASES} - {"bc"}:
        assert {case.vectorization for case in CASES if case.algo == algo} == set(VECTORIZATIONS)
    for case in CASES:
        assert experiment_from(case.experiment).policy.algo == case.algo
    assert any("memory" in case.network for case in CASES)
    assert any("prioritized" in case.train for case in CASES if case.algo == "dqn")


# -- which kills count ------------------------------------------------------------------------------------------------


def write_status(runs_dir: Path, **fields: Any) -> None:
    folder = runs_dir / "20260101-ppo"
    folder.mkdir(parents=True, exist_ok=True)
    status = {"state": "RUNNING", "pid": os.getpid(), "gradient_steps": 8, "epoch": 1, "total_epochs": 4, **fields}
    whole = folder / ".status"
    whole.write_text(json.dumps(status))
    whole.rename(folder / "status.json")


def for_ever() -> None:
    while True:
        time.sleep(1)


def acting_as_rlctl(monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]) -> None:
    """Instead of the command: `act` gets the folder of the runs."""

    def command(arguments: list[str]) -> int:
        act(Path(arguments[arguments.index("--runs-dir") + 1]))
        return 0

    monkeypatch.setattr(killed_runs, "rlctl", command)


def kill(tmp_path: Path) -> dict[str, Any] | None:
    return KilledRun(CASE, tmp_path / "run").kill(random.Random(0), TWIN, share=0.0)


@pytest.mark.real_process
def test_a_run_that_has_trained_and_lives_is_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acting_as_rlctl(monkeypatch, lambda runs: (write_status(runs), for_ever()))
    assert kill(tmp_path) == {"from": 0, "gradient_steps": 8, "epoch": 1}


@pytest.mark.real_process
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda runs: write_status(runs, state="COMPLETED"), id="it had ended"),
        pytest.param(lambda runs: (write_status(runs, state="COMPLETED"), for_ever()), id="only its process was there"),
        pytest.param(
            lambda runs: (write_status(runs, gradient_steps=0), os.kill(os.getpid(), 9)), id="it had not trained"
        ),
        pytest.param(lambda runs: (write_status(runs, pid=1), os.kill(os.getpid(), 9)), id="an earlier process had"),
    ],
)
def test_other_kills_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], None]) -> None:
    acting_as_rlctl(monkeypatch, act)
    assert kill(tmp_path) is None


@pytest.mark.real_process
def test_steps_of_an_earlier_process_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It resumed from a checkpoint with as many gradient steps as it had when it was killed."""
    run = KilledRun(CASE, tmp_path / "run")
    checkpoint = run.runs_dir / "20260101-ppo" / "checkpoints" / "step-000000000064"
    checkpoint.mkdir(parents=True)
    (checkpoint / "MANIFEST.json").write_text(json.dumps({"gradient_steps": 8}))
    acting_as_rlctl(monkeypatch, lambda runs: (write_status(runs), os.kill(os.getpid(), 9)))
    assert run.kill(random.Random(0), TWIN, share=0.0) is None


@pytest.mark.real_process
def test_a_run_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed_runs, "rlctl", lambda _: (os.write(2, b"rlctl: no such run\n"), 2)[1])
    with pytest.raises(CommandFailed, match="rlctl: no such run"):
        kill(tmp_path)


@pytest.mark.real_process
def test_processes_that_a_run_started_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = KilledRun(CASE, tmp_path / "run")

    def leave_one_behind(_: list[str]) -> int:
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        (run.folder / "child").write_text(str(child.pid))
        return 0

    monkeypatch.setattr(killed_runs, "rlctl", leave_one_behind)
    succeed(fork_rlctl([], run.folder), run.folder)
    left = int((run.folder / "child").read_text())
    assert list(run.processes()) == [left]
    os.kill(left, 9)


# -- what is exact ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"seconds": 9.0}, ""),
        ({"state_hash": "abd"}, "state_hash abc -> abd"),
        ({"exact": False}, "the run says that it is not exact"),
        ({"eval_return": 2.0}, "eval_return 1.0 -> 2.0"),
        ({"metrics": [(64, "train/loss", "0.6", ())]}, "metric 0:"),
        ({"metrics": [*TWIN.metrics, *TWIN.metrics]}, "metric 1: None -> "),
        ({"metrics": []}, "metric 0:"),
    ],
)
def test_what_differs_is_said(changed: dict[str, Any], words: str) -> None:
    text = difference(Ending(**{**vars(TWIN), **changed}), TWIN)
    assert text.startswith(words)
    assert bool(text) == bool(words)


def test_temporary_files_and_journals_are_left_over(tmp_path: Path) -> None:
    run = KilledRun(CASE, tmp_path / "run")
    for name in ("runs/20260101-ppo/checkpoints/.tmp-1", "runs/.rlstudio/store.db-journal", "tmp/scratch"):
        (run.folder / name).parent.mkdir(parents=True)
        (run.folder / name).write_text("x")
    assert run.left_over() == [".tmp-1", "scratch", "store.db-journal"]


# -- what is stored and shown -----------------------------------------------------------------------------------------


def line(case: Any, number: int, count: int, missed: int = 0, difference: str = "") -> dict[str, Any]:
    which = {"case": case.name, "seed": 0, "round": number, "identity": case.identity, "row": case.row}
    about = {"date": "2026-01-01", "machine": {"cores": 2, "processor": "some"}, "vectorization": case.vectorization}
    return {**which, **about, "kills": [{}] * count, "missed": missed, "difference": difference}


def store_with(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in lines))
    return path


def test_what_is_stored_is_not_done_again_and_only_counted_kills_are_enough(tmp_path: Path) -> None:
    two = CASES[:2]
    store = store_with(
        tmp_path / "kills.jsonl", line(two[0], 0, 4, missed=1), {**line(two[1], 0, 5), "identity": "old"}
    )
    work = kills.missing(two, 0, 11, store)
    assert next(work) == (two[1], 0, 5)
    store_with(store, line(two[0], 0, 4), line(two[1], 0, 5))
    assert next(work) == (two[0], 1, 2)
    store_with(store, line(two[0], 0, 4), line(two[1], 0, 5), line(two[0], 1, 2))
    assert next(work, None) is None
    assert list(kills.missing(two, 0, 11, store)) == []
    assert next(kills.missing(two, 1, 11, store)) == (two[0], 0, 5)  # another seed


def test_a_round_without_a_kill_ends_it(tmp_path: Path) -> None:
    store = tmp_path / "kills.jsonl"
    for case, number, _ in kills.missing(CASES[:2], 0, 10, store):
        kills.append(store, line(case, number, 0, missed=1))
    assert len(store.read_text().splitlines()) == 2


def test_the_table_shows_exact_kills_of_all_by_algorithm_and_vectorisation() -> None:
    by_name = {case.name: case for case in CASES}
    lines = [
        line(by_name["ppo-native"], 0, 5),
        line(by_name["ppo-native"], 1, 3, missed=1, difference="state_hash abc -> abd"),
        line(by_name["ppo-async"], 0, 2),
        line(by_name["bc-native"], 0, 4),
    ]
    text = kills.report(lines)
    assert "| ppo | 5 / 8 |  | 2 / 2 | 7 / 10 |" in text
    assert "| bc | 4 / 4 |  |  | 4 / 4 |" in text
    assert "| all | 9 / 12 |  | 2 / 2 | 11 / 14 |" in text
    assert "`python -m benchmarks.kills --kills 14 --seed 0`" in text
    assert "4 runs; 1 more kills came too late" in text
    assert kills.report([]) == "No run has been killed yet."
