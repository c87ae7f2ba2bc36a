"""How a session ends when something goes wrong at its end, and what a later session makes of it."""

import os
import signal
import time

import numpy as np
import pytest

from rlstudio.cli.screen.summary import header
from rlstudio.core.errors import ConfigError, GateFailed, Incompatible, StorageError, UserError
from rlstudio.core.run_state import RunState
from rlstudio.data.replay import buffer as replay_module
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.judging.evaluate import Evaluator
from rlstudio.experiment.judging.guardrails import Guardrails
from rlstudio.experiment.run import run_writer
from rlstudio.experiment.run.load import load_agent
from rlstudio.experiment.run.session import Session
from rlstudio.experiment.run.signals import Interrupted
from rlstudio.experiment.training.build import build_runtime, build_trainer
from support.processes import in_child
from support.sessions import resume, start
from support.tiny_runs import TRAIN, assert_same_result, config, only_run, run_to_the_end


def stopped_at(tmp_path, epoch: int, **sections):
    with start(config("ppo", "native", **sections), tmp_path) as session:
        for tick in session:
            if tick.epoch == epoch:
                break
    return only_run(tmp_path)


def diverge_once_at(monkeypatch, epoch: int) -> None:
    judge = Guardrails.judge

    def judged(self, report, trainer):
        first = "attempt" not in trainer.source.collector._noise.rng.path
        return "a made-up reason" if report.epoch == epoch and first else judge(self, report, trainer)

    monkeypatch.setattr(Guardrails, "judge", judged)


def test_a_final_gate_that_failed_is_not_forgotten_by_a_resume(tmp_path):
    cfg = config("ppo", "native", gates={"min_return": 1e6}, eval={"every_epochs": 0, "final_episodes": 2})
    for _ in range(2):
        with pytest.raises(GateFailed, match="min_return"):
            run_to_the_end(cfg, tmp_path)
        status = only_run(tmp_path).read_status()
        assert (status.state, status.reason) == (RunState.FAILED, "gate_failed")


GOAL = {"gates": {"stop_at": 1.0, "stop_after": 2}, "eval": {"every_epochs": 2, "episodes": 2, "final_episodes": 2}}


def test_a_run_ends_when_its_goal_is_reached_also_after_a_kill(tmp_path, monkeypatch):
    """CartPole gives a point for every step: the first two evaluations, after epochs 2 and 4, reach 1."""
    cfg = config("ppo", "native", **GOAL)
    whole = run_to_the_end(cfg, tmp_path / "whole")
    status = whole.read_status()
    assert (status.state, status.reason, status.epoch) == (RunState.COMPLETED, "goal", 4)
    assert status.message == "reached gates.stop_at=1 in 2 evaluations in a row after 4 of 12 epochs"
    with pytest.raises(
        UserError, match=rf"reached .*; train on from there with: rlctl fork {whole.id} gates.stop_at=null"
    ):
        resume(whole)
    monkeypatch.setattr(
        "rlstudio.experiment.judging.gates.Gates.judge_final", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    )
    assert in_child(lambda: run_to_the_end(cfg, tmp_path / "killed")) == 9
    monkeypatch.undo()
    assert_same_result(run_to_the_end(cfg, tmp_path / "killed"), whole)
    assert only_run(tmp_path / "killed").read_status().reason == "goal"


@pytest.mark.real_process
def test_a_run_killed_before_its_first_checkpoint_counts_from_zero_again(tmp_path):
    """It was said to go on from the last step that it had reported, and trained from the first."""
    cfg = config("ppo", "native", ckpt={"every_seconds": None, "every_epochs": 100})

    def killed_after_two_epochs() -> None:
        with start(cfg, tmp_path) as session:
            for tick in session:
                if tick.epoch == 2 and tick.report:
                    session.folder.write_status(session.status)
                if tick.epoch == 3:
                    os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(killed_after_two_epochs) == 9
    run = only_run(tmp_path)
    assert run.read_status().env_steps > 0
    with resume(run) as session:
        status = session.status
        assert (status.env_steps, status.gradient_steps, status.epoch) == (0, 0, 0)
        assert (status.eval_return, status.train_return) == (None, None)
        assert "goes on     from the beginning: it has no checkpoint yet" in header(session, "a file")


def test_a_new_run_from_a_file_called_resumed_does_not_go_on(tmp_path):
    with start(config("ppo", "native"), tmp_path) as session:
        assert not [line for line in header(session, "resumed.yaml") if line.startswith("goes on")]


@pytest.mark.real_process
def test_a_run_killed_before_its_final_gate_is_judged_by_the_next_session(tmp_path, monkeypatch):
    cfg = config("ppo", "native", gates={"min_return": 1e6}, eval={"every_epochs": 0, "final_episodes": 2})
    monkeypatch.setattr(
        "rlstudio.experiment.judging.gates.Gates.judge_final", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    )
    assert in_child(lambda: run_to_the_end(cfg, tmp_path)) == 9
    monkeypatch.undo()
    with pytest.raises(GateFailed, match="min_return"):
        run_to_the_end(cfg, tmp_path)


