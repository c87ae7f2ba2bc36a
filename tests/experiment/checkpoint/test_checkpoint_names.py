"""`last` and `best` are found without loading a checkpoint, and mean what loading one finds."""

from __future__ import annotations

import json
import shutil

import pytest

from rlstudio.core.errors import UserError
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.checkpoint.manifest import folder_name, read_manifests
from rlstudio.experiment.checkpoint.names import checkpoint_names
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.load import choose
from rlstudio.storage.folder import Folder
from support.golden_store import GOLDEN


@pytest.fixture
def run(tmp_path):
    (path,) = (GOLDEN / "run-v2").glob("*-ppo-*")
    shutil.copytree(path, tmp_path / path.name)
    return RunFolder(tmp_path / path.name)


def names_of(run):
    folder = Folder(run.path)
    return checkpoint_names(folder, read_manifests(folder, run.id))


def chosen(run, which):
    return choose(Checkpoints(run.path, run.id, None), run, which).info.step


def test_they_are_those_that_loading_finds(run):
    names = names_of(run)
    assert {word for words in names.values() for word in words} == {"last", "best"}
    for step, words in names.items():
        for word in words:
            assert chosen(run, word) == step


def test_a_state_that_is_damaged_says_nothing(run):
    """The one before it does."""
    before = names_of(run)
    (last,) = (step for step, words in before.items() if "last" in words)
    state = run.path / folder_name(last) / "state.json"
    state.write_text(state.read_text().replace('"best"', '"worst"'))
    (best,) = (step for step, words in names_of(run).items() if "best" in words)
    assert best == chosen(run, "best")


def test_a_best_checkpoint_that_was_not_kept_has_no_name(run):
    (best,) = (step for step, words in names_of(run).items() if "best" in words)
    shutil.rmtree(run.path / folder_name(best))
    assert not any("best" in words for words in names_of(run).values())
    with pytest.raises(UserError, match="no `best` checkpoint yet"):
        choose(Checkpoints(run.path, run.id, None), run, "best")


def test_a_run_without_checkpoints_has_no_names(run):
    shutil.rmtree(run.path / "checkpoints")
    assert json.dumps(names_of(run)) == "{}"
