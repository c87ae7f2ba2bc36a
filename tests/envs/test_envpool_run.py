"""A run on EnvPool: it says that it is not exact, is judged on the plain env, and goes on after a stop all the same."""

import pytest

from rlstudio.core.run_state import RunState
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from support.experiments import tiny
from support.sessions import resume, start


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_that_cannot_be_exact_says_so_and_goes_on(algo, tmp_path):
    cfg = tiny(
        algo,
        env={"vectorization": "envpool"},
        train={"epochs": 4},
        ckpt={"every_epochs": 1, "every_seconds": None},
    )
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.report is not None and session.position.epoch == 2:
                break
    folder = session.folder
    assert not folder.read_status().exact
    (newest, *_) = Checkpoints(folder.path, folder.id, lease=None).list()
    assert newest.fields["exact"] is False
    assert "EnvPool can neither seed nor replay an episode" in newest.fields["exact_reason"]

    with resume(folder) as session:
        assert session.trainer.source.env_steps == newest.fields["env_steps"]
        assert session.runtime.env.restarted
        for _ in session:
            pass
        assert session.evaluation.vectorization == "sync"
    status = folder.read_status()
    assert (status.state, status.epoch, status.env_steps) == (RunState.COMPLETED, 4, 4 * 64)
    assert not status.exact
