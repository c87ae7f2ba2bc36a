"""`plot`, `compare` and `metrics` of groups of runs, by their names. No run here was trained."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from rlstudio import orchestrator
from rlstudio.core.errors import Notice
from rlstudio.core.run_state import RunState
from support.cli_scenario import Rlctl
from support.measured_runs import learning, measured_run

RUNS = Path("runs")


@pytest.fixture(scope="module")
def twenty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A runs folder with ten runs of each of two groups, for tests that read; the second group earns about 300 instead
    of 200."""
    folder = tmp_path_factory.mktemp("twenty") / "runs"
    groups = (("lr1e-3", 200.0, 1e-3), ("lr1e-4", 300.0, 1e-4))
    return folder, {
        name: [measured_run(folder, name, seed, learning(best, seed), lr=lr) for seed in range(10)]
        for name, best, lr in groups
    }


@pytest.fixture
def two_groups(twenty: tuple[Path, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Ids of the runs by their group."""
    monkeypatch.setenv("RLSTUDIO_RUNS_DIR", str(twenty[0]))
    return twenty[1]


# -- plot -------------------------------------------------------------------------------------------------------------


def test_a_name_draws_all_its_runs_with_a_band_and_their_number(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    """Newcomer S2: `rlctl plot NAME NAME` silently drew one seed of each."""
    done = rlctl("plot", "lr1e-3", "lr1e-4", "--out", "bands.svg")
    assert (done.code, done.out, done.err) == (0, "bands.svg\n", "")
    picture = Path("bands.svg").read_text()
    for words in ("lr1e-3 (n=10)", "lr1e-4 (n=10)", "IQM of n runs, 95 % bootstrap interval", "eval/return_mean"):
        assert f"<!-- {words} -->" in picture
    assert "FillBetweenPolyCollection_2" in picture  # two bands


def test_the_terminal_has_one_chart_with_a_legend(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    """Newcomer S2: in the terminal the two curves came as two charts with different axes."""
    done = rlctl("plot", "lr1e-3", "lr1e-4")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("environment steps") == 1
    *_, first, second, interval = done.out.splitlines()
    assert first.startswith("A lr1e-3 (n=10): 198.9 [")
    assert second.startswith("B lr1e-4 (n=10): 296.0 [")
    assert second.endswith(" at 10,000 steps")
    assert interval == "IQM of n runs, 95 % bootstrap interval"


def test_groups_by_filters_paths_and_handles(rlctl: Rlctl, place: Path) -> None:
    first, second = (measured_run(RUNS, "pole", seed, learning(9.0, seed)) for seed in (0, 1))
    measured_run(RUNS, "moon", 0, learning(5.0, 0), env_id="LunarLander-v3")
    assert "moon (n=1): " in rlctl("plot", "--env", "lunarlander-v3").out
    assert "pole (n=2): " in rlctl("plot", f"runs/{first}", second[-4:]).out
    assert rlctl("plot").err.startswith("rlctl: no run is named; give RUN")
    assert "there are: 3 completed" in rlctl("plot", "--state", "failed").err


def test_few_evaluations_draw_the_training_return_and_say_so(rlctl: Rlctl, place: Path) -> None:
    """Newcomer S4: curves start at the first evaluation, and there may be one or two of them."""
    measured_run(RUNS, "short", 0, learning(50.0, 0, evaluations=2))
    done = rlctl("plot", "short")
    assert done.out.startswith("rollout/return_mean\n")
    assert done.err == (
        "rlctl: note: short: at most 2 evaluations of each run, too few for a curve, so the training return"
        " (rollout/return_mean) is drawn; choose the metric eval/return_mean to see the evaluations\n"
    )
    asked = rlctl("plot", "short", "--metric", "eval/return_mean")
    assert (asked.err, asked.out.splitlines()[0]) == ("", "eval/return_mean")


def test_a_single_point_is_a_line_of_text_and_no_empty_chart(rlctl: Rlctl, place: Path) -> None:
    measured_run(RUNS, "point", 0, {"eval/return_mean": [(0, 9.0), (64, 12.0)], "rollout/return_mean": [(64, 20.0)]})
    assert rlctl("plot", "point").out.startswith("eval/return_mean\n")  # two evaluations are more than one epoch
    lone = rlctl("plot", "point", "--metric", "rollout/return_mean")
    assert lone.out.splitlines() == ["rollout/return_mean", "point (n=1): 20.00 at 64 steps"]


def test_runs_of_one_name_and_different_settings_are_different_curves(rlctl: Rlctl, place: Path) -> None:
    for seed, lr in ((0, 1e-3), (1, 1e-3), (0, 1e-4)):
        measured_run(RUNS, "cartpole", seed, learning(50.0, seed), lr=lr)
    out = rlctl("plot", "cartpole").out
    assert "A cartpole train.lr=0.001 (n=2): " in out
    assert "B cartpole train.lr=0.0001 (n=1): " in out


def test_runs_that_are_not_drawn_to_their_end_are_named(rlctl: Rlctl, place: Path) -> None:
    measured_run(RUNS, "group", 0, learning(50.0, 0))
    shorter = measured_run(RUNS, "group", 1, learning(50.0, 1, evaluations=4))
    empty = measured_run(RUNS, "group", 2, {}, state=RunState.FAILED)
    done = rlctl("plot", "group")
    assert "group (n=2): " in done.out
    assert done.err.splitlines() == [
        f"rlctl: note: group: 1 of 3 without eval/return_mean, left out: {empty}",
        f"rlctl: note: group: the curve ends at 4,000 steps with run {shorter}; the longest run has 10,000",
    ]


# -- compare ----------------------------------------------------------------------------------------------------------


def test_twenty_runs_of_two_groups_are_compared_by_name_in_one_command(
    rlctl: Rlctl, two_groups: dict[str, list[str]]
) -> None:
    """Newcomer S2: no table over existing runs, no `rlctl compare`."""
    done = rlctl("compare", "lr1e-3", "lr1e-4")
    assert (done.code, done.err) == (0, "")
    heading, header, first, second = done.out.splitlines()
    assert heading == "eval/return_mean at the end of each run; ppo on CartPole-v1"
    assert re.split(r"  +", header) == ["group", "n", "IQM [95 %]", "mean [95 %]", "P(better than lr1e-3)"]
    assert first.split()[:3] == ["lr1e-3", "10", "198.9"]
    assert first.endswith("  -")
    assert second.split()[:3] == ["lr1e-4", "10", "296.0"]
    assert second.endswith("1.00 [1.00, 1.00]")
    document = rlctl("compare", "lr1e-4", "lr1e-3", "--json").document
    assert (document["metric"], document["direction"], document["notes"]) == ("eval/return_mean", "maximize", [])
    better, worse = document["groups"]
    assert (better["name"], better["n"], better["improvement"]) == ("lr1e-4", 10, None)
    assert worse["improvement"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert [run["id"] for run in worse["runs"]] == two_groups["lr1e-3"]
    assert better["iqm"]["low"] < better["iqm"]["value"] < better["iqm"]["high"]
    less = rlctl("compare", "lr1e-4", "lr1e-3", "--minimize", "--json").document
    assert less["groups"][1]["improvement"]["value"] == 1.0


def test_names_that_do_not_fit_are_letters_in_the_table_and_stand_below_it(
    rlctl: Rlctl, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    names = [f"a-long-name-of-a-group-of-runs-with-{end}" for end in ("lr1e-3", "lr1e-4")]
    for name in names:
        for seed in (0, 1):
            measured_run(RUNS, name, seed, learning(9.0, seed))
    header, first, second, *below = rlctl("compare", *names).out.splitlines()[1:]
    assert header.endswith("P(better than A)")
    assert [line.split()[:2] for line in (first, second)] == [["A", "2"], ["B", "2"]]
    assert below[:2] == [f"A  {names[0]}", f"B  {names[1]}"]
    monkeypatch.setenv("COLUMNS", "200")
    assert rlctl("compare", *names).out.splitlines()[1].endswith(f"P(better than {names[0]})")


def test_the_picture_and_the_table_have_the_same_interval(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    drawn = re.search(r"A lr1e-3 \(n=10\): (\S+ \[.+?\]) at 10,000 steps", rlctl("plot", "lr1e-3", "lr1e-4").out)
    assert drawn is not None
    assert drawn[1] in rlctl("compare", "lr1e-3").out


def test_what_makes_groups_hard_to_compare_is_said(rlctl: Rlctl, place: Path) -> None:
    for seed in (0, 0):
        measured_run(RUNS, "pole", seed, learning(50.0, seed))
    measured_run(RUNS, "moon", 0, learning(50.0, 0, evaluations=4), env_id="Moon-v0", state=RunState.FAILED)
    empty = measured_run(RUNS, "moon", 1, {}, env_id="Moon-v0")
    notes = [line for line in rlctl("compare", "pole", "moon").out.splitlines() if line.startswith("note: ")]
    assert notes == [
        f"note: moon: 1 of 2 without eval/return_mean, left out: {empty}",
        "note: environments differ, so the values do not compare (pole: CartPole-v1; moon: Moon-v0)",
        "note: the last values are of different steps, from 4,000 to 10,000",
        "note: 1 of 3 runs are not COMPLETED (1 FAILED)",
        "note: pole: several runs of seed 0, which are not independent",
        "note: pole: intervals from fewer than 5 runs are too narrow; launch more seeds",
    ]
    moon = rlctl("compare", "pole", "moon", "--json").document["groups"][1]
    assert (moon["n"], moon["mean"]["low"], moon["improvement"]["low"]) == (1, None, None)


def test_without_evaluations_the_training_return_is_compared(rlctl: Rlctl, place: Path) -> None:
    measured_run(RUNS, "early", 0, learning(50.0, 0, evaluations=0))
    measured_run(RUNS, "late", 0, learning(60.0, 0))
    done = rlctl("compare", "early", "late", "--json").document
    assert done["metric"] == "rollout/return_mean"
    assert done["notes"][0] == "early: no evaluation yet, so the training return (rollout/return_mean) is compared"
    assert "no metric 'eval/retrun'" in rlctl("compare", "late", "--metric", "eval/retrun").err


def test_the_same_from_python(two_groups: dict[str, list[str]], place: Path) -> None:
    comparison = orchestrator.compare("lr1e-3", "lr1e-4", envs=["CartPole-v1"])
    first, second = comparison.groups
    assert (first.name, first.n, second.improvement) == ("lr1e-3", 10, (1.0, 1.0, 1.0))
    ends = [learning(200.0, seed)["eval/return_mean"][-1][1] for seed in range(10)]
    assert first.mean is not None
    assert first.mean.value == pytest.approx(sum(ends) / 10)
    measured_run(RUNS, "short", 0, learning(50.0, 0, evaluations=2))
    with pytest.warns(Notice, match="too few for a curve"):
        picture = orchestrator.plot("short", out="short.png", runs_dir="runs")
    assert picture.read_bytes().startswith(b"\x89PNG")


# -- metrics ----------------------------------------------------------------------------------------------------------


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_metrics_of_a_group_as_one_wide_table(rlctl: Rlctl, two_groups: dict[str, list[str]]) -> None:
    done = rlctl("metrics", "lr1e-3", "--csv", "--wide", "--metric", "eval/return_mean")
    table = rows(done.out)
    assert (done.code, done.err, len(table)) == (0, "", 100)
    assert list(table[0]) == ["id", "name", "seed", "step", "eval/return_mean"]
    assert {row["id"] for row in table} == set(two_groups["lr1e-3"])
    one = two_groups["lr1e-3"][0]
    assert rlctl("metrics", one, "--out", "one.csv").out == "one.csv\n"
    long = rows(Path("one.csv").read_text())
    assert (list(long[0]), len(long)) == (["ts", "step", "key", "value", "tags"], 30)
    parquet = rlctl("metrics", one, "--parquet")
    assert (parquet.code, parquet.err) == (2, "rlctl: --parquet: name the file with --out FILE.parquet\n")
    assert "must end with .parquet" in rlctl("metrics", one, "--parquet", "--out", "one.csv").err
    assert "did you mean eval/return_mean?" in rlctl("metrics", one, "--metric", "eval/return_meen").err


def test_event_files_are_made_afterwards(rlctl: Rlctl, place: Path) -> None:
    """Newcomer S4: TensorBoard files could not be made afterwards from metrics.jsonl."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run_id = measured_run(RUNS, "lr1e-3", 4, learning(50.0, 4))
    folder = f"events/lr1e-3-seed4-{run_id[-4:]}"
    assert rlctl("metrics", "lr1e-3", "--tensorboard", "events").out == f"{folder}\n"
    events = EventAccumulator(folder)
    events.Reload()
    assert [event.step for event in events.Scalars("eval/return_mean")] == list(range(1000, 10_001, 1000))
    again = rlctl("metrics", "lr1e-3", "--tensorboard", "events")
    assert (again.code, "is there already" in again.err) == (2, True)


# -- send -------------------------------------------------------------------------------------------------------------


def test_send_says_what_went_where_and_sends_nothing_twice(rlctl: Rlctl) -> None:
    for seed in range(2):
        measured_run(RUNS, "lr1e-3", seed, learning(200.0, seed))
    done = rlctl("send", "lr1e-3", "--to", "csv")
    assert (done.code, done.err, done.out.count(": 30 records\n")) == (0, "", 2)
    again = rlctl("send", "lr1e-3", "--to", "csv", "--json")
    assert [row["records"] for row in json.loads(again.out)] == [0, 0]
    assert len(list(RUNS.glob("*/artifacts/metrics.csv"))) == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "--to: name the sink, one of csv, mlflow, tensorboard, wandb"),
        (("--to", "mlflo"), "unknown sink 'mlflo'; did you mean mlflow?"),
        (("--to", "mlflow", "--set", "urri=x"), "--set urri=x: mlflow.urri: unknown key; did you mean uri?"),
        (("--to", "mlflow", "--set", "uri"), "--set uri: expected KEY=VALUE, for example --set artifacts=false"),
        (("--to", "wandb", "--set", "mode=live"), "--set mode=live: wandb.mode: expected"),
    ],
)
def test_send_refuses_a_mistake_in_one_line(rlctl: Rlctl, arguments: tuple[str, ...], reason: str) -> None:
    measured_run(RUNS, "lr1e-3", 0, learning(200.0, 0))
    done = rlctl("send", "lr1e-3", *arguments)
    assert done.code == 2
    assert reason in done.err
    assert done.err.count("\n") == 1
