"""Policies of Stable-Baselines3: the same actions as its `predict`, and not one byte of theirs is executed.

The golden files are written by tests/golden/sb3/make.py with Stable-Baselines3 itself, which these tests do not need.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rlstudio.core.errors import Incompatible, UserError
from rlstudio.delivery.bundle import open_bundle
from rlstudio.delivery.sb3 import zip_archive
from rlstudio.delivery.sb3.importer import import_sb3
from rlstudio.delivery.sb3.torch_archive import read_torch_archive
from rlstudio.delivery.sb3.zip_archive import Archive, BadArchive
from rlstudio.experiment.judging.evaluate import evaluate
from support.export_toys import quick_registry

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.zip"))


def golden_outputs(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def test_every_algorithm_is_here():
    assert {name.split("_")[0] for name in NAMES} == {"ppo", "a2c", "dqn", "sac", "td3"}
    assert all(path.stat().st_size < 150_000 for path in GOLDEN.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_it_acts_as_stable_baselines_did(name, tmp_path):
    golden = golden_outputs(name)
    bundle = import_sb3(GOLDEN / f"{name}.zip", tmp_path / "b", env_id=golden["env"], formats=("bundle",))
    observations = np.asarray(golden["observations"], np.float32)
    actions, expected = bundle.policy().act(observations), np.asarray(golden["actions"])
    assert len(expected) >= 200
    assert bundle.spec.algo == name.split("_")[0]
    assert bundle.spec.origin.kind == "sb3"
    if actions.dtype.kind == "i":
        assert np.array_equal(actions, expected)
    else:
        assert np.abs(actions - expected).max() < 1e-5


def test_it_is_a_bundle_like_any_other(tmp_path):
    with quick_registry():
        bundle = import_sb3(GOLDEN / "ppo_cartpole.zip", tmp_path / "b", env_id="CartPole-v1")
    again = open_bundle(tmp_path / "b")
    assert again == bundle
    assert again.policy().acting == "onnx"
    golden = golden_outputs("ppo_cartpole")
    observations = np.asarray(golden["observations"], np.float32)
    assert again.policy().act(observations).tolist() == golden["actions"]
    assert evaluate(again.policy(), again.experiment().env, episodes=2, seed=0).returns


def test_without_an_environment(tmp_path):
    bundle = import_sb3(GOLDEN / "dqn_cartpole.zip", tmp_path / "b", formats=("bundle",))
    golden = golden_outputs("dqn_cartpole")
    assert bundle.agent().act(np.asarray(golden["observations"], np.float32)).tolist() == golden["actions"]
    with pytest.raises(UserError, match="--env"):
        bundle.experiment()
    for name in ("ppo_pendulum", "sac_pendulum", "td3_pendulum"):
        with pytest.raises(Incompatible, match="--env"):
            import_sb3(GOLDEN / f"{name}.zip", tmp_path / "c", formats=("bundle",))


def test_the_activation(tmp_path):
    """Read where it stands as text (A2C's golden file says ReLU), the algorithm's own elsewhere, or as asked."""
    relu = import_sb3(GOLDEN / "a2c_acrobot.zip", tmp_path / "a", env_id="Acrobot-v1", formats=("bundle",))
    assert relu.spec.model.network.activation == "relu"
    usual = import_sb3(GOLDEN / "ppo_cartpole.zip", tmp_path / "b", formats=("bundle",))
    assert usual.spec.model.network.activation == "tanh"
    asked = import_sb3(GOLDEN / "ppo_cartpole.zip", tmp_path / "c", activation="relu", formats=("bundle",))
    assert asked.spec.model.network.activation == "relu"


@pytest.mark.parametrize(
    ("name", "env", "said"),
    [
        ("ppo_cartpole", "Pendulum-v1", "takes 4 numbers, Pendulum-v1 shows"),
        ("ppo_cartpole", "MountainCar-v0", "takes 4 numbers"),
        ("ppo_pendulum", "MountainCar-v0", "takes 3 numbers"),
        ("dqn_cartpole", "NoSuch-v0", "NoSuch-v0"),
    ],
)
def test_another_environment_is_refused(name, env, said, tmp_path):
    with pytest.raises(UserError, match=said):
        import_sb3(GOLDEN / f"{name}.zip", tmp_path / "b", env_id=env, formats=("bundle",))
    assert list(tmp_path.iterdir()) == []


# -- hostile archives --------------------------------------------------------------------------------------------------


class Canary:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def members(name="ppo_cartpole"):
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def packed(entries, path, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in entries.items() if isinstance(entries, dict) else entries:
            archive.writestr(name, data)
    return path


def inner(change):
    """policy.pth with one of its members changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(members()["policy.pth"])) as archive, zipfile.ZipFile(file, "w") as copy:
        for name in archive.namelist():
            data = change(name, archive.read(name))
            if data is not None:
                copy.writestr(name, data)
    return file.getvalue()


