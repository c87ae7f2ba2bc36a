"""Envs that break, every way and in every place, in this process and in workers: named, and nothing is left over."""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rlstudio.core.errors import EnvFault, RLStudioError
from rlstudio.core.spaces import Discrete, MultiDiscrete
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.gym.process_env import ProcessVecEnv
from rlstudio.envs.gym.recipe import Recipe
from rlstudio.envs.gym.rows import Misfit, deliverer
from rlstudio.envs.gym.sync import GymnasiumVecEnv
from rlstudio.envs.seeds import EpisodeNoise
from support.deadlines import PATIENCE, SLOWNESS

MISFITS = {
    "shape": r"shape \(2,\), its space says \(3,\)",
    "scalar": r"shape \(\), its space says \(3,\)",
    "text": "not numbers",
    "dtype": "dtype complex",
}


def faulty(fault, where="step", at=3, once=None):
    return Recipe(EnvConfig(id="toys/Faulty-v0", kwargs={"fault": fault, "where": where, "at": at, "once": once}))


HANGS = round(1.5 * SLOWNESS, 1)
"""Seconds after which a worker is taken for one that hangs."""


def workers(recipe, num_envs=2, **options):
    patience = HANGS if recipe.cfg.kwargs.get("fault") in ("hang", "spin") else PATIENCE
    options = {"workers": 1, "step_timeout": patience, "max_restarts": 1} | options
    return ProcessVecEnv(recipe, num_envs, 5, **options)


def play(vec, steps=12):
    vec.reset()
    for step in range(steps):
        vec.step(np.array([step % 2] * vec.num_envs))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fault", MISFITS)
def test_what_does_not_fit_is_named(fault):
    vec = GymnasiumVecEnv(faulty(fault), 2, 5)
    with pytest.raises(EnvFault, match=MISFITS[fault]) as caught:
        play(vec)
    vec.close()
    seed = EpisodeNoise(5, 2, 1).seed(0, 0)
    assert str(caught.value).startswith("env 0 (toys/Faulty-v0): ")
    assert re.search(rf"episode 0 \(seed {seed}\), step 3, last action 0$", str(caught.value))


@pytest.mark.parametrize("make", [lambda recipe: GymnasiumVecEnv(recipe, 2, 5), workers])
@pytest.mark.parametrize(
    ("fault", "said"),
    [("text reward", "reward is the text '1.0'"), ("text terminated", "terminated is the text 'false'")],
)
def test_row_27_text_is_neither_a_reward_nor_an_end(make, fault, said):
    vec = make(faulty(fault))
    with pytest.raises(EnvFault, match=said):
        play(vec)
    vec.close()


@pytest.mark.parametrize(
    ("space", "inside", "outside", "said"),
    [
        (Discrete(4), 3, 4, r"observation is 4, its space counts from 0 up to \[4\]"),
        (Discrete(4), 0, -1, "observation is -1"),
        (MultiDiscrete((2, 3)), [1, 2], [1, 3], r"observation is \[1, 3\], its space counts from 0 up to \[2, 3\]"),
        (MultiDiscrete((2, 3)), [0, 0], [-1, 0], r"observation is \[-1, 0\]"),
    ],
)
def test_row_27_a_choice_that_does_not_exist_is_no_observation(space, inside, outside, said):
    rows = np.zeros((2, *space.shape), np.int64)
    deliver = deliverer(space, rows, 1)
    deliver(np.array(inside))
    assert rows[1].tolist() == inside
    with pytest.raises(Misfit, match=said):
        deliver(np.array(outside))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fault", ["nan", "inf reward", "nan reward", "none reward", "huge reward", "last nan"])
def test_numbers_that_are_not_finite_pass_on_to_the_guard_of_the_collector(fault):
    """One bad number must not end a run of hours: the row guard leaves the row out of learning and counts it."""
    vec = GymnasiumVecEnv(faulty(fault), 2, 5)
    vec.reset()
    seen = []
    for step in range(5):
        result = vec.step(np.array([step % 2] * 2))
        seen.append(bool(np.isfinite(result.successors).all() and np.isfinite(result.rewards).all()))
    vec.close()
    assert seen[:2] == [True, True]
    assert not seen[2]


@pytest.mark.parametrize(
    ("fault", "what"), [("raise", "ZeroDivisionError: the env is broken"), ("sys.exit", "SystemExit")]
)
def test_exceptions_in_step_and_reset(fault, what):
    vec = GymnasiumVecEnv(faulty(fault), 2, 5)
    with pytest.raises(EnvFault, match=rf"env 0 .*raised {what}.*step 3, last action 0"):
        play(vec)
    vec = GymnasiumVecEnv(faulty(fault, "reset"), 2, 5)
    with pytest.raises(EnvFault, match=rf"env 0 .*raised {what}.*step 0, last action none"):
        vec.reset()


def test_a_broken_close_is_forgiven():
    vec = GymnasiumVecEnv(faulty("raise", "close"), 2, 5)
    play(vec, 2)
    vec.close()


