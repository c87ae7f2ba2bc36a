"""Checkpoints: saved whole, shared where they can be, found again, refused when they are not what they claim."""

import json

import numpy as np
import pytest

from rlstudio.core.contracts import Segment
from rlstudio.core.errors import CheckpointError, LeaseLost, NoValidCheckpoint
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.checkpoint.manifest import LARGEST_JSON, VERSION, read_manifest
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.storage import failpoint
from rlstudio.storage.folder import Folder
from rlstudio.storage.seal import sealed, unsealed

RUN = "run-for-tests"


class CountedSegment:
    """Rows that know how often they were asked for."""

    def __init__(self, name: str, value: float) -> None:
        self.reads = 0
        self.value = value
        self.segment = Segment(name, self.columns)

    def columns(self):
        self.reads += 1
        return {"rewards": np.full(8, self.value, np.float32), "obs/pos": np.full((8, 2), self.value)}


def content(value: float, segments=()):
    return {
        "version": VERSION,
        "module_state": {"w": np.full((2, 3), value)},
        "trainer_state": {"steps": int(value), "replay": list(segments)},
        "replay_meta": {"size": len(segments)},
        "rng_state": {"seed": 0},
        "meta": {"metrics_offset": 12, "best": float("-inf")},
    }


@pytest.fixture
def lease(tmp_path):
    with FileLease(tmp_path) as lease:
        yield lease


@pytest.fixture
def checkpoints(tmp_path, lease):
    return Checkpoints(tmp_path, RUN, lease)


def reopened(tmp_path, lease=None):
    return Checkpoints(tmp_path, RUN, lease)


def test_what_was_saved_comes_back(tmp_path, checkpoints):
    fields = {"env_steps": 400, "epoch": 2, "exact": False, "exact_reason": "env", "topology": {"threads": 1}}
    rows = CountedSegment("rows-0", 3.0)
    info = checkpoints.save(content(4, [rows.segment]), step=400, manifest=fields)
    loaded = reopened(tmp_path).load(400)
    assert loaded.info == info
    assert {name: info.fields[name] for name in fields} == fields
    assert (info.run_id, info.step, info.token, info.version) == (RUN, 400, 1, VERSION)
    assert loaded.content["meta"] == {"metrics_offset": 12, "best": float("-inf")}
    assert loaded.content["module_state"]["w"].tolist() == [[4.0] * 3] * 2
    loaded.content["module_state"]["w"] += 1  # writable
    (segment,) = loaded.content["trainer_state"]["replay"]
    assert segment.name == "rows-0"
    assert {name: column.tolist() for name, column in segment.columns().items()} == {
        name: column.tolist() for name, column in rows.columns().items()
    }
    assert info.state_hash == state_hash(content(4, [rows.segment]))


def test_a_checkpoint_is_three_files_and_five_syncs(checkpoints, tmp_path):
    kinds = []
    failpoint.restart(lambda operation: kinds.append(operation.kind))
    checkpoints.save(content(1), step=1, manifest={})
    failpoint.restart()
    assert kinds.count("sync") == 5
    folder = tmp_path / "checkpoints" / "step-000000000001"
    assert sorted(path.name for path in folder.iterdir()) == ["MANIFEST.json", "state.json", "tensors.safetensors"]
    assert json.loads((folder / "MANIFEST.json").read_text())["sha256"]


def test_list_is_newest_first_and_reads_only_manifests(checkpoints, tmp_path):
    for step in (100, 300, 200):
        checkpoints.save(content(step), step=step, manifest={})
    for path in tmp_path.glob("checkpoints/*/tensors.safetensors"):
        path.write_bytes(b"")
    assert [info.step for info in reopened(tmp_path).list()] == [300, 200, 100]


def test_a_run_without_checkpoints_has_none(checkpoints, tmp_path):
    assert checkpoints.newest_good() is None
    assert checkpoints.list() == []
    (tmp_path / "checkpoints").rmdir()
    assert reopened(tmp_path).newest_good() is None


def test_the_parent_is_the_checkpoint_before(checkpoints, tmp_path, lease):
    first = checkpoints.save(content(1), step=1, manifest={})
    second = checkpoints.save(content(2), step=2, manifest={})
    assert (first.parent, second.parent) == (None, first.sha256)
    again = reopened(tmp_path, lease)
    again.load(1)
    assert again.save(content(3), step=3, manifest={}).parent == first.sha256


