"""`reproduce`: the verdict in words, as a document and as an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlstudio.cli.commands.again.reproduce import lines
from rlstudio.experiment.analysis.compare_runs import compare_metrics
from rlstudio.experiment.analysis.repeat.comparison import Verdict
from rlstudio.experiment.lineage.changes import OriginChange
from support.cli_scenario import Rlctl
from support.known_once import commit_asked_anew


@pytest.fixture(autouse=True)
def _code_as_it_is_now() -> Iterator[None]:
    with commit_asked_anew():
        yield


def test_the_same_run_once_more(rlctl: Rlctl, run_here: str, place: Path) -> None:
    done = rlctl("reproduce", run_here)
    assert done.code == 0, done.err
    assert "experiment  tiny-again: repeats " in done.out
    assert done.out.splitlines()[-1].startswith("identical: ")
    assert done.out.splitlines()[-1].endswith(" metric values and the state hashes of 2 checkpoints")
    assert len(list((place / "runs").glob("2*"))) == 2
    assert f"reproduces               {run_here}" in rlctl("show", "last", "--lineage").out


def test_another_setting_gives_other_numbers(rlctl: Rlctl, run_here: str) -> None:
    done = rlctl("reproduce", run_here, "train.lr=1e-2", "--epochs", 2)
    assert done.code == 10
    verdict = done.out.splitlines()[-5:]
    assert verdict[0] == "different: first at step 64"
    assert verdict[1].startswith("  train/")
    assert verdict[2].endswith("before it are the same")
    assert verdict[3:] == ["changed since", "  config    train.lr: 0.0003 -> 0.01"]


def test_as_a_document_and_as_an_id(rlctl: Rlctl, run_here: str) -> None:
    document = rlctl("reproduce", run_here, "--epochs", 1, "--json").document
    assert (document["verdict"], document["run"], document["whole"]) == ("identical", run_here, False)
    assert document["changes"] == []
    quiet = rlctl("reproduce", run_here, "--epochs", 1, "-q")
    assert quiet.out.strip() == rlctl("ls", "--limit", 1, "--json").document[0]["id"]


def test_a_run_that_is_not_there(rlctl: Rlctl, run_here: str) -> None:
    refused = rlctl("reproduce", "nothing")
    assert refused.code == 2
    assert refused.err.count("\n") == 1


def test_a_run_that_measured_nothing_is_not_called_the_same(tmp_path: Path) -> None:
    """Newcomer: an environment that raises in its first episode was `identical: 0 metric values`."""
    nothing = compare_metrics(tmp_path, tmp_path)
    verdict = Verdict("a", "b", 0, True, nothing, (), first=None, changes=(), reasons=())
    ((line, _),) = lines(verdict)
    assert line == "identical, as far as can be said: the run had measured nothing when it ended"


def test_of_many_changes_the_first_are_listed(tmp_path: Path) -> None:
    """Between two commits lie hundreds of files."""
    changes = [OriginChange("code", f"src/rlstudio/algos/a{number}.py", "1", "2") for number in range(40)]
    changes.append(OriginChange("library", "torch", "2.12", "2.13"))
    nothing = compare_metrics(tmp_path, tmp_path)
    verdict = Verdict("a", "b", 0, True, nothing, (), first=None, changes=tuple(changes), reasons=())
    listed = [line for line, _ in lines(verdict)][2:]
    assert listed[0] == "  code      src/rlstudio/algos/a0.py: 1 -> 2"
    assert listed[12:] == ["  code      and 28 more; --json names all", "  library   torch: 2.12 -> 2.13"]
