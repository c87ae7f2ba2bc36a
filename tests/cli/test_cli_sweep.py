"""`rlctl sweep`: from a file to the best config."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from support.cli_scenario import Rlctl

SWEEP = """\
name: mine
experiment: tiny.yaml
overrides: [eval.every_epochs=1]
trials: 3
pruner: {kind: asha, rungs: [1], eta: 3}
space:
  train.lr: {low: 1e-4, high: 1e-2, log: true}
  train.gamma: {choices: [0.9, 0.99]}
"""


@pytest.fixture(autouse=True)
def served_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker in this process instead of one in the background: whatever is queued is trained when it is missed."""
    from rlstudio.control.queue import runner
    from rlstudio.control.sweep import actions as hands
    from rlstudio.core.host.process import this_process
    from rlstudio.core.run_state import RunState

    def serve(workspace: Any) -> None:
        for run in reversed(workspace.store.runs(states={RunState.QUEUED})):
            claimed = workspace.store.claim(run.id, this_process())
            runner.main(run.id, claimed.token, workspace.runs_dir)

    monkeypatch.setattr(hands, "ensure_worker", serve)
    monkeypatch.setattr(hands, "POLL_SECONDS", 0.0)


@pytest.fixture
def file(place: Path) -> Path:
    (place / "sweep.yaml").write_text(SWEEP)
    return place / "sweep.yaml"


def test_from_a_file_to_the_best_config(rlctl: Rlctl, file: Path) -> None:
    done = rlctl("sweep", "-f", file, "--deterministic")
    assert done.code == 0, done.err
    assert "trial 0: train.lr=" in done.out
    assert "mine: 3/3 trials" in done.out
    assert "best: trial" in done.out
    assert "over 1 seed\n" in done.out
    assert all(f" mine-{number} " in done.out for number in range(3))  # what the runs of a trial are called
    shown = rlctl("sweep", "show", "mine", "--out", "found")
    assert shown.code == 0, shown.err
    assert "found/best.yaml" in shown.out
    assert {path.name for path in Path("found").iterdir()} == {"best.yaml", "parallel.svg", "scatter.svg"}
    document = rlctl("sweep", "show", "mine", "--json").document
    assert (document["state"], document["deterministic"], len(document["trials"])) == ("COMPLETED", True, 3)
    states = sorted(trial["state"] for trial in document["trials"])
    assert states == ["COMPLETED", "PRUNED", "PRUNED"]
    best = document["trials"][document["best"]]
    dry = rlctl("launch", "-f", "found/best.yaml", "--dry-run", "--json").document
    assert dry["config"]["train"]["lr"] == best["params"]["train.lr"]
    assert dry["config"]["name"] == "mine-best"
    (row,) = rlctl("sweep", "ls", "--json").document
    assert (row["name"], row["state"], row["trials"], row["planned"]) == ("mine", "COMPLETED", 3, 3)
    assert (row["best"], row["best_value"]) == (document["best"], best["value"])
    assert document["space"] == {
        "train.gamma": {"choices": [0.9, 0.99]},
        "train.lr": {"low": 1e-4, "high": 1e-2, "log": True},
    }
    assert all(rung < document["epochs"] for rung in document["rungs"])
    again = rlctl("sweep", "-f", file)
    assert again.code == 2
    assert "sweep mine: is there already; go on with: rlctl sweep --resume mine" in again.err
    more = rlctl("sweep", "--resume", "mine", "--json")
    assert (more.code, more.document["best"]) == (0, document["best"])
    assert rlctl("sweep", "stop", "mine").err == "rlctl: sweep mine: is COMPLETED; there is nothing to stop\n"
    assert "has no log in" in rlctl("sweep", "logs", "mine").err
    assert rlctl("promote", best["runs"][0], "--model", "pole", "--to", "staging").code == 0
    asks = rlctl("sweep", "rm", "mine")
    assert (asks.code, asks.err) == (
        2,
        "rlctl: sweep rm: standard input is not a terminal, so it cannot ask before it deletes; give --yes\n",
    )
    removed = rlctl("sweep", "rm", "mine", "--yes")
    assert (removed.code, removed.err) == (0, "")
    assert removed.out.endswith("sweep mine: removed\n")
    assert removed.out.count(": removed") == 4
    assert (rlctl("ls", "--json").document, rlctl("sweep", "ls", "--json").document) == ([], [])
    assert rlctl("eval", "pole:staging", "--episodes", 1).code == 0  # a version holds what it needs


