"""Lost checkpoints are never a fresh start: the run ends as no_valid_checkpoint, and what it measured stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlstudio.control.runs.start import serve
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import NoValidCheckpoint
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.config.experiment import ExperimentConfig
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.judging.guardrails import Guardrails
from support.cli_scenario import Rlctl
from support.experiments import tiny
from support.sessions import resume, start

GONE = "its checkpoints are gone from "


def lose_files(folder: Path) -> None:
    for checkpoint in (folder / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)


def lose_folder(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")


def assert_ended(rlctl: Rlctl, run_id: str, metrics: bytes) -> None:
    refused = rlctl("resume", run_id, "train.epochs=9")
    assert (refused.code, refused.out, refused.err.count("\n")) == (4, "", 1)
    assert GONE in refused.err
    assert "restore them from a backup" in refused.err
    folder = RunFolder(Path("runs") / run_id)
    assert (folder.path / "metrics.jsonl").read_bytes() == metrics
    entry = Workspace(Path("runs")).find(run_id)
    for status in (entry.status, folder.read_status()):
        assert (status.state, status.reason) == (RunState.FAILED, "no_valid_checkpoint")


@pytest.mark.parametrize("lose", [lose_files, lose_folder])
@pytest.mark.parametrize("known_by", ["all", "status", "events", "store"])
def test_b2_lost_checkpoints_end_the_run(rlctl: Rlctl, run_here: str, lose: object, known_by: str) -> None:
    folder = Path("runs") / run_here
    metrics = (folder / "metrics.jsonl").read_bytes()
    lose(folder)
    events = [line for line in (folder / "events.jsonl").read_text().splitlines() if "state_hash" in line]
    if known_by in ("status", "store"):
        (folder / "events.jsonl").write_text(events[0] + "\n")  # only that it was created
    if known_by in ("events", "store"):
        status = (folder / "status.json").read_text()
        hashed = Workspace(Path("runs")).find(run_here).status.state_hash
        (folder / "status.json").write_text(status.replace(f'"{hashed}"', "null"))
    if known_by in ("status", "events"):
        workspace = Workspace(Path("runs"))
        with workspace.store.database.write() as connection:
            connection.exec_driver_sql("DELETE FROM checkpoint")
    assert_ended(rlctl, run_here, metrics)


def test_b2_a_fork_does_not_begin_anew_either(rlctl: Rlctl, run_here: str) -> None:
    child = rlctl("fork", run_here, "train.epochs=5", "env.seed=7", "-q").out.strip()
    metrics = (Path("runs") / child / "metrics.jsonl").read_bytes()
    lose_files(Path("runs") / child)
    assert_ended(rlctl, child, metrics)
    lose_files(Path("runs") / run_here)
    refused = rlctl("fork", run_here, "train.epochs=9")
    assert refused.code == 4
    assert len(Workspace(Path("runs")).entries()) == 2


def test_b2_a_child_in_the_queue_that_lost_its_first_checkpoint(rlctl: Rlctl, run_here: str) -> None:
    (child,) = rlctl("fork", run_here, "train.epochs=5", "--detach", "--json").document
    folder = Path("runs") / child["id"]
    metrics = (folder / "metrics.jsonl").read_bytes()
    lose_files(folder)
    workspace = Workspace(Path("runs"))
    with pytest.raises(NoValidCheckpoint):
        serve(workspace, workspace.store.claim(child["id"], this_process()), on_lost=lambda: None)
    assert_ended(rlctl, child["id"], metrics)


def test_b2_restored_checkpoints_go_on(rlctl: Rlctl, run_here: str, place: Path) -> None:
    folder = place / "runs" / run_here
    shutil.copytree(folder / "checkpoints", place / "backup")
    lose_folder(folder)
    assert rlctl("resume", run_here, "train.epochs=5").code == 4
    shutil.rmtree(folder / "checkpoints")
    shutil.copytree(place / "backup", folder / "checkpoints")
    assert rlctl("resume", run_here, "train.epochs=5", "-q").code == 0
    assert rlctl("show", run_here, "--json").document["exact"]


def killed_by(
    monkeypatch: pytest.MonkeyPatch, cfg: ExperimentConfig, runs: Path, name: str, *, late: bool
) -> RunFolder:
    """A run that ends in this method of Checkpoints as if its process were killed there: nothing more is written."""
    method = getattr(Checkpoints, name)

    def kill(self: Checkpoints, *args: object, **options: object) -> None:
        if late:
            method(self, *args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoints, name, kill)
        with pytest.raises(KeyboardInterrupt), start(cfg, runs) as session:
            for _ in session:
                pass
    return session.folder


def test_b2_a_run_that_never_had_one_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = tiny(ckpt={"every_seconds": None, "every_epochs": 2})
    folder = killed_by(monkeypatch, cfg, tmp_path / "runs", "save", late=False)
    assert folder.last_status().env_steps == 64
    with resume(folder) as again:
        assert again.trainer.source.collector.env_steps == 0


def test_b2_a_run_that_went_back_to_its_beginning_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cfg = tiny(ckpt={"every_seconds": None, "every_epochs": 1}, guardrails={"rollback_every_epochs": 100})
    monkeypatch.setattr(Guardrails, "judge", lambda self, report, trainer: "made up" if report.epoch == 3 else None)
    folder = killed_by(monkeypatch, cfg, tmp_path / "runs", "discard_after", late=True)
    assert Checkpoints(folder.path, folder.id, None).list() == []
    with resume(folder) as again:
        assert again.trainer.source.collector.env_steps == 0