# -- segments ---------------------------------------------------------------------------------------------------------


def test_a_known_segment_is_not_even_serialised(checkpoints, tmp_path, lease):
    old, new = CountedSegment("rows-0", 1), CountedSegment("rows-1", 2)
    checkpoints.save(content(1, [old.segment]), step=1, manifest={})
    checkpoints.save(content(2, [old.segment, new.segment]), step=2, manifest={})
    assert (old.reads, new.reads) == (1, 1)
    resumed = reopened(tmp_path, lease)
    resumed.newest_good()
    resumed.save(content(3, [old.segment, new.segment]), step=3, manifest={})
    assert (old.reads, new.reads) == (1, 1)
    assert len(list((tmp_path / "segments").iterdir())) == 2


def test_after_a_roll_back_a_name_may_stand_for_other_rows(checkpoints):
    base = CountedSegment("rows-0", 1)
    checkpoints.save(content(1, [base.segment]), step=1, manifest={})
    checkpoints.save(content(2, [base.segment, CountedSegment("rows-1", 2).segment]), step=2, manifest={})
    checkpoints.load(1)
    checkpoints.discard_after(1)
    assert [info.step for info in checkpoints.list()] == [1]
    checkpoints.save(content(2, [base.segment, CountedSegment("rows-1", 7).segment]), step=2, manifest={})
    rows = checkpoints.load(2).content["trainer_state"]["replay"][1].columns()
    assert rows["rewards"][0] == 7
    assert base.reads == 1


def test_looking_at_another_checkpoint_never_brings_its_names_in(checkpoints):
    checkpoints.save(content(1, [CountedSegment("rows-0", 1).segment]), step=1, manifest={})
    checkpoints.save(content(2, [CountedSegment("rows-1", 2).segment]), step=2, manifest={})
    checkpoints.load(1)
    checkpoints.load(2)  # only looked at
    checkpoints.save(content(3, [CountedSegment("rows-1", 9).segment]), step=3, manifest={})
    assert checkpoints.load(3).content["trainer_state"]["replay"][0].columns()["rewards"][0] == 9


def test_a_segment_that_vanished_is_written_again(checkpoints, tmp_path):
    rows = CountedSegment("rows-0", 1)
    checkpoints.save(content(1, [rows.segment]), step=1, manifest={})
    next((tmp_path / "segments").iterdir()).unlink()
    checkpoints.save(content(2, [rows.segment]), step=2, manifest={})
    assert checkpoints.load(2).info.step == 2


def test_equal_rows_under_two_names_are_one_file(checkpoints, tmp_path):
    checkpoints.save(content(1, [CountedSegment(n, 5).segment for n in ("a", "b")]), step=1, manifest={})
    assert len(list((tmp_path / "segments").iterdir())) == 1
    assert [s.name for s in checkpoints.load(1).content["trainer_state"]["replay"]] == ["a", "b"]


def test_prune_keeps_the_newest_the_wanted_and_their_segments(checkpoints, tmp_path):
    rows = [CountedSegment(f"rows-{n}", n) for n in range(6)]
    for step in range(1, 6):
        checkpoints.save(content(step, [rows[step - 1].segment, rows[step].segment]), step=step, manifest={})
    checkpoints.prune(keep_last=2, keep={1, 99})
    assert [info.step for info in checkpoints.list()] == [5, 4, 1]
    for step in (5, 4, 1):
        checkpoints.load(step)
    used = {ref.sha256 for info in checkpoints.list() for ref in info.segments}
    assert {path.stem for path in (tmp_path / "segments").iterdir()} == used
    with pytest.raises(ValueError, match="at least 1"):
        checkpoints.prune(keep_last=0, keep=set())
    # a name whose file was collected is written again when it returns
    checkpoints.save(content(6, [rows[2].segment]), step=6, manifest={})
    assert checkpoints.load(6).content["trainer_state"]["replay"][0].columns()["rewards"][0] == 2