def test_a_sweep_tells_once_how_it_ended_and_its_given_up_runs_are_called_pruned(rlctl: Rlctl, file: Path) -> None:
    done = rlctl("sweep", "-f", file, "--deterministic", "--notify", "tee -a told")
    assert done.code == 0, done.err
    end = json.loads(Path("told").read_text())
    document = rlctl("sweep", "show", "mine", "--json").document
    assert (end["event"], end["sweep"], end["trials"]) == ("completed", "mine", 3)
    assert end["best"] == {"trial": document["best"], "params": document["trials"][document["best"]]["params"]}
    states = [row["state"] for row in document["trials"]]
    listed = {row["name"]: row for row in rlctl("ls", "--json").document}
    for number, state in enumerate(states):
        assert listed[f"mine-{number}"].get("at_rung") == ("pruned" if state == "PRUNED" else None)
    assert rlctl("ls").out.count("INTERRUPTED: pruned") == states.count("PRUNED") == 2
    one = next(number for number, state in enumerate(states) if state == "PRUNED")
    assert "INTERRUPTED: pruned" in rlctl("show", f"mine-{one}").out
    broken = rlctl("sweep", "--resume", "mine", "--notify", "sh -c 'echo no network >&2; exit 3'")
    assert (broken.code, "sweep mine: --notify sh: ended with 3: no network" in broken.err) == (0, True)


def test_interrupted_it_goes_on(rlctl: Rlctl, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlstudio.control.sweep import actions as hands

    serve, calls = hands.ensure_worker, []

    def interrupts(workspace: Any) -> None:
        serve(workspace)
        calls.append(workspace)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hands, "ensure_worker", interrupts)
        stopped = rlctl("sweep", "-f", file, "--notify", "tee -a told")
    assert stopped.code == 130
    assert "go on with: rlctl sweep --resume mine" in stopped.out
    document = rlctl("sweep", "show", "mine", "--json").document
    assert (document["state"], document["driver"]) == ("STOPPED", None)
    told = json.loads(Path("told").read_text())
    assert (told["event"], told["trials"], told["best"]) == ("stopped", len(document["trials"]), None)
    first, second = (trial["runs"][0] for trial in document["trials"][:2])
    refused = rlctl("rm", first, "--yes")
    assert (refused.code, refused.err) == (
        2,
        f"rlctl: run {first}: trial 0 of sweep mine goes on with it; remove the whole sweep with: rlctl sweep rm mine,"
        f" or only this run with: rlctl rm {first} --force (trial 0 begins again at its first epoch)\n",
    )
    ends = "interrupted,completed,failed,cancelled"
    assert rlctl("gc", "--days", 0, "--states", ends, "--yes", "--json").document == {"removed": []}
    forced = rlctl("rm", second, "--force", "--yes")
    assert forced.out == f"run {second}: removed; trial 1 begins again at its first epoch\n"
    done = rlctl("sweep", "--resume", "mine", "--json")
    assert done.code == 0
    assert len(done.document["trials"]) == 3
    assert done.document["trials"][0]["runs"] == [first]
    assert second not in [run for trial in done.document["trials"] for run in trial["runs"]]
    pruned = next(trial["runs"][0] for trial in done.document["trials"] if trial["state"] == "PRUNED")
    assert rlctl("rm", pruned, "--yes").out == f"run {pruned}: removed\n"  # a sweep that is over needs none