def faults_and_places(faults, quick):
    """Every fault in every place; by default only the pairs in `quick`, for each starts several processes."""
    slow = [pytest.mark.slow]
    pairs = [(fault, where) for fault in faults for where in ("reset", "step")]
    cases = [pytest.param(*pair, id="-".join(pair), marks=[] if pair in quick else slow) for pair in pairs]
    return pytest.mark.parametrize(("fault", "where"), cases)


FAILURES = {
    "raise": "raised ZeroDivisionError: the env is broken",
    "exit": "its worker exited with code 3",
    "kill": "its worker killed by SIGKILL",
    "segv": "its worker killed by SIGSEGV",
    "hang": f"its worker hung: no answer within {HANGS:g} s",
}


@pytest.mark.real_process
@faults_and_places(FAILURES, quick=[("raise", "reset"), ("exit", "step"), ("kill", "reset"), ("segv", "step")])
def test_a_worker_that_fails_again_and_again_is_named(fault, where):
    vec = workers(faulty(fault, where))
    children = [handle.process for handle in vec._handles]
    with pytest.raises(EnvFault, match=FAILURES[fault]) as caught:
        play(vec)
    text = str(caught.value)
    assert text.startswith("env 0 (toys/Faulty-v0): ")
    assert "gave up after 1 restarts" in text
    assert f"seed {EpisodeNoise(5, 2, 1).seed(0, 0)}" in text
    assert "\n" not in text
    assert all(child.poll() is not None for child in children)
    assert all(handle.process.poll() is not None for handle in vec._handles)
    with pytest.raises(EnvFault, match="closed"):
        vec.reset()


@pytest.mark.real_process
@faults_and_places(
    ["raise", "exit", "kill", "hang", "spin"], quick=[("raise", "step"), ("exit", "reset"), ("kill", "step")]
)
def test_a_passing_fault_changes_nothing(fault, where, tmp_path):
    """The worker is replaced, its envs replay to the same place, and the trajectory is the undisturbed one."""
    calm = GymnasiumVecEnv(faulty("none"), 3, 5)
    vec = workers(faulty(fault, where, 3, str(tmp_path / "done")), 3, workers=2)
    (tmp_path / "done").unlink(missing_ok=True)  # trying the env out may have set it off; training shall meet it too
    assert np.array_equal(calm.reset(), vec.reset())
    for step in range(20):
        actions = np.array([step % 2, 1, 0])
        for left, right in zip(calm.step(actions)[:5], vec.step(actions)[:5], strict=True):
            assert np.array_equal(left, right)
    assert (tmp_path / "done").exists()
    assert vec.exact is None
    vec.close()


@pytest.mark.real_process
def test_a_worker_stopped_by_a_signal_is_replaced_long_before_its_time_is_over(monkeypatch):
    monkeypatch.setattr("rlstudio.envs.gym.worker_handle.SILENT", 0.2)
    calm, vec = GymnasiumVecEnv(faulty("none"), 3, 5), workers(faulty("none"), 3, workers=2, step_timeout=86_400.0)
    calm.reset()
    vec.reset()
    os.kill(vec._handles[1].process.pid, signal.SIGSTOP)
    for left, right in zip(calm.step(np.array([0, 1, 0]))[:5], vec.step(np.array([0, 1, 0]))[:5], strict=True):
        assert np.array_equal(left, right)
    assert len(vec.restart_reasons) == 1
    assert "its worker hung: stopped by a signal" in vec.restart_reasons[0]
    vec.close()


@pytest.mark.real_process
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("always", [True, False])
def test_numbers_that_are_not_finite_come_from_a_fresh_worker_too_or_are_not_taken(always, tmp_path):
    """By chance, also a second time: the trajectory is the undisturbed one. Always: the row guard has them, and that is
    believed."""
    once = None if always else str(tmp_path / "done")
    vec = workers(faulty("nan", at=5, once=once), 3, workers=2 if always else 1)
    calm = GymnasiumVecEnv(faulty("nan" if always else "none", at=5), 3, 5)
    (tmp_path / "done").unlink(missing_ok=True)
    calm.reset()
    vec.reset()
    for step in range(30):
        if step == 15 and not always:
            (tmp_path / "done").unlink()
        for left, right in zip(calm.step(np.array([0, 1, 0]))[:5], vec.step(np.array([0, 1, 0]))[:5], strict=True):
            assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    assert len(vec.restart_reasons) == 2, "once for each worker, or twice for the only one"
    assert all("its worker gave numbers that are not finite" in reason for reason in vec.restart_reasons)
    vec.close()


