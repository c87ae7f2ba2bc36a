"""`rlctl migrate`: what older versions wrote is listed, and brought up to date without losing a bit of it."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from rlstudio.control.runs import upgrade as upgraded_runs
from rlstudio.control.store import migrations as store_migrations
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import NoValidCheckpoint
from rlstudio.experiment.checkpoint import checkpoints as checkpoint
from rlstudio.experiment.checkpoint import manifest, migrations, snapshot, upgrade
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.experiment.folder.run_folder import RunFolder
from support.cli_scenario import rlctl_in_process
from support.golden_runs import GOLDEN
from support.sessions import resume, start
from support.tiny_runs import assert_same_result, config, only_run, run_to_the_end


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def rlctl(capsys):
    return rlctl_in_process(capsys)


def bytes_below(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def old_things(place):
    """A store, two runs and an experiment file as earlier versions left them."""
    shutil.copytree(GOLDEN / "run-v1", place / "runs")
    (place / "runs/.rlstudio").mkdir()
    shutil.copy(GOLDEN / "store-v1.db", place / "runs/.rlstudio/store.db")
    (retired,) = (GOLDEN / "run-retired-fields").glob("*-a2c-*")
    text = (retired / "config.yaml").read_text().replace("  batch_size", "  # as in our paper\n  batch_size", 1)
    (place / "old.yaml").write_text(text)


def test_a_dry_run_lists_everything_and_changes_nothing(place, rlctl):
    old_things(place)
    before = bytes_below(place)
    rows = rlctl("migrate", "--dry-run", "--json").document
    assert [(row["kind"], row["status"], row["result"]) for row in rows] == [
        ("store", f"version 1 -> {store_migrations.VERSION}", "waits"),
        ("run", "3 of 3 checkpoints of version 1 -> 2", "waits"),
        ("run", "4 of 4 checkpoints of version 1 -> 2", "waits"),
    ]
    (row,) = rlctl("migrate", "--dry-run", "old.yaml", "--json").document
    assert row["status"].startswith("to be taken out: train.batch_size: a2c has no minibatches")
    assert bytes_below(place) == before


def rows_of(file):
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


def test_a_store_and_its_runs_of_version_1_become_todays(place, rlctl):
    old_things(place)
    (ppo,), (dqn,) = (tuple((place / "runs").glob(f"*-{algo}-*")) for algo in ("ppo", "dqn"))
    hashes = {path: [info.state_hash for info in infos(path)] for path in (ppo, dqn)}
    assert rlctl("migrate").code == 0
    assert rows_of(place / "runs/.rlstudio/store-version-1.db") == rows_of(GOLDEN / "store-v1.db")
    assert Workspace(place / "runs").records.database.stored_version() == store_migrations.VERSION
    for path in (ppo, dqn):
        now = infos(path)
        assert {info.version for info in now} == {2}
        assert [info.state_hash for info in now] == hashes[path]
        assert [info.parent for info in now[:-1]] == [info.sha256 for info in now[1:]]
        assert (
            RunFolder(path).read_status().state_hash
            == Checkpoints(path, path.name, None).load(now[0].step).info.state_hash
        )
    assert {row["result"] for row in rlctl("migrate", "--json").document} == {"up to date"}


def infos(path):
    return Checkpoints(path, path.name, None).list()


def test_an_experiment_file_loses_what_changed_nothing(place, rlctl):
    old_things(place)
    before = (place / "old.yaml").read_text()
    assert rlctl("launch", "-f", "old.yaml", "--dry-run").code == 2
    assert rlctl("migrate", "old.yaml").code == 0
    assert (place / "old.yaml.old").read_text() == before
    lines = before.splitlines()
    (gone,) = (line for line in lines if line.strip().startswith("batch_size"))
    assert (place / "old.yaml").read_text().splitlines() == [line for line in lines if line != gone]
    assert rlctl("migrate", "old.yaml", "--json").document[0]["result"] == "up to date"


def test_what_cannot_be_done_is_said_and_the_rest_is_done(place, rlctl):
    old_things(place)
    flow = "env: {id: CartPole-v1}\npolicy: {algo: a2c}\ntrain: {batch_size: 8, epochs: 2}\n"
    (place / "flow.yaml").write_text(flow)
    shutil.copytree(GOLDEN / "bundle-v1", place / "good")
    shutil.copytree(GOLDEN / "bundle-v1", place / "bad")
    (place / "bad/README.md").write_text("changed")
    done = rlctl("migrate", "flow.yaml", "bad", "good", "old.yaml", "--json")
    assert (done.code, [row["ok"] for row in done.document]) == (2, [False, False, True, True])
    assert "its line has more than this setting" in done.document[0]["result"]
    assert "README.md" in done.document[1]["result"]
    assert (place / "flow.yaml").read_text() == flow
    assert "2 of 4 could not be brought up to date" in done.err
    (newest, *_) = sorted((place / "runs").glob("*-ppo-*/checkpoints/*"), reverse=True)
    edited = json.loads((newest / "MANIFEST.json").read_bytes()) | {"version": 9}
    del edited["sha256"]
    (newest / "MANIFEST.json").write_bytes(manifest.manifest_bytes(edited))
    rows = {row["name"]: row for row in rlctl("migrate", "--json").document}
    assert "version 9, this RLStudio reads up to 2" in rows[newest.parents[1].name]["result"]
    assert sum(row["ok"] for row in rows.values()) == len(rows) - 1


def test_a_link_in_the_place_of_a_run_is_named_and_not_followed(place, rlctl):
    old_things(place)
    assert rlctl("migrate").code == 0
    (dqn,) = (place / "runs").glob("*-dqn-*")
    assert rlctl("adopt", dqn).code == 0
    dqn.rename(place / "elsewhere")
    dqn.symlink_to(place / "elsewhere")
    done = rlctl("migrate", "--json")
    assert (done.code, [row["ok"] for row in done.document]) == (2, [True, True, False])
    assert "links are never followed" in done.document[-1]["result"]


def test_a_run_that_trains_is_left_alone(place, rlctl, monkeypatch):
    old_things(place)
    (ppo,) = (place / "runs").glob("*-ppo-*")
    with FileLease(ppo):
        done = rlctl("migrate", "--json")
    assert done.code == 2
    assert [row["ok"] for row in done.document] == [True, False, True]


# -- a migration that changes the state itself -----------------------------------------------------------------------


def as_version_2_had_it(content):
    """The layout of a version to come, undone: there the model is called `model`, and counters are one list."""
    modules = {"network" if name == "model" else name: weights for name, weights in content["module_state"].items()}
    return {
        **content,
        "version": 2,
        "module_state": modules,
        "rng_state": {"counters": [content["rng_state"]["seed"], content["rng_state"]["attempt"]]},
    }


def to_3(content):
    modules = {"model" if name == "network" else name: weights for name, weights in content["module_state"].items()}
    seed, attempt = content["rng_state"]["counters"]
    return {**content, "version": 3, "module_state": modules, "rng_state": {"seed": seed, "attempt": attempt}}


def set_version(monkeypatch, version):
    for module in (manifest, checkpoint, migrations, snapshot, upgrade, upgraded_runs):
        monkeypatch.setattr(module, "VERSION", version)


def test_a_migration_that_transforms_state_ends_in_the_same_bits(place, rlctl, monkeypatch):
    cfg = config("ppo", "native")
    whole = run_to_the_end(cfg, place / "whole")
    with start(cfg, place / "runs") as session:
        for tick in session:
            if tick.report is not None and tick.report.epoch == 7:
                break
    run = only_run(place / "runs")
    newest, *_ = infos(run.path)
    with FileLease(run.path) as lease:
        checkpoints = Checkpoints(run.path, run.id, lease)
        aged = as_version_2_had_it(checkpoints.load(newest.step).content)
        own = {name: value for name, value in newest.fields.items() if name not in manifest.OWN}
        checkpoints.save(aged, step=newest.step, manifest=own)
        checkpoints.prune(1, set())
    assert rlctl("adopt", run.path).code == 0

    set_version(monkeypatch, 3)
    with pytest.raises(NoValidCheckpoint, match="nothing migrates version 2 to 3"), resume(run):
        pass
    monkeypatch.setitem(migrations.MIGRATIONS, 2, to_3)
    (row,) = (row for row in rlctl("migrate", "--json").document if row["kind"] == "run")
    assert row["result"] == "1 of version 3, another state at 1 of them"
    (now,) = infos(run.path)
    assert (now.version, now.state_hash) == (3, newest.state_hash)
    (known,) = Workspace(place / "runs").records.checkpoints(run.id)
    assert (known.state_hash, known.manifest_sha256) == (now.state_hash, now.sha256)
    with resume(run) as session:
        for _ in session:
            pass
    assert_same_result(run, whole)
