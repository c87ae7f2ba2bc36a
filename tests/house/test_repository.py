"""What stands beside the code: the notebook runs, the hosted workflow is `.ci/run`, owners and milestones name what is
there."""

from __future__ import annotations

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest
import yaml

from support.pages import EXAMPLES, ROOT

GITHUB = ROOT / ".github"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.learning
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells in order, in one namespace and a folder of their own, as a kernel does."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{notebook.name}:{cell['id']}", "exec", dont_inherit=True), names)
    plt.close("all")
    assert (names["run"].state, names["run"].status.epoch) == ("COMPLETED", 6)
    assert Path("first_steps.png").stat().st_size > 1000
    assert [len(group.runs) for group in names["comparison"].groups] == [2, 2]
    assert "3 3072" in capsys.readouterr().out


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_results(notebook: Path) -> None:
    """As format 4.5, which Jupyter opens without asking; results would differ with every run of it."""
    stored = json.loads(notebook.read_text())
    assert (stored["nbformat"], stored["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in stored["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert notebook.name in (EXAMPLES / "README.md").read_text()


def test_the_hosted_workflow_runs_what_developers_run() -> None:
    workflow = yaml.safe_load((GITHUB / "workflows/ci.yml").read_text())
    (job,) = workflow["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[0] == ".ci/run"
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {target for command in commands[1:] for target in command.split()[1:]} <= set(targets)
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    assert job["strategy"]["matrix"]["python"] == [name.rpartition(" ")[2] for name in classifiers if ":: 3." in name]
    assert workflow["permissions"] == {"contents": "read"}


def test_templates_ask_for_something() -> None:
    for form in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")):
        asked = yaml.safe_load(form.read_text())
        if form.name != "config.yml":
            assert {"name", "description", "body"} <= asked.keys(), form
            assert all(part["attributes"]["label"] for part in asked["body"]), form
            assert any(part.get("validations", {}).get("required") for part in asked["body"]), form
    assert "make test" in (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text()


def test_every_line_of_the_owners_is_about_something() -> None:
    lines = [line.split() for line in (GITHUB / "CODEOWNERS").read_text().splitlines()]
    rules = [(words[0], words[1:]) for words in lines if words and not words[0].startswith("#")]
    assert rules[0][0] == "*"
    for pattern, owners in rules:
        assert owners
        assert all(fnmatch(owner, "@*/*") for owner in owners)
        assert pattern == "*" or (ROOT / pattern.strip("/")).exists(), pattern


def test_milestones_name_every_one_and_tests_that_are_there() -> None:
    text = (ROOT / "MILESTONES.md").read_text()
    rows = re.findall(r"^\| (.+) \|$", text, re.MULTILINE)
    first = " ".join(row.partition(" |")[0] for row in rows)
    assert [name for name in ("1a", "1b", "2:", "3:", "4:", *(f"M{n}" for n in range(6))) if name not in first] == []
    proofs = [path for row in rows for path in re.findall(r"`(tests/[\w/.]+)`", row)]
    assert len(proofs) > 25
    assert [path for path in proofs if not (ROOT / path).exists()] == []


def test_the_changes_are_a_release_note() -> None:
    """By area, on few screens: a merge that kept both sides once brought 400 lines of an older list back."""
    text = (ROOT / "CHANGELOG.md").read_text()
    _, unreleased, *released = re.split(r"^## .+$", text, flags=re.MULTILINE)
    bullets = re.findall(r"^- .*", unreleased, re.MULTILINE)
    assert [line for line in bullets if not re.match(r"- \*\*[A-Z][\w ]+\*\*: ", line)] == [], "begin with the area"
    assert all(section.count("\n") <= 200 for section in released)
