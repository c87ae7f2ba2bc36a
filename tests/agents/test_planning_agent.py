"""An agent that plans: in real worlds with their equations, exact, and for any trained agent."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.errors import Incompatible
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.catalog import make_world
from rlstudio.envs.worlds.equations import AnalyticDynamics, analytic_dynamics, physical_value
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.planners.build import build_planner, build_score
from rlstudio.planners.config import PlannerConfig
from rlstudio.planners.score import ReturnScore

WITH_EQUATIONS = ["Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]


def agent(env_id: str, **settings: object) -> PlanningAgent:
    spaces = make_world(env_id, {}).spaces
    cfg = PlannerConfig(**settings)  # type: ignore[arg-type]
    return PlanningAgent(
        build_planner(cfg, spaces.action), build_score(cfg, analytic_dynamics(env_id), env_id, gamma=cfg.gamma), spaces
    )


@pytest.mark.parametrize("env_id", WITH_EQUATIONS)
def test_the_equations_are_gymnasiums(env_id: str) -> None:
    """200 random steps: what the model says of each must be what the environment does, from its observation alone."""
    env, model = gym.make(env_id), analytic_dynamics(env_id)
    env.action_space.seed(0)
    observation, _ = env.reset(seed=0)
    low, high = model.reward_range or (-np.inf, np.inf)
    for _ in range(200):
        action = env.action_space.sample()
        planned = torch.tensor(action)
        if isinstance(env.action_space, gym.spaces.Box):
            bounds = torch.tensor(env.action_space.low), torch.tensor(env.action_space.high)
            planned = 2 * (planned - bounds[0]) / (bounds[1] - bounds[0]) - 1
        states = model.start(torch.tensor(observation, dtype=torch.float64)[None], 1)
        outcome = model.step(
            states, planned.double()[None, None] if planned.is_floating_point() else planned[None, None]
        )
        observation, reward, terminated, truncated, _ = env.step(action)
        np.testing.assert_allclose(model.observe(outcome.states)[0, 0, 0].numpy(), observation, atol=2e-5)
        assert outcome.rewards.item() == pytest.approx(float(reward), abs=2e-4)
        assert bool(outcome.continues.item()) is not terminated
        assert low - 1e-6 <= float(reward) <= high + 1e-6
        if terminated or truncated:
            observation, _ = env.reset()


@pytest.mark.parametrize(
    ("env_id", "state", "seen", "action"),
    [
        ("CartPole-v1", [2.39, 2.0, 0.0, 0.0], [2.39, 2.0, 0.0, 0.0], 1),
        ("MountainCar-v0", [0.48, 0.06], [0.48, 0.06], 2),
        ("MountainCarContinuous-v0", [0.42, 0.06], [0.42, 0.06], [0.5]),
        ("Acrobot-v1", [2.0, 0.2, 4.0, 0.0], [np.cos(2.0), np.sin(2.0), np.cos(0.2), np.sin(0.2), 4.0, 0.0], 1),
    ],
)
def test_the_equations_end_where_gymnasium_does(env_id: str, state: list, seen: list, action: object) -> None:
    """One step from the end, which random steps hardly reach: reward and end are those of the environment."""
    env, model = gym.make(env_id), analytic_dynamics(env_id)
    env.reset(seed=0)
    env.unwrapped.state = np.array(state)  # type: ignore[attr-defined]
    _, reward, terminated, _, _ = env.step(np.array(action) if isinstance(action, list) else action)
    states = model.start(torch.tensor([seen], dtype=torch.float64), 1)
    outcome = model.step(
        states, torch.tensor(action, dtype=torch.float64 if isinstance(action, list) else None)[None, None]
    )
    assert terminated
    assert outcome.continues.item() == 0
    assert outcome.rewards.item() == pytest.approx(float(reward), abs=1e-6)


def test_quicker_equations_are_the_same() -> None:
    """With their gradients, which some planners follow."""
    world = make_world("Pendulum-v1", {})
    actions = torch.from_numpy(np.random.default_rng(0).uniform(-1, 1, (3, 4, 6, 1)))
    seen = torch.tensor([[-1.0, 0.1, 2.0], [0.0, 1.0, -7.0], [1.0, 0.0, 0.0]]).double()
    found = []
    for model in (analytic_dynamics("Pendulum-v1"), AnalyticDynamics(world)):  # type: ignore[arg-type]
        followed = actions.clone().requires_grad_()
        returns = ReturnScore(model).returns(seen, followed)
        returns.sum().backward()
        found.append((returns.detach(), followed.grad))
    torch.testing.assert_close(found[0], found[1])


def test_random_shooting_balances_the_pole() -> None:
    """By the mean after each first choice. The best sequence says nothing where most survive: a trap."""
    planner = agent("CartPole-v1", kind="random_shooting", horizon=15, candidates=256)
    assert evaluate(planner, EnvConfig(id="CartPole-v1"), episodes=8, seed=0).summary.min == 500
    trapped = agent("CartPole-v1", kind="random_shooting", horizon=15, candidates=64, select="best")
    assert evaluate(trapped, EnvConfig(id="CartPole-v1"), episodes=8, seed=0).summary.mean < 450


def test_a_dense_reward_and_a_value_by_physics_help_where_the_reward_says_too_little() -> None:
    dense = agent("CartPole-v1", kind="mppi", horizon=15, candidates=64, reward="dense")
    assert evaluate(dense, EnvConfig(id="CartPole-v1"), episodes=4, seed=0).summary.mean >= 475
    swing = agent("Acrobot-v1", kind="cem", horizon=20, candidates=32, iterations=3, value="physics")
    assert evaluate(swing, EnvConfig(id="Acrobot-v1"), episodes=4, seed=0).summary.mean >= -100


@pytest.mark.parametrize(("env_id", "limit"), [("MountainCar-v0", 0.0), ("Acrobot-v1", 0.0), ("CartPole-v1", 500.0)])
def test_what_physics_promises_is_possible(env_id: str, limit: float) -> None:
    world = make_world(env_id, {})
    states = world.initial(np.random.default_rng(0).random((100, world.noise_size)), world.params, np)
    values = physical_value(env_id)(torch.from_numpy(world.observe(states, world.params, np)))
    assert values.shape == (100,)
    assert (values <= limit).all()


def test_what_has_no_dense_reward_or_value_is_refused_by_name() -> None:
    with pytest.raises(Incompatible, match="reward dense: there is none for Pendulum-v1, only for CartPole-v1"):
        agent("Pendulum-v1", reward="dense")
    with pytest.raises(Incompatible, match="value physics: there is none for Pendulum-v1"):
        agent("Pendulum-v1", value="physics")


@pytest.mark.parametrize("kind", ["icem", "annealed"])
def test_planners_swing_the_pendulum_up(kind: str) -> None:
    planner = agent("Pendulum-v1", kind=kind, horizon=20, candidates=64)
    assert evaluate(planner, EnvConfig(id="Pendulum-v1"), episodes=6, seed=0).summary.mean > -200


def test_the_same_observation_and_carry_give_the_same_action() -> None:
    planner = agent("Pendulum-v1", kind="cem", horizon=5, candidates=32)
    seen = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5]], np.float32)
    first, again = planner.step(seen), planner.step(seen)
    np.testing.assert_array_equal(first.actions, again.actions)
    second = planner.step(seen, first.carry)
    assert not np.array_equal(first.actions, second.actions)  # the carry matters
    low, high = make_world("Pendulum-v1", {}).spaces.action.bounds()  # type: ignore[union-attr]
    assert (first.actions >= low).all()
    assert (first.actions <= high).all()
    noise = planner.noise(np.random.default_rng(0), 10, 2)
    drawn = [planner.step(seen, None, noise[number]).actions for number in (3, 3, 4)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_what_has_no_equations_is_refused_by_name() -> None:
    for env_id in ("LunarLander-v3", "rlstudio/CartPoleNoVel-v1", "rlstudio/Chain-v0"):
        with pytest.raises(Incompatible, match="there are no equations for"):
            analytic_dynamics(env_id)