@pytest.mark.real_process
def test_a_child_that_an_env_forks_and_that_comes_back_changes_nothing(tmp_path):
    """It would answer in the name of the worker, and write rows too: once while the env is tried out, once in use."""
    once = tmp_path / "done"
    calm = GymnasiumVecEnv(faulty("none"), 3, 5)
    vec = workers(faulty("fork", "step", 3, str(once)), 3)
    assert once.exists()
    once.unlink()
    assert np.array_equal(calm.reset(), vec.reset())
    for step in range(20):
        actions = np.array([step % 2, 1, 0])
        for left, right in zip(calm.step(actions)[:5], vec.step(actions)[:5], strict=True):
            assert np.array_equal(left, right)
    assert once.exists()
    assert vec.restart_reasons == []
    vec.close()


@pytest.mark.real_process
@pytest.mark.parametrize("fault", ["text", "dtype", "shape"])
def test_a_worker_reports_misfits_at_once(fault):
    vec = workers(faulty(fault))
    worker = vec._handles[0].process
    with pytest.raises(EnvFault, match=MISFITS[fault]) as caught:
        play(vec)
    assert "gave up" not in str(caught.value)
    assert worker.poll() is not None


@pytest.mark.real_process
@pytest.mark.parametrize(("fault", "what"), [("raise", "cannot be created|refuses"), ("exit", "exited with code 3")])
def test_a_fault_in_the_constructor(fault, what):
    with pytest.raises(RLStudioError, match=what):
        workers(faulty(fault, "init"))
    if fault == "raise":
        with pytest.raises(RLStudioError, match="refuses"):
            GymnasiumVecEnv(faulty(fault, "init"), 1, 5)


@pytest.mark.real_process
@pytest.mark.parametrize("fault", ["hang", "exit", "raise"])
def test_closing_never_waits_for_an_env(fault, monkeypatch):
    monkeypatch.setattr("rlstudio.envs.gym.process_env.CLOSE_GRACE", 0.2)
    vec = workers(faulty(fault, "close"))
    children = [handle.process for handle in vec._handles]
    play(vec, 2)
    vec.close()
    assert all(child.poll() is not None for child in children)


@pytest.mark.real_process
def test_a_hanging_env_is_replaced_and_then_named(tmp_path):
    """Beyond the steps of the try-out, so that only training meets it: once it passes, for ever it is named."""
    calm = GymnasiumVecEnv(faulty("none", at=30), 2, 5)
    vec = workers(faulty("hang", at=30, once=str(tmp_path / "done")))
    for_ever = workers(faulty("hang", at=30), max_restarts=0)
    with ThreadPoolExecutor(1) as beside:  # both wait equally long
        played = beside.submit(play, for_ever, 40)
        calm.reset()
        vec.reset()
        for _ in range(40):
            for left, right in zip(calm.step(np.array([0, 1]))[:5], vec.step(np.array([0, 1]))[:5], strict=True):
                assert np.array_equal(left, right)
    assert (tmp_path / "done").exists()
    vec.close()
    with pytest.raises(
        EnvFault, match=rf"env 0 .*hung: no answer within {HANGS:g} s; episode 0 .*, step 29, last action 1"
    ):
        played.result()


@pytest.mark.real_process
def test_killed_from_outside_between_steps():
    calm = GymnasiumVecEnv(Recipe(EnvConfig(id="Acrobot-v1")), 4, 1)
    vec = ProcessVecEnv(Recipe(EnvConfig(id="Acrobot-v1")), 4, 1, workers=2, max_restarts=1)
    calm.reset()
    vec.reset()
    for step in range(60):
        if step in (10, 11, 35, 59):
            vec._handles[step % 2].process.kill()
        actions = np.full(4, step % 3)
        for left, right in zip(calm.step(actions)[:5], vec.step(actions)[:5], strict=True):
            assert np.array_equal(left, right)
    position = vec.position()
    for name, value in calm.position().items():
        assert np.array_equal(position[name], value)
    vec.close()


@pytest.mark.real_process
def test_an_env_that_does_not_repeat_itself_is_said_to_be_inexact():
    recipe = Recipe(EnvConfig(id="toys/Restless-v0"))
    vec = GymnasiumVecEnv(recipe, 2, 1)
    vec.reset()
    vec.step(np.array([0, 1]))
    vec.seek(vec.position())
    assert re.search(r"env 1, episode 0: it showed other observations", vec.exact)
    process = ProcessVecEnv(recipe, 2, 1, workers=1)
    process.reset()
    process.step(np.array([0, 1]))
    assert process.exact is None
    os.kill(process._handles[0].process.pid, 9)
    process.step(np.array([0, 1]))
    assert "it showed other observations" in process.exact
    process.close()


def test_an_episode_that_ends_early_in_the_replay_is_said_to_be_inexact():
    vec = GymnasiumVecEnv(Recipe(EnvConfig(id="toys/Leftover-v0")), 1, 1)
    vec.reset()
    for _ in range(4):
        vec.step(np.array([1]))
    position = vec.position()
    position["actions"] = np.zeros(6, np.int64)  # with action 0 the episode is over after 5
    position["lengths"] = np.array([6])
    vec.seek(position)
    assert "ended early" in vec.exact
    assert vec.position()["lengths"].tolist() == [0]
    vec.step(np.array([0]))
