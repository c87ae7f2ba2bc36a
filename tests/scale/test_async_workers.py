"""Workers that collect while the run learns: how old their weights may be, and that a log of them is enough."""

import os
import signal

import pytest
import torch

from rlstudio.core.errors import EnvFault, UserError
from rlstudio.envs.gym import worker_handle
from rlstudio.experiment.analysis.repeat.from_log import repeat_run
from rlstudio.experiment.checkpoint.checkpoints import Checkpoints
from rlstudio.experiment.folder.run_folder import RunFolder
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.experiment.metrics.indexed.index import read_series
from rlstudio.models.policies.distributions import log_prob
from rlstudio.scale.workers.ahead import crew as ahead_crew
from support.env_toys import register_toys
from support.sessions import resume, start
from support.worker_runs import opened, pids, run, with_workers

REPLAYED = ("dqn", "qrdqn", "sac", "td3")
LONG = {"ppo": {"epochs": 20}, "a2c": {"epochs": 6}, **{algo: {"epochs": 6} for algo in REPLAYED}}
"""20 updates each, or more."""


def asynchronous(algo, backend="process", **changes):
    rollout = {"mode": "async", **changes.pop("rollout", {})}
    return with_workers(algo, backend, rollout=rollout, train=changes.pop("train", LONG[algo]), **changes)


def log_of(session):
    return list(FragmentLog(session.folder.path).rounds())


def trained(cfg, place, at_tick=None):
    with start(cfg, place) as session:
        for number, _ in enumerate(session):
            if at_tick is not None:
                at_tick(number, session)
    return session


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_updates_of_fresh_rollouts_have_the_same_bits_on_every_backend(algo):
    """One fragment of each worker, always as old as the workers are ahead: no clock decides anything."""
    here, there = (run(asynchronous(algo, backend)) for backend in ("local", "process"))
    assert there.state_hash == here.state_hash
    assert there.metrics[-1]["rollout/staleness_mean"] == 1
    assert run(with_workers(algo, "local", train=LONG[algo])).state_hash != here.state_hash


@pytest.mark.parametrize("most", [1, 3])
def test_what_acted_is_as_old_as_it_may_be_and_says_how_likely_its_actions_were(most):
    with opened(asynchronous("ppo", "local", rollout={"max_staleness": most})) as built:
        trainer, ages, policies = built.trainer, [], []
        for version in range(6):
            policies.append({name: tensor.clone() for name, tensor in trainer.model.state_dict().items()})
            rollout = trainer.source.next()
            acted = max(version - most, 0)
            newest, old = policies[-1], policies[acted]
            trainer.model.load_state_dict(old)
            flat = rollout.flatten()
            expected = log_prob(trainer.model(**flat.only(trainer.model.reads))[0], flat.actions)
            assert torch.allclose(rollout.behaviour_log_probs.flatten(), expected, atol=1e-6)
            trainer.model.load_state_dict(newest)
            ages += [version - tag.version for tag in trainer.source.collector._log[-1].fragments]
            trainer.update(rollout)
    assert ages == [min(version, most) for version in range(6) for _ in range(2)]


@pytest.mark.parametrize(
    "algo", ["ppo", "sac", "dqn", *(pytest.param(algo, marks=pytest.mark.slow) for algo in ("a2c", "qrdqn", "td3"))]
)
def test_a_run_of_20_updates_has_the_same_bits_again_from_its_log(algo, tmp_path):
    """Although a worker is killed, and the run is left in its midst and resumed."""

    def kill_one(number, session):
        if number == 2:
            os.kill(session.runtime.crew._hosts[1].pid, signal.SIGKILL)

    cfg = asynchronous(algo)
    with start(cfg, tmp_path) as session:
        for number, _ in enumerate(session):
            if number == 9:
                break
    halfway = repeat_run(session.folder)
    assert halfway.same
    with resume(RunFolder(session.folder.path)) as session:
        for number, _ in enumerate(session):
            kill_one(number, session)
    assert session.trainer.gradient_steps >= 20
    events = [event["kind"] for event in session.folder.events()]
    assert "env_restarted" in events
    ended = repeat_run(session.folder)
    assert ended.same
    assert ended.env_steps == session.status.env_steps > halfway.env_steps


