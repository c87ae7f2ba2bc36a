"""A `gymnasium.vector.VectorEnv` of the user's: true successors whatever its autoreset mode, and misuse in one line."""

import collections

import gymnasium
import numpy as np
import pytest

from rlstudio.core.errors import ConfigError, EnvFault, Incompatible, UserError
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_single, make_vec_env, real_vectorization, resolve_vectorization
from rlstudio.envs.python_envs import given_env
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.environments import spaces_of
from rlstudio.testing import VecEnvContract
from rlstudio.testing.vec_envs import random_actions
from support.contracts import suites
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import only_run, run_to_the_end
from support.vector_toys import BOTH, SYNC, VECTOR, Walk, WalkVector, register_vectors

register_vectors()

MODES = ("NEXT_STEP", "SAME_STEP", "DISABLED")
CASES = [(SYNC, {"mode": mode}) for mode in MODES]
CASES += [(VECTOR, {"mode": mode, "tensors": tensors}) for mode in MODES for tensors in (False, True)]


def vector(id=VECTOR, num_envs=5, infos=(), **kwargs):
    return make_vec_env(EnvConfig(id=id, kwargs=kwargs, infos=infos), num_envs, 3)


class OwnVectorContract(VecEnvContract):
    vectorization = "vector"
    exact = False
    test_an_env_depends_on_nobody_else = None  # copies share a generator


CONTRACTS = {
    "next": {"part": VECTOR, "fields": {"kwargs": {"mode": "NEXT_STEP"}}},
    "same": {"part": VECTOR, "fields": {"kwargs": {"mode": "SAME_STEP"}}},
    "disabled": {"part": SYNC, "fields": {"kwargs": {"mode": "DISABLED"}}},
    "cartpole": {"part": "CartPole-v1"},
}
globals().update(suites(OwnVectorContract, CONTRACTS))


@pytest.mark.parametrize(("id", "kwargs"), CASES)
def test_every_row_is_the_step_of_a_plain_env(id, kwargs):
    """Followed by plain ones that are put where an episode begins: observation, successor, reward, flags, infos."""
    vec, plain = vector(id, infos=("distance", "is_success"), **kwargs), [Walk() for _ in range(5)]
    shown, ends, resets = vec.reset().copy(), 0, 0
    for env, row in zip(plain, shown, strict=True):
        env.reset(options={"x": row[0]})
    for actions in random_actions(vec, 60):
        step = vec.step(actions)
        for index, env in enumerate(plain):
            if step.active is not None and not step.active[index]:
                resets += 1
                assert (step.rewards[index], step.terminated[index], step.truncated[index]) == (0, False, False)
                assert np.isnan(step.infos["distance"][index])
                env.reset(options={"x": step.observations[index][0]})
                continue
            observed, reward, terminated, truncated, info = env.step(actions[index] - 1)
            assert np.array_equal(step.successors[index], observed)
            assert (step.rewards[index], step.terminated[index], step.truncated[index]) == (
                np.float32(reward), terminated, truncated)  # fmt: skip
            assert step.infos["distance"][index] == np.float32(info["distance"])
            assert np.array_equal(step.infos["is_success"][index], info.get("is_success", np.nan), equal_nan=True)
            if terminated or truncated:
                ends += 1
                if step.active is None:
                    env.reset(options={"x": step.observations[index][0]})
            elif step.active is None:
                assert np.array_equal(step.observations[index], observed)
    assert ends > 20
    assert (resets > 15) == (kwargs["mode"] == "NEXT_STEP")


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"id": VECTOR}, "vector"),
        ({"id": BOTH}, "sync"),
        ({"id": BOTH, "vectorization": "vector"}, "vector"),
        ({"id": "support.vector_toys:WalkVector"}, "vector"),
        ({"id": "support.vector_toys:Walk"}, "sync"),
        ({"id": "CartPole-v1"}, "native"),
    ],
)
def test_what_auto_becomes_of_it(fields, kind):
    assert resolve_vectorization(EnvConfig(**fields)) == kind


def test_an_object_of_python():
    assert resolve_vectorization(EnvConfig(id=given_env(WalkVector))) == "vector"
    cfg = EnvConfig(id=given_env(lambda num_envs: WalkVector(num_envs, "NEXT_STEP")))
    vec = make_vec_env(cfg, 3)
    assert (vec.num_envs, vec.resets_take_a_step) == (3, True)
    with pytest.raises(UserError, match="has a fixed number of copies"):
        given_env(WalkVector(4))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"vectorization": "sync"}, ConfigError, "no plain env is registered beside it"),
        ({"vectorization": "async"}, ConfigError, "no plain env is registered beside it"),
        ({"id": "Pendulum-v1", "vectorization": "vector"}, ConfigError, "Pendulum-v1 has no vector_entry_point"),
        ({"id": "rlstudio/Chain-v0", "vectorization": "vector"}, ConfigError, "Chain-v0 has no vector_entry_point"),
        ({"wrappers": ["ClipAction"]}, ConfigError, "env.wrappers: a VectorEnv takes none"),
        ({"action_mask": "info"}, ConfigError, "vector worlds tell no env.action_mask"),
        ({"params": {"gravity": 1.0}}, ConfigError, "env.params: "),
        ({"kwargs": {"mood": 1}}, ConfigError, "env.kwargs: .*unexpected keyword argument 'mood'"),
        ({"id": SYNC, "kwargs": {"mode": "AUTO"}}, ConfigError, "env.kwargs: .*KeyError: 'AUTO' at"),
        ({"kwargs": {"fault": "no mode"}}, EnvFault, "its metadata has no autoreset_mode"),
    ],
)
def test_refusals_in_one_line(fields, error, message):
    cfg = EnvConfig(**{"id": VECTOR, **fields})
    with pytest.raises(error, match=message) as caught:
        make_vec_env(cfg, 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "mode", "message"),
    [
        ("shape", "SAME_STEP", r"\(5 copies\): observation has shape \(5, 1\), 5 copies of its space need \(5, 2\)"),
        ("flags", "SAME_STEP", "terminated has shape"),
        ("raise", "SAME_STEP", r"raised ZeroDivisionError: no way at .*vector_toys.py:\d+; step 1 after reset\(seed="),
        (
            "lost",
            "SAME_STEP",
            r"env \d \(toys/WalkVector-v0\): its episode ended, and infos has no 'final_obs'.*step \d",
        ),
    ],
)
def test_faults_name_what_is_to_blame(fault, mode, message):
    vec = vector(fault=fault, mode=mode)
    vec.reset()
    with pytest.raises(EnvFault, match=message) as caught:
        collections.deque(map(vec.step, random_actions(vec, 30)))
    assert "action" in str(caught.value)


