"""A World of somebody else: as a native vector, with a dict to show, trained, resumed, planned in."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstudio.core.catalog import WORLDS, Catalog
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.run_state import RunState
from rlstudio.envs.check import check_env
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import known_envs, make_single, make_vec_env
from rlstudio.envs.worlds import catalog as world_catalog
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import analytic_dynamics
from rlstudio.envs.worlds.kernel import NUMPY
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.run.load import load_run
from rlstudio.experiment.training.build import build
from rlstudio.experiment.training.loop import Position, train
from support.experiments import tiny
from support.sessions import start
from support.tiny_runs import assert_same_result, only_run, run_to_the_end
from support.worlds import CHOICES, LENGTH, MaskedWorld, Slider

MASKED, SLIDER = MaskedWorld.id, Slider.id


# -- a dict to show ------------------------------------------------------------------------------------------------


def test_a_dict_is_packed_entry_by_entry():
    env = make_vec_env(EnvConfig(id=MASKED), 3)
    observations = env.reset()
    assert list(observations) == ["action_mask", "numbers", "step"]
    assert [(rows.shape, rows.dtype) for rows in observations.values()] == [
        ((3, CHOICES), np.uint8),
        ((3, CHOICES), np.float32),
        ((3,), np.int64),
    ]
    for t in range(1, 2 * LENGTH):
        step = env.step(observations["action_mask"].argmax(-1))
        assert (step.rewards >= 0).all()  # nothing forbidden
        assert step.successors["step"].tolist() == [(t - 1) % LENGTH + 1] * 3
        assert step.observations["step"].tolist() == [t % LENGTH] * 3
        assert step.terminated.all() == (t % LENGTH == 0)


def test_a_position_in_a_world_with_a_dict():
    env, other = make_vec_env(EnvConfig(id=MASKED), 2), make_vec_env(EnvConfig(id=MASKED), 2)
    env.reset()
    for _ in range(5):
        now = env.step(np.zeros(2, np.int64)).observations
    assert all(np.array_equal(now[name], rows) for name, rows in other.seek(env.position()).items())


def test_one_of_it_is_a_gymnasium_env():
    for id in (MASKED, SLIDER):
        assert check_env(EnvConfig(id=id)).ok
        single = make_single(EnvConfig(id=id), render_mode="rgb_array")
        assert single.observation_space.contains(single.reset(seed=0)[0])
        assert single.render().ndim == 3
    env = make_vec_env(EnvConfig(id=MASKED, num_envs=2), vectorization="async")  # a process that registered nothing
    assert env.reset()["numbers"].shape == (2, CHOICES)
    env.close()


@pytest.mark.parametrize("algo", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_a_masked_world_is_trained_without_a_forbidden_choice(algo):
    """A forbidden choice costs 10."""
    more = {"epochs": 6, "steps_per_epoch": 1024, "lr": 3e-3, "gamma": 0.5, "batch_size": 64}
    more |= {"learning_starts": 256, "train_every": 4, "gradient_steps": 2} if algo == "dqn" else {"passes": 4}
    cfg = tiny(algo, env={"id": MASKED, "num_envs": 8}, policy={"network": {"hidden_sizes": [64]}}, train=more,
               buffer={"capacity": 4096})  # fmt: skip
    built = build(cfg)
    agent = built.trainer.agent
    for _ in train(built.trainer, cfg.train, Position()):
        pass
    env = make_vec_env(cfg.env, 16)
    observations, noise = env.reset(), agent.noise(np.random.default_rng(0), 40, 16)
    for t in range(40):
        step = env.step(agent.step(observations, None, noise[t]).actions)
        assert (step.rewards >= 0).all()
        observations = step.observations
    result = evaluate(agent, cfg.env, episodes=20, seed=1)
    assert result.vectorization == "native"
    assert result.summary.mean > 0.8 * LENGTH  # chance among the allowed is about half


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_masked_world_resumes_exactly(algo, tmp_path):
    assert_exact_resume(tiny(algo, env={"id": MASKED}, ckpt={"every_epochs": 1}), tmp_path)


def test_planners_refuse_a_mask():
    with pytest.raises(Incompatible, match="there are no equations for toys/MaskedWorld-v0"):
        build(tiny("mpc", env={"id": MASKED}))


# -- equations and parameters --------------------------------------------------------------------------------------


def assert_exact_resume(cfg, tmp_path):
    whole = run_to_the_end(cfg, tmp_path / "whole")
    with start(cfg, tmp_path / "left") as session:
        for tick in session:
            if tick.report:
                break
    left = only_run(tmp_path / "left")
    assert left.read_status().state == RunState.INTERRUPTED
    run_to_the_end(cfg, tmp_path / "left")
    assert_same_result(left, whole)


@pytest.mark.parametrize("algo", ["sac", "mpc"])
def test_a_world_with_parameters_resumes_exactly(algo, tmp_path):
    one_round = {"planner": {"iterations": 1}} if algo == "mpc" else {}
    env = {"id": SLIDER, "params": {"mass": 0.5}, "kwargs": {"limit": 30}}
    cfg = tiny(algo, env=env, train=one_round, ckpt={"every_epochs": 1})
    assert_exact_resume(cfg, tmp_path)
    loaded = load_run(only_run(tmp_path / "left"))
    assert loaded.cfg.env.params == {"mass": 0.5}
    if algo == "mpc":
        assert loaded.agent.score.dynamics.params == {"mass": 0.5, "friction": 0.1}


def test_its_planner_foresees_what_the_world_does():
    env_cfg = {"id": SLIDER, "params": {"mass": 0.5, "friction": 1.0}}
    built = build(tiny("mpc", env=env_cfg))
    model, env = built.trainer.agent.score.dynamics, built.runtime.env
    assert model.reward_range == (-100.0, 0.0)
    observations, actions = env.reset().copy(), np.array([[0.7], [-0.2]], np.float32)
    foreseen = model.step(model.start(torch.from_numpy(observations), 1), torch.from_numpy(actions[:, None]))
    np.testing.assert_allclose(foreseen.states[0, :, 0], env.step(actions).successors, rtol=1e-5)
    plain = analytic_dynamics(SLIDER)
    other = plain.step(plain.start(torch.from_numpy(observations), 1), torch.from_numpy(actions[:, None]))
    assert not np.allclose(other.states, foreseen.states)
    with pytest.raises(Incompatible, match="knows CartPole-v1 only as it is without"):
        build(tiny("mpc", env={"params": {"gravity": 5.0}}, train={"planner": {"value": "physics"}}))


# -- where worlds come from ----------------------------------------------------------------------------------------


def test_it_is_listed_with_where_it_comes_from():
    infos = {info.id: info for info in known_envs()}
    assert (infos[SLIDER].origin, infos[SLIDER].native) == ("support", True)
    assert (infos["rlstudio/Chain-v0"].origin, infos["CartPole-v1"].origin) == ("rlstudio", "gymnasium.classic_control")


def test_a_name_is_registered_once():
    worlds = Catalog("world", {})
    worlds.register("x/A-v0", Slider)
    worlds.register("x/A-v0", "support.worlds:Slider")
    assert worlds.load("x/A-v0") is Slider
    with pytest.raises(UserError, match=r"world 'x/A-v0' is registered as support\.worlds:Slider; rename"):
        worlds.register("x/A-v0", MaskedWorld)

    class Local:
        pass

    with pytest.raises(UserError, match="cannot be imported; define it at the top of a module"):
        worlds.register("x/B-v0", Local)


def test_a_world_that_is_none_is_named(monkeypatch):
    broken = Catalog("world", {"x/Half-v0": "support.mask_toys:Pictures"})
    monkeypatch.setattr(world_catalog, "WORLDS", broken)
    with pytest.raises(UserError, match=r"world 'x/Half-v0' of rlstudio \(support.mask_toys:Pictures\) has no id"):
        make_world("x/Half-v0", {})


PACKAGE = """
    from rlstudio.core.contracts import Transition
    from rlstudio.core.spaces import Box, Discrete, Spaces

    class Walk:
        '''Walk to 1.'''

        id = "far/Walk-v0"
        spaces = Spaces(Box((1,), "float32", (-9.0,), (9.0,)), Discrete(2))
        state_size, noise_size, limit, agents = 1, 1, 10, 1
        params = {"stride": 0.5}

        def initial(self, noise, p, xp):
            return noise - 0.5

        def dynamics(self, states, actions, p, xp):
            x = states[..., 0] + (actions * 2.0 - 1.0) * p["stride"]
            return Transition(x[..., None], -abs(x - 1.0), abs(x) > 9.0)

        def observe(self, states, p, xp):
            return states

        def recall(self, observations, p, xp):
            return observations