def test_every_row_of_the_log_is_learned_from_once_and_none_is_missing(tmp_path):
    def strike(number, session):
        if number % 8 == 4:
            for host in session.runtime.crew._hosts:
                os.kill(host.pid, signal.SIGKILL)

    session = trained(asynchronous("sac"), tmp_path, strike)
    tags = [tag for one in log_of(session) for tag in one.fragments]
    per_worker = {worker: sum(tag.steps for tag in tags if tag.worker == worker) for worker in (0, 1)}
    positions = session.trainer.source.collector.state_dict()
    assert per_worker == dict(enumerate(positions["steps"]))
    assert 2 * sum(per_worker.values()) == session.status.env_steps
    assert [state["vector_steps"] for state in positions["slices"]] == positions["steps"]


def test_updates_keep_their_ratio_to_the_rows(tmp_path):
    session = trained(asynchronous("sac"), tmp_path)
    source, train = session.trainer.source, session.cfg.train
    due = source.warmup + (source.samples - 1) // train.gradient_steps * train.train_every
    assert due <= source.env_steps < due + 2 * train.train_every


def test_a_worker_that_is_stopped_is_replaced_though_nobody_waits_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(worker_handle, "SILENT", 1e9)  # who waits for it would wait for ever
    monkeypatch.setattr(ahead_crew, "LOOK_EVERY", 0.0)

    def stop_one(number, session):
        if number == 3:
            os.kill(session.runtime.crew._hosts[0].pid, signal.SIGSTOP)

    session = trained(asynchronous("sac"), tmp_path, stop_one)
    reasons = [event["reason"] for event in session.folder.events() if event["kind"] == "env_restarted"]
    assert reasons == ["envs 0 to 1: its worker hung: stopped by a signal"]
    positions = session.trainer.source.collector.state_dict()
    assert [state["vector_steps"] for state in positions["slices"]] == positions["steps"]


def test_a_worker_that_lags_behind_is_waited_for_in_time(tmp_path):
    cfg = asynchronous("dqn", rollout={"max_staleness": 2})
    stopped = []

    def stop_one(number, session):
        if number == 3:
            stopped.append(session.runtime.crew._hosts[0].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    session = trained(cfg, tmp_path, stop_one)
    ages = [one.version - tag.version for one in log_of(session) for tag in one.fragments]
    assert max(ages) <= 2
    steps, values = read_series(session.folder.path)["rollout/staleness_max"]
    assert len(steps) == 6
    assert max(values) == max(ages)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(worker_handle, "PAUSES", (0.0,))
    monkeypatch.setattr(worker_handle, "SILENT", 0.2)
    register_toys()


@pytest.mark.parametrize("fault", ["exit", "nan"])
def test_a_fragment_that_was_cut_is_collected_anew_with_the_weights_it_had(fault, tmp_path):
    once = str(tmp_path / "once")
    env = {"id": "toys/Faulty-v0", "kwargs": {"fault": fault, "at": 50, "once": once}}
    ended = run(asynchronous("ppo", env=env))
    (tmp_path / "once").touch()
    assert ended.state_hash == run(asynchronous("ppo", "local", env=env)).state_hash
    assert len(ended.restarts) in (1, 2)


def test_a_worker_that_cannot_start_ends_the_run(monkeypatch):
    monkeypatch.setenv("ONLY_PROCESS", str(os.getpid()))
    cfg = asynchronous("ppo", env={"id": "toys/OnlyHere-v0"}, rollout={"max_restarts": 1})
    with pytest.raises(EnvFault, match=r"no display in this process.*; gave up after 1 restarts"):
        run(cfg)


def test_a_checkpoint_says_that_a_resume_is_not_exact_and_why(tmp_path):
    session = trained(asynchronous("ppo", "local"), tmp_path)
    folder = session.folder
    fields = Checkpoints(folder.path, folder.id, lease=None).list()[-1].fields
    assert fields["exact"] is False
    assert fields["exact_reason"].startswith("rollout.mode is async: what workers had under way is collected anew")


def test_a_roll_back_and_a_resume_in_one_process_forget_what_was_under_way():
    with opened(asynchronous("ppo")) as built:
        source = built.trainer.source
        for _ in range(3):
            built.trainer.train_step()
        state = source.state_dict()
        first = source.next().rewards.clone()
        source.load_state_dict(state)
        again = source.next()
        assert torch.equal(again.rewards, first), "from where it was, with the weights that there are"
        assert len(pids(built)) == 2


def test_what_has_no_log_is_not_repeated(tmp_path):
    session = trained(with_workers("ppo", "local"), tmp_path)
    with pytest.raises(UserError, match=r"rollout\.mode is sync, whose bits its config alone decides; launch it again"):
        repeat_run(session.folder)
