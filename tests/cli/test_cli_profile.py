"""`profile`: where a second of training goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_scenario import Rlctl


def test_phases_of_any_run(rlctl: Rlctl, trained: Path) -> None:
    done = rlctl("profile", "last", "--runs-dir", trained)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("192 steps in 0:0")
    phases = ["collect", "update", "evaluate", "checkpoint", "other", "final"]
    assert [line.split()[0] for line in lines[2:8]] == phases
    assert lines[-1] == "by process: train with runtime.trace=true"
    document = rlctl("profile", "last", "--runs-dir", trained, "--json").document
    assert sum(document["phases"].values()) == pytest.approx(document["seconds"])
    assert (document["trace"], document["spans"]) == (None, [])


def test_the_evaluation_at_the_end_counts(rlctl: Rlctl, run_here: str, place: Path) -> None:
    """It comes after the report of the last epoch; with few epochs it is most of a run."""
    file = place / "runs" / run_here / "events.jsonl"
    events = [json.loads(line) for line in file.read_text().splitlines()]
    late = [{**event, "ts": event["ts"] + 900 * (event["kind"] == "completed")} for event in events]
    file.write_text("".join(json.dumps(event) + "\n" for event in late))
    document = rlctl("profile", run_here, "--json").document
    assert document["phases"]["final"] == pytest.approx(900, abs=60)
    assert document["seconds"] == pytest.approx(sum(document["phases"].values()))


def test_processes_of_a_run_with_a_trace(rlctl: Rlctl, place: Path) -> None:
    assert rlctl("launch", "-f", "tiny.yaml", "runtime.trace=true", "-q").code == 0
    done = rlctl("profile", "last")
    assert "training  collect" in done.out
    assert done.out.splitlines()[-1].endswith("artifacts/trace.json in Perfetto or chrome://tracing")


def test_a_run_that_has_measured_nothing(rlctl: Rlctl, run_here: str, place: Path) -> None:
    (place / "runs" / run_here / "metrics.jsonl").write_text("")
    refused = rlctl("profile", run_here)
    assert refused.code == 2
    assert "it has no metric time/steps_per_second yet; let it train for an epoch" in refused.err