"""


@pytest.mark.real_process
def test_a_package_brings_a_world_by_its_entry_point(tmp_path):
    """A process with that package installed trains in it and plans by its equations; nothing else is to be told."""
    (tmp_path / "far_worlds.py").write_text(textwrap.dedent(PACKAGE))
    info = tmp_path / "far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[rlstudio.worlds]\nfar/Walk-v0 = far_worlds:Walk\n")
    program = f"""
        import sys
        sys.path[:0] = [{str(tmp_path)!r}, {str(Path(__file__).parents[1])!r}]
        from rlstudio.envs.make import known_envs
        from rlstudio.experiment.training.build import build
        from support.experiments import tiny
        from pathlib import Path
        from support.tiny_runs import run_to_the_end
        env = {{"id": "far/Walk-v0", "params": {{"stride": 0.25}}}}
        for algo in ("ppo", "mpc"):
            run = run_to_the_end(tiny(algo, env=env, train={{"epochs": 1}}), Path({str(tmp_path)!r}) / algo)
            print(run.read_status().state, build(tiny(algo, env=env)).runtime.env.vectorization)
        print({{info.id: info.origin for info in known_envs()}}["far/Walk-v0"])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["COMPLETED", "native", "COMPLETED", "native", "far"], done.stderr


def test_what_a_world_computes_is_the_same_wherever_it_runs():
    """The native vector and the single env step the same functions."""
    world = make_world(SLIDER, {})
    states = world.initial(np.array([[0.3], [0.9]]), world.params, NUMPY)
    step = world.dynamics(states, np.array([[0.5], [-0.5]]), {**world.params, "mass": 2.0}, NUMPY)
    assert step.states.shape == (2, 2)
    assert SLIDER in WORLDS
