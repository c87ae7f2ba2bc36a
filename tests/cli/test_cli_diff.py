"""`diff` says what tells two runs apart, and its exit code is that of diff(1)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from rlstudio.cli import failures
from rlstudio.cli.commands.looking.diff import diff
from rlstudio.experiment.analysis import compare_runs
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.records import records
from rlstudio.experiment.metrics.writer import MetricsWriter
from support.cli_scenario import Result, Rlctl
from support.deadlines import PATIENCE
from support.tiny_runs import only_run

CONFIG = "env: {id: CartPole-v1, seed: 3}\ntrain: {lr: 0.001}\n"


def command() -> typer.Typer:
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(diff)
    return app


@pytest.fixture
def rldiff(capsys: pytest.CaptureFixture[str]) -> Rlctl:
    """`rlctl diff`, with errors told as the program tells them."""

    def run(*args: object) -> Result:
        capsys.readouterr()
        try:
            code = get_command(command()).main([str(arg) for arg in args], prog_name="rlctl", standalone_mode=False)
        except Exception as error:
            code = failures.report(error)
        return Result(code, *capsys.readouterr())

    return run


def make(
    place: Path,
    name: str,
    config: str = CONFIG,
    loss: float = 0.5,
    epochs: int = 3,
    lineage: dict | None = None,
    seed: int = 3,
) -> RunFolder:
    new = NewRun(name=name, algo="ppo", env_id="CartPole-v1", config_yaml=config, seed=seed)
    folder = RunFolder.create(place / "runs", new)
    writer = MetricsWriter(folder.path)
    for epoch in range(1, epochs + 1):
        writer.write(records(64 * epoch, {"train/loss": 0.25 if epoch == 1 else loss, "train/kl": 0.125}))
    writer.flush()
    writer.close()
    if lineage is not None:
        folder.event("lineage", **lineage)
    folder.close()
    return folder


def test_equal_runs(rldiff: Rlctl, place: Path) -> None:
    left = make(place, "one", lineage={"host": "a", "versions": {"torch": "2.10"}})
    right = make(place, "two", lineage={"host": "b", "versions": {"torch": "2.10"}})
    result = rldiff("one", "two")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        f"{left.id} -> {right.id}",
        "config    the same",
        "topology  not recorded by both",
        "lineage   1 difference",
        "  host: a -> b",
        "metrics   the same 6 values up to step 192",
    ]


@pytest.mark.parametrize(
    ("more", "first_line", "code"),
    [
        ("", "config    the same, apart from the name", 0),
        ("extra: {}\n", "config    1 difference, apart from the name", 1),
    ],
)
def test_another_name_is_shown_and_is_no_difference(
    more: str, first_line: str, code: int, rldiff: Rlctl, place: Path
) -> None:
    make(place, "one", config=CONFIG + "name: one\n")
    make(place, "two", config=CONFIG + "name: two\n" + more)
    result = rldiff("one", "two")
    assert (result.code, result.out.splitlines()[1:3]) == (code, [first_line, "  name: one -> two"])


def test_different_runs(rldiff: Rlctl, place: Path) -> None:
    left = make(place, "one")
    right = make(place, "two", config=CONFIG + "extra: {}\n", loss=0.75)
    result = rldiff("one", "two")
    assert result.code == 1
    assert result.out.splitlines() == [
        f"{left.id} -> {right.id}",
        "config    1 difference",
        "  extra: (absent) -> {}",
        "topology  not recorded by both",
        "lineage   not recorded by both",
        "metrics   part at step 128, after the same 2 values up to step 64",
        "  train/loss: 0.5 -> 0.75",
        "  largest relative difference at this step: 0.3333 (train/loss)",
    ]


def test_as_json(rldiff: Rlctl, place: Path) -> None:
    left, right = make(place, "one"), make(place, "two", config=CONFIG.replace("0.001", "3e-4"), loss=0.75)
    result = rldiff(left.id, right.id, "--json")
    assert result.code == 1
    assert result.document == {
        "left": left.id,
        "right": right.id,
        "equal": False,
        "config": [{"field": "train.lr", "left": 0.001, "right": 0.0003}],
        "topology": None,
        "lineage": None,
        "metrics": {
            "equal": False,
            "same_values": 2,
            "same_up_to": 64,
            "longer": None,
            "divergence": {
                "step": 128,
                "key": "train/loss",
                "left": 0.5,
                "right": 0.75,
                "largest_relative_difference": pytest.approx(1 / 3),
                "largest_key": "train/loss",
            },
        },
    }
    assert rldiff(left.id, left.id, "--json").document["equal"] is True


def test_two_groups_are_compared_seed_by_seed(rldiff: Rlctl, place: Path) -> None:
    left = [make(place, "one", seed=seed, loss=seed) for seed in (1, 2)]
    right = [make(place, "two", seed=seed, loss=seed) for seed in (2, 1)]
    result = rldiff("one", "two", "--json")
    assert result.code == 0
    pairs = [(document["left"], document["right"]) for document in result.document]
    assert pairs == [(left[0].id, right[1].id), (left[1].id, right[0].id)]
    make(place, "two", seed=3)
    assert [document["left"] for document in rldiff("one", "two", "--json").document] == [left[0].id] * 4


def test_what_all_pairs_of_two_groups_differ_in_is_printed_once(rldiff: Rlctl, place: Path) -> None:
    for seed in (1, 2):
        make(place, "one", seed=seed)
        make(place, "two", CONFIG.replace("0.001", "0.01"), seed=seed)
    printed = rldiff("one", "two").out
    assert printed.count("train.lr: 0.001 -> 0.01") == 1
    assert printed.count("config    differs as above") == 1


def test_not_a_number_and_no_number_at_all(rldiff: Rlctl, place: Path) -> None:
    make(place, "one"), make(place, "two", loss=float("nan"))
    assert "  train/loss: 0.5 -> NaN\n  largest relative difference at this step: infinite" in rldiff("one", "two").out
    assert rldiff("one", "two", "--json").document["metrics"]["divergence"]["right"] == "nan"


def test_shorter_and_empty_runs(rldiff: Rlctl, place: Path) -> None:
    make(place, "long"), make(place, "short", epochs=1), make(place, "empty", epochs=0)
    assert "metrics   the same 2 values up to step 64, where the right one ends\n" in rldiff("long", "short").out
    assert "metrics   the right one has none\n" in rldiff("short", "empty").out
    assert rldiff("empty", "short").code == 1
    result = rldiff("empty", "empty")
    assert "metrics   none in either\n" in result.out
    assert result.code == 0


def test_another_topology(rldiff: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = {make(place, "one").id: 1, make(place, "two").id: 2}
    monkeypatch.setattr(compare_runs, "topology_of", lambda folder: {"device": "cpu", "threads": threads[folder.id]})
    result = rldiff("one", "two")
    assert "topology  1 difference\n  threads: 1 -> 2\n" in result.out
    assert result.code == 0


def test_a_real_run_with_itself(rldiff: Rlctl, trained: Path) -> None:
    result = rldiff("last", "last", "--runs-dir", trained, "--json")
    assert result.code == 0
    assert result.document["topology"] == []
    assert result.document["metrics"]["same_values"] > 10
    assert compare_runs.topology_of(only_run(trained))["num_envs"] == 4


def test_trouble_is_two_or_more(rldiff: Rlctl, place: Path) -> None:
    make(place, "one")
    result = rldiff("one", "onne")
    assert (result.code, result.out) == (2, "")
    assert "did you mean" in result.err
    assert rldiff("one").code == 2
    make(place, "two").config_path.write_text("a: [")
    assert rldiff("one", "two").code == 2


def test_strange_values_cannot_steer_the_terminal(rldiff: Rlctl, place: Path) -> None:
    make(place, "one", lineage={"command": ["\x1b[31m"]}), make(place, "two", lineage={"command": ["\u202e"]})
    result = rldiff("one", "two")
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out


CODE = """
import sys, typer
from typer.main import get_command
from rlstudio.cli.commands.looking.diff import diff
at_import = set(sys.modules)
app = typer.Typer(rich_markup_mode=None)
app.command()(diff)
get_command(app).main(standalone_mode=False)
import json
heavy = {"torch", "gymnasium", "rich"}
print(json.dumps([sorted({*heavy, "numpy", "yaml"} & at_import), sorted(heavy & set(sys.modules))]), file=sys.stderr)
"""


def test_it_never_imports_torch(place: Path) -> None:
    make(place, "one")
    done = subprocess.run(
        [sys.executable, "-c", CODE, "one", "one"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert json.loads(done.stderr.splitlines()[-1]) == [[], []]
