"""MANIFEST.json: what a checkpoint consists of, with the sha256 of every part and, as its last line, of itself.

The file is ordinary JSON, but the last line is checked against the bytes above it before anything is parsed. The hash
is not a signature: a program that can write the folder can write a manifest, so each field is checked again after
parsing and no name in it is ever used as a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypedDict, cast

from rlstudio.core.errors import CheckpointError, StorageError
from rlstudio.storage.folder import Folder
from rlstudio.storage.seal import sealed, unsealed
from rlstudio.storage.state_tree import Tree, rebuild
from rlstudio.storage.verified import MANIFEST, hex_digest, plain_text, whole_number, written
from rlstudio.storage.writers import Written

VERSION = 2  # for the schema of the content and for this file
TENSORS, STATE = "tensors.safetensors", "state.json"
FILES = (TENSORS, STATE)
LARGEST_JSON = 32 << 20
"""Bytes of a manifest, or of the JSON of a state: 60,000 segments take 13 MB, and many times that when parsed."""

ADDED: dict[int, Mapping[str, object]] = {2: {"origin": None, "rlstudio": ""}}
"""Fields that a version added to this file, and what stands for each where an older one lacks it."""

OWN = frozenset(
    {"version", "run_id", "step", "token", "files", "segments", "state_hash", "parent", "meta", "sha256"}
).union(*ADDED.values())

COUNTS = ("env_steps", "gradient_steps", "epoch")
"""What the session stored of how far the run was."""

_STEP_FOLDER = re.compile(r"step-(\d{12,})")


class Meta(TypedDict, total=False):
    """What is said of a state without being part of it."""

    created_at: str
    run_id: str
    metrics: dict[str, int]  # where each sink stood
    guardrails: dict[str, Any]  # what they have seen so far; it decides nothing but whether they find something
    unjudged: bool  # the evaluation of its epoch was interrupted, and comes before the next step


class TooNew(CheckpointError):
    """Written by a newer RLStudio. Nothing is damaged, so an older checkpoint is not taken instead."""


@dataclass(frozen=True)
class SegmentRef:
    """A segment as a checkpoint refers to it: its name in the run, and the file that holds it. `link` is its place in
    the chain of the segments of one buffer, `after` that of the one before it: the newest link stands for all segments
    that there ever were, in their order. Both are empty in checkpoints from before there was a chain."""

    name: str
    size: int
    sha256: str
    after: str = ""
    link: str = ""

    @property
    def file(self) -> str:
        return segment_file(self.sha256)

    def follows(self, other: SegmentRef) -> bool:
        """Whether both are of one buffer, and this one is newer."""
        return self.name.partition("rows-")[0] == other.name.partition("rows-")[0] and self.name > other.name


def linked(ref: SegmentRef, before: SegmentRef | None) -> SegmentRef:
    """A new segment at the end of the chain: behind the one before it in the list, if that is of the same buffer."""
    after = before.link if before is not None and ref.follows(before) else ""
    return replace(ref, after=after, link=_link(ref, after))


def _link(ref: SegmentRef, after: str) -> str:
    return sha256(f"{after}\n{ref.name}\n{ref.sha256}".encode()).hexdigest()


def _check_chain(refs: Sequence[SegmentRef], label: str) -> None:
    """That no segment was left out, changed or moved. Behind segments of older checkpoints it begins anew."""
    before: SegmentRef | None = None
    for ref in refs:
        is_next = before is not None and before.link and ref.follows(before)
        after = before.link if is_next and before is not None else ref.after
        if ref.link and (ref.after != after or ref.link != _link(ref, after)):
            raise CheckpointError(f"{label}: segments: {ref.name} does not follow the one before it in their chain")
        before = ref


@dataclass(frozen=True)
class Origin:
    """The checkpoint of another run that this run's state began with."""

    run_id: str
    step: int
    manifest_sha256: str
    state_hash: str


@dataclass(frozen=True)
class CheckpointInfo:
    """What the manifest says. `fields` holds all of it, also what the session stored (epoch, topology, ...)."""

    step: int
    version: int
    run_id: str
    token: int
    state_hash: str
    parent: str | None
    origin: Origin | None  # only for a forked run
    rlstudio: str  # the version that wrote it; empty where it is older than this field
    files: Mapping[str, Written]
    segments: tuple[SegmentRef, ...]
    meta: Meta
    sha256: str  # the manifest's own
    fields: Mapping[str, object]

    @property
    def epoch(self) -> int:
        if "epoch" not in self.fields:
            raise CheckpointError(f"{folder_name(self.step)}/{MANIFEST}: does not say which epoch it is of")
        return whole_number(self.fields["epoch"])

    @property
    def topology(self) -> Mapping[str, object] | None:
        """What it was computed on; None where that is not recorded."""
        topology = self.fields.get("topology")
        return topology if isinstance(topology, Mapping) else None


