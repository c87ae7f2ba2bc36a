"""`rlctl plugins`: what other packages add, told without importing it, and why a broken one is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_scenario import Rlctl
from support.plugins import install_package, on_the_path

SOURCE = """'''Acme: parts from elsewhere.'''
class Planner:
    '''Plans by acme.

    More.'''

def sink(cfg, run_dir):
    '''Writes to acme.'''
"""
GROUPS = {
    "rlstudio.planners": {"acme": "acme_parts:Planner", "cem": "acme_parts:Planner"},
    "rlstudio.sinks": {"acme": "acme_parts:sink", "gone": "acme_parts:Gone"},
    "rlstudio.samplers": {"away": "acme_away:Sampler"},
    "rlstudio.launchers": {"fails": "acme_fails:Launcher"},
    "rlstudio.planers": {"typo": "acme_parts:Planner"},
}


@pytest.fixture
def acme(tmp_path: Path) -> Iterator[None]:
    sources = {"acme_parts.py": SOURCE, "acme_fails.py": "import nothing_like_it\nclass Launcher: ...\n"}
    install_package(tmp_path / "site", "acme-parts", "2.1", GROUPS, sources)
    with on_the_path(tmp_path / "site"):
        yield


def test_nothing_installed_is_one_friendly_line(rlctl: Rlctl) -> None:
    answer = rlctl("plugins")
    assert answer.out.count("\n") == 1
    assert "no package adds a part" in answer.out
    assert "rlstudio.planners" in answer.out
    assert rlctl("plugins", "--json").document == []
    assert rlctl("plugins", "--check").code == 0


@pytest.mark.usefixtures("acme")
def test_every_part_is_listed_with_its_package_and_what_it_is(rlctl: Rlctl) -> None:
    answer = rlctl("plugins", "--json")
    rows = {(row["kind"], row["name"]): row for row in answer.document}
    assert rows["planner", "acme"] == {
        "kind": "planner",
        "name": "acme",
        "package": "acme-parts",
        "version": "2.1",
        "target": "acme_parts:Planner",
        "summary": "Plans by acme.",
        "problem": "",
    }
    assert rows["sink", "acme"]["summary"] == "Writes to acme."
    problems = {key: row["problem"] for key, row in rows.items() if row["problem"]}
    assert problems == {
        ("planner", "cem"): "planner 'cem' is offered by rlstudio (rlstudio.planners.build:cem) and acme-parts "
        "(acme_parts:Planner); uninstall or rename one of them",
        ("sink", "gone"): "acme_parts has no Gone (package acme-parts)",
        ("sampler", "away"): "cannot be read: no module acme_away (package acme-parts)",
        ("", "typo"): problems["", "typo"],
    }
    assert problems["", "typo"].startswith(
        "rlstudio.planers: there is no such group of entry points; there are rlstudio"
    )
    assert not {"acme_parts", "acme_fails"} & set(sys.modules)
    table = rlctl("plugins").out
    assert table.splitlines()[0].split() == ["kind", "name", "package", "version", "summary"]
    assert "acme_parts has no Gone" in table


@pytest.mark.usefixtures("acme")
def test_check_imports_them_and_fails(rlctl: Rlctl) -> None:
    answer = rlctl("plugins", "--check")
    assert answer.code == 2
    assert (
        "cannot be loaded from acme_fails:Launcher: ModuleNotFoundError: No module named 'nothing_like_it'"
        in answer.out
    )
    assert answer.err == "rlctl: 5 of 7 plug-ins cannot be used; repair or uninstall their packages\n"
