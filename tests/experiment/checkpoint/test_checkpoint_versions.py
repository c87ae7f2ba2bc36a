"""Checkpoints of other versions: older ones are migrated, newer ones refused. Version 2 says where a state is from."""

import json
from pathlib import Path

import numpy as np
import pytest

import rlstudio
from rlstudio.core.errors import CheckpointError
from rlstudio.experiment.checkpoint import checkpoints as checkpoint
from rlstudio.experiment.checkpoint import manifest, migrations
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, TooNew, state_hash
from rlstudio.experiment.checkpoint.manifest import VERSION, Origin, manifest_bytes
from rlstudio.experiment.folder.lease import FileLease

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoint-v1"
RUN = "run-for-tests"
ORIGIN = Origin("20261115-another-run", 40, "a" * 64, "b" * 64)


def content(value: float, version: int = VERSION):
    return {
        "version": version,
        "module_state": {"w": np.full(3, value)},
        "trainer_state": {"steps": int(value)},
        "replay_meta": {"size": 0},
        "rng_state": {"seed": 0},
        "meta": {"metrics_offset": 12},
    }


@pytest.fixture
def checkpoints(tmp_path):
    with FileLease(tmp_path) as lease:
        yield Checkpoints(tmp_path, RUN, lease)


def reader(run_dir):
    return Checkpoints(run_dir, RUN, None)


def written_by(version, checkpoints, monkeypatch, value):
    """A checkpoint as an RLStudio of that version would have written it."""
    for module in (manifest, checkpoint):
        monkeypatch.setattr(module, "VERSION", version)
    checkpoints.save(content(value, version), step=value, manifest={})
    monkeypatch.undo()


def edit_manifest(run_dir, step, **changes):
    """Changed by someone who knows how its hash is made."""
    path = run_dir / f"checkpoints/step-{step:012d}/MANIFEST.json"
    fields = json.loads(path.read_bytes()) | changes
    path.write_bytes(manifest_bytes({name: value for name, value in fields.items() if name != "sha256"}))


# -- older and newer --------------------------------------------------------------------------------------------------


def test_the_golden_checkpoint_of_version_1_still_loads():
    found = Checkpoints(GOLDEN, "golden-run", None).newest_good()
    assert found.rejected == []
    loaded = found.loaded
    assert loaded.info.state_hash == "0f46b233cdc4dc7acda0cf89a56e40f72b485a522f37c2750cfacef99ad830f1"
    assert state_hash(loaded.content) == loaded.info.state_hash
    assert loaded.content["trainer_state"]["values"] == [1, -0.0, 0.1, True, None, "text", (1, 2), 2**100]
    assert np.isnan(loaded.content["trainer_state"]["loss"])
    assert loaded.content["module_state"]["model"]["w"].dtype == np.float32
    assert loaded.content["replay_meta"]["rows"][0].columns()["rewards"].tolist() == [0.0, 0.5, 1.0]
    assert loaded.info.fields["topology"] == {"num_envs": 2, "threads": 1}
    assert (loaded.info.version, loaded.content["version"]) == (1, 2)
    assert (loaded.info.origin, loaded.info.rlstudio) == (None, "")


def test_an_older_version_is_migrated(checkpoints, tmp_path, monkeypatch):
    written_by(0, checkpoints, monkeypatch, 3)
    with pytest.raises(CheckpointError, match="nothing migrates version 0 to 2"):
        reader(tmp_path).load(3)

    def migrate(old):
        return old | {"version": 1, "replay_meta": {"size": old["replay_meta"]["size"], "kind": "ring"}}

    monkeypatch.setitem(migrations.MIGRATIONS, 0, migrate)
    assert reader(tmp_path).load(3).content["replay_meta"] == {"size": 0, "kind": "ring"}


def test_there_is_a_way_from_every_version_to_this_one():
    assert sorted(migrations.MIGRATIONS) == list(range(1, VERSION))


def test_a_newer_version_is_refused_and_not_passed_over(checkpoints, tmp_path, monkeypatch):
    checkpoints.save(content(1), step=1, manifest={})
    written_by(3, checkpoints, monkeypatch, 2)
    with pytest.raises(TooNew, match=r"version 3, this RLStudio reads up to 2; upgrade"):
        reader(tmp_path).newest_good()


# -- where a state came from ------------------------------------------------------------------------------------------


def test_a_checkpoint_says_which_rlstudio_wrote_it(checkpoints, tmp_path):
    info = checkpoints.save(content(1), step=1, manifest={})
    assert (info.version, info.rlstudio, info.origin) == (2, rlstudio.__version__, None)
    stored = json.loads((tmp_path / "checkpoints/step-000000000001/MANIFEST.json").read_bytes())
    assert (stored["rlstudio"], stored["origin"]) == (rlstudio.__version__, None)


def test_the_origin_stays_with_all_that_came_from_it(checkpoints, tmp_path):
    """Also after the copy itself was pruned, and in the next process."""
    first = checkpoints.save(content(1), step=1, manifest={}, origin=ORIGIN)
    second = checkpoints.save(content(2), step=2, manifest={})
    assert (first.origin, first.parent) == (ORIGIN, None)
    assert (second.origin, second.parent) == (ORIGIN, first.sha256)
    checkpoints.prune(keep_last=1, keep=set())
    resumed = Checkpoints(tmp_path, RUN, checkpoints._lease)
    resumed.newest_good()
    assert resumed.save(content(3), step=3, manifest={}).origin == ORIGIN


def test_a_run_that_starts_over_has_no_origin(checkpoints):
    checkpoints.save(content(5), step=5, manifest={}, origin=ORIGIN)
    checkpoints.discard_after(0)
    assert checkpoints.save(content(1), step=1, manifest={}).origin is None


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "run"},
        {"origin": {}},
        {"origin": {**vars(ORIGIN), "step": -1}},
        {"origin": {**vars(ORIGIN), "run_id": 3}},
        {"origin": {**vars(ORIGIN), "manifest_sha256": "../.."}},
        {"origin": {**vars(ORIGIN), "state_hash": None}},
        {"rlstudio": 2},
    ],
    ids=str,
)
def test_a_manifest_that_lies_about_its_origin_is_refused(checkpoints, tmp_path, changes):
    checkpoints.save(content(1), step=1, manifest={}, origin=ORIGIN)
    edit_manifest(tmp_path, 1)
    assert reader(tmp_path).load(1).info.origin == ORIGIN
    edit_manifest(tmp_path, 1, **changes)
    with pytest.raises(CheckpointError, match=r"step-000000000001/MANIFEST.json: not a manifest"):
        reader(tmp_path).load(1)


@pytest.mark.parametrize("field", ["origin", "rlstudio"])
def test_only_the_checkpoint_writes_these(checkpoints, field):
    with pytest.raises(ValueError, match=f"{field} is written by"):
        checkpoints.save(content(1), step=1, manifest={field: None})