def test_prune_never_counts_a_damaged_checkpoint_and_spares_segments_it_may_use(checkpoints, tmp_path):
    rows = [CountedSegment(f"rows-{n}", n) for n in range(4)]
    for step in range(1, 4):
        checkpoints.save(content(step, [rows[step].segment]), step=step, manifest={})
    (tmp_path / "checkpoints/step-000000000003/MANIFEST.json").write_bytes(b"{}")
    checkpoints.prune(keep_last=1, keep=set())
    assert [info.step for info in checkpoints.list()] == [2]
    assert (tmp_path / "checkpoints/step-000000000003").is_dir()
    assert len(list((tmp_path / "segments").iterdir())) == 3
    checkpoints.save(content(4, [rows[0].segment]), step=4, manifest={})
    checkpoints.prune(keep_last=1, keep=set())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000000004"]
    assert len(list((tmp_path / "segments").iterdir())) == 1


@pytest.mark.parametrize("forged", [False, True])
def test_row_14_a_folder_far_ahead_neither_stays_nor_counts(checkpoints, tmp_path, forged):
    """It would stop the collection of segments for good, and with a manifest take the place of the newest."""
    rows = [CountedSegment(f"rows-{n}", n) for n in range(3)]
    checkpoints.save(content(1, [rows[1].segment]), step=1, manifest={})
    ahead = tmp_path / "checkpoints/step-999999999999"
    ahead.mkdir()
    if forged:
        manifest = unsealed((tmp_path / "checkpoints/step-000000000001/MANIFEST.json").read_bytes(), "")
        del manifest["sha256"]
        (ahead / "MANIFEST.json").write_bytes(sealed(manifest | {"step": 999_999_999_999}))
    checkpoints.save(content(2, [rows[2].segment]), step=2, manifest={})
    checkpoints.prune(keep_last=1, keep=set())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000000002"]
    assert len(list((tmp_path / "segments").iterdir())) == 1


def test_row_14_a_second_name_for_a_step_is_not_a_checkpoint(checkpoints, tmp_path):
    (tmp_path / "checkpoints/step-0000000000001").mkdir()
    checkpoints.save(content(2), step=2, manifest={})
    checkpoints.save(content(3), step=3, manifest={})
    checkpoints.prune(keep_last=1, keep=set())
    assert [info.step for info in checkpoints.list()] == [3]


def test_b5_a_manifest_or_state_of_too_many_bytes_is_not_read(checkpoints, tmp_path):
    checkpoints.save(content(1), step=1, manifest={})
    file = tmp_path / "checkpoints/step-000000000001/MANIFEST.json"
    manifest = unsealed(file.read_bytes(), "")
    del manifest["sha256"]
    manifest["files"]["state.json"]["size"] = LARGEST_JSON + 1
    file.write_bytes(sealed(manifest))
    with pytest.raises(CheckpointError, match=r"state.json has 33,554,433 bytes, at most 33,554,432 are read"):
        checkpoints.load(1)
    with file.open("r+b") as large:
        large.truncate(LARGEST_JSON + 1)  # sparse
    with pytest.raises(CheckpointError, match="larger than 33554432 bytes, which no file of this kind is"):
        checkpoints.load(1)


# -- the same step twice ----------------------------------------------------------------------------------------------


def test_the_same_state_at_the_same_step_is_kept(checkpoints, tmp_path):
    first = checkpoints.save(content(1), step=1, manifest={"epoch": 1})
    inode = (tmp_path / "checkpoints/step-000000000001").stat().st_ino
    assert checkpoints.save(content(1), step=1, manifest={"epoch": 1}) == first
    assert (tmp_path / "checkpoints/step-000000000001").stat().st_ino == inode


@pytest.mark.parametrize("damage", ["another state", "damaged"])
def test_another_state_or_a_damaged_one_is_replaced(checkpoints, tmp_path, damage):
    checkpoints.save(content(1 if damage == "damaged" else 7), step=1, manifest={})
    if damage == "damaged":
        (tmp_path / "checkpoints/step-000000000001/state.json").write_bytes(b"[]")
    checkpoints.save(content(1), step=1, manifest={})
    assert checkpoints.load(1).info.state_hash == state_hash(content(1))
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000000001"]


# -- who may write ----------------------------------------------------------------------------------------------------


