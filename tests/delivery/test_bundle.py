"""A bundle is whole, verified to the last byte before it is parsed, and acts as the agent it was made from."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from rlstudio.core.errors import BundleError, UserError
from rlstudio.delivery import bundle as bundles
from rlstudio.delivery.bundle import KNOWN, is_bundle, open_bundle
from rlstudio.models.spec import ModelSpec
from rlstudio.storage.safetensors_file import write_tensors
from rlstudio.storage.seal import sealed
from support.export_toys import Case, config, quick_registry, ship, trained

MANIFEST = "MANIFEST.json"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """One bundle with everything in it."""
    with quick_registry():
        return ship("ppo-Numbers", tmp_path_factory.mktemp("bundles") / "toy")


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    """One without a graph, of a policy that remembers."""
    return ship("ppo-MaskedParts-memory=gru-memory_size=8", tmp_path_factory.mktemp("bundles") / "gru", ("bundle",))


@pytest.fixture
def copy(shipped, tmp_path):
    shutil.copytree(shipped.path, tmp_path / "copy")
    return tmp_path / "copy"


def refusal(path) -> str:
    with pytest.raises(BundleError) as caught:
        open_bundle(path)
    return str(caught.value)


def resealed(path, change=lambda fields: fields):
    """A manifest that is right about what lies there now: only the content is left to complain about."""
    files = {}
    for file in sorted(path.iterdir()):
        if file.name != MANIFEST:
            import hashlib

            data = file.read_bytes()
            files[file.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (path / MANIFEST).write_bytes(sealed(change({"kind": bundles.KIND, "version": 1, "files": files})))


def test_it_has_every_file_and_they_verify(shipped):
    assert {file.name for file in shipped.path.iterdir()} == KNOWN | {MANIFEST}
    again = open_bundle(shipped.path)
    assert again == shipped
    assert is_bundle(shipped.path)
    assert not is_bundle(shipped.path.parent)


def test_its_spec_says_what_a_program_needs(shipped):
    spec = json.loads((shipped.path / "spec.json").read_text())
    assert spec["derived"]["inputs"] == [{"name": "observations", "shape": [3], "dtype": "float32", "part": ""}]
    assert [port["name"] for port in spec["derived"]["outputs"]] == ["actions", "outputs"]
    assert spec["derived"]["actions"]["start"] == 5
    assert spec["model"]["variant"] == "policy-value"
    assert spec["parity"]["rows"] >= 1000
    assert set(spec["parity"]["formats"]) == {"module", "onnx", "torchscript", "torch-export"}
    assert spec["origin"]["state_hash"] == "0" * 64


@pytest.mark.parametrize("which", ["policy", "agent"])
def test_it_acts_as_the_agent(shipped, which):
    agent, _ = trained("ppo-Numbers")
    acts = getattr(shipped, which)()
    observations = np.random.default_rng(0).uniform(-1, 1, (50, 3)).astype(np.float32)
    assert np.array_equal(acts.act(observations), agent.act(observations))
    assert acts.act(observations[0]) == agent.act(observations[0])
    assert np.array_equal(acts.step(observations).actions, agent.step(observations).actions)  # counted from 0
    assert acts.acting == ("onnx" if which == "policy" else "numpy")


def test_episodes_remember(remembering):
    agent, _ = trained("ppo-MaskedParts-memory=gru-memory_size=8")
    policy = remembering.policy()
    generator = np.random.default_rng(0)
    theirs, ours = policy.episode(), agent.episode()
    for _ in range(5):
        numbers = generator.uniform(-1, 1, (4, 3)).astype(np.float32)
        shown = {"action_mask": np.ones((4, 5), np.uint8), "actions": numbers}
        assert np.array_equal(theirs.act(shown), ours.act(shown))
    with pytest.raises(UserError, match="remembers"):
        policy.act(shown)


def test_the_example_needs_neither_torch_nor_rlstudio(shipped):
    code = (
        "import runpy, sys; sys.modules['torch'] = sys.modules['rlstudio'] = None;"
        f"runpy.run_path({str(shipped.path / 'example.py')!r}, run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    agent, _ = trained("ppo-Numbers")
    assert lines == [agent.act(np.zeros((2, 3), np.float32)).tolist()] * 3
    assert len((shipped.path / "example.py").read_text().splitlines()) < 40


def test_the_example_without_a_graph(remembering, capsys):
    """It imports RLStudio, as we have already."""
    runpy.run_path(str(remembering.path / "example.py"), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) == 3


# -- what is not as it was is refused by its name ----------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(KNOWN | {MANIFEST}))
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_flipped_bit(copy, name, where):
    data = bytearray((copy / name).read_bytes())
    data[{"first": 0, "middle": len(data) // 2, "last": -1}[where]] ^= 1
    (copy / name).write_bytes(data)
    assert name in refusal(copy)


@pytest.mark.parametrize("name", sorted(KNOWN | {MANIFEST}))
@pytest.mark.parametrize("how", ["missing", "link", "pipe", "folder", "longer", "empty"])
def test_another_thing_in_its_place(copy, name, how):
    file, data = copy / name, (copy / name).read_bytes()
    file.unlink()
    if how == "link":
        aside = copy.parent / "aside"
        aside.write_bytes(data)
        file.symlink_to(aside)
    elif how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    elif how != "missing":
        file.write_bytes(data + b"\n" if how == "longer" else b"")
    assert name in refusal(copy)


@pytest.mark.parametrize("name", ["extra.txt", "policy.onnx.data", ".hidden", "evil.pkl"])
def test_an_extra_file(copy, name):
    (copy / name).write_bytes(b"x")
    assert f"{name}: is not in the manifest" in refusal(copy)
    resealed(copy)
    assert name in refusal(copy)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields | {"kind": "checkpoint"}, "manifest of a 'checkpoint'"),
        (lambda fields: fields | {"version": 2}, "version 2"),
        (lambda fields: fields | {"files": {"../spec.json": fields["files"]["spec.json"]}}, "'../spec.json'"),
        (lambda fields: fields | {"files": []}, "not a manifest"),
        (lambda fields: fields | {"files": fields["files"] | {"spec.json": {"size": -1, "sha256": "0" * 64}}}, "-1"),
        (lambda fields: {"kind": bundles.KIND}, "not a manifest"),
    ],
)
def test_a_forged_manifest(copy, change, said):
    resealed(copy, change)
    message = refusal(copy)
    assert said in message
    assert MANIFEST in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec | {"format": 2}, "format"),
        (lambda spec: spec | {"unknown": 1}, "unknown"),
        (lambda spec: spec | {"algo": 3}, "algo"),
        (lambda spec: {k: v for k, v in spec.items() if k != "model"}, "model"),
        (lambda spec: spec | {"action": spec["action"] | {"n": 10**12}}, "impossible sizes"),
        (lambda spec: spec | {"action": spec["action"] | {"start": 4}}, "derived"),
        (lambda spec: spec | {"observation": {"kind": "tuple"}}, "tuple"),
        (lambda spec: spec | {"observation": spec["observation"] | {"shape": [2**40, 2**40]}}, "impossible sizes"),
        (lambda spec: spec | {"observation": spec["observation"] | {"dtype": "object"}}, "dtype"),
        (lambda spec: spec | {"formats": {}}, "formats"),
        (lambda spec: spec | {"reward_scale": 0.0}, "reward_scale"),
        (lambda spec: spec | {"reward_scale": "2"}, "reward_scale"),
        (lambda spec: spec | {"origin": spec["origin"] | {"checkpoint": 2**63}}, "checkpoint"),
        (lambda spec: spec | {"model": spec["model"] | {"variant": "mine"}}, "variant"),
    ],
)
def test_a_forged_spec(copy, change, said):
    spec = json.loads((copy / "spec.json").read_text())
    (copy / "spec.json").write_text(json.dumps(change(spec)))
    resealed(copy)
    message = refusal(copy)
    assert "spec.json" in message
    assert said in message


def test_what_only_the_model_knows_is_compared_once_it_is_built(copy):
    """A file that is right in itself, but of a Model that carries something."""
    spec = json.loads((copy / "spec.json").read_text())
    derived, part = spec["derived"], {"shape": [2, 8], "dtype": "float32", "part": "h"}
    derived["carry"] = {"h": {"shape": [2, 8], "starts_with": 0}}
    derived["inputs"].append({"name": "carry_h", **part})
    derived["outputs"].append({"name": "carry_h_after", **part})
    (copy / "spec.json").write_text(json.dumps(spec))
    resealed(copy)
    forged = open_bundle(copy)
    with pytest.raises(BundleError, match=r"spec\.json: `derived` does not follow from its Model"):
        forged.agent()
    with pytest.raises(BundleError, match="is not a graph of this policy"):
        forged.policy()
    derived["carry"]["h"]["shape"] = [2**40, 2**40]
    (copy / "spec.json").write_text(json.dumps(spec))
    resealed(copy)
    assert "impossible sizes" in refusal(copy)


def test_one_from_before_reward_scales_opens(copy):
    spec = json.loads((copy / "spec.json").read_text())
    del spec["reward_scale"]
    (copy / "spec.json").write_text(json.dumps(spec))
    resealed(copy)
    assert open_bundle(copy).spec.reward_scale is None


@pytest.mark.parametrize("change", [{"hidden_sizes": [10**9]}, {"hidden_sizes": [8, 10**7]}, {"memory_size": 65536}])
def test_b5_a_spec_cannot_ask_for_more_than_its_weights_have(copy, change, monkeypatch):
    """A small file that claims a large network: the sizes are compared before a layer is allocated."""
    spec = json.loads((copy / "spec.json").read_text())
    forged = spec["model"] | {"network": spec["model"]["network"] | change}
    if "memory_size" in change:
        forged |= {"variant": "recurrent-policy-value", "network": forged["network"] | {"memory": "gru"}}
    made, empty = [], torch.empty
    monkeypatch.setattr(torch, "empty", lambda *shape, **how: made.append(shape) or empty(*shape, **how))
    bundle = open_bundle(copy)
    model = ModelSpec.model_validate(forged, strict=False)
    large = replace(bundle, spec=bundle.spec.model_copy(update={"model": model}))
    with pytest.raises(BundleError, match=r"weights; at most [\d,]+ are accepted"):
        large.agent()
    assert max((empty(*shape, device="meta").numel() for shape in made), default=0) < 10**6


def test_b5_a_spec_of_too_many_bytes_is_not_read(copy):
    (copy / "spec.json").write_bytes(b" " * (bundles.SMALL + 1))
    resealed(copy)
    assert "at most 4,194,304 are read" in refusal(copy)


@pytest.mark.parametrize("how", ["shape", "dtype", "missing", "extra"])
def test_weights_of_another_model(copy, how):
    weights = open_bundle(copy).weights()
    name = "policy_net.layers.0.weight"
    weights |= {
        "shape": {name: weights[name][:-1]},
        "dtype": {name: weights[name].astype(np.float64)},
        "missing": {},
        "extra": {"more": np.zeros(2, np.float32)},
    }[how]
    if how == "missing":
        del weights[name]
    with (copy / "weights.safetensors").open("wb") as file:
        write_tensors(file, weights)
    resealed(copy)
    with pytest.raises(BundleError, match=r"weights\.safetensors"):
        open_bundle(copy).agent()


def test_what_changes_after_it_was_opened_is_seen(copy):
    opened = open_bundle(copy)
    for name in ("weights.safetensors", "policy.onnx"):
        (copy / name).write_bytes((copy / name).read_bytes()[::-1])
    for act in (opened.agent, opened.policy):
        with pytest.raises(Exception, match="sha256"):
            act()


def test_nothing_that_could_run_is_ever_read(copy, monkeypatch):
    """Not even verified by its content: TorchScript, the archive of torch.export and the example are for others."""
    import torch

    for place, name in ((torch, "load"), (torch.jit, "load"), (torch.export, "load")):
        monkeypatch.setattr(place, name, lambda *_, **__: pytest.fail("must not be called"))
    opened = open_bundle(copy)
    opened.agent().act(np.zeros(3, np.float32))
    opened.policy().act(np.zeros(3, np.float32))


@pytest.mark.parametrize("how", ["garbage", "other names", "other shape", "another file", "another file inside"])
def test_a_forged_graph(copy, how):
    import onnx

    model = onnx.load_from_string((copy / "policy.onnx").read_bytes())
    if how == "other names":
        model.graph.output[0].name, model.graph.node[-1].output[0] = "moves", "moves"
    elif how == "other shape":
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4
    elif how == "another file":
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        tensor.external_data.add(key="location", value="../../../../etc/passwd")
    elif how == "another file inside":
        tensor = onnx.helper.make_tensor("t", 1, [1], [0.0])
        tensor.data_location = 1
        tensor.external_data.add(key="location", value="secret")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Constant", [], ["c"], value=tensor)], "g", [], [])
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("body", graph))
    (copy / "policy.onnx").write_bytes(b"nonsense" if how == "garbage" else model.SerializeToString())
    resealed(copy)
    with pytest.raises(BundleError, match=r"policy\.onnx: is not a graph of this policy: ") as caught:
        open_bundle(copy).policy()
    assert ("another file" in str(caught.value)) == how.startswith("another file")


def test_reading_one_unpickles_nothing(copy):
    """The interpreter itself tells: no name is looked up for a pickle, no code object is made by one."""
    heard, listening = [], True

    def hook(event, arguments):
        if listening and event.startswith(
            ("pickle.", "marshal.", "subprocess.", "os.system", "os.exec", "ctypes.dlopen")
        ):
            heard.append((event, arguments))

    open_bundle(copy).policy().act(np.zeros(3, np.float32))  # what is imported for it is imported now
    sys.addaudithook(hook)
    opened = open_bundle(copy)
    opened.policy().act(np.zeros(3, np.float32))
    opened.agent().act(np.zeros(3, np.float32))
    listening = False
    assert heard == []


def test_its_modules_are_imported_only_where_allowed(copy, tmp_path, monkeypatch):
    (tmp_path / "touchy.py").write_text("from pathlib import Path; Path(__file__).with_suffix('.touched').touch()")
    monkeypatch.syspath_prepend(tmp_path)
    cfg = config(Case("ppo", "Numbers")).model_dump(mode="json") | {"imports": ["touchy"]}
    (copy / "config.yaml").write_text(json.dumps(cfg))
    resealed(copy)
    opened = open_bundle(copy)
    opened.policy().act(np.zeros(3, np.float32))
    with pytest.raises(UserError, match="--import touchy"):
        opened.experiment()
    assert not (tmp_path / "touchy.touched").exists()
    assert opened.experiment(("touchy",)).env.id == "export/Numbers-v0"
    assert (tmp_path / "touchy.touched").exists()


def test_a_place_that_is_taken_or_missing(shipped, tmp_path):
    with pytest.raises(UserError, match="is there already"):
        ship("ppo-Numbers", shipped.path, ("bundle",))
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is there already"):
        ship("ppo-Numbers", tmp_path / "file", ("bundle",))
    with pytest.raises(UserError, match="no bundle"):
        open_bundle(tmp_path / "nothing")
    assert "MANIFEST.json: missing" in refusal(tmp_path)
