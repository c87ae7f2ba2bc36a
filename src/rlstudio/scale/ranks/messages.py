"""A `State` as bytes, for another rank: the parts of a checkpoint file, so nothing in it can run code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from io import BytesIO

import numpy as np

from rlstudio.core.contracts import Segment, State
from rlstudio.storage.safetensors_file import read_tensors, write_tensors
from rlstudio.storage.state_tree import Tree, flatten, rebuild, to_bytes

LABEL = "a message between ranks"

Columns = Callable[[str], dict[str, np.ndarray]]


def encode(state: Mapping[str, object]) -> bytes:
    """Segments travel by their names alone."""
    tree = flatten(state)
    text = to_bytes({"state": tree.json, "segments": [segment.name for segment in tree.segments]})
    sink = BytesIO()
    sink.write(len(text).to_bytes(8, "little") + text)
    write_tensors(sink, tree.tensors)
    return sink.getvalue()


def encode_whole(state: Mapping[str, object]) -> bytes:
    """With the columns of its segments."""
    columns = {segment.name: segment.columns() for segment in flatten(state).segments}
    return encode({"state": state, "columns": columns})


def decode_whole(data: bytes) -> State:
    columns: dict[str, dict[str, np.ndarray]] = {}
    content = decode(data, columns.__getitem__)
    columns.update(content["columns"])
    state: State = content["state"]
    return state


def decode(data: bytes, columns: Columns | None = None, prefix: str = "") -> State:
    """`columns` gives those of a segment, whenever they are asked for; `prefix` comes before the names of segments."""
    size = int.from_bytes(data[:8], "little")
    message = json.loads(data[8 : 8 + size])
    tensors = read_tensors(BytesIO(data[8 + size :]), LABEL)
    segments = [Segment(prefix + name, partial(columns or _absent, name)) for name in message["segments"]]
    return rebuild(Tree(message["state"], tensors, segments), LABEL)


def segments_of(state: Mapping[str, object]) -> dict[str, Segment]:
    """Every segment of a state, by its name."""
    return {segment.name: segment for segment in flatten(state).segments}


def _absent(name: str) -> dict[str, np.ndarray]:
    raise ValueError(f"{LABEL}: it brings no segment {name}")