def test_a_pickle_anywhere_is_never_run(tmp_path):
    canary = tmp_path / "canary"
    evil = pickle.dumps(Canary(canary))
    blob = base64.b64encode(evil).decode()
    data = json.loads(members()["data"])
    everywhere = {key: {":type:": "x", ":serialized:": blob} for key in (*data, "policy_class", "policy_kwargs")}
    entries = members() | {"data": json.dumps(data | everywhere), "pytorch_variables.pth": evil, "more.pkl": evil}
    import_sb3(packed(entries, tmp_path / "a.zip"), tmp_path / "b", formats=("bundle",))
    for place in (entries | {"policy.pth": evil}, entries | {"data": evil}):
        with pytest.raises(UserError):
            import_sb3(packed(place, tmp_path / "a.zip"), tmp_path / "c", formats=("bundle",))
    for protocol in range(6):
        pth = inner(lambda name, data, p=protocol: pickle.dumps(Canary(canary), p) if name.endswith(".pkl") else data)
        with pytest.raises(BadArchive, match=r"not executed|damaged"):
            read_torch_archive(pth, "policy.pth")
    assert not canary.exists()


@pytest.mark.parametrize(
    "stream",
    [
        b"cos\nsystem\n(S'true'\ntR.",
        b"cbuiltins\neval\n(X\x01\x00\x00\x001tR.",
        b"\x80\x02ctorch._utils\n_rebuild_parameter\n.",
        b"\x80\x02ccollections\nOrderedDict\n(K\x01tR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02}q\x00(X\x01\x00\x00\x00aK\x01u.",
        b"\x80\x02]q\x00.",
        b"\x80\x02K\x01.",
        b"\x80\x02}}.",
        b"\x80\x02}",
        b"\x80\x02h\x07.",
        b"\x80\x02(.",
        b"\x80\x02t.",
        b"\x80\x02R.",
        b"\x80\x02X\xff\xff\xff\x7fa.",
        b"",
        b"\x80\x02i.",
        b"\x80\x05}.",
    ],
)
def test_other_instructions_end_the_reading(stream):
    pth = inner(lambda name, data: stream if name.endswith("data.pkl") else data)
    with pytest.raises(BadArchive):
        read_torch_archive(pth, "policy.pth")


def test_a_flipped_byte_anywhere_in_the_description_is_refused_or_harmless():
    """No byte makes it do anything but give float arrays or refuse."""
    with zipfile.ZipFile(io.BytesIO(members()["policy.pth"])) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        good = archive.read(name)
    for at in range(0, len(good), 3):
        bad = bytearray(good)
        bad[at] ^= 1 << (at % 8)
        pth = inner(lambda entry, data, bad=bad: bytes(bad) if entry.endswith("data.pkl") else data)
        try:
            tensors = read_torch_archive(pth, "policy.pth")
        except BadArchive:
            continue
        assert all(isinstance(array, np.ndarray) for array in tensors.values())


def test_storages_must_be_as_large_as_they_say():
    for change in (lambda data: data[:-4], lambda data: data + b"\0" * 4, lambda data: None):
        pth = inner(lambda name, data, change=change: change(data) if name.endswith("data/0") else data)
        with pytest.raises(BadArchive):
            read_torch_archive(pth, "policy.pth")
    pth = inner(lambda name, data: b"big" if name.endswith("byteorder") else data)
    with pytest.raises(BadArchive, match="big-endian"):
        read_torch_archive(pth, "policy.pth")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "C:/evil", "a//b", "./a"])
