"""`make kpi` shows every KPI of the page, and values for those alone that are on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.records import read_result, write_result

from benchmarks import kpi, promises

PAGE = kpi.PAGE.read_text()


def test_every_row_of_the_page_is_a_kpi_with_command_and_goal() -> None:
    listed = list(kpi.listed(PAGE))
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| KPI")]
    assert len(listed) == len(rows) > 20
    assert len({each.name for each in listed}) == len(listed)
    assert all(each.command and each.goal and each.section for each in listed)


def test_what_is_stored_belongs_to_the_page() -> None:
    assert kpi.STORED.keys() <= {each.name for each in kpi.listed(PAGE)}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return kpi.rows()


@pytest.fixture
def _read_once(rows: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kpi, "rows", lambda: rows)


@pytest.mark.usefixtures("_read_once")
def test_each_is_printed_with_its_value_or_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert kpi.main([]) == 0
    text = capsys.readouterr().out
    for each in kpi.listed(PAGE):
        assert f"  {each.name} " in text
        assert f"goal: {each.goal}" in text
    assert "exact-resume kills passed   200 kills, 0 not exact" in text
    assert "measure with: make test" in text


@pytest.mark.usefixtures("_read_once")
def test_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    kpi.main(["--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {"section", "name", "command", "goal", "value", "date"} == rows[0].keys()
    assert sum(bool(row["value"]) for row in rows) >= 10


def test_a_line_of_the_test_plan_is_a_value_once_it_was_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promises, "write_result", lambda name, result: write_result(name, result, tmp_path))
    for module in (promises, kpi):
        monkeypatch.setattr(module, "read_result", lambda name: read_result(name, tmp_path))
    assert kpi.STORED["kill points passed"]() is None
    promises.keep("R4", 1, 7)
    promises.keep("R1", 0, 1234)
    value = kpi.STORED["kill points passed"]()
    assert value is not None
    assert value.text == "1,234 cases of R1 passed"
    failed = kpi.STORED["corruption detected"]()
    assert failed is not None
    assert failed.text == "7 cases of R4 passed, R4 FAILED"


def test_a_line_that_is_not_in_the_test_plan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        promises.main(["R99"])
    assert "no line R99 in docs/reliability.md" in capsys.readouterr().err