def test_time_limits():
    assert limited(VECTOR, 4) == 4
    assert limited(SYNC, 5) == 5
    gymnasium.register(
        "toys/Endless-v0", vector_entry_point=lambda num_envs, mode="DISABLED": WalkVector(num_envs, mode, 999)
    )
    try:
        assert limited("toys/Endless-v0", 3) == 3  # counted here
        with pytest.raises(ConfigError, match="takes no max_episode_steps, and with autoreset SAME_STEP"):
            limited("toys/Endless-v0", 3, mode="SAME_STEP")
    finally:
        del gymnasium.registry["toys/Endless-v0"]


def limited(id, limit, **kwargs):
    """The length of an episode in which nothing is done."""
    vec = make_vec_env(EnvConfig(id=id, max_episode_steps=limit, kwargs=kwargs), 2, 3)
    vec.reset()
    for t in range(1, 20):
        if vec.step(np.array([1, 1])).truncated[0]:
            return t
    return None


# -- in a run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "env"),
    [
        ("ppo", {"id": VECTOR, "kwargs": {"mode": "NEXT_STEP", "tensors": True}, "infos": ["is_success"]}),
        ("dqn", {"id": "CartPole-v1", "vectorization": "vector"}),
    ],
)
def test_it_is_trained_and_resumed_with_new_episodes(algo, env, tmp_path):
    cfg = tiny(algo, env=env, ckpt={"every_epochs": 1})
    with start(cfg, tmp_path) as session:
        for tick in session:
            if tick.report:
                break
    run = only_run(tmp_path)
    assert "can neither seed nor replay" in run.read_status().exact_reason
    run_to_the_end(cfg, tmp_path)
    assert run.read_status().env_steps == 192


def test_memory_needs_a_reset_without_a_step_of_its_own():
    memory = {"network": {"memory": "gru"}}
    with pytest.raises(Incompatible, match=r"policy.network.memory: .* NEXT_STEP"):
        build(tiny(env={"id": VECTOR, "kwargs": {"mode": "NEXT_STEP"}}, policy=memory))
    build(tiny(env={"id": VECTOR, "kwargs": {"mode": "SAME_STEP"}}, policy=memory)).close()


def test_where_it_is_evaluated():
    """In a plain env of the same id, or else in itself, one episode in each copy."""
    assert real_vectorization(EnvConfig(id=BOTH, vectorization="vector")) == "sync"
    agent = build(tiny(env={"id": VECTOR})).trainer.agent
    first, second = (evaluate(agent, EnvConfig(id=VECTOR), episodes=20, seed=1) for _ in range(2))
    assert first.vectorization == "vector"
    assert first == second
    assert max(first.lengths) <= 9
    assert spaces_of(EnvConfig(id=VECTOR)) == spaces_of(EnvConfig(id=BOTH))
    with pytest.raises(ConfigError, match="filmed alone"):
        make_single(EnvConfig(id=VECTOR), "rgb_array")


# -- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", [VECTOR, SYNC])
def test_good_vectors_have_no_errors(id, mode):
    report = check_env(EnvConfig(id=id, kwargs={"mode": mode}))
    assert report.ok, report.findings
    assert report.steps >= 1000
    assert report.episodes > 50
    assert any("env.infos: distance, is_success" in finding.text for finding in report.findings)


@pytest.mark.parametrize(
    ("fault", "mode", "text"),
    [
        ("shape", "SAME_STEP", "observation has shape (4, 1)"),
        ("nan reward", "DISABLED", "a reward is not finite; env "),
        ("raise", "NEXT_STEP", "raised ZeroDivisionError"),
        ("lost", "SAME_STEP", "infos has no 'final_obs'"),
        ("reset as final", "SAME_STEP", "is the first observation of the next episode"),
        ("same step", "NEXT_STEP", "was paid in the step after its episode's end"),
        ("resets all", "DISABLED", "changed copies that the mask leaves out"),
        ("seed", "SAME_STEP", "the seed is ignored"),
        ("no mode", "SAME_STEP", "no autoreset_mode"),
    ],
)
def test_broken_vectors_are_found_out(fault, mode, text):
    findings = check_env(EnvConfig(id=VECTOR, kwargs={"fault": fault, "mode": mode})).findings
    assert any(finding.severity == "error" and text in finding.text for finding in findings), findings
