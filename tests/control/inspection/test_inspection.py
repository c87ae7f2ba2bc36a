"""`rlctl doctor` alone: each damage to what is stored is named, with its place; what is whole is not spoken of."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from rlstudio import orchestrator
from rlstudio.control.inspection import folder_rules
from rlstudio.control.inspection.inspect import StoredState, inspect
from rlstudio.control.inspection.version_rules import within
from rlstudio.control.registry.blobs import Blobs
from rlstudio.control.registry.records import Stage
from rlstudio.control.registry.registry import Registry
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.workspace import Workspace
from support.control_world import HERE, S, owner, request
from support.experiments import tiny_data
from support.golden_store import GOLDEN
from support.reading_world import tree
from support.registry_world import write_policy


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, and a model with two versions, the second one in production."""
    runs = tmp_path_factory.mktemp("whole") / "runs"
    orchestrator.run(tiny_data(), runs_dir=runs, progress=False)
    workspace = Workspace(runs)
    registry, blobs = Registry(workspace.store.database), Blobs(workspace.state_dir / "registry" / "blobs")
    for number, skill in enumerate((0.0, 1.0)):
        digest = blobs.put(write_policy(runs.parent / f"policy{number}", skill).path)
        version = registry.register("toy", digest)
        registry.promote("toy", version.version, Stage.PRODUCTION)
    workspace.store.database.close()
    return runs


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "runs")


def damage(runs: Path, statement: str) -> None:
    with closing(sqlite3.connect(runs / ".rlstudio" / "store.db")) as store, store:
        assert store.execute(statement).rowcount > 0


def inspected(runs: Path) -> StoredState:
    """Looking changes nothing."""
    before = tree(runs)
    found = inspect(Workspace(runs))
    assert tree(runs) == before
    return found


def run_of(runs: Path) -> Path:
    (folder,) = runs.glob("2*")
    return folder


def test_what_is_whole_is_not_spoken_of(runs: Path) -> None:
    found = inspected(runs)
    assert (found.advice, found.ok) == ([], True)
    assert found.looked_at["runs"] == 1
    assert found.looked_at["versions"] == 2
    assert min(found.looked_at["events"], found.looked_at["checkpoints"]) >= 1


def test_a_folder_without_anything_is_in_order(tmp_path: Path) -> None:
    assert inspect(Workspace(tmp_path / "nothing")).advice == []
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE run SET state = 'FAILED'", "its state is FAILED, its history says COMPLETED"),
        ("UPDATE run SET message = 'mine'", "its message is mine"),
        ("UPDATE run SET token = 0", "its token is 0"),
        ("DELETE FROM event WHERE version = 2", "its history has a hole"),
        ("DELETE FROM event", "has no history"),
        ("UPDATE event SET state = 'CANCELLED' WHERE version = 2", "goes from CANCELLED to"),
        ("UPDATE event SET token = 9 WHERE version = 2", "an older owner wrote after a newer one"),
    ],
)
def test_a_run_whose_history_does_not_lead_to_its_state(runs: Path, statement: str, says: str) -> None:
    damage(runs, statement)
    found = inspected(runs)
    assert not found.ok
    assert any(each.mistake == "history" and says in each.text for each in found.advice), found.advice


def test_a_file_that_is_no_database(runs: Path) -> None:
    (runs / ".rlstudio" / "store.db").write_bytes(b"not a database at all" * 100)
    (advice,) = inspected(runs).advice
    assert (advice.severity, advice.mistake) == ("error", "store")
    assert "rlctl adopt" in advice.remedy


def test_a_flipped_bit_of_a_checkpoint_names_the_file(runs: Path) -> None:
    newest = max((run_of(runs) / "checkpoints").iterdir()) / "tensors.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    (advice,) = inspected(runs).advice
    assert (advice.severity, advice.mistake) == ("error", "checkpoint")
    assert f"{newest.parent.name}/tensors.safetensors: its sha256 is not the one" in advice.text


def test_a_checkpoint_that_is_another_one_than_the_store_was_told(runs: Path) -> None:
    damage(runs, f"UPDATE checkpoint SET manifest_sha256 = '{'0' * 64}'")
    assert {each.mistake for each in inspected(runs).advice} == {"checkpoint"}


def test_runs_and_folders_that_do_not_find_each_other(runs: Path) -> None:
    run = run_of(runs)
    (runs / "20261116-141702123456-ppo-none-a3f1").mkdir()
    run.rename(run.with_name(f"{run.name}x"))
    says = {each.mistake: each for each in inspected(runs).advice}
    assert says.keys() >= {"folder_missing", "no_run"}
    assert inspected(runs).ok  # nothing that was stored is damaged


def test_a_folder_that_the_store_does_not_know_is_to_be_adopted(runs: Path) -> None:
    shutil.rmtree(runs / ".rlstudio")
    (advice,) = inspected(runs).advice
    assert advice.mistake == "unknown_folder"
    assert advice.remedy == f"rlctl adopt {run_of(runs)}"


def test_a_run_whose_process_is_gone(runs: Path) -> None:
    workspace = Workspace(runs)
    run = workspace.store.create(request(name="dead"), owner=owner(1, HERE))
    folder_of(workspace, run).close()
    workspace.store.move(run.id, run.token, S.RUNNING)
    workspace.store.database.close()
    (advice,) = inspected(runs).advice
    assert (advice.severity, advice.mistake, advice.remedy) == ("warning", "orphan", "rlctl queue --reap")


@pytest.mark.parametrize(
    ("spoil", "mistake", "says"),
    [
        (
            lambda runs: damage(runs, "UPDATE model_version SET stage = 'staging' WHERE version = 1"),
            "registry",
            "staging",
        ),
        (lambda runs: damage(runs, "DELETE FROM model_version WHERE version = 1"), "registry", "holes"),
        (lambda runs: shutil.rmtree(next((runs / ".rlstudio/registry/blobs").glob("?" * 64))), "bundle", "toy:"),
    ],
    ids=["stage", "hole", "bundle"],
)
def test_a_registry_that_its_decisions_do_not_add_up_to(
    runs: Path, spoil: Callable[[Path], None], mistake: str, says: str
) -> None:
    spoil(runs)
    advice = inspected(runs).advice
    assert {each.mistake for each in advice} == {mistake}
    assert says in advice[0].text


def test_an_unfinished_run_of_other_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (golden,) = (GOLDEN / "run-v2").glob("*-ppo-*")
    shutil.copytree(golden, tmp_path / "runs" / golden.name)
    monkeypatch.setattr(folder_rules, "installed_libraries", lambda: {"torch": "0.1"})
    said = [each for each in inspected(tmp_path / "runs").advice if each.mistake == "versions"]
    assert len(said) == 1
    assert "-> 0.1" in said[0].text
    assert "--allow-inexact" in said[0].remedy


def test_versions_within_ranges() -> None:
    assert within("2.10.0+cpu", (">=2.10", "<3"))
    assert not within("2.9", (">=2.10", "<3"))
    assert not within("3.0.1", (">=2.10", "<3"))
    assert within("1.0rc1", ("!=7",))  # written otherwise: not judged