def test_names_that_lead_elsewhere(name, tmp_path):
    with pytest.raises(BadArchive, match="leads out of the archive"):
        import_sb3(packed(members() | {name: b"x"}, tmp_path / "a.zip"), tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice(tmp_path):
    with pytest.raises(BadArchive, match="twice"):
        import_sb3(packed([*members().items(), ("data", b"{}")], tmp_path / "a.zip"), tmp_path / "b")


def test_bombs(tmp_path, monkeypatch):
    deflated = {"compression": zipfile.ZIP_DEFLATED}
    bomb = packed(members() | {"more": bytes(64 << 20)}, tmp_path / "a.zip", **deflated)
    monkeypatch.setattr(zip_archive, "MAX_TOTAL", 32 << 20)
    with pytest.raises(BadArchive, match="unpacks to"):
        import_sb3(bomb, tmp_path / "b")
    many = packed(members() | {f"m{i}": b"" for i in range(5000)}, tmp_path / "c.zip")
    with pytest.raises(BadArchive, match="members"):
        import_sb3(many, tmp_path / "b")
    monkeypatch.setattr(zip_archive, "MAX_ARCHIVE", 1000)
    with pytest.raises(BadArchive, match="larger than"):
        import_sb3(GOLDEN / "ppo_cartpole.zip", tmp_path / "b")


def test_a_list_of_too_many_members_is_not_even_made(tmp_path, monkeypatch):
    entry = b"PK\x01\x02" + bytes(42)
    forged = tmp_path / "many.zip"
    forged.write_bytes(entry * 1_000_000 + b"PK\x05\x06" + bytes(8) + struct.pack("<IIH", 46_000_000, 0, 0))
    monkeypatch.setattr(
        "rlstudio.delivery.sb3.zip_archive.zipfile.ZipFile", lambda *_: pytest.fail("the list was read")
    )
    with pytest.raises(BadArchive, match="lists 1,000,000 members; at most 4,096 are accepted"):
        import_sb3(forged, tmp_path / "b")


def test_a_member_whose_header_lies(tmp_path):
    """It says 10 bytes and unpacks to more."""
    path = packed({"data": bytes(1 << 20)}, tmp_path / "a.zip", compression=zipfile.ZIP_DEFLATED)
    raw = path.read_bytes().replace((1 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    archive = Archive(raw, "a.zip")
    with pytest.raises(BadArchive):
        archive.read("data", 100)
    with pytest.raises(BadArchive, match="larger than 5 bytes"):
        Archive(GOLDEN.joinpath("ppo_cartpole.zip").read_bytes(), "x").read("data", 5)


@pytest.mark.parametrize("data", [b"", b"not a zip", b"PK\x03\x04" + b"\0" * 50])
def test_what_is_no_archive(data, tmp_path):
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(BadArchive, match="not a zip"):
        import_sb3(tmp_path / "a.zip", tmp_path / "b")
    with pytest.raises(BadArchive, match="No such file"):
        import_sb3(tmp_path / "nothing.zip", tmp_path / "b")


def test_policies_of_other_kinds(tmp_path):
    def torch_file(**tensors):
        import torch

        file = io.BytesIO()
        torch.save({name: torch.zeros(*shape) for name, shape in tensors.items()}, file)
        return file.getvalue()

    data = json.loads(members()["data"])
    for tensors, more, said in (
        ({"features_extractor.cnn.0.weight": (8, 4, 8, 8)}, {}, "features extractor"),
        ({"something": (2,)}, {}, "is not a PPO"),
        ({"action_net.weight": (2, 4), "action_net.bias": (2,)}, {"use_sde": True}, "use_sde"),
        ({"action_net.weight": (2, 4), "action_net.bias": (3,)}, {}, "action_net is not a linear layer"),
        ({"action_net.weight": (2, 4)}, {"policy_kwargs": {"activation_fn": "<class 'evil'>"}}, "activation"),
    ):
        entries = members() | {"policy.pth": torch_file(**tensors), "data": json.dumps(data | more)}
        with pytest.raises(Incompatible, match=said):
            import_sb3(packed(entries, tmp_path / "a.zip"), tmp_path / "b", formats=("bundle",))
    linear = members() | {"policy.pth": torch_file(**{"action_net.weight": (2, 4), "action_net.bias": (2,)})}
    bundle = import_sb3(packed(linear, tmp_path / "a.zip"), tmp_path / "b", formats=("bundle",))
    assert bundle.spec.model.network.hidden_sizes == ()
