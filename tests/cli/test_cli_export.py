"""`export`, `eval` and `play` on a bundle, `import`, `serve-policy`: from a run to something that can be given away."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from rlstudio.delivery.graphs import FORMATS
from support.cli_scenario import Rlctl, everything
from support.deadlines import PATIENCE
from support.rlctl_process import start

GOLDEN = Path(__file__).parents[1] / "golden" / "sb3"


@pytest.fixture(scope="module")
def bundle(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one ONNX export of these tests."""
    from rlstudio.cli.app import main

    target = tmp_path_factory.mktemp("bundles") / "tiny"
    assert main(["export", "last", "--runs-dir", str(trained), "-o", str(target)]) == 0
    return target


def test_export_says_what_was_compared(rlctl: Rlctl, trained: Path, place: Path) -> None:
    done = rlctl("export", "tiny", "--runs-dir", trained, "--format", "bundle", "-o", place / "a")
    assert done.code == 0
    assert "agrees with the agent on 1,024 recorded observations: " in done.out
    assert done.err == ""
    done = rlctl("export", "tiny", "--runs-dir", trained, "--format", "torchscript", "-o", "b/c", "--json")
    assert done.document["formats"] == {"torchscript": "policy.ts"}
    assert done.document["path"] == "b/c"
    assert done.document["checkpoint"] == 192
    assert {file.name for file in (place / "b/c").iterdir()} >= {
        "policy.ts",
        "spec.json",
        "config.yaml",
        "MANIFEST.json",
    }
    lineage = json.loads((place / "a/spec.json").read_text())["origin"]["lineage"]
    assert lineage["versions"]["torch"]
    assert not {"host", "user", "command"} & set(lineage)


