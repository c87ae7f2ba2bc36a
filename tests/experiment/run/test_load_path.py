"""`load_agent` takes the path of a run folder, and says so where it is given anything else."""

import pytest

from rlstudio import load_agent
from rlstudio.core.errors import ConfigError, RunNotFound
from rlstudio.experiment.folder.new_run import NewRun
from rlstudio.experiment.folder.run_folder import RunFolder

PLACES = [
    "",
    ".",
    "..",
    "/",
    "runs",
    "runs/",
    "runs/last",
    "runs/old",
    "runs/..",
    "nowhere/20261115-gone",
    "a\0b",
    "a\nb",
]


@pytest.mark.parametrize("place", [*PLACES, "x" * 10_000])
def test_what_is_no_run_folder_is_refused_in_one_line(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    RunFolder.create(tmp_path / "runs", NewRun("old", "ppo", "CartPole-v1", "{}"))
    with pytest.raises(RunNotFound, match="is not the folder of a run; `rlctl ls` lists them") as refused:
        load_agent(place)
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_config_is_named(tmp_path):
    (tmp_path / "20261115-foreign").mkdir()
    with pytest.raises(ConfigError, match=r"20261115-foreign/config\.yaml: no such file"):
        load_agent(tmp_path / "20261115-foreign")