def test_stopped_from_elsewhere_it_goes_on(rlctl: Rlctl, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a run has started: what the driver put into the queue is paused."""
    from rlstudio.cli.app import main
    from rlstudio.control.sweep import actions as hands

    with monkeypatch.context() as patch:
        patch.setattr(hands, "ensure_worker", lambda workspace: main(["sweep", "stop", "mine"]))
        stopped = rlctl("sweep", "-f", file, "--notify", "tee -a told")
    assert stopped.code == 130
    assert "runs paused; go on with: rlctl sweep --resume mine\n" in stopped.out
    assert "sweep mine: was stopped with its runs; go on with: rlctl sweep --resume mine\n" in stopped.out
    paused = rlctl("queue", "--json").document["paused"]
    assert paused
    assert {(run["sweep"], run["env_steps"]) for run in paused} == {("mine", 0)}
    again = rlctl("sweep", "stop", "mine", "--json")
    assert (again.code, again.document) == (0, {"name": "mine", "state": "STOPPED", "paused": []})
    removed = rlctl("sweep", "rm", "mine", "--yes")
    assert (removed.code, removed.out.count(": removed")) == (0, len(paused) + 1)


def test_a_full_disk_ends_it_in_one_line_and_it_goes_on(
    rlctl: Rlctl, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlstudio.control.sweep.sweeps import Sweeps
    from rlstudio.core.errors import StorageError

    write, calls = Sweeps.write, []

    def refused(sweeps: Sweeps, *args: Any) -> None:
        calls.append(args)
        if len(calls) > 2:
            raise StorageError("sqlite:///store.db: the disk is full; free some space and try again")
        write(sweeps, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Sweeps, "write", refused)
        stopped = rlctl("sweep", "-f", file)
    assert stopped.code == 3
    assert stopped.err == (
        "rlctl: sweep mine: sqlite:///store.db: the disk is full; free some space and try again;"
        " the sweep goes on with: rlctl sweep --resume mine\n"
    )
    done = rlctl("sweep", "--resume", "mine", "--json")
    assert (done.code, len(done.document["trials"])) == (0, 3)


def test_mistakes_are_answered_in_one_line(rlctl: Rlctl, file: Path) -> None:
    assert "give a sweep with -f FILE" in rlctl("sweep").err
    assert "there are no runs in" in rlctl("sweep", "show", "mine").err
    file.write_text(SWEEP.replace("train.lr", "train.lrr"))
    bad = rlctl("sweep", "-f", file)
    assert bad.code == 2
    assert f"{file}:7:3: space.train.lrr: unknown key; did you mean lr?" in bad.err
    assert not Path("runs").exists()
    file.write_text(SWEEP)
    assert rlctl("sweep", "-f", file, "--dry-run").out == "mine: 3 trials of 1 run; the file is valid\n"
    assert not Path("runs").exists()
    assert "the sweep goes on as it was begun" in rlctl("sweep", "--resume", "mine", "--deterministic").err
    assert "'mine'" in rlctl("sweep", "--resume", "mine").err


def test_help_names_it(rlctl: Rlctl) -> None:
    assert "sweep" in rlctl("--help").out
    assert "rlctl sweep show ppo_cartpole_sweep" in rlctl("sweep", "--help").out


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_sees_a_table_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from rlstudio.cli.screen.sweep_view import view
    from rlstudio.cli.screen.terminal import Terminal
    from rlstudio.control.sweep.driver import SweepProgress
    from rlstudio.control.sweep.sweeps import Trial, TrialState

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    screen = Screen()
    search = SimpleNamespace(cfg=SimpleNamespace(direction="minimize"), trials=9, epochs=27)
    driver: Any = SimpleNamespace(search=search, sweep=SimpleNamespace(name="mine"))
    trials = [
        Trial(0, {"train.lr": 1e-3}, 27, TrialState.COMPLETED, {27: {0: 4.0}}, -4.0),
        Trial(1, {"train.lr": 1e-5}, 3, TrialState.PRUNED, {3: {0: 9.0}}, -9.0),
        Trial(2, {"train.lr": 1e-4}, 3),
    ]
    with view(Terminal(screen), driver) as show:
        show(SweepProgress(trials))
    shown = screen.getvalue()
    assert "mine: 2/9 trials, 0 runs at work, best so far 4.000 (trial 0)" in shown
    assert "train.lr=0.001" in shown
    assert "running" in shown