def test_the_default_export_needs_no_extra_and_says_what_it_left_out(
    rlctl: Rlctl, trained: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newcomer S2: after `make run` there is no onnx, and `rlctl export last -o DIR` failed for it."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("rlstudio.delivery.graphs.FORMATS", {**FORMATS, "torch-export": FORMATS["torchscript"]})
    done = rlctl("export", "tiny", "--runs-dir", trained, "-o", "plain")
    assert done.code == 0, done.err
    assert re.search(r"without onnx: needs onnxruntime; run `(pip install .*|make .*)` and export again\n$", done.out)
    assert not (place / "plain" / "policy.onnx").exists()
    document = rlctl("export", "tiny", "--runs-dir", trained, "-o", "again", "--json").document
    assert set(document["formats"]) == {"torch-export"}
    assert document["left_out"]["onnx"].startswith("needs onnxruntime; run `")
    assert (
        rlctl("export", "tiny", "--runs-dir", trained, "-o", "c", "--format", "bundle", "--json").document["left_out"]
        == {}
    )
    refused = rlctl("export", "tiny", "--runs-dir", trained, "-o", "asked", "--format", "onnx")
    assert refused.code == 2
    assert "--format: onnx needs onnxruntime; run `" in refused.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody",), "run 'nobody'"),
        (("tiny", "--format", "onxx"), "did you mean onnx"),
        (("tiny", "--checkpoint", "7"), "no checkpoint '7'"),
    ],
)
def test_mistakes_take_one_line_and_leave_nothing(
    rlctl: Rlctl, trained: Path, place: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = everything(place)
    done = rlctl("export", *arguments, "--runs-dir", trained, "-o", "x/y")
    assert done.code == 2
    assert said in done.err
    assert done.err.count("\n") == 1
    assert everything(place) == before


def test_a_taken_place_is_left_alone(rlctl: Rlctl, trained: Path, place: Path) -> None:
    (place / "there").mkdir()
    (place / "there" / "mine").write_text("precious")
    done = rlctl("export", "last", "--runs-dir", trained, "-o", "there")
    assert done.code == 2
    assert "is there already" in done.err
    assert everything(place / "there") == {"mine"}


def test_eval_of_a_bundle_is_eval_of_the_run(rlctl: Rlctl, trained: Path, bundle: Path) -> None:
    ours = rlctl("eval", "last", "--runs-dir", trained, "--episodes", 4, "--json").document
    theirs = rlctl("eval", bundle, "--episodes", 4, "--json").document
    assert theirs == ours
    assert "tiny at 192 steps on CartPole-v1" in rlctl("eval", bundle, "--episodes", 1).out


def test_a_bundle_with_a_graph_plans_by_its_weights(rlctl: Rlctl, trained: Path, bundle: Path) -> None:
    first = ["--planner", "cem", "planner.horizon=3", "planner.candidates=8", "--episodes", "2", "--json"]
    bundled, run = rlctl("eval", bundle, *first).document, rlctl("eval", "tiny", "--runs-dir", trained, *first).document
    assert bundled["planner"]["returns"] == run["planner"]["returns"]
    assert bundled["returns"] == run["returns"]


def test_play_films_a_bundle(rlctl: Rlctl, bundle: Path, place: Path) -> None:
    done = rlctl("play", bundle, "-o", "film.webp", "--json")
    assert done.code == 0
    assert (place / "film.webp").stat().st_size > 0


def test_a_damaged_bundle_is_refused_by_name(rlctl: Rlctl, bundle: Path, place: Path) -> None:
    import shutil

    shutil.copytree(bundle, place / "copy")
    data = bytearray((place / "copy/policy.onnx").read_bytes())
    data[100] ^= 1
    (place / "copy/policy.onnx").write_bytes(data)
    for command in (("eval", "copy"), ("play", "copy", "-o", "film.webp"), ("serve-policy", "copy")):
        done = rlctl(*command)
        assert done.code == 4
        assert "policy.onnx: its sha256" in done.err
    done = rlctl("eval", bundle, "--checkpoint", "best")
    assert done.code == 2
    assert "--checkpoint" in done.err


def test_import_makes_a_bundle(rlctl: Rlctl, place: Path) -> None:
    file = GOLDEN / "dqn_cartpole.zip"
    done = rlctl("import", "sb3", file, "--env", "CartPole-v1", "--format", "bundle", "-o", "b", "--json")
    assert done.code == 0, done.err
    assert done.document["kind"] == "sb3"
    assert rlctl("eval", "b", "--episodes", 2).code == 0
    for arguments, said in (
        (("zip", file), "zip"),
        (("sb3", "nothing.zip"), "nothing.zip"),
        (("sb3", place / "tiny.yaml"), "not a zip archive"),
        (("sb3", GOLDEN / "sac_pendulum.zip"), "--env"),
    ):
        done = rlctl("import", *arguments, "-o", "c")
        assert done.code == 2
        assert said in done.err
        assert done.err.count("\n") == 1


@pytest.mark.real_process
def test_serve_policy_answers_until_it_is_asked_to_stop(bundle: Path, place: Path) -> None:
    server = start(place, "serve-policy", bundle, "--port", "0", "--token-file", place / "token")
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split(" at ")[1].split(",")[0]
        deadline = time.monotonic() + PATIENCE
        while not (place / "token").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        token = (place / "token").read_text().strip()
        assert len(token) == 64
        request = urllib.request.Request(
            f"{address}/act",
            json.dumps({"observations": [[0.0, 0.0, 0.0, 0.0]]}).encode(),
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert json.loads(answer.read())["actions"] in ([0], [1])
        server.terminate()
        out, err = server.communicate(timeout=PATIENCE)
        assert server.returncode == 0, err
        assert err == ""
        assert token not in out
    finally:
        server.kill()
        server.communicate()


def test_serve_policy_refuses_what_is_open_to_all(rlctl: Rlctl, bundle: Path) -> None:
    done = rlctl("serve-policy", bundle, "--host", "0.0.0.0", "--no-auth")
    assert done.code == 2
    assert "--no-auth" in done.err
    done = rlctl("serve-policy", bundle.parent)
    assert done.code == 4