@pytest.mark.parametrize("by_signal", [True, False])
def test_a_disk_that_refuses_the_last_checkpoint_is_told(by_signal, tmp_path):
    def refused(*_):
        raise StorageError("no space left")

    with start(config("ppo", "native"), tmp_path) as session:
        ticks = iter(session)
        next(ticks)
        session.writer.save = refused
        if by_signal:
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(StorageError, match="no space left"):
            next(ticks) if by_signal else ticks.close()
        status = session.folder.read_status()
    assert (status.state, status.reason) == (RunState.INTERRUPTED, "storage")


def test_closing_a_session_saves_a_loop_that_is_still_held(tmp_path):
    with start(config("dqn", "native"), tmp_path) as session:
        ticks = iter(session)
        for _ in range(5):
            tick = next(ticks)
    status = only_run(tmp_path).read_status()
    assert (status.state, status.reason, status.env_steps) == (RunState.INTERRUPTED, "user", tick.env_steps)
    assert next(ticks, None) is None


def test_a_session_that_cannot_be_built_leaves_no_env_and_no_lock(tmp_path, monkeypatch):
    run = stopped_at(tmp_path, 3)
    closed = []

    def refused(*_):
        raise UserError("no such sink")

    def watched(cfg):
        env = build_runtime(cfg)
        env.close = lambda: closed.append(env)
        return env

    monkeypatch.setattr("rlstudio.experiment.run.session.Recorder", refused)
    monkeypatch.setattr("rlstudio.experiment.run.session.build_runtime", watched)
    with pytest.raises(UserError, match="no such sink"):
        resume(run)
    assert len(closed) == 1
    monkeypatch.undo()
    resume(run).close()


def test_a_config_edited_by_hand_is_refused_unless_accepted_and_then_remembered(tmp_path):
    run = stopped_at(tmp_path, 3)
    text = run.read_config()
    run.write_config(text.replace("clip: 0.2", "clip: 0.3"))
    with pytest.raises(Incompatible, match=r"config\.yaml: is not what the run was launched with.*--allow-inexact"):
        resume(run)
    with resume(run, allow_inexact=True) as session:
        next(iter(session))
    assert run.read_status().exact_reason == "config.yaml was edited"
    resume(run).close()  # accepted once and for all


def test_epochs_changed_in_the_file_count_like_the_override(tmp_path):
    run = stopped_at(tmp_path, 3)
    run.write_config(run.read_config().replace("epochs: 12", "epochs: 14"))
    before = run.read_status()
    for _ in range(2):
        with resume(run) as session:
            assert session.status.exact
            assert session.status.total_epochs == 14
            assert session.status.config_hash != before.config_hash
        run.write_status(before)  # as if killed after the file was written and before the status was


def test_a_run_cannot_be_made_shorter_than_it_is(tmp_path):
    with pytest.raises(UserError, match=r"train.epochs=2, but it has done 5 already"):
        resume(stopped_at(tmp_path, 5), ["train.epochs=2"])


def test_updates_that_share_a_step_do_not_replace_the_way_back(tmp_path, monkeypatch):
    """Three updates per round: the checkpoint at an epoch's end and a later one by the clock have the same step."""
    diverge_once_at(monkeypatch, 3)
    train = {**TRAIN["dqn"], "epochs": 4, "train_every": 32, "gradient_steps": 3}
    one, other = (
        run_to_the_end(
            config("dqn", "native", train=train, guardrails={"rollback_every_epochs": 2}, ckpt=ckpt), tmp_path / str(i)
        )
        for i, ckpt in enumerate([{"every_seconds": None}, {"every_seconds": 1e-9}])
    )
    assert_same_result(other, one)


def test_a_roll_back_to_the_start_forgets_the_old_rows(tmp_path, monkeypatch):
    """Segments are known by row numbers, and another attempt gives the same numbers to other rows."""
    monkeypatch.setattr(replay_module, "SEGMENT_ROWS", 64)
    diverge_once_at(monkeypatch, 3)
    cfg = config("dqn", "native", ckpt={"every_seconds": None, "every_epochs": 1})
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.epoch == 3:
                break
        replay = session.trainer.source.replay
    run = only_run(tmp_path)
    assert "rolled_back" in [event["kind"] for event in run.events()]
    stored = Checkpoints(run.path, run.id, None).newest_good().loaded.content
    again = build_trainer(cfg, build_runtime(cfg)).source.replay
    again.load_state_dict(stored["trainer_state"]["source"]["replay"])
    assert np.array_equal(again.store.rows, replay.store.rows)


