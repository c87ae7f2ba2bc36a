"""`promote`, `rollback`, `models`, and versions by name: what is said and what is left in each case."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlstudio.cli.app import main
from rlstudio.control.registry import releases
from rlstudio.delivery.bundle import CONFIG, EXAMPLE, README, Bundle, open_bundle, write_bundle
from support.cli_scenario import Result, Rlctl, everything

FORMS = {
    "eval": ("eval", "{}", "--episodes", "1"),
    "play": ("play", "{}", "-o", "film.webp"),
    "serve-policy": ("serve-policy", "{}"),
    "export": ("export", "{}", "-o", "out"),
    "promote": ("promote", "{}"),
}


@pytest.fixture(autouse=True)
def _weights_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs have their own tests."""
    monkeypatch.setattr(releases, "_formats", lambda: ("bundle",))


@pytest.fixture(scope="module")
def original(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a poor policy, and a bundle with a good one: pole:1 in production, pole:2 in staging."""
    folder = tmp_path_factory.mktemp("registry")
    shutil.copytree(trained, folder / "runs")
    runs = ("--runs-dir", str(folder / "runs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(releases, "_formats", lambda: ("bundle",))
        assert main(["promote", "tiny", "--model", "pole", "--to", "production", "--episodes", "20", *runs]) == 0
        assert main(["export", "pole:1", "-o", str(folder / "poor"), *runs]) == 0
        write_good(open_bundle(folder / "poor"), folder / "runs" / "good")
        assert main(["promote", str(folder / "runs" / "good"), "--model", "pole", *runs]) == 0
    return folder / "runs"


def write_good(poor: Bundle, target: Path, config: bytes | None = None) -> None:
    """Push the cart to where the pole falls: better than any small training."""
    weights = {name: np.zeros_like(value) for name, value in poor.weights().items()}
    weights["encoder.normalizer.inverse_std"][:] = 1.0  # it sees the pole as it is
    weights["policy_net.layers.0.weight"][0] = (0.0, 0.0, 0.1, 0.1)
    weights["policy_net.layers.1.weight"][:, 0] = (-1.0, 1.0)
    others = {name: poor.read(name) for name in (README, EXAMPLE)}
    write_bundle(target, poor.spec, weights, {**others, CONFIG: config or poor.read(CONFIG)})


@pytest.fixture
def runs(original: Path, place: Path) -> Path:
    shutil.copytree(original, place / "runs")
    return place / "runs"


def blob(runs: Path, digest: str) -> Path:
    (found,) = (runs / ".rlstudio" / "registry" / "blobs").glob(f"{digest}*")
    return found


def stages(rlctl: Rlctl) -> dict[int, str]:
    return {entry["version"]: entry["stage"] for entry in rlctl("models", "pole", "--json").document["versions"]}


def refused(result: Result, code: int, *said: str) -> None:
    assert result.code == code, result
    assert result.err.startswith("rlctl: ")
    assert result.err.count("\n") == 1
    for words in said:
        assert words in result.err


# -- the way of a policy ----------------------------------------------------------------------------------------------


def test_better_goes_into_production_with_every_number(rlctl: Rlctl, runs: Path) -> None:
    done = rlctl("promote", "pole:staging", "--to", "production", "--episodes", 40, "--min-return", 20)
    assert done.code == 0, done.err
    for words in (
        "pole:2 is in production",
        "better: mean difference",
        "candidate    ",
        "95 % interval [",
        "on the same seeds",
        "after 20 episodes, at error rate 0.0",
        "min_return   ",
        "wanted 20.00",
        "margin 0, error rate 0.025, at most 40 episodes; seed ",
    ):
        assert words in done.out
    assert stages(rlctl) == {1: "archived", 2: "production"}
    listed = rlctl("models")
    assert "pole:2" in listed.out
    assert "production" in listed.out
    history = rlctl("models", "pole", "--json").document["history"]
    assert [(entry["version"], entry["kind"]) for entry in history[-2:]] == [(1, "archive"), (2, "promote")]
    assert history[-1]["verdict"]["looks"][0]["n"] == 20
    back = rlctl("rollback", "pole", "--reason", "it limps", "--json")
    assert (back.code, back.document["name"], back.document["stage"]) == (0, "pole:1", "production")
    assert "it limps" in rlctl("models", "pole").out
    assert stages(rlctl) == {1: "production", 2: "archived"}


def test_worse_is_refused_and_the_verdict_is_shown_and_kept(rlctl: Rlctl, runs: Path) -> None:
    assert rlctl("promote", "pole:2", "--to", "production", "--force", "first").code == 0
    worse = rlctl("promote", "pole:1", "--to", "production", "--episodes", 40)
    refused(worse, 7, "model pole:1: not promoted: not better than production: mean difference -")
    assert "pole:1 stays in stage archived" in worse.out
    assert "  production   " in worse.out
    as_json = rlctl("promote", "pole:1", "--to", "production", "--episodes", 40, "--json")
    assert as_json.code == 7
    assert as_json.document["verdict"]["promote"] is False
    assert stages(rlctl) == {1: "archived", 2: "production"}
    last = rlctl("models", "pole", "--json").document["history"][-1]
    assert (last["kind"], last["version"], last["stage"]) == ("refuse", 1, "archived")
    assert last["verdict"] == as_json.document["verdict"]
    assert "not better than production" in rlctl("models", "pole").out
    assert rlctl("rollback", "pole").out == "pole:1 is in production again\n"  # what was refused was never there


def test_a_gate_alone_refuses(rlctl: Rlctl, runs: Path) -> None:
    done = rlctl("promote", "pole:2", "--to", "production", "--episodes", 20, "--worst-return", 1e6)
    refused(done, 7, "gate worst_return: ", "wanted 1e+06")
    assert stages(rlctl) == {1: "production", 2: "staging"}


def test_force_needs_a_reason(rlctl: Rlctl, runs: Path) -> None:
    before = rlctl("models", "pole", "--json").document
    for given in (("--force", ""), ("--force", "  "), ("--force", "--json")):
        refused(rlctl("promote", "pole:2", "--to", "production", *given), 2, "--force: needs a reason")
    refused(rlctl("promote", "tiny", "--model", "new", "--force", ""), 2, "--force: needs a reason")
    refused(rlctl("promote", "pole:2", "--to", "production", "--force"), 2, "--force")
    assert rlctl("models", "pole", "--json").document == before
    assert rlctl("promote", "pole:2", "--to", "production", "--force", "the old one fell").code == 0
    last = rlctl("models", "pole", "--json").document["history"][-1]
    assert (last["kind"], last["reason"], last["verdict"]) == ("force", "the old one fell", {})


def test_whoever_is_not_up_to_date_gets_a_conflict(rlctl: Rlctl, runs: Path) -> None:
    again = "look again with: rlctl models pole"
    for current, named in ((2, "not 2"), (0, "not none")):
        done = rlctl("promote", "pole:2", "--to", "production", "--if-current", current)
        refused(done, 2, f"version 1 is in production, {named}; {again}")
    assert rlctl("promote", "pole:2", "--to", "production", "--if-current", 1, "--force", "x").code == 0
    refused(rlctl("promote", "pole:2", "--to", "production"), 2, "version 2 is in production already")
    refused(rlctl("rollback", "pole", "--if-current", 1), 2, f"version 2 is in production, not 1; {again}")
    assert stages(rlctl) == {1: "archived", 2: "production"}
    assert rlctl("rollback", "pole", "--if-current", 2).code == 0


# -- mistakes ---------------------------------------------------------------------------------------------------------


def test_what_is_not_there_is_named(rlctl: Rlctl, runs: Path) -> None:
    for command in (("rollback", "pola"), ("models", "pola"), *(form(name, "pola:1") for name in FORMS)):
        refused(rlctl(*command), 2, "model 'pola': there is no such model; did you mean pole?; see: rlctl models")
    for name in FORMS:
        refused(rlctl(*form(name, "pole:9")), 2, "model pole: has no version 9; it has 1, 2")
        refused(rlctl(*form(name, "pole:prod")), 2, "'pole:prod': name a version as MODEL:3, MODEL:production")
    refused(rlctl("promote", "nobody", "--model", "pole"), 2, "run 'nobody'", "rlctl ls")
    refused(rlctl("promote", "tiny"), 2, "promote 'tiny'", "--model NAME")
    refused(rlctl("promote", "pole:1", "--model", "other"), 2, "pole:1: is a version already")
    refused(rlctl("promote", "tiny", "--model", "../x"), 2, "model '../x': use 1 to 64 of a-z")
    refused(rlctl("promote", "tiny", "--model", "x", "--checkpoint", "7"), 2, "no checkpoint '7'")
    refused(rlctl("promote", "pole:2", "--alpha", 2), 2, "alpha")
    refused(rlctl("promote", "pole:2", "--margin", "nan"), 2, "margin")
    refused(rlctl("eval", "pole:1", "--checkpoint", "best"), 2, "--checkpoint")
    refused(rlctl("export", "pole:1", "-o", "x", "--format", "onnx"), 2, "--format")
    refused(rlctl("rollback", "pole"), 2, "version 1 is the first in production; none was before")
    assert rlctl("promote", "tiny", "--model", "new").code == 0
    refused(rlctl("rollback", "new"), 2, "nothing is in production, so there is nothing to go back from")
    refused(rlctl("eval", "new:production"), 2, "model new: nothing is in production; see: rlctl models new")
    left = everything(runs / ".rlstudio" / "registry")
    assert not [name for name in left if ".tmp-" in name]


def form(name: str, what: str) -> tuple[str, ...]:
    return tuple(part.replace("{}", what) for part in FORMS[name])


def test_looking_where_nothing_is_leaves_nothing(rlctl: Rlctl, place: Path) -> None:
    before = everything(place)
    assert "no models yet; make one with: rlctl promote RUN --model NAME" in rlctl("models").out
    for command in (("models", "pole"), ("rollback", "pole"), *(form(name, "pole:1") for name in FORMS)):
        refused(rlctl(*command), 2, "model 'pole': there are none in runs yet; make one with: rlctl promote RUN")
    assert everything(place) == before


# -- versions by name -------------------------------------------------------------------------------------------------


def test_a_version_is_evaluated_filmed_and_copied_by_its_name(rlctl: Rlctl, runs: Path, place: Path) -> None:
    run = rlctl("eval", "tiny", "--episodes", 4, "--json").document
    for name in ("pole:1", "pole:production"):
        assert rlctl("eval", name, "--episodes", 4, "--json").document == run
    staged = rlctl("eval", "pole:staging", "--episodes", 4, "--json").document
    assert staged["summary"]["mean"] > run["summary"]["mean"]
    assert rlctl("play", "pole:production", "-o", "film.webp").code == 0
    copied = rlctl("export", "pole:production", "-o", "out", "--json")
    digest = rlctl("models", "pole", "--json").document["versions"][-1]["digest"]
    assert (copied.code, copied.document["sha256"]) == (0, digest)
    for file in blob(runs, digest).iterdir():
        assert (place / "out" / file.name).read_bytes() == file.read_bytes()
    assert rlctl("eval", "out", "--episodes", 4, "--json").document == run
    refused(rlctl("export", "pole:production", "-o", "out"), 2, "is there already")


def test_a_folder_does_not_take_the_place_of_a_release(rlctl: Rlctl, runs: Path) -> None:
    shutil.copytree(runs / "good", "pole:1")
    found = {}
    for name in ("pole:1", "./pole:1", "pole:2"):
        found[name] = rlctl("eval", name, "--episodes", 2, "--json").document["returns"]
    assert found["pole:1"] != found["./pole:1"] == found["pole:2"]


def test_serve_policy_takes_a_version(rlctl: Rlctl, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = []
    monkeypatch.setattr("rlstudio.server.serve.serve_policy", lambda bundle, *_, **__: served.append(bundle))
    assert rlctl("serve-policy", "pole:production").code == 0
    (bundle,) = served
    assert bundle.sha256 == rlctl("models", "pole", "--json").document["versions"][-1]["digest"]


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    os.chmod(file, 0o600)
    file.write_bytes(data)


def test_a_flipped_bit_is_refused_by_name_wherever_it_is_used(rlctl: Rlctl, runs: Path) -> None:
    assert rlctl("promote", "pole:2", "--to", "production", "--force", "x").code == 0
    before = rlctl("models", "pole", "--json").document
    good, poor = (blob(runs, version["digest"]) for version in before["versions"])
    said = "weights.safetensors: its sha256 is not", "restore it from a copy"
    flip(poor / "weights.safetensors")
    commands = [form(name, "pole:1") for name in FORMS]
    for command in (*commands, ("promote", "pole:1", "--to", "production", "--force", "x"), ("rollback", "pole")):
        refused(rlctl(*command), 4, "model pole:1: ", *said)
    flip(poor / "weights.safetensors")
    flip(good / "weights.safetensors")  # what is in production, to be compared with
    refused(rlctl("promote", "pole:1", "--to", "production"), 4, "model pole:2: ", *said)
    assert rlctl("models", "pole", "--json").document == before
    shutil.rmtree(good)
    refused(rlctl("eval", "pole:production"), 4, "model pole:2: ", "there is no bundle", "restore it from a copy")
    assert rlctl("rollback", "pole").code == 0  # back to what is whole


def test_another_task_is_not_compared(rlctl: Rlctl, runs: Path) -> None:
    """Twice the steps of an episode would be twice the return."""
    poor = open_bundle(blob(runs, rlctl("models", "pole", "--json").document["versions"][-1]["digest"]))
    config = poor.read(CONFIG).replace(b"max_episode_steps: null", b"max_episode_steps: 1000")
    write_good(poor, Path("easy"), config)
    done = rlctl("promote", "easy", "--model", "pole", "--to", "production")
    refused(done, 2, "differ from those in production", "--force REASON")


def test_help_tells_how_a_version_is_named(rlctl: Rlctl) -> None:
    for command in ("eval", "play", "serve-policy", "export", "promote"):
        assert "MODEL:3" in " ".join(rlctl(command, "--help").out.split())
    document = rlctl("models", "--json").document
    assert json.dumps(document) == '{"versions": [], "history": []}'
