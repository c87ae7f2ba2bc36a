"""A planner for a trained agent: whose policy and value help, in which model, and what does not fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlstudio.agents.planning import PlanningAgent
from rlstudio.core.errors import Incompatible
from rlstudio.core.model.policies import PlanValue
from rlstudio.core.model.protocol import Weights
from rlstudio.core.spaces import Box
from rlstudio.data.datasets.minari_files import write_dataset
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.worlds.equations import dynamics_of
from rlstudio.experiment.analysis.dataset import recorded_episodes
from rlstudio.experiment.analysis.replan import Trained, own_policy, own_value, planning_agent
from rlstudio.experiment.judging.evaluate import evaluate
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.models.policies.distributions import mode
from rlstudio.planners.search import Search
from support.experiments import tiny

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
SMALL = ["horizon=3", "candidates=8", "iterations=1", "policy_candidates=4"]
DATASET = "toys/walk-v0"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))


def trained(algo: str, env_id: str = CARTPOLE, env: dict[str, Any] | None = None, **changes: Any) -> Trained:
    """After a few updates; a clone learns from what an untrained agent did."""
    if algo == "bc":
        changes["train"] = {"dataset": DATASET}
    if algo in ("a2c", "ppo"):  # values in the units of the world
        changes["train"] = {"normalize_rewards": False, **changes.get("train", {})}
    cfg = tiny(algo, env={"id": env_id, **(env or {})}, **changes)
    if algo == "bc":
        other = trained("ppo", env_id)
        episodes = recorded_episodes(other.agent, cfg.env, episodes=2, seed=0)
        write_dataset(DATASET, episodes, other.agent.spaces, None, algorithm="", code="", description="")
    env = build_runtime(cfg)
    try:
        trainer = build_trainer(cfg, env)
        for _ in range(3):
            trainer.train_step()
    finally:
        env.close()
    return Trained(trainer.agent, cfg)


@pytest.mark.parametrize(
    ("algo", "env_id"),
    [
        ("bc", CARTPOLE),
        ("bc", PENDULUM),
        ("a2c", CARTPOLE),
        ("a2c", PENDULUM),
        ("dqn", CARTPOLE),
        ("qrdqn", CARTPOLE),
        ("sac", PENDULUM),
        ("td3", PENDULUM),
        ("mbmpc", CARTPOLE),
    ],
)
def test_the_policy_of_every_algorithm_guides_a_plan(algo: str, env_id: str) -> None:
    agent, cfg = trained(algo, env_id)
    planner = planning_agent(agent, cfg, ["kind=guided", *SMALL])
    assert isinstance(planner.planner, Search)
    assert planner.planner.guide is not None
    short = cfg.env.model_copy(update={"max_episode_steps": 10})
    assert np.isfinite(evaluate(planner, short, episodes=2, seed=0).summary.mean)
    if isinstance(agent, PlanningAgent):
        return
    seen = np.random.default_rng(0).standard_normal((6, *agent.spaces.observation.shape)).astype(np.float32)  # type: ignore[union-attr]
    found = mode(planner.planner.guide.policy(torch.from_numpy(seen).view(2, 3, -1))).flatten(0, 1)
    if isinstance(agent.spaces.action, Box):
        found = found.clamp(-1, 1) * torch.from_numpy(agent.spaces.action.bounds()[1].copy())
    torch.testing.assert_close(found, torch.as_tensor(agent.step(seen).actions), msg="not what the agent does")


@pytest.mark.parametrize(
    ("algo", "env_id", "network", "kind", "message"),
    [
        ("mpc", CARTPOLE, {}, "guided", "needs a policy to follow"),
        ("sac", PENDULUM, {}, "mcts", "planner mcts: needs one choice"),
        ("a2c", CARTPOLE, {}, "diffusion", "a run of algo diffusion has"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    algo: str, env_id: str, network: dict[str, Any], kind: str, message: str
) -> None:
    agent, cfg = trained(algo, env_id, policy={"network": network})
    with pytest.raises(Incompatible, match=message):
        planning_agent(agent, cfg, [f"kind={kind}"])


def test_a_run_that_plans_passes_on_what_its_plans_were_like() -> None:
    planner = {"kind": "cem", "horizon": 2, "candidates": 4, "iterations": 3, "elites": 0.5, "reward": "dense"}
    agent, cfg = trained("mbmpc", train={"planner": planner})

    def planned(*settings: str) -> PlanningAgent:
        return planning_agent(agent, cfg, settings)

    same, other = planned("kind=cem"), planned("kind=icem")
    for found in (same, other):
        assert isinstance(found.planner, Search)
        assert found.planner.proposal.noise_shape[0] == 2
        assert max(found.planner.counts) == 4
        assert found.score.reward is not None
        assert found.score.gamma == cfg.train.gamma
    assert same.planner.counts == (4, 4, 4)  # rounds belong to a kind
    assert planned("kind=random_shooting").planner.counts == (4,)
    changed = planned("kind=cem", "candidates=6", "reward=native", "value=none")
    assert changed.planner.counts == (6, 6, 6)
    assert (changed.score.reward, changed.score.value) == (None, None)


# -- whose value and policy --------------------------------------------------------------------------------------------


def learned_with(algo: str, env_id: str, **network: Any) -> tuple[Trained, dict[str, Weights]]:
    """An agent after a few updates, and the weights of all Models of its trainer, as a checkpoint holds them."""
    cfg = tiny(algo, env={"id": env_id}, policy={"network": network})
    env = build_runtime(cfg)
    try:
        trainer = build_trainer(cfg, env)
        for _ in range(12 if trainer.off_policy else 2):
            trainer.train_step()
    finally:
        env.close()
    models = {name: part for name, part in trainer.stateful().items() if isinstance(part, torch.nn.Module)}
    learned = {
        name: {key: rows.numpy(force=True).copy() for key, rows in model.state_dict().items()}
        for name, model in models.items()
    }
    return Trained(trainer.agent, cfg), learned


def own_value_of(one: Trained, learned: dict[str, Weights]) -> PlanValue:
    """That of an agent with a planner, as its score has it."""
    value = planning_agent(*one, ["kind=cem", *SMALL], learned=learned).score.value
    assert value is not None
    return value


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def q_by_hand(weights: Weights, inputs: np.ndarray, activation: Any) -> np.ndarray:
    """Both values [2, N] of rows, layer by layer."""
    x, count = np.stack([inputs, inputs]), len([name for name in weights if ".weights." in name])
    for i in range(count):
        x = x @ weights[f"q_nets.weights.{i}"] + weights[f"q_nets.biases.{i}"]
        x = activation(x) if i + 1 < count else x
    return x[..., 0]


def layers_by_hand(weights: Weights, x: np.ndarray, activation: Any) -> np.ndarray:
    count = len([name for name in weights if name.startswith("policy_net") and name.endswith("weight")])
    for i in range(count):
        x = x @ weights[f"policy_net.layers.{i}.weight"].T + weights[f"policy_net.layers.{i}.bias"]
        x = activation(x) if i + 1 < count else x
    return x


def test_the_value_of_td3_is_q1_of_what_the_policy_does() -> None:
    one, learned = learned_with("td3", PENDULUM, activation="tanh")
    rows = numbers(6, 3)
    unit = np.tanh(layers_by_hand(learned["model"], rows, np.tanh))
    expected = q_by_hand(learned["q"], np.concatenate([rows, unit], 1), np.tanh)[0]
    found = own_value_of(one, learned)(torch.from_numpy(rows).view(2, 3, 3))
    assert found.shape == (2, 3)
    np.testing.assert_allclose(found.numpy(force=True).reshape(-1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("count", "near"), [(5, 1e-5), (40, 0.01)])
def test_the_value_of_sac_is_soft(count: int, near: float) -> None:
    """E[min Q - temperature * log density] by quadrature: with the points of the Model, and with far more of them."""
    one, learned = learned_with("sac", PENDULUM, activation="tanh", log_std_init=-1.0)
    rows = numbers(6, 3)
    mean, log_std = np.split(layers_by_hand(learned["model"], rows, np.tanh).astype(np.float64), 2, 1)
    temperature = np.exp(learned["model"]["log_temperature"])
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    expected = 0.0
    for point, weight in zip(points, weights / weights.sum(), strict=True):
        unit = np.tanh(mean + point * np.exp(log_std))
        q = q_by_hand(learned["q"], np.concatenate([rows, unit], 1), np.tanh).min(0)
        log_density = -0.5 * point**2 - log_std - 0.5 * np.log(2 * np.pi) - np.log1p(-(unit**2))
        expected = expected + weight * (q - temperature * log_density[:, 0])
    found = own_value_of(one, learned)(torch.from_numpy(rows))
    np.testing.assert_allclose(found.numpy(force=True), expected, rtol=1e-5, atol=near)
    assert np.abs(expected).max() > 0.1  # nothing that zeros would pass


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_a_recurrent_policy_plans_as_if_an_episode_began(memory: str) -> None:
    one, learned = learned_with("a2c", CARTPOLE, memory=memory, memory_size=8)
    model, rows = one.agent.model, torch.from_numpy(numbers(6, 4))
    carry = {part: torch.zeros(6, *shape) for part, shape in model.carry_shapes().items()}
    policy, values = model(rows, carry, torch.zeros(6, dtype=torch.bool))
    found = own_value_of(one, learned)(rows.view(2, 3, 4))
    torch.testing.assert_close(found, values.view(2, 3))
    own = own_policy(model)
    assert own is not None
    torch.testing.assert_close(own(rows.view(2, 3, 4))[0], policy.logits.view(2, 3, -1))
    planner = planning_agent(*one, ["kind=guided", *SMALL], learned=learned)
    assert evaluate(planner, one.experiment.env, episodes=1, seed=0).summary.mean > 0


@pytest.mark.parametrize("algo", ["sac", "td3"])
def test_where_only_the_policy_is_left_there_is_no_value(algo: str) -> None:
    one, learned = learned_with(algo, PENDULUM)
    assert planning_agent(*one, ["kind=cem", *SMALL]).score.value is None
    other = {"q": {"weight": np.zeros(3, np.float32)}}
    with pytest.raises(Incompatible, match=r"stored as q is not a twin-q Model: .*; use planner\.value=none"):
        planning_agent(*one, ["kind=cem", *SMALL], learned=other)
    assert planning_agent(*one, ["kind=cem", "value=none", *SMALL], learned=other).score.value is None
    planner = planning_agent(*one, ["kind=mppi", *SMALL], learned=learned)
    short = one.experiment.env.model_copy(update={"max_episode_steps": 10})
    assert np.isfinite(evaluate(planner, short, episodes=2, seed=0).summary.mean)


# -- units of the value ------------------------------------------------------------------------------------------------


def test_a_value_of_an_unknown_scale_is_refused_only_where_it_is_used() -> None:
    agent, cfg = trained("ppo", train={"normalize_rewards": True})
    with pytest.raises(Incompatible, match=r"planner value own: what train\.normalize_rewards .* planner\.value=none"):
        planning_agent(agent, cfg, ["kind=cem"])
    assert planning_agent(agent, cfg, ["kind=cem", "value=none"]).score.value is None
    value = planning_agent(agent, cfg, ["kind=cem"], reward_scale=2.0).score.value
    own = own_value(agent.model, {})
    assert value is not None
    assert own is not None
    seen = torch.zeros(1, 4)
    torch.testing.assert_close(value(seen), 2.0 * own(seen))
    for plain in (trained("ppo"), trained("ppo", train={"normalize_rewards": "auto"})):  # which is for numbers
        assert planning_agent(*plain, ["kind=cem"]).score.value is not None
    with pytest.raises(Incompatible, match="is not known"):
        planning_agent(*trained("ppo", "Pendulum-v1", train={"normalize_rewards": "auto"}), ["kind=cem"])


def test_a_value_of_clipped_rewards_is_not_added_to_those_of_the_world() -> None:
    clipped = trained("a2c", PENDULUM, guardrails={"reward_clip": 1.0})
    message = r"guardrails\.reward_clip was 1\.0 where it was learned, and the world's rewards are -16\.2736 to 0; use"
    with pytest.raises(Incompatible, match=message):
        planning_agent(*clipped, ["kind=cem"])
    assert planning_agent(*clipped, ["kind=cem", "value=none"]).score.value is None
    untouched = trained("a2c", CARTPOLE, guardrails={"reward_clip": 1.0})  # a step there earns 1
    assert planning_agent(*untouched, ["kind=cem"]).score.value is not None


def test_a_value_of_clipped_rewards_fits_a_model_that_saw_the_same() -> None:
    rails = {"guardrails": {"reward_clip": 0.5}}
    modeller, clipped, plain = trained("mbmpc", **rails), trained("a2c", **rails), trained("a2c")
    assert planning_agent(*modeller, ["kind=cem"]).score.value is not None
    assert planning_agent(*clipped, ["kind=cem"], modeller=modeller).score.value is not None
    with pytest.raises(Incompatible, match=r"reward_clip was null where it was learned, and 0\.5 where the model"):
        planning_agent(*plain, ["kind=cem"], modeller=modeller)


# -- the model of another run ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def modeller() -> Trained:
    return trained("mbmpc")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"env_id": "rlstudio/CartPoleNoVel-v1"}, r"env\.id is CartPole-v1, here rlstudio/CartPoleNoVel-v1"),
        (
            {"env": {"kwargs": {"sutton_barto_reward": True}}},
            r"env\.kwargs is \{\}, here \{'sutton_barto_reward': True\}",
        ),
        ({"env": {"wrappers": [{"StickyAction": {"repeat_action_probability": 0.5}}]}}, r"env\.wrappers is \[\], here"),
    ],
)
def test_a_model_of_another_world_is_refused_by_what_differs(
    modeller: Trained, other: dict[str, Any], message: str
) -> None:
    with pytest.raises(Incompatible, match=message):
        planning_agent(*trained("a2c", **other), ["kind=cem"], modeller=modeller)


def test_a_model_of_the_same_world_is_lent() -> None:
    wrapped = {"env": {"wrappers": ["TimeAwareObservation"]}}
    again = {"env": {"wrappers": [{"TimeAwareObservation": {}}], "seed": 7}}
    modeller, one = trained("mbmpc", **wrapped), trained("a2c", **again)
    lent = planning_agent(*one, ["kind=cem", *SMALL], modeller=modeller)
    assert evaluate(lent, one.experiment.env, episodes=1, seed=0).summary.mean > 0


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"kwargs": {"g": 9.81}},
            r"the equations of Pendulum-v1 know nothing of env\.kwargs \(g\);.*--dynamics OTHER_RUN",
        ),
        (
            {"wrappers": ["ClipAction"]},
            r"know nothing of env\.wrappers \(ClipAction\);.*dynamics\.kind mlp or ensemble",
        ),
    ],
)
def test_equations_know_only_the_plain_world(env: dict[str, Any], message: str) -> None:
    with pytest.raises(Incompatible, match=message):
        dynamics_of(EnvConfig(id=PENDULUM, **env))