def test_a_limit_on_a_metric_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"guardrails.limits: no metric 'train/kll'; did you mean train/kl\?"):
        run_to_the_end(config("ppo", "native", guardrails={"limits": {"train/kll": 1.0}}), tmp_path)
    assert only_run(tmp_path).read_status().reason == "config"


def test_a_best_checkpoint_that_was_not_kept_is_said_to_be_missing(tmp_path):
    run = stopped_at(tmp_path, 3, eval={"every_epochs": 2, "episodes": 1}, ckpt={"keep_best": False})
    with pytest.raises(UserError, match="no `best` checkpoint yet: it is chosen at the first evaluation"):
        load_agent(run.path, "best")


def test_reading_a_run_in_training_outlives_a_pruned_checkpoint(tmp_path, monkeypatch):
    """The only checkpoint was listed, then a newer one takes its place before it is read."""
    run = stopped_at(tmp_path, 3, ckpt={"every_seconds": None, "every_epochs": 1, "keep_last": 2})
    old, new = sorted((run.path / "checkpoints").iterdir())
    later, load = run.path / "later", Checkpoints.load
    new.rename(later)

    def load_late(self, step, **options):
        if later.exists():
            later.rename(new)
            old.rename(run.path / "pruned")
        return load(self, step, **options)

    monkeypatch.setattr(Checkpoints, "load", load_late)
    assert load_agent(run.path).act(np.zeros(4, np.float32)) in (0, 1)
    assert new.exists()


# -- signals --------------------------------------------------------------------------------------------------------


def test_an_alarm_of_somebody_else_does_not_end_the_run(tmp_path):
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append("alarm"))
    try:
        with start(config("ppo", "native"), tmp_path) as session:
            for tick in session:
                if tick.epoch == 3 and not heard:
                    os.kill(os.getpid(), signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard == ["alarm"]
    assert only_run(tmp_path).read_status().state == RunState.COMPLETED


def test_a_run_under_nohup_outlives_its_terminal(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with start(config("ppo", "native"), tmp_path) as session:
            for _ in session:
                os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert only_run(tmp_path).read_status().state == RunState.COMPLETED


def test_a_signal_ends_the_loop_and_gives_the_handlers_back(tmp_path):
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)]
    with start(config("ppo", "native"), tmp_path) as session:
        ticks = iter(session)
        next(ticks)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted, match="SIGTERM"):
            next(ticks)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.real_process
def test_when_the_grace_is_over_the_process_is_gone_even_if_nothing_can_be_written(tmp_path, monkeypatch):
    def refused(*_):
        raise StorageError("no space left")

    def stuck():
        monkeypatch.setattr(Session, "_grace_over", refused)
        with start(config("ppo", "native"), tmp_path) as session:
            session.signals._grace = 0.01
            for _ in session:
                os.kill(os.getpid(), signal.SIGTERM)
                while True:
                    time.sleep(1)

    assert os.waitstatus_to_exitcode(in_child(stuck)) == 128 + signal.SIGTERM


def test_a_signal_ends_an_evaluation_at_once_and_nothing_is_lost(tmp_path, monkeypatch):
    """Newcomer S3: during an evaluation Ctrl-C was answered by seconds of silence. The evaluation that was broken off
    (before the first step, during training, the final one) is made first when the run goes on."""
    cfg, evaluate, count, chosen = config("ppo", "native"), Evaluator.run, 0, 0

    def interrupted(self, agent):
        nonlocal count
        count += 1
        if count == chosen:
            os.kill(os.getpid(), signal.SIGINT)
        return evaluate(self, agent)

    monkeypatch.setattr(Evaluator, "run", interrupted)
    whole = run_to_the_end(cfg, tmp_path / "whole")
    for chosen, env_steps in {1: 0, 2: 4 * 128, count: 12 * 128}.items():
        count = 0
        with pytest.raises(Interrupted, match="SIGINT"):
            run_to_the_end(cfg, tmp_path / str(chosen))
        status = only_run(tmp_path / str(chosen)).read_status()
        assert (status.state, status.reason, status.env_steps) == (RunState.INTERRUPTED, "signal", env_steps)
        assert_same_result(run_to_the_end(cfg, tmp_path / str(chosen)), whole)


def test_after_a_slow_tick_a_checkpoint_is_due_unless_saving_is_slow_too(tmp_path, monkeypatch):
    """Newcomer S3: Ctrl-C within a slow rollout loses that rollout at most."""
    now = 0.0
    monkeypatch.setattr(run_writer.time, "monotonic", lambda: now)
    with start(config("ppo", "native", ckpt={"every_seconds": 1000.0}), tmp_path) as session:
        writer = session.writer
        due = []
        for wait in (0.1, 1.9, 2.1, 0.1, 5.0):
            now += wait
            due.append(writer.due())
        assert due == [False, False, True, False, True]
        writer._save_seconds = 1.0
        now += 5.0
        assert not writer.due()
        now += 10.1
        assert writer.due()
