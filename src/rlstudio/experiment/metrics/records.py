"""One metric as one JSON line, `{ts, step, key, value, tags, crc}`, and the files of a run that hold them.

`crc` is the CRC-32 of the line before it, so that a flipped bit is noticed; lines of older files have none.

A file that would grow over `rotate_mb` becomes `metrics-0001.jsonl`, `metrics-0002.jsonl`, ... JSON has no NaN or
infinity: such a value is written as null with the tag `nan`, `inf` or `-inf`, and read back as what it was. Values that
depend on the clock carry the tag `clock` and are outside every promise of reproducibility.
"""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import decode, encode

CURRENT = "metrics.jsonl"
CLOCK = "clock"
_CRC, _END = b',"crc":"', b'"}\n'
_FIELDS = frozenset({"ts", "step", "key", "value", "tags"})
_FULL = re.compile(r"metrics-(\d{4,})\.jsonl")
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Record(NamedTuple):
    ts: float
    step: int
    key: str
    value: float
    tags: tuple[str, ...] = ()


def records(
    step: int, values: Mapping[str, float], tags: Sequence[str] = (), clock: Callable[[], float] = time.time
) -> list[Record]:
    """One record per value, all of this moment."""
    now = round(clock(), 3)
    return [Record(now, step, key, float(value), tuple(tags)) for key, value in values.items()]


def metric_files(folder: Folder) -> list[str]:
    """The run's metric files, oldest first."""
    names = [name for _, name in full_files(folder)]
    return [*names, CURRENT] if folder.kind(CURRENT) == "file" else names


def full_files(folder: Folder) -> list[tuple[int, str]]:
    matches = (_FULL.fullmatch(name) for name in folder.names())
    return sorted((int(match[1]), match[0]) for match in matches if match)


def to_line(record: Record) -> bytes:
    value: float | None = record.value
    tags = list(record.tags)
    if not math.isfinite(record.value):
        value = None
        tags.append(repr(record.value))
    line = encode({"ts": record.ts, "step": record.step, "key": record.key, "value": value, "tags": tags})
    above = line.removesuffix(b"}\n")
    return above + _CRC + _checksum(above) + _END


def _checksum(above: bytes) -> bytes:
    return f"{zlib.crc32(above):08x}".encode()


def from_line(line: bytes) -> Record | None:
    """The record of a whole line; None for one that is damaged."""
    above, mark, rest = line.rpartition(_CRC)
    if mark:
        if rest != _checksum(above) + _END:
            return None
        line = above + b"}\n"
    value = next(iter(decode([line])), None)
    if value is None or value.keys() != _FIELDS:  # also a line whose `crc` is no longer called so
        return None
    try:
        return from_json(value)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def from_json(value: Mapping[str, Any]) -> Record:
    number, tags = value["value"], [str(tag) for tag in value["tags"]]
    if number is None:
        number = NOT_FINITE[tags.pop()]
    return Record(float(value["ts"]), int(value["step"]), str(value["key"]), float(number), tuple(tags))
