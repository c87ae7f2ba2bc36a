"""Results of the speed table: what is kept of earlier ones, and CleanRL's clone."""

import pytest
from benchmarks.compare import PEERS, arguments, with_stored
from benchmarks.render import report

OLD = {"cores": 2, "processor": "old", "memory_gib": 4, "system": "Linux", "python": "3.11"}
NEW = {**OLD, "processor": "new"}


def result(date, machine, entries, settings):
    sides = {entry.partition("/")[0]: {"torch": "2"} for entry in entries}
    lines = [
        {"entry": entry, "threads": 1, "rep": 0, "steps_per_second": value, "peak_rss_mb": 1.0}
        for entry, value in entries.items()
    ]
    facts = {"command": f"python on {date}", "date": date, "machine": machine, "commit": "c", "versions": sides}
    return {"row": "ppo", **facts, "settings": settings, "not_installed": {}, "measurements": lines}


def test_a_side_that_was_not_measured_keeps_its_numbers_and_where_they_are_from():
    first = result("2026-01-01", OLD, {"rlstudio/native": 10.0, "sb3/sync": 5.0, "skrl/sync": 4.0}, {"lr": 1})
    second = with_stored(result("2026-02-02", NEW, {"skrl/sync": 6.0}, {"lr": 1}), first)
    assert {line["entry"]: line["steps_per_second"] for line in second["measurements"]} == {
        "rlstudio/native": 10.0,
        "sb3/sync": 5.0,
        "skrl/sync": 6.0,
    }
    text = report({"ppo": second})
    assert "| 2.00 | >= 2.7 | **no** | 2026-01-01, 2 cores (old) |" in text  # as measured, not when skrl was
    assert "`python on 2026-02-02`, 2026-02-02; 2 cores (new)" in text
    assert "Stable-Baselines3: `python on 2026-01-01`, 2026-01-01, 2 cores (old)." in text
    third = with_stored(result("2026-03-03", NEW, {"rlstudio/native": 11.0, "sb3/sync": 5.0}, {"lr": 1}), second)
    assert {side: facts["date"] for side, facts in third["earlier"].items()} == {"skrl": "2026-02-02"}


def test_numbers_of_other_settings_are_not_kept():
    first = result("2026-01-01", OLD, {"skrl/sync": 4.0}, {"lr": 1})
    second = result("2026-02-02", NEW, {"sb3/sync": 5.0}, {"lr": 2})
    assert with_stored(second, first) is second


def test_cleanrl_is_measured_only_from_a_clone_of_its_repository(tmp_path, capsys):
    with pytest.raises(SystemExit):
        arguments(["--cleanrl", str(tmp_path)])
    assert "no cleanrl/ppo.py there; name a clone of CleanRL's repository" in capsys.readouterr().err
    (tmp_path / "cleanrl").mkdir()
    (tmp_path / "cleanrl" / "ppo.py").touch()
    assert arguments(["--cleanrl", str(tmp_path)]).cleanrl == tmp_path
    assert "cleanrl" not in PEERS
