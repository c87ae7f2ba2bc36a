"""The tensor file: compatible with the safetensors library both ways, and closed to every malformed header."""

import contextlib
import io
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load, save

from rlstudio.core.errors import CheckpointError
from rlstudio.storage.safetensors_file import DTYPES, read_tensors, write_tensors
from support.examples import examples

ARRAYS = hnp.arrays(
    dtype=st.sampled_from(sorted(DTYPES.values(), key=str)), shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)
)
TENSORS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=5
)


def written(tensors) -> bytes:
    sink = io.BytesIO()
    write_tensors(sink, tensors)
    return sink.getvalue()


def read(data: bytes):
    return read_tensors(io.BytesIO(data), "file")


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.shape == other[name].shape
        assert array.tobytes() == other[name].tobytes()


@examples(150)
@given(TENSORS)
def test_round_trip_and_library_reads_ours(tensors):
    data = written(tensors)
    assert_same(read(data), tensors)
    assert_same(load(data), tensors)
    assert written(dict(reversed(tensors.items()))) == data


@examples(150)
@given(TENSORS)
def test_ours_reads_the_librarys(tensors):
    assert_same(read(save(tensors, metadata={"made": "there"})), tensors)


def test_arrays_are_aligned_so_that_the_library_can_map_them(tmp_path):
    path = tmp_path / "t.safetensors"
    tensors = {"a": np.ones(3, bool), "b": np.arange(3.0), "c": np.arange(5, dtype=np.int16)}
    path.write_bytes(written(tensors))
    with safe_open(path, framework="pt") as file:
        for name, array in tensors.items():
            assert file.get_tensor(name).numpy().tobytes() == array.tobytes()


def test_loaded_arrays_are_writable_copies():
    array = read(written({"a": np.zeros(3)}))["a"]
    array += 1
    assert array.flags.owndata or array.base is not None


def test_strides_and_byte_order_do_not_matter():
    array = np.arange(12.0).reshape(3, 4)
    plain = written({"a": np.ascontiguousarray(array.T)})
    assert written({"a": array.T}) == plain
    assert written({"a": array.T.astype(">f8")}) == plain


@pytest.mark.parametrize("array", [np.array([object()]), np.array(["a"]), np.array([1j]), np.array([(1,)], "i4,")])
def test_other_dtypes_are_refused(array):
    with pytest.raises(TypeError, match="cannot be stored"):
        written({"a": array})


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def file_of(header, data=b"\0" * 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


BAD = {
    "empty file": b"",
    "short": b"\0" * 7,
    "header beyond file": (10**6).to_bytes(8, "little") + b"{}",
    "huge header": (2**63).to_bytes(8, "little") + b"{}",
    "not json": file_of(b"{"),
    "not utf-8": file_of(b"\xff\xfe"),
    "not an object": file_of([]),
    "deep": file_of(b"[" * 100_000),
    "duplicate": file_of(b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2)),
    "overlap": file_of({"a": entry(), "b": entry(offsets=(4, 12))}, b"\0" * 12),
    "gap": file_of({"a": entry(), "b": entry(offsets=(12, 20))}, b"\0" * 20),
    "trailing data": file_of({"a": entry()}, b"\0" * 9),
    "missing data": file_of({"a": entry()}, b"\0" * 7),
    "does not start at zero": file_of({"a": entry(offsets=(4, 12))}, b"\0" * 12),
    "reversed": file_of({"a": entry(offsets=(8, 0))}),
    "negative offset": file_of({"a": entry(offsets=(-8, 0))}),
    "negative shape": file_of({"a": entry(shape=(-1, -2))}),
    "huge shape": file_of({"a": entry(shape=(2**40, 2**40))}),
    "huge shape without a byte": file_of({"a": entry(shape=(0, 2**62), offsets=(0, 0))}, b""),
    "shape of bool": file_of({"a": entry(shape=(True, 2))}),
    "shape of float": file_of({"a": entry(shape=(2.0,))}),
    "too many dimensions": file_of({"a": entry(shape=[1] * 40 + [2])}),
    "wrong dtype": file_of({"a": entry(dtype="F64")}),
    "unknown dtype": file_of({"a": entry(dtype="O")}),
    "dtype not text": file_of({"a": entry(dtype=["F32"])}),
    "field missing": file_of({"a": {"dtype": "F32", "shape": [2]}}),
    "extra field": file_of({"a": entry() | {"pickle": "x"}}),
    "entry not an object": file_of({"a": 3}),
    "metadata not text": file_of({"a": entry(), "__metadata__": {"x": 1}}),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_refused_by_name_without_allocating(case):
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=r"^file: "):
            read(BAD[case])
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()


@examples(200)
@given(st.binary(max_size=200), st.binary(max_size=20))
def test_random_bytes_never_crash(header, data):
    for bytes_ in (header + data, file_of(header, data)):
        with contextlib.suppress(CheckpointError):
            read(bytes_)
