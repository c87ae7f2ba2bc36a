"""Sinks for tests of how they are fed, and a reader of W&B's offline files."""

from __future__ import annotations

import errno
import json
import os
import struct
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.experiment.metrics.records import Record

GOT = "got.jsonl"
BLOCK = 32768
SILENT_SERVER = "RLSTUDIO_TEST_SILENT_SERVER"


class Kept:
    """Appends what it gets to a file, and can take nothing back, like the tools of others."""

    append_only = True

    def __init__(self, cfg: SinkConfig, run_dir: Path) -> None:
        self.file = run_dir / "artifacts" / GOT
        self.is_new = not self.file.exists()
        self.file.touch()
        self.attempt = 0

    def describe(self, run: Any, attempt: int) -> None:
        self.attempt = attempt

    def write(self, records: Sequence[Record]) -> None:
        with self.file.open("a") as file:
            file.writelines(json.dumps([record.step, record.value, self.attempt]) + "\n" for record in records)

    def flush(self) -> None: ...

    def offset(self) -> int:
        return 0

    def cut_back(self, offset: int) -> int:
        raise AssertionError("it cannot")

    def finish(self, run: Any) -> None: ...

    def close(self) -> None: ...


class FullDisk(Kept):
    def write(self, records: Sequence[Record]) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Gone(Kept):
    def __init__(self, cfg: SinkConfig, run_dir: Path) -> None:
        raise ConnectionRefusedError("nobody answers at http://user:geheim@127.0.0.1:9")


class Silent(Kept):
    """Asks a server, and waits for its answer."""

    def __init__(self, cfg: SinkConfig, run_dir: Path) -> None:
        urllib.request.urlopen(os.environ[SILENT_SERVER])


TOYS = {
    "kept": "support.sink_toys:Kept",
    "full": "support.sink_toys:FullDisk",
    "gone": "support.sink_toys:Gone",
    "silent": "support.sink_toys:Silent",
}


def got(run_dir: Path) -> list[tuple[int, float, int]]:
    """Step, value and attempt of what `Kept` has."""
    return [tuple(json.loads(line)) for line in (run_dir / "artifacts" / GOT).read_text().splitlines()]


def wandb_records(path: Path) -> Iterator[Any]:
    """The records of a `.wandb` file: LevelDB's log format behind a header of 7 bytes."""
    from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:  # the rest of a block in which no header fits
            at += BLOCK - at % BLOCK
            continue
        length, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # full, or the last piece
            yield WandbRecord.FromString(whole)
            whole = b""
