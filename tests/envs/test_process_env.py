"""Worker processes: what they load, what they leave behind, how they die."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from rlstudio.core.config import config_hash
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.process_env import ProcessVecEnv
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.make import make_vec_env
from rlstudio.experiment.metrics.indexed.index import read_series
from support.deadlines import PATIENCE
from support.experiments import tiny
from support.sessions import start

pytestmark = pytest.mark.real_process


FOUR = {"id": "CartPole-v1", "num_envs": 4, "vectorization": "async"}


def cartpole(num_envs=4, **options):
    return ProcessVecEnv(Recipe(EnvConfig(id="CartPole-v1")), num_envs, 3, **({"workers": 2} | options))


def gone(pids):
    """Whether these processes end; the time is only there to give up."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.cold_start
def test_a_worker_maps_no_torch():
    import torch  # the parent has it, as in training

    libraries = str(Path(torch.__file__).parent)
    vec = cartpole(2)
    vec.reset()
    for handle in vec._handles:
        assert libraries not in Path(f"/proc/{handle.process.pid}/maps").read_text()
    vec.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_nothing_is_left_after_close(rounds):
    warm = cartpole(1)
    warm.close()
    gc.collect()  # what earlier tests left to the collector is not ours to count
    before = len(os.listdir("/proc/self/fd"))  # the shared memory is a descriptor too
    for _ in range(rounds):
        vec = cartpole()
        pids = [handle.process.pid for handle in vec._handles]
        vec.reset()
        vec.step(np.zeros(4, int))
        vec._handles[0].process.kill()
        vec.step(np.zeros(4, int))
        pids += [handle.process.pid for handle in vec._handles]
        vec.close()
        assert not any(psutil.pid_exists(pid) for pid in pids)
        del vec
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_an_object_that_nobody_closed_takes_its_workers_along():
    vec = cartpole(1, workers=1)
    pid = vec._handles[0].process.pid
    del vec
    gc.collect()
    assert not psutil.pid_exists(pid)


def test_rows_outlive_the_workers():
    vec = cartpole(2)
    vec.reset()
    step = vec.step(np.zeros(2, int))
    vec.close()
    del vec
    gc.collect()
    assert np.isfinite(step.observations).all()


def test_ctrl_c_is_the_parents_alone():
    vec = cartpole(2)
    vec.reset()
    for handle in vec._handles:
        handle.process.send_signal(signal.SIGINT)
    pids = [handle.process.pid for handle in vec._handles]
    for _ in range(20):
        vec.step(np.zeros(2, int))
    assert [handle.process.pid for handle in vec._handles] == pids
    vec.close()


def test_workers_do_not_outlive_a_killed_parent():
    """Idle, asleep in an env, or busy in one: the parent is gone, and so are they."""
    code = """
        import numpy as np, sys, threading
        from support.env_toys import register_toys
        from rlstudio.envs.config import EnvConfig
        from rlstudio.envs.gym.process_env import ProcessVecEnv
        from rlstudio.envs.gym.recipe import Recipe
        register_toys()

        def vector(fault, workers):
            kwargs = {"fault": fault, "at": 30}
            vec = ProcessVecEnv(Recipe(EnvConfig(id="toys/Faulty-v0", kwargs=kwargs)), workers, 0, workers=workers)
            vec.reset()
            return vec

        def step_for_ever(vec):
            while True:
                vec.step(np.zeros(1, int))

        vectors = [vector("none", 2), vector("hang", 1), vector("spin", 1)]
        for vec in vectors[1:]:
            for _ in range(29):
                vec.step(np.zeros(1, int))
            threading.Thread(target=step_for_ever, args=[vec], daemon=True).start()
        print(*[handle.process.pid for vec in vectors for handle in vec._handles], flush=True)
        sys.stdin.read()
    """
    path = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 4
    assert all(psutil.pid_exists(pid) for pid in pids)
    parent.kill()
    parent.wait()
    assert gone(pids)


def test_more_workers_than_envs_are_not_started():
    vec = cartpole(2, workers=5)
    assert len(vec._handles) == 2
    vec.close()


def test_the_number_of_workers_changes_nothing():
    """Not even the hash of the experiment."""
    one, three = (make_vec_env(tiny(env={**FOUR, "workers": workers}).env) for workers in (1, 3))
    assert [len(vec._handles) for vec in (one, three)] == [1, 3]
    assert config_hash(tiny(env={**FOUR, "workers": 3})) == config_hash(tiny(env=FOUR))
    assert np.array_equal(one.reset(), three.reset())
    rng = np.random.default_rng(0)
    for _ in range(100):
        actions = rng.integers(0, 2, 4)
        for left, right in zip(one.step(actions)[:5], three.step(actions)[:5], strict=True):
            assert np.array_equal(left, right)
    one.close()
    three.close()


def test_row_34_every_restart_is_an_event_and_a_metric(tmp_path):
    cfg = tiny(env={"vectorization": "async", "num_envs": 2}, train={"epochs": 3})
    with start(cfg, tmp_path / "runs") as session:
        for tick in session:
            if tick.epoch == 1 and tick.report:
                session.runtime.env._handles[0].process.kill()
    events = [event for event in session.folder.events() if event["kind"] == "env_restarted"]
    assert ["killed by SIGKILL" in event["reason"] for event in events] == [True]
    assert read_series(session.folder.path)["env/restarts"][1] == [0.0, 1.0, 0.0]
