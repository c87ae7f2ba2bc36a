"""`env.infos`: chosen keys of Gymnasium's info as columns of a Step, alike in this process, workers and EnvPool."""

import re

import numpy as np
import pytest

from rlstudio.core.config import config_hash, parse
from rlstudio.core.errors import ConfigError, EnvFault
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env, resolve_vectorization
from rlstudio.testing.vec_envs import played, random_actions, same_steps
from support.env_toys import ODD

KEYS = ("is_success", "ones")


def errands(vectorization, num_envs=5, infos=KEYS, **kwargs):
    return make_vec_env(
        EnvConfig(id="toys/Errand-v0", infos=infos, kwargs=kwargs), num_envs, 7, vectorization=vectorization
    )


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_each_step_has_what_the_info_gave_and_nan_for_what_it_did_not(vectorization):
    vec = errands(vectorization)
    assert vec.spaces.infos == KEYS
    vec.reset()
    ends = 0
    for step in played(vec, random_actions(vec, 40)):
        assert tuple(step.infos) == KEYS
        assert all(column.dtype == np.float32 for column in step.infos.values())
        taken, ones = step.successors.T
        assert np.array_equal(step.infos["ones"], ones)  # of the step, not of the reset that followed
        expected = np.where(step.terminated, 2 * ones > taken, np.nan)
        assert np.array_equal(step.infos["is_success"], expected, equal_nan=True)
        ends += step.terminated.sum()
    assert ends > 20
    vec.close()


def test_workers_give_what_one_process_gives_also_after_a_kill_and_a_seek():
    here, there = errands("sync"), errands("async")
    for vec in (here, there):
        vec.reset()
    actions = random_actions(here, 60)
    assert same_steps(played(here, actions[:31]), played(there, actions[:31]))
    there._handles[0].process.kill()  # it is replaced, and its envs are replayed
    fresh = errands("async")
    fresh.seek(here.position())
    after = played(here, actions[31:])
    assert same_steps(after, played(there, actions[31:]))
    assert same_steps(after, played(fresh, actions[31:]))
    for vec in (there, fresh):
        vec.close()


def test_the_rest_of_a_step_does_not_depend_on_the_infos():
    with_infos, without = errands("sync"), errands("sync", infos=())
    for vec in (with_infos, without):
        vec.reset()
    actions = random_actions(without, 40)
    for one, other in zip(played(with_infos, actions), played(without, actions), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one[:5], other[:5], strict=True))
        assert other.infos == {}
    assert with_infos.spaces == without.spaces  # an agent of one fits the other


def test_a_key_that_the_env_never_gives_is_nan():
    vec = errands("sync", infos=("elsewhere",))
    vec.reset()
    assert all(np.isnan(step.infos["elsewhere"]).all() for step in played(vec, random_actions(vec, 20)))


@pytest.mark.parametrize(
    ("vectorization", "odd", "kind"),
    [
        ("sync", "text", "a str"),
        ("sync", "none", "a NoneType"),
        ("sync", "list", "a list"),
        ("sync", "row", "an array of shape (1,)"),
        ("sync", "complex", "a complex64"),
        ("async", "text", "a str"),
    ],
)
def test_what_is_no_number_is_a_fault_that_names_it(vectorization, odd, kind):
    vec = errands(vectorization, num_envs=2, odd=odd)
    vec.reset()
    reason = f"(toys/Errand-v0): info 'is_success' is {kind}, not a number; leave it out of env.infos; episode 0"
    with pytest.raises(EnvFault, match=re.escape(reason)) as caught:
        played(vec, random_actions(vec, 20))
    assert "\n" not in str(caught.value)
    vec.close()


def test_every_odd_value_is_tried_and_harms_nobody_who_does_not_ask_for_it():
    for odd in ODD:
        vec = errands("sync", infos=("ones",), odd=odd)
        vec.reset()
        played(vec, random_actions(vec, 20))


# -- EnvPool -----------------------------------------------------------------------------------------------------------


