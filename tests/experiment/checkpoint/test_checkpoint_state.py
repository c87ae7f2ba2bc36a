"""States come back exactly; what cannot is refused by its path."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.core.contracts import Segment
from rlstudio.core.errors import CheckpointError
from rlstudio.experiment.checkpoint.state_hash import SECTIONS, state_hash
from rlstudio.storage.state_tree import Tree, flatten, rebuild, to_bytes
from support.examples import examples

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([np.arange(3), np.float32(1.5), np.zeros((0, 2)), np.array(7), np.array([True, False])])
)
KEYS = st.sampled_from(["a", "b", "a/b", "~", "$tensor", "$dict", "", "0", "ü"])
STATES = st.dictionaries(
    KEYS,
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)


def through_disk(state):
    tree = flatten(state)
    return rebuild(Tree(json.loads(to_bytes(tree.json)), tree.tensors, tree.segments), "file")


def same(one, other) -> bool:
    if isinstance(one, np.ndarray | np.generic):
        one = np.asarray(one)
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


@examples(300)
@given(STATES)
def test_round_trip_is_exact(state):
    assert same(state, through_disk(state))


def test_torch_tensors_come_back_as_arrays():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3).t().requires_grad_()
    back = through_disk({"w": tensor, "n": torch.tensor(3)})
    assert back["w"].tolist() == tensor.tolist()
    assert back["n"].shape == ()
    with pytest.raises(TypeError, match=r"a/0: torch.bfloat16"):
        flatten({"a": [torch.zeros(2, dtype=torch.bfloat16)]})


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": [{"b": {1, 2}}]}, "a/0/b: a set"),
        ({"a": b"x"}, "a: a bytes"),
        ({"a": {1: 2}}, "a: the key 1"),
        ({"a": lambda: 0}, "a: a function"),
        ({"a": 1j}, "a: a complex"),
    ],
)
def test_what_cannot_be_stored_is_named(state, words):
    with pytest.raises(TypeError, match=words):
        flatten(state)


@pytest.mark.parametrize(
    "value",
    [
        {"$tensor": "nope"},
        {"$tensor": 3},
        {"$tensor": []},
        {"$segment": 0},
        {"$segment": -1},
        {"$segment": True},
        {"$float": "1e9"},
        {"$float": []},
        {"$tuple": {"a": 1}},
        {"$dict": [1]},
        {"$other": 1},
        {"$tensor": "a", "b": 1},
        [{"$tensor": "t"}, {"$tensor": "t"}],
    ],
)
def test_a_malformed_tree_is_refused(value):
    with pytest.raises(CheckpointError, match=r"^file: "):
        rebuild(Tree(value, {"t": np.zeros(1)}, []), "file")


def test_a_tensor_without_a_place_is_refused():
    with pytest.raises(CheckpointError, match="'t' is not used by the state"):
        rebuild(Tree({}, {"t": np.zeros(1)}, []), "file")


def content(**changes):
    rows = np.arange(8, dtype=np.float32)
    return {
        "version": 1,
        "module_state": {"w": np.ones((2, 2))},
        "trainer_state": {"lr": 0.1, "rows": [Segment("rows-0", lambda: {"x": rows})]},
        "replay_meta": {"size": 8},
        "rng_state": {"seed": 1},
        "meta": {"anything": 1},
        **changes,
    }


def test_the_state_hash_sees_everything_but_meta_and_segment_names():
    base = state_hash(content())
    assert state_hash(content()) == base
    assert state_hash(content(meta={"anything": 2})) == base
    rows = np.arange(8, dtype=np.float32)
    renamed = {"lr": 0.1, "rows": [Segment("other", lambda: {"x": rows})]}
    assert state_hash(content(trainer_state=renamed)) == base
    other_rows = {"lr": 0.1, "rows": [Segment("rows-0", lambda: {"x": rows + 1})]}
    changed = [
        content(module_state={"w": np.ones((4,))}),
        content(module_state={"w": np.ones((2, 2), np.float32)}),
        content(module_state={"v": np.ones((2, 2))}),
        content(module_state={"w": -np.ones((2, 2))}),
        content(trainer_state=other_rows),
        content(trainer_state={"lr": math.nextafter(0.1, 1), "rows": [Segment("rows-0", lambda: {"x": rows})]}),
        content(trainer_state={"lr": 0.1, "rows": []}),
        content(replay_meta={"size": 9}),
        content(rng_state={"seed": 1.0}),
    ]
    hashes = {state_hash(one) for one in changed}
    assert len(hashes) == len(changed)
    assert base not in hashes


def test_the_state_hash_tells_signed_zero_and_every_bit():
    assert state_hash(content(replay_meta={"x": 0.0})) != state_hash(content(replay_meta={"x": -0.0}))
    array = np.zeros(4)
    before = state_hash(content(module_state={"w": array}))
    for bit in range(0, 256, 17):
        flipped = array.copy()
        flipped.view(np.uint8)[bit // 8] ^= 1 << bit % 8
        assert state_hash(content(module_state={"w": flipped})) != before


@pytest.mark.parametrize("section", [*SECTIONS, "meta"])
def test_a_missing_section_is_refused(section):
    incomplete = content()
    del incomplete[section]
    with pytest.raises(ValueError, match=section):
        state_hash(incomplete)