def test_without_a_lease_nothing_is_written(checkpoints, tmp_path):
    checkpoints.save(content(1), step=1, manifest={})
    (tmp_path / "checkpoints/.tmp-1-x").mkdir()
    reader = reopened(tmp_path)
    for act in (
        lambda: reader.save(content(2), step=2, manifest={}),
        lambda: reader.prune(1, set()),
        lambda: reader.discard_after(0),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert (tmp_path / "checkpoints/.tmp-1-x").is_dir()
    assert reader.load(1).info.step == 1


def test_a_stale_writer_cannot_publish(checkpoints, tmp_path, lease):
    """It lost the run between writing its files and renaming them: nothing of it becomes visible."""
    checkpoints.save(content(1), step=1, manifest={})
    checks = iter([None, LeaseLost("taken")])

    def check():
        if (outcome := next(checks)) is not None:
            raise outcome

    lease.check = check
    with pytest.raises(LeaseLost):
        checkpoints.save(content(2), step=2, manifest={})
    assert [info.step for info in reopened(tmp_path).list()] == [1]


def test_leftovers_go_when_the_owner_opens(tmp_path, lease):
    for name in ("checkpoints/.tmp-1-x", "checkpoints/.trash-y", "segments/.tmp-z"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("x")
    reopened(tmp_path, lease)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    assert list((tmp_path / "segments").iterdir()) == []


def test_mistakes_of_the_caller_are_named(checkpoints):
    with pytest.raises(ValueError, match="version 1"):
        checkpoints.save(content(1) | {"version": 1}, step=1, manifest={})
    with pytest.raises(ValueError, match="step is written by"):
        checkpoints.save(content(1), step=1, manifest={"step": 3})
    with pytest.raises(TypeError, match="tensors"):
        checkpoints.save(content(1) | {"meta": {"x": np.zeros(1)}}, step=1, manifest={})
    with pytest.raises(TypeError, match="trainer_state/x: a set"):
        checkpoints.save(content(1) | {"trainer_state": {"x": {1}}}, step=1, manifest={})
    assert checkpoints.list() == []


def test_a_checkpoint_of_another_run_is_refused(checkpoints, tmp_path):
    checkpoints.save(content(1), step=1, manifest={})
    with pytest.raises(NoValidCheckpoint, match="belongs to the run 'run-for-tests'"):
        Checkpoints(tmp_path, "someone-else", None).newest_good()


def test_segments_form_a_chain_over_the_life_of_a_run(checkpoints, tmp_path, lease):
    """The newest link stands for all segments in their order, also for those that are gone by now."""
    rows = [CountedSegment(f"rows-{n}", n).segment for n in range(4)]
    checkpoints.save(content(1, rows[:2]), step=1, manifest={})
    resumed = Checkpoints(tmp_path, RUN, lease)
    resumed.newest_good()
    info = resumed.save(content(2, rows[1:]), step=2, manifest={})
    assert [ref.after for ref in info.segments[1:]] == [ref.link for ref in info.segments[:-1]]
    assert info.segments[0].after == read_manifest(Folder(tmp_path), 1, RUN).segments[0].link
    other = [CountedSegment("rows-0", 9).segment, *rows[1:]]
    (tmp_path / "other").mkdir()
    with FileLease(tmp_path / "other") as own:
        changed = Checkpoints(tmp_path / "other", RUN, own).save(content(2, other), step=2, manifest={})
    assert changed.segments[-1].sha256 == info.segments[-1].sha256
    assert changed.segments[-1].link != info.segments[-1].link


@pytest.mark.parametrize("change", ["left out", "moved", "renamed", "cut off"])
def test_a_broken_chain_is_refused(checkpoints, tmp_path, change):
    rows = [CountedSegment(f"rows-{n}", n).segment for n in range(3)]
    checkpoints.save(content(1, rows), step=1, manifest={})
    path = tmp_path / "checkpoints/step-000000000001/MANIFEST.json"
    fields = unsealed(path.read_bytes(), "here")
    first, second, third = fields["segments"]
    fields["segments"] = {
        "left out": [first, third],
        "moved": [{**second, "name": "rows-0"}, {**first, "name": "rows-1"}, third],
        "renamed": [first, second, {**third, "name": "rows-7"}],
        "cut off": [first, {**second, "after": ""}, third],
    }[change]
    path.write_bytes(sealed({name: value for name, value in fields.items() if name != "sha256"}))
    with pytest.raises(CheckpointError, match="does not follow the one before it in their chain"):
        checkpoints.load(1)


def test_two_segments_of_one_name_are_refused(checkpoints):
    """One would be taken for the other: each buffer of a run names its own."""
    rows = CountedSegment("rows-0", 1).segment
    with pytest.raises(ValueError, match="two segments of one state are called rows-0"):
        checkpoints.save(content(1, [rows, CountedSegment("rows-0", 2).segment]), step=1, manifest={})
