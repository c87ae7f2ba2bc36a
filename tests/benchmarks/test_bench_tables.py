"""From raw numbers to the pages."""

import math

import pytest
from benchmarks.page import replace_between, table
from benchmarks.settings import ROWS, SOLVE_ROW
from benchmarks.summary import failures, solves, speeds

from benchmarks import render


def rate(entry, threads, rep, value, memory=100.0):
    fields = {"entry": entry, "threads": threads, "rep": rep}
    return {**fields, "steps_per_second": value, "peak_rss_mb": memory}


def test_the_median_of_the_repetitions_and_the_better_thread_count_stand():
    rows = [rate("sb3/sync", 1, rep, value) for rep, value in enumerate((10.0, 1000.0, 30.0))]
    rows += [
        rate("sb3/sync", 2, rep, value, memory) for rep, (value, memory) in enumerate(((20, 90), (40, 120), (41, 1)))
    ]
    found = speeds(rows)["sb3/sync"]
    assert found.rates == {1: 30.0, 2: 40.0}
    assert (found.threads, found.best, found.peak_rss_mb) == (2, 40.0, 120)


def test_failed_repetitions_are_named_and_left_out():
    rows = [rate("a", 1, 0, 10.0), {"entry": "a", "threads": 1, "rep": 1, "error": "out of memory"}]
    assert speeds(rows)["a"].best == 10.0
    assert failures(rows) == {"a": "out of memory"}
    assert speeds(rows[1:]) == {}


def test_a_seed_that_never_solves_weighs_on_the_median():
    rows = [{"entry": "a", "seconds": value, "env_steps": 4096} for value in (2.0, None, None)]
    found = solves(rows)["a"]
    assert math.isinf(found.median_s)
    assert found.solved == 1


def stored(measurements):
    machine = {"cores": 2, "processor": "some", "memory_gib": 4, "system": "Linux", "python": "3.11"}
    fields = {"command": "python -m benchmarks.compare", "date": "2026-01-01", "machine": machine}
    return {**fields, "versions": {"sb3": {"torch": "2"}}, "not_installed": {}, "measurements": measurements}


def test_the_report_tells_kept_promises_from_broken_ones():
    rows = [
        rate("rlstudio/native", 1, 0, 280.0, 90.0),
        rate("rlstudio/sync", 1, 0, 210.0),
        rate("sb3/sync", 1, 0, 100.0),
        rate("skrl/sync", 1, 0, 200.0),
    ]
    solve = [{"entry": "rlstudio/native", "seconds": 1.0, "env_steps": 4096},
             {"entry": "sb3/sync", "seconds": 2.0, "env_steps": 4096}]  # fmt: skip
    text = render.report({"ppo": stored(rows), "solve": stored(solve)})
    assert f"{ROWS[0].title} (own NumPy world) | 2.80 | >= 2.7 | yes | 2026-01-01, 2 cores (some) |" in text
    assert f"{ROWS[0].title} (Gymnasium envs, one by one) | 2.10 | >= 2.2 | **no** |" in text
    assert "- its peak memory | 0.90 | <= 1 | yes |" in text
    assert text.count("- to the fastest other library | 1.40 | >= 1 | yes |") == 1  # skrl's 200, not the reference
    assert f"{SOLVE_ROW.title} | 0.50 | <= 0.7 | yes |" in text
    assert text.index("RLStudio (own") < text.index("| Stable-Baselines3")


def test_an_algorithm_from_a_package_of_its_own_is_named_after_it():
    (row,) = (row for row in ROWS if row.key == "qrdqn")
    text = render.report({"qrdqn": stored([rate("sb3/sync", 1, 0, 5.0)])})
    assert "| SB3 Contrib (Gymnasium envs, one by one) | 5 |" in text
    assert {entry.side for entry in row.entries} == {"rlstudio", "sb3", "tianshou"}


def test_a_report_without_the_reference_has_no_ratios_but_stands():
    assert "12 |" in render.report({"dqn": stored([rate("rlstudio/native", 1, 0, 12.0)])})


def test_a_page_changes_between_its_markers_only(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- t:begin -->\nold\n<!-- t:end -->\nafter\n")
    for _ in range(2):  # the second time changes nothing
        replace_between(page, "t", table(["a", "b"], [["1", "2"]]))
    assert page.read_text() == "before\n<!-- t:begin -->\n| a | b |\n|---|---:|\n| 1 | 2 |\n<!-- t:end -->\nafter\n"


def test_a_page_without_markers_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text")
    with pytest.raises(SystemExit, match="expected one"):
        replace_between(page, "t", "x")
    assert page.read_text() == "text"
