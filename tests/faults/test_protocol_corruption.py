"""Damage of every kind to every file of a checkpoint: always found, always named, and the newest good one is used."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from rlstudio.core.errors import CheckpointError, NoValidCheckpoint
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints, state_hash
from rlstudio.experiment.checkpoint.manifest import SegmentRef, linked, manifest_bytes, read_manifest
from rlstudio.experiment.folder.lease import FileLease
from rlstudio.storage.folder import Folder
from support.checkpoint_scenario import content
from support.repetition import some_points

RUN = "damaged-run"
GOOD, BAD = 200, 300
FILES = ("MANIFEST.json", "state.json", "tensors.safetensors")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    run_dir = tmp_path_factory.mktemp("damage") / "run"
    run_dir.mkdir()
    with FileLease(run_dir) as lease:
        checkpoints = Checkpoints(run_dir, RUN, lease)
        for step in (GOOD, BAD):
            checkpoints.save(content(step), step=step, manifest={})
    return run_dir


def newest_segment(run_dir: Path) -> Path:
    """A segment that only the newest checkpoint uses."""
    newest, older = Checkpoints(run_dir, RUN, None).list()
    only = {ref.file for ref in newest.segments} - {ref.file for ref in older.segments}
    return run_dir / only.pop()


def damaged_file(run_dir: Path, name: str) -> Path:
    return newest_segment(run_dir) if name == "segment" else run_dir / f"checkpoints/step-{BAD:012d}" / name


def assert_falls_back(run_dir: Path, file: str) -> None:
    found = Checkpoints(run_dir, RUN, None).newest_good()
    assert found.loaded.info.step == GOOD
    assert state_hash(found.loaded.content) == state_hash(content(GOOD))
    ((step, reason),) = found.rejected
    assert step == BAD
    assert file in reason
    assert "\n" not in reason


def flips(data: bytes, header: int) -> Iterator[bytes]:
    """Every bit position in turn over all header bytes and 64 data bytes."""
    positions = set(range(header)) | {header + (len(data) - header) * n // 64 for n in range(64)}
    for position in sorted(p for p in positions if p < len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        yield bytes(flipped)


def cuts(data: bytes) -> Iterator[bytes]:
    """And one byte more."""
    for size in (0, 1, len(data) // 2, len(data) - 1):
        yield data[:size]
    yield data + b"\0"
    yield b""


@pytest.mark.parametrize("name", [*FILES, "segment"])
@pytest.mark.parametrize("at_most", [80, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_every_damaged_byte_is_found(saved, tmp_path, name, at_most):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    file = damaged_file(run_dir, name)
    data = file.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little") if file.suffix == ".safetensors" else len(data)
    flipped, others = list(flips(data, header)), list(cuts(data))
    assert len(flipped) + len(others) > 100
    tried = [*(flipped[point] for point in some_points(len(flipped), at_most)), *others]
    for damaged in tried:
        file.write_bytes(damaged)
        assert_falls_back(run_dir, file.name)
    print(f"{len(tried)} cases of damage to {name}")
    file.write_bytes(data)
    assert Checkpoints(run_dir, RUN, None).newest_good().rejected == []


def link(file: Path) -> None:
    real = file.rename(file.with_name("real"))
    file.symlink_to(real)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def from_the_other_step(file: Path) -> None:
    shutil.copy(str(file).replace(f"{BAD:012d}", f"{GOOD:012d}"), file)


@pytest.mark.parametrize("damage", [Path.unlink, link, pipe, folder, from_the_other_step])
@pytest.mark.parametrize("name", [*FILES, "segment"])
def test_a_file_that_is_not_itself_is_found(saved, tmp_path, name, damage: Callable[[Path], None]):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    file = damaged_file(run_dir, name)
    if name == "segment" and damage is from_the_other_step:
        others = [path for path in file.parent.iterdir() if path != file]
        shutil.copy(others[0], file)
    else:
        damage(file)
    assert_falls_back(run_dir, file.name)


def test_two_files_swapped_are_found(saved, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    one, other = damaged_file(run_dir, "state.json"), damaged_file(run_dir, "tensors.safetensors")
    one.rename(tmp_path / "x"), other.rename(one), (tmp_path / "x").rename(other)
    assert_falls_back(run_dir, "tensors.safetensors")


def test_a_whole_checkpoint_under_another_step_is_found(saved, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    shutil.rmtree(run_dir / f"checkpoints/step-{BAD:012d}")
    shutil.copytree(run_dir / f"checkpoints/step-{GOOD:012d}", run_dir / f"checkpoints/step-{BAD:012d}")
    assert_falls_back(run_dir, "MANIFEST.json")


def test_a_checkpoint_folder_that_is_a_link_is_found(saved, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    newest = run_dir / f"checkpoints/step-{BAD:012d}"
    newest.rename(tmp_path / "elsewhere")
    newest.symlink_to(tmp_path / "elsewhere")
    assert_falls_back(run_dir, f"step-{BAD:012d}")


def test_when_none_is_good_each_is_named_and_nothing_starts_afresh(saved, tmp_path):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    (run_dir / f"checkpoints/step-{GOOD:012d}/state.json").unlink()
    damaged_file(run_dir, "tensors.safetensors").write_bytes(b"")
    with pytest.raises(NoValidCheckpoint) as caught:
        Checkpoints(run_dir, RUN, None).newest_good()
    line = str(caught.value)
    assert f"step-{GOOD:012d}/state.json: missing" in line
    assert f"step-{BAD:012d}/tensors.safetensors: has 0 bytes" in line
    assert caught.value.exit_code == 4
    assert "\n" not in line


# -- a manifest that verifies but lies: its hash is no signature, so whoever writes the folder can write one -----------


def forge(run_dir: Path, change: Callable[[dict], object]) -> None:
    fields = dict(read_manifest(Folder(run_dir), BAD, RUN).fields)
    del fields["sha256"]
    change(fields)
    damaged_file(run_dir, "MANIFEST.json").write_bytes(manifest_bytes(fields))


LIES = {
    "path in a segment": lambda f: f["segments"][0].update(sha256="../../../../etc/passwd"),
    "segment hash too long": lambda f: f["segments"][0].update(sha256="0" * 65),
    "another file": lambda f: f["files"].update({"../../x": {"size": 0, "sha256": "0" * 64}}),
    "file missing": lambda f: f["files"].pop("state.json"),
    "files not an object": lambda f: f.update(files=[]),
    "negative size": lambda f: f["files"]["state.json"].update(size=-1),
    "size not a number": lambda f: f["files"]["state.json"].update(size="1"),
    "step is a bool": lambda f: f.update(step=True),
    "no version": lambda f: f.pop("version"),
    "segments too few": lambda f: f["segments"].pop(),
    "meta not an object": lambda f: f.update(meta=3),
    "state hash": lambda f: f.update(state_hash="x"),
    "parent": lambda f: f.update(parent="x"),
    "a count that the store cannot keep": lambda f: f.update(env_steps=2**63),
    "a count that is none": lambda f: f.update(epoch="x"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_forged_manifest_is_refused(saved, tmp_path, lie):
    run_dir = tmp_path / "run"
    shutil.copytree(saved, run_dir)
    forge(run_dir, LIES[lie])
    assert_falls_back(run_dir, f"step-{BAD:012d}")


def relink(fields: dict, digest: str, written: dict) -> None:
    """Another file in place of a segment, and the chain computed again."""
    before = None
    for entry in fields["segments"]:
        entry.update(written if entry["sha256"] == digest else {})
        before = linked(SegmentRef(entry["name"], entry["size"], entry["sha256"]), before)
        entry.update(after=before.after, link=before.link)


class Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("rehashed", [False, True])
@pytest.mark.parametrize("name", [*FILES, "segment"])
def test_a_pickle_in_any_slot_is_refused_and_never_runs(saved, tmp_path, name, rehashed):
    """Also where the attacker corrected the hashes around it."""
    run_dir, canary = tmp_path / "run", tmp_path / "canary"
    shutil.copytree(saved, run_dir)
    file = damaged_file(run_dir, name)
    data = pickle.dumps(Canary(canary))
    if rehashed and name != "MANIFEST.json":
        written = {"size": len(data), "sha256": sha256(data).hexdigest()}
        if name == "segment":
            digest = file.stem
            forge(run_dir, lambda f: relink(f, digest, written))
            file = file.with_name(f"{written['sha256']}.safetensors")
        else:
            forge(run_dir, lambda f: f["files"].update({name: written}))
    file.write_bytes(data)
    if rehashed and name == "segment":  # verified as a block of bytes, refused when it is read
        (*_, newest) = Checkpoints(run_dir, RUN, None).newest_good().loaded.content["trainer_state"]["replay"]
        with pytest.raises(CheckpointError, match=file.name):
            newest.columns()
    else:
        assert_falls_back(run_dir, file.name)
    assert not canary.exists()
    pickle.loads(data)
    assert canary.exists()  # the canary sings when it is let out
