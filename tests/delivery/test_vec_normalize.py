"""The statistics of VecNormalize: those that Stable-Baselines3 saved, and not one byte of a pickle is executed.

The golden file is written by tests/golden/sb3/make.py with Stable-Baselines3 itself, which these tests do not need.
"""

from __future__ import annotations

import json
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstudio.core.errors import Incompatible, UserError
from rlstudio.delivery.sb3.importer import import_sb3
from rlstudio.delivery.sb3.vec_normalize import read_vec_normalize
from rlstudio.delivery.sb3.zip_archive import BadArchive

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3" / "normalized"
SAVED = (GOLDEN / "ppo_pendulum.pkl").read_bytes()


class Canary:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return open, (self.path, "w")


def changed(tmp_path: Path, old: bytes, new: bytes) -> Path:
    """The golden file with one value changed in place."""
    assert SAVED.count(old) == 1
    file = tmp_path / "changed.pkl"
    file.write_bytes(SAVED.replace(old, new))
    return file


def number(name: str, value: float) -> bytes:
    """How the pickle says `name: value`."""
    text = name.encode()
    return b"\x8c" + bytes([len(text)]) + text + b"\x94G" + np.float64(value).byteswap().tobytes()


def test_they_are_what_was_saved() -> None:
    known = json.loads((GOLDEN / "ppo_pendulum.statistics.json").read_text())
    read = read_vec_normalize(GOLDEN / "ppo_pendulum.pkl")
    assert read.observations is not None
    assert read.returns is not None
    for name, moments in {"observations": read.observations, "returns": read.returns}.items():
        assert np.array_equal(moments.mean, known[name]["mean"])
        assert np.array_equal(moments.variance, known[name]["var"])
        assert moments.count == known[name]["count"]


def test_a_normalized_policy_acts_as_stable_baselines_did(tmp_path: Path) -> None:
    """On raw observations: the normalizer is part of the Model."""
    golden = json.loads((GOLDEN / "ppo_pendulum.json").read_text())
    file = GOLDEN / "ppo_pendulum.zip"
    bundle = import_sb3(
        file, tmp_path / "b", env_id=golden["env"], formats=("bundle",), vec_normalize=file.with_suffix(".pkl")
    )
    actions = bundle.policy().act(np.asarray(golden["observations"], np.float32))
    assert np.abs(actions - np.asarray(golden["actions"])).max() < 1e-5
    assert bundle.spec.reward_scale == pytest.approx(np.sqrt(12907.025445816751))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_does_something_is_never_run(tmp_path: Path, protocol: int) -> None:
    canary = tmp_path / "canary"
    for hostile in (Canary(canary), {"obs_rms": Canary(canary)}, [1, Canary(canary)]):
        file = tmp_path / "hostile.pkl"
        file.write_bytes(pickle.dumps(hostile, protocol))
        with pytest.raises(BadArchive, match=r"hostile\.pkl: holds the name .* it was not executed"):
            read_vec_normalize(file)
    assert not canary.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # protocol 0
        b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x04\x8c\x0bnumpy.sneak\x8c\x01x\x93\x82\x01.",  # an extension code
        b"\x80\x02P1\n.",  # a persistent id
        b"\x80\x04N\x94j\x00\x00\x00\x00Q.",
        b"\x80\x04}b.",  # attributes of a dict
        b"\x80\x04]\x94K\x01\x85R.",  # a call of a tuple
        b"\x80\x06N.",
        b"",
        b"not a pickle",
    ],
)
def test_other_instructions_end_the_reading(tmp_path: Path, stream: bytes) -> None:
    file = tmp_path / "hostile.pkl"
    file.write_bytes(stream)
    with pytest.raises(BadArchive, match=r"hostile\.pkl: "):
        read_vec_normalize(file)


def test_a_flipped_byte_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    file = tmp_path / "flipped.pkl"
    for position in range(0, len(SAVED), 11):
        data = bytearray(SAVED)
        data[position] ^= 0xFF
        file.write_bytes(data)
        try:
            read = read_vec_normalize(file)
        except UserError:
            continue
        for moments in (read.observations, read.returns):
            assert moments is None or np.isfinite(moments.mean).all()


def test_it_was_saved_by_an_instruction_set_that_is_known() -> None:
    """The file is not refused by luck: it has calls and attributes, which a reader of tensors alone would refuse."""
    codes = {code.name for code, _, _ in pickletools.genops(SAVED)}
    assert {"STACK_GLOBAL", "REDUCE", "NEWOBJ", "BUILD"} <= codes


def test_what_cannot_be_mapped_is_named_by_file_and_field(tmp_path: Path) -> None:
    clipped = changed(tmp_path, number("clip_obs", 10.0), number("clip_obs", 5.0))
    with pytest.raises(Incompatible, match=r"changed\.pkl: clip_obs: is 5, the normalizer here clips to 10; train it"):
        read_vec_normalize(clipped)
    infinite = changed(tmp_path, number("epsilon", 1e-8), number("epsilon", float("inf")))
    with pytest.raises(BadArchive, match=r"changed\.pkl: epsilon: is inf"):
        read_vec_normalize(infinite)
    with pytest.raises(BadArchive, match=r"nothing\.pkl: No such file"):
        read_vec_normalize(tmp_path / "nothing.pkl")
    (tmp_path / "numbers.pkl").write_bytes(pickle.dumps({"obs_rms": 1.0}))
    with pytest.raises(BadArchive, match=r"numbers\.pkl: is not a file of VecNormalize\.save; give the one"):
        read_vec_normalize(tmp_path / "numbers.pkl")


def test_statistics_of_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        Incompatible, match=r"ppo_pendulum\.pkl: obs_rms: has statistics of 3 numbers, .* takes 4; give"
    ):
        import_sb3(
            GOLDEN.parent / "ppo_cartpole.zip",
            tmp_path / "b",
            env_id="CartPole-v1",
            formats=("bundle",),
            vec_normalize=GOLDEN / "ppo_pendulum.pkl",
        )
    assert list(tmp_path.iterdir()) == []