def folder_name(step: int) -> str:
    return f"checkpoints/step-{step:012d}"


def segment_file(digest: str) -> str:
    return f"segments/{digest}.safetensors"


def checkpoint_steps(folder: Folder) -> list[int]:
    """Every step that has a folder, newest first, good or not."""
    names = folder.names("checkpoints")
    steps = [int(match[1]) for match in map(_STEP_FOLDER.fullmatch, names) if match]
    # Another name for the same step (with more zeros) is none of ours.
    return sorted({step for step in steps if folder_name(step).rpartition("/")[2] in names}, reverse=True)


def read_manifests(folder: Folder, run_id: str) -> list[CheckpointInfo]:
    """What the manifests say, newest first. The data itself is not read; unreadable ones are left out."""
    infos = []
    for step in checkpoint_steps(folder):
        try:
            infos.append(read_manifest(folder, step, run_id))
        except CheckpointError:
            continue
    return infos


def manifest_bytes(fields: Mapping[str, object]) -> bytes:
    """The manifest as it lies on the disk."""
    return sealed(fields)


def read_manifest(folder: Folder, step: int, run_id: str) -> CheckpointInfo:
    """The manifest of one checkpoint, verified; CheckpointError names the file and the reason."""
    name = f"{folder_name(step)}/{MANIFEST}"
    try:
        data = folder.read(name, limit=LARGEST_JSON)
    except StorageError as error:
        raise CheckpointError(str(error)) from error
    if data is None:
        raise CheckpointError(f"{name}: missing")
    value = unsealed(data, name)
    try:
        info = _parse(value, name)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{name}: not a manifest: {type(error).__name__} {error}") from error
    if info.step != step:
        raise CheckpointError(f"{name}: is the manifest of step {info.step}, not of {step}")
    if info.run_id != run_id:
        raise CheckpointError(f"{name}: belongs to the run {info.run_id!r}, not to {run_id!r}")
    return info


def _parse(value: object, label: str) -> CheckpointInfo:
    fields: dict[str, Any] = rebuild(Tree(value, {}, []), label)
    version = whole_number(fields["version"])
    if version > VERSION:
        raise TooNew(f"{label}: version {version}, this RLStudio reads up to {VERSION}; upgrade it to resume this run")
    for later in range(version + 1, VERSION + 1):
        fields |= ADDED.get(later, {})
    files = {name: written(fields["files"][name]) for name in FILES}
    segments = tuple(_segment(entry) for entry in fields["segments"])
    _check_chain(segments, label)
    if set(fields["files"]) != set(FILES):
        raise ValueError(f"unexpected files {sorted(fields['files'])}")
    if (size := files[STATE].size) > LARGEST_JSON:
        raise CheckpointError(f"{label}: {STATE} has {size:,} bytes, at most {LARGEST_JSON:,} are read")
    for name in fields.keys() & {*COUNTS}:
        whole_number(fields[name])
    parent = fields["parent"]
    return CheckpointInfo(
        step=whole_number(fields["step"]),
        version=version,
        run_id=plain_text(fields["run_id"]),
        token=whole_number(fields["token"]),
        state_hash=hex_digest(fields["state_hash"]),
        parent=None if parent is None else hex_digest(parent),
        origin=None if fields["origin"] is None else _origin(fields["origin"]),
        rlstudio=plain_text(fields["rlstudio"]),
        files=files,
        segments=segments,
        meta=_meta(fields["meta"]),
        sha256=hex_digest(fields["sha256"]),
        fields=fields,
    )


def _meta(entry: Mapping[str, Any]) -> Meta:
    meta = dict(entry)
    for position in dict(meta.get("metrics", {})).values():
        whole_number(position)
    return cast(Meta, meta)


def _segment(entry: Mapping[str, object]) -> SegmentRef:
    size, digest = written(entry)
    after, link = (hex_digest(entry[key]) if entry.get(key) else "" for key in ("after", "link"))
    return SegmentRef(plain_text(entry["name"]), size, digest, after, link)


def _origin(entry: Mapping[str, object]) -> Origin:
    hashes = hex_digest(entry["manifest_sha256"]), hex_digest(entry["state_hash"])
    return Origin(plain_text(entry["run_id"]), whole_number(entry["step"]), *hashes)
