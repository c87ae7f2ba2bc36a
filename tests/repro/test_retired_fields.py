"""Runs of an older RLStudio whose config.yaml holds fields that changed nothing and are gone: they go on as they were.

`golden/run-retired-fields` holds two such runs, left half-way: an A2C that stated its `batch_size`, and an MPC with the
settings of learning that every algorithm had.
"""

import shutil
from pathlib import Path

import pytest

from rlstudio.core.config import config_hash
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.config.experiment import experiment_from, load_experiment
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.run.continuation import continuation_of
from rlstudio.experiment.run.load import load_run, read_config
from rlstudio.experiment.training.machine import differences, have_same_probe
from support.sessions import resume
from support.tiny_runs import assert_same_result, run_to_the_end

GOLDEN = Path(__file__).parent.parent / "golden" / "run-retired-fields"
ON_OTHER_MACHINES = {"allow_inexact": True}


@pytest.fixture(params=["a2c", "mpc"])
def old(request, tmp_path):
    (path,) = GOLDEN.glob(f"*-{request.param}-*")
    shutil.copytree(path, tmp_path / path.name)
    return RunFolder(tmp_path / path.name)


def finish(session):
    with session:
        for _ in session:
            pass


def topology(run):
    return Checkpoints(run.path, run.id, None).list()[0].fields["topology"]


def test_it_goes_on_and_ends_like_one_that_never_stopped(old, tmp_path):
    launched_with = old.read_status().config_hash
    whole = run_to_the_end(read_config(old), tmp_path / "whole")
    then, now = topology(old), topology(whole)
    changed = differences(then, now)
    assert not continuation_of(old).edited
    finish(resume(old, allow_inexact=bool(changed)))
    status = old.read_status()
    assert (status.state, status.epoch, status.config_hash) == (RunState.COMPLETED, 8, launched_with)
    if changed or not have_same_probe(then, now):  # the same algorithm, not the same bits
        assert not status.exact
    else:
        assert_same_result(old, whole)


def test_its_agent_can_be_loaded(old):
    assert load_run(old).env_steps in (64, 160)


def test_a_longer_run_has_no_such_field_any_more(old):
    finish(resume(old, ["train.epochs=9"], **ON_OTHER_MACHINES))
    cfg = read_config(old)
    assert "batch_size" not in old.config_path.read_text()
    assert (old.read_status().epoch, old.read_status().config_hash) == (9, config_hash(cfg))
    assert not continuation_of(old, ["train.epochs=10"]).edited


def test_a_changed_value_is_still_an_edit(old):
    text = old.config_path.read_text()
    old.config_path.write_text(text.replace("  batch_size: 1", "  batch_size: 7", 1))
    assert old.config_path.read_text() != text
    with pytest.raises(Incompatible, match="is not what the run was launched with"):
        continuation_of(old)
    finish(resume(old, **ON_OTHER_MACHINES))
    assert not continuation_of(old, ["train.epochs=9"]).edited  # accepted once


def test_only_what_was_stored_is_passed_over(old):
    with pytest.raises(ConfigError, match=r"train\.batch_size: (a2c has no|mpc learns nothing).*leave it out"):
        load_experiment(old.config_path, ["train.batch_size=10"], stored=True)
    with pytest.raises(ConfigError, match=r"train\.batch_size: .*leave it out"):
        load_experiment(old.config_path)


@pytest.mark.parametrize("field", ["lr", "lr_schedule", "max_grad_norm", "batch_size"])
def test_what_learns_nothing_takes_no_settings_of_learning(field):
    data = {"env": {"id": "CartPole-v1"}, "policy": {"algo": "mpc"}, "train": {field: 1}}
    with pytest.raises(ConfigError, match=rf"train\.{field}: mpc learns nothing; leave it out"):
        experiment_from(data)
    data["train"] = {"learning_rate": 1}  # a field that never was has no such tolerance
    with pytest.raises(ConfigError, match=r"train\.learning_rate: unknown key"):
        experiment_from(data, stored=True)