def test_envpool_gives_its_own_keys():
    """It counts the steps of each episode; where one ended, the number is that of the step, not of the reset."""
    cfg = EnvConfig(id="CartPole-v1", infos=["elapsed_step"])
    vec = make_vec_env(cfg, 4, 7, vectorization="envpool")
    vec.reset()
    elapsed, ends = np.zeros(4), 0
    for step in played(vec, random_actions(vec, 80)):
        elapsed += 1
        assert np.array_equal(step.infos["elapsed_step"], elapsed)
        ended = step.terminated | step.truncated
        ends += ended.sum()
        elapsed[ended] = 0
    assert ends > 3


def test_envpool_refuses_at_once_what_it_has_not():
    cfg = EnvConfig(id="CartPole-v1", infos=["elapsed_stop"])
    with pytest.raises(
        ConfigError,
        match=r"^env.infos: EnvPool's CartPole-v1 gives no number 'elapsed_stop'; did you "
        r"mean elapsed_step\? it has: elapsed_step, env_id",
    ):
        make_vec_env(cfg, 2, vectorization="envpool")


# -- the setting -------------------------------------------------------------------------------------------------------


def test_auto_takes_gymnasium_where_infos_are_chosen():
    assert resolve_vectorization(EnvConfig(id="CartPole-v1")) == "native"
    assert resolve_vectorization(EnvConfig(id="CartPole-v1", infos=["x"])) == "sync"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"id": "CartPole-v1", "vectorization": "native"},
            "env.vectorization: a native world gives no info for env.infos",
        ),
        ({"id": "rlstudio/Chain-v0"}, "env.infos: rlstudio/Chain-v0 is a native world, which gives no info; leave"),
        ({"id": "rlstudio/Chain-v0", "vectorization": "sync"}, "env.infos: rlstudio/Chain-v0 is a native world"),
        ({"id": "CartPole-v1", "params": {"gravity": 9.0}}, "env.infos: CartPole-v1 with env.params is a native world"),
    ],
)
def test_native_worlds_have_no_info(fields, reason):
    with pytest.raises(ConfigError, match=f"^{reason}"):
        make_vec_env(EnvConfig(infos=["x"], **fields), 2)


@pytest.mark.parametrize(
    ("infos", "reason"),
    [
        (["a.b"], "env.yaml: infos: 'a.b' is no plain key; use letters, digits, _ and -, at most 64 of them"),
        ([""], "env.yaml: infos: '' is no plain key"),
        (["x" * 65], "env.yaml: infos: .* is no plain key"),
        (["return_mean"], "env.yaml: infos: return_mean is a metric of every run; let the env give that number under"),
        (["a", "b", "a"], "env.yaml: infos: a is listed twice; leave one out"),
        ([f"k{n}" for n in range(17)], "env.yaml: infos: .*16"),
        ("is_success", "env.yaml: infos: .*list"),
        ([3], r"env.yaml: infos\[0\]: "),
    ],
)
def test_a_mistake_in_the_setting_is_one_line(infos, reason):
    with pytest.raises(ConfigError, match=f"^{reason}") as caught:
        parse(EnvConfig, {"id": "CartPole-v1", "infos": infos}, "env.yaml")
    assert "\n" not in str(caught.value)


def test_configs_from_before_keep_their_hash_and_infos_change_it():
    plain, chosen = EnvConfig(id="CartPole-v1"), EnvConfig(id="CartPole-v1", infos=["x"])
    assert config_hash(plain) == "5408dd66ac2b97ba668cb5102af4d382211c25da8cb7bdcec983ebee1ab975ae"
    assert config_hash(chosen) != config_hash(plain)


def test_check_tries_the_chosen_keys():
    assert [finding.text for finding in check_env(EnvConfig(id="toys/Errand-v0", infos=KEYS)).findings] == [
        "numbers in its info, for env.infos: is_success, ones"
    ]
    broken = check_env(EnvConfig(id="toys/Errand-v0", infos=KEYS, kwargs={"odd": "text"}))
    assert any("info 'is_success' is a str" in finding.text for finding in broken.findings)
