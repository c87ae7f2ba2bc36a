"""MBMPC: its loss against a slow implementation and by hand, how far a value is believed, all combinations of parts."""

from itertools import product

import numpy as np
import pytest
import torch

from rlstudio.algos.mbmpc import MBMPCConfig, mbmpc_loss
from rlstudio.algos.parts.dynamics import dynamics_loss, resamples
from rlstudio.core.batch import Batch
from rlstudio.core.config import config_hash
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.experiment.training.build import build_runtime, build_trainer
from rlstudio.models.config import NetworkConfig
from rlstudio.models.planning.dynamics import LearnedDynamics
from rlstudio.models.planning.experience import PlanningModel
from support.experiments import tiny
from support.repetition import few

CHOICES = Spaces(Box((3,), "float32", (-1,), (1,)), Discrete(4))
NUMBERS = Spaces(Box((3,), "float32", (-1,), (1,)), Box((2,), "float32", (-2, 0), (2, 1)))


def draws(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def sampled(spaces: Spaces, seed: int = 0, weighted: bool = False) -> Batch:
    continuous = isinstance(spaces.action, Box)
    return Batch(
        observations=draws(seed, 12, 3),
        next_observations=draws(seed + 1, 12, 3),
        actions=draws(seed + 6, 12, 2).clamp(0, 1) if continuous else torch.arange(12) % 4,
        rewards=2 * draws(seed + 2, 12),
        terminated=draws(seed + 3, 12) > 0.5,
        truncated=draws(seed + 4, 12) > 0.5,
        discounts=torch.full((12,), 0.9),
        weights=draws(seed + 5, 12).clamp(min=0) if weighted else None,
        rows=torch.arange(12) + 95,
    )


def model_of(spaces: Spaces, batch: Batch | None = None) -> PlanningModel:
    settings = {"members": 2, "spread": True, "hidden_sizes": (8,), "activation": "silu", "particles": 2}
    dynamics = LearnedDynamics(spaces, **settings, noise=False, rng=Rng(2))
    model = PlanningModel(spaces, NetworkConfig(hidden_sizes=(8,)), Rng(1), dynamics, gamma=0.9)
    if batch is not None:
        model.learn_statistics(batch)
    return model


# -- the loss ---------------------------------------------------------------------------------------------------------


def planned(windows, cfg):
    """Weights of the rows after a random start of `learning_starts` rows."""
    weights = (windows.rows >= cfg.learning_starts).float()
    return weights if windows.weights is None else weights * windows.weights


def slow_loss(model, batch, windows, counts, cfg):
    """Row by row, in plain numbers wherever no gradient passes."""
    normalizer = model.behaviour.encoder.normalizer
    scale = float(model.value.reward_range.abs().max()) * 10  # 1 / (1 - 0.9)
    low, high = (float(bound) * 10 for bound in model.value.reward_range)

    def unit_value(observation):
        seen = ((observation - normalizer.mean) * normalizer.inverse_std).clamp(-10, 10)
        return model.value.net(seen[None])[0, 0]

    values, policies, advantages, weights = [], [], [], []
    for i in range(len(windows)):
        after = min(max(unit_value(windows.next_observations[i]).item() * scale, low), high)
        goal = windows.rewards[i].item() + (0 if windows.terminated[i] else windows.discounts[i].item() * after)
        mine = unit_value(windows.observations[i])
        values.append(0.5 * (mine - goal / scale) ** 2)
        advantages.append(goal - min(max(mine.item() * scale, low), high))
        policy = model.policy(windows.observations[i : i + 1])
        if len(policy) == 1:
            policies.append(-policy.logits[0].log_softmax(-1)[windows.actions[i]])
        else:
            unit = torch.stack((windows.actions[i, 0] / 2, windows.actions[i, 1] * 2 - 1))
            policies.append(-torch.distributions.Normal(policy.mean[0], policy.log_std[0].exp()).log_prob(unit).sum())
        weights.append(1.0 if windows.weights is None else windows.weights[i].item())
    planned = [w * (row >= cfg.learning_starts) for w, row in zip(weights, windows.rows.tolist(), strict=True)]
    if cfg.policy_loss == "advantage":
        a = np.array(advantages)
        if windows.weights is None:
            z = (a - a.mean()) / (a.std(ddof=1) + 1e-8)
        else:
            mean = np.average(a, weights=weights)
            z = (a - mean) / (np.sqrt(np.average((a - mean) ** 2, weights=weights)) + 1e-8)
        chosen = [w * min(np.exp(x / cfg.advantage_tau), 20.0) for w, x in zip(weights, z, strict=True)]
    else:
        chosen = planned

    def average(terms, by):
        return sum(w * term for w, term in zip(by, terms, strict=True)) / max(sum(by), 1e-8)

    dynamics = dynamics_loss(model.dynamics, batch, counts)[0]
    return (
        cfg.value_coef * average(values, planned)
        + cfg.policy_coef * average(policies, chosen)
        + cfg.dynamics_coef * dynamics
    )


@pytest.mark.parametrize("spaces", [CHOICES, NUMBERS], ids=["choices", "numbers"])
@pytest.mark.parametrize("policy_loss", ["cloning", "advantage"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_and_its_gradient_are_those_of_a_slow_implementation(spaces, policy_loss, weighted):
    cfg = MBMPCConfig(
        policy_loss=policy_loss,
        learning_starts=100,
        advantage_tau=0.5,
        value_coef=0.7,
        policy_coef=1.3,
        dynamics_coef=0.2,
    )
    batch, windows = sampled(spaces, 0, weighted), sampled(spaces, 20, weighted)
    model, counts = model_of(spaces, batch), resamples(2, Rng(5))
    loss, metrics = mbmpc_loss(model, windows, planned(windows, cfg), batch, counts, cfg)
    slow = slow_loss(model, batch, windows, counts, cfg)
    torch.testing.assert_close(loss, slow, atol=1e-5, rtol=1e-5)
    parameters = list(model.parameters())
    for mine, theirs in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(slow, parameters), strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    assert set(metrics) == {
        "loss",
        "value_loss",
        "policy_loss",
        "dynamics_loss",
        "dynamics_error",
        "target",
        "value_trust",
    }


def test_an_example_by_hand():
    """V = 0 everywhere and a policy that knows nothing: targets are the rewards, -log pi is log 4."""
    batch = sampled(CHOICES).with_(rewards=torch.linspace(-2.0, 1.0, 12))
    model = model_of(CHOICES, batch)
    for net in (model.value.net, model.behaviour.policy_net):
        for parameter in net.parameters():
            torch.nn.init.zeros_(parameter)
    cfg = MBMPCConfig(learning_starts=103, dynamics_coef=0.0)
    loss, metrics = mbmpc_loss(model, batch, planned(batch, cfg), batch, resamples(2, Rng(5)), cfg)
    # Rows 103 to 106 are the planner's: rewards -2 + 3 k / 11 for k = 8..11; the scale is 2 * 10.
    rewards = np.array([-2 + 3 * k / 11 for k in (8, 9, 10, 11)])
    assert metrics["value_loss"].item() == pytest.approx(0.5 * np.mean((rewards / 20) ** 2), rel=1e-5)
    assert metrics["policy_loss"].item() == pytest.approx(np.log(4), rel=1e-5)
    assert loss.item() == pytest.approx(0.5 * np.mean((rewards / 20) ** 2) + np.log(4), rel=1e-5)


def test_before_any_plan_neither_policy_nor_value_has_anything_to_learn():
    batch = sampled(CHOICES)
    model = model_of(CHOICES, batch)
    cfg = MBMPCConfig(learning_starts=1000, dynamics_coef=0)
    loss, _ = mbmpc_loss(model, batch, planned(batch, cfg), batch, resamples(2, Rng(5)), cfg)
    assert loss == 0


# -- how far the value is believed ------------------------------------------------------------------------------------


def model_that_predicted(
    rewards: torch.Tensor, values: torch.Tensor, model: PlanningModel | None = None
) -> PlanningModel:
    """A model whose value was `values` before rewards `rewards` ended the episode."""
    model = model or model_of(CHOICES)
    model.value.expected = lambda observations: values  # type: ignore[method-assign]
    rows = len(rewards)
    model.value.judge(
        Batch(
            observations=torch.zeros(rows, 3),
            next_observations=torch.zeros(rows, 3),
            rewards=rewards,
            discounts=torch.full((rows,), 0.9),
            terminated=torch.ones(rows, dtype=torch.bool),
            truncated=torch.zeros(rows, dtype=torch.bool),
            actions=torch.zeros(rows, dtype=torch.long),
        )
    )
    return model


def test_a_value_is_believed_as_far_as_it_foretold_what_came():
    rewards = torch.tensor([1.0, 2.0, 3.0, 6.0])  # mean 3, variance 3.5
    assert model_that_predicted(rewards, rewards).value.trust == 1
    assert model_that_predicted(rewards, torch.full((4,), 3.0)).value.trust == pytest.approx(0.0, abs=1e-6)
    assert model_that_predicted(rewards, rewards + 1).value.trust == pytest.approx(1 - 1 / 3.5, rel=1e-5)
    assert model_that_predicted(rewards, -rewards).value.trust == 0
    assert (
        model_that_predicted(torch.ones(4), torch.tensor([1.0, 1.1, 0.9, 1.0])).value.trust == 0
    )  # nothing to foretell: noise


def test_a_value_that_was_never_judged_is_not_believed():
    model = model_of(CHOICES, sampled(CHOICES))
    assert model.value.expected(draws(1, 5, 3)).unique().numel() > 1
    assert model.value.trust == 0
    assert model.value(draws(1, 5, 3)).tolist() == [0.0] * 5


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_trust_does_not_depend_on_the_unit_of_rewards(unit):
    rewards = unit * torch.tensor([1.0, 2.0, 3.0, 6.0])
    for values, trust in ((rewards + unit, 1 - 1 / 3.5), (-rewards, 0.0), (rewards, 1.0)):
        model = model_of(CHOICES, sampled(CHOICES).with_(rewards=rewards.repeat(3)))
        model_that_predicted(rewards, values, model)
        assert model.value.trust == pytest.approx(trust, rel=1e-4)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_rows_that_are_no_numbers_tell_nothing_of_the_value(bad):
    rewards = torch.tensor([1.0, 2.0, bad, 6.0])
    model = model_that_predicted(rewards, torch.tensor([1.5, 2.0, 3.0, 6.0]))
    fair = model_that_predicted(torch.tensor([1.0, 2.0, 6.0]), torch.tensor([1.5, 2.0, 6.0]))
    torch.testing.assert_close(model.value.foretold, fair.value.foretold)


def test_without_trust_all_places_are_worth_the_same():
    model = model_that_predicted(torch.tensor([1.0, 2.0, 3.0, 6.0]), torch.tensor([9.0, -9.0, 9.0, -9.0]))
    assert model.value(torch.zeros(4, 3)).tolist() == [3.0] * 4
    fresh = model_of(CHOICES)
    assert fresh.value(torch.randn(5, 3)).tolist() == [0.0] * 5


@pytest.mark.parametrize(("memory", "believed"), [(None, False), (4, True)])
def test_a_short_memory_forgives_the_errors_of_an_untrained_value(memory, believed):
    rewards = torch.tensor([1.0, 2.0, 3.0, 6.0])
    model = model_of(CHOICES, sampled(CHOICES))
    model.value.memory = memory
    model_that_predicted(rewards, 20 - rewards, model)
    for _ in range(4):
        model_that_predicted(rewards, rewards, model)
    assert (model.value.trust > 0) == believed


def test_a_value_cannot_promise_more_than_rewards_allow():
    model = model_of(CHOICES, sampled(CHOICES).with_(rewards=torch.full((12,), -1.0)))
    model.value.net.layers[-1].bias.data.fill_(100.0)
    assert (model.value.expected(draws(1, 6, 3)) == -1).all()  # an unfinished episode costs at least one step more
    model.value.net.layers[-1].bias.data.fill_(-100.0)
    torch.testing.assert_close(model.value.expected(draws(1, 6, 3)), torch.full((6,), -10.0))


# -- all parts together -----------------------------------------------------------------------------------------------

PLANNERS = ["random_shooting", "cem", "icem", "mppi", "annealed", "guided", "mcts"]


def small(env_id, planner="cem", dynamics="ensemble", algo="mbmpc", env=None, **fields):
    learning = {"batch_size": 8, "learning_starts": 12, "train_every": 4, "n_step": 2} if algo == "mbmpc" else {}
    planner = {"kind": planner} if isinstance(planner, str) else planner
    dynamics = {"kind": dynamics} if isinstance(dynamics, str) else dynamics
    planner = {"policy_candidates": 2, "simulations": 4, **planner}
    train = {"steps_per_epoch": 20, "planner": planner, "dynamics": dynamics, **learning, **fields}
    cfg = tiny(algo, env={"id": env_id, **(env or {})}, train=train, buffer={"capacity": 64})
    return build_trainer(cfg, build_runtime(cfg))


def acts(trainer):
    for _ in range(6):
        metrics = trainer.train_step()
        assert all(torch.isfinite(value) for value in metrics.values())
    spaces = trainer.agent.spaces
    episode = trainer.agent.episode()
    for _ in range(2):
        actions = episode.act(np.zeros((3, *spaces.observation.shape), np.float32))
    assert actions.shape == (3, *spaces.action.shape)


DYNAMICS, ENVS = ["analytic", "mlp", "ensemble"], ["CartPole-v1", "Pendulum-v1"]


def in_turn(case):
    """Every planner with choices and with numbers, and each time with other dynamics."""
    planner, dynamics, env_id = case
    return (list(PLANNERS).index(planner) + ENVS.index(env_id)) % len(DYNAMICS) == DYNAMICS.index(dynamics)


@pytest.mark.parametrize(("planner", "dynamics", "env_id"), few(product(PLANNERS, DYNAMICS, ENVS), in_turn))
def test_every_planner_goes_with_every_dynamics(planner, dynamics, env_id):
    if planner == "mcts" and env_id == "Pendulum-v1":
        with pytest.raises(Incompatible, match="planner mcts: needs one choice"):
            small(env_id, planner, dynamics)
        return
    acts(small(env_id, planner, dynamics))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("policy_loss", ["cloning", "advantage"])
@pytest.mark.parametrize("value", ["own", "none"])
def test_every_policy_loss_goes_with_and_without_a_value(policy_loss, value, env_id):
    acts(small(env_id, policy_loss=policy_loss, planner={"kind": "guided", "value": value}))


@pytest.mark.parametrize("changed", [{"noise": True}, {"particles": 4}, {"reward": "known"}, {"kind": "mlp"}])
def test_every_setting_of_the_dynamics_goes(changed):
    acts(small("CartPole-v1", dynamics=changed))


@pytest.mark.parametrize(
    ("env_id", "fields", "reason"),
    [
        ("rlstudio/Identity-v0", {"dynamics": "analytic"}, "dynamics analytic: there are no equations for rlstudio/Id"),
        (
            "CartPole-v1",
            {"dynamics": "analytic", "env": {"wrappers": ["FlattenObservation"]}},
            "know nothing of env",
        ),
        ("CartPole-v1", {"planner": "diffusion"}, "planner diffusion: needs a trajectory model"),
        ("CartPole-v1", {"algo": "mpc", "planner": "guided", "dynamics": "analytic"}, "and mpc learns nothing"),
        ("CartPole-v1", {"n_step": 40}, "buffer.capacity: 64 rows of 2 environments hold no window of 40 steps"),
        ("CartPole-v1", {"dynamics": {"particles": 7}}, "train.dynamics.particles: 7 cannot be shared evenly"),
        ("CartPole-v1", {"algo": "mpc", "dynamics": "mlp"}, "train.dynamics.kind: mpc learns nothing, and mlp must"),
        ("CartPole-v1", {"planner": {"gamma": 0.9}}, "train.planner.gamma: a plan is discounted by train.gamma"),
        (
            "CartPole-v1",
            {"gamma": 1.0},
            "train.planner.value: what comes after the horizon never ends; set train.gamma",
        ),
        ("CartPole-v1", {"n_step": 8}, "train.learning_starts: 12 is less than .* raise it to 16"),
        ("CartPole-v1", {"train_every": 16}, "train.learning_starts: 12 is less than .* raise it to 16"),
        ("CartPole-v1", {"planner": {"kind": "magic"}}, "train.planner.kind"),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_what_does_not_fit_together_is_refused_by_name(env_id, fields, reason):
    with pytest.raises((Incompatible, ConfigError), match=reason.replace("(", r"\(")):
        small(env_id, **fields)


def test_the_dynamics_learn_from_the_last_rows_of_the_windows():
    trainer = small("CartPole-v1", n_step=5, batch_size=64)
    trainer.train_step()
    windows, replay = trainer.source.last, trainer.source.replay
    rows = trainer.newest(windows)
    assert rows.rows.tolist() == [row + 4 * 2 for row in windows.rows.tolist()]  # two environments
    assert rows.rows.unique().tolist() == list(range(8, replay.added))  # the newest are among them
    torch.testing.assert_close(rows.observations, replay.at(rows.rows.numpy()).observations)


def test_statistics_hold_each_row_once():
    trainer = small("CartPole-v1")
    for _ in range(9):
        trainer.train_step()
    replay = trainer.source.replay
    assert trainer.model.value.rows == replay.added
    seen = replay.at(np.arange(replay.added)).observations
    torch.testing.assert_close(trainer.model.dynamics.inputs.mean, seen.mean(0))
    torch.testing.assert_close(trainer.model.behaviour.encoder.normalizer.mean, seen.mean(0))


def test_policy_and_value_have_networks_of_their_own():
    trainer = small("CartPole-v1", policy={"hidden_sizes": [5]}, value={"hidden_sizes": [7, 6], "activation": "relu"})
    policy, value = trainer.model.behaviour.policy_net, trainer.model.value.net
    assert [tuple(layer.weight.shape) for layer in policy.linears()] == [(5, 4), (2, 5)]
    assert [tuple(layer.weight.shape) for layer in value.linears()] == [(7, 4), (6, 7), (1, 6)]
    assert value.activation == "relu"


def test_a_section_that_says_nothing_leaves_the_config_and_its_hash_as_they_were():
    plain, named = (tiny("mbmpc", train=sections) for sections in ({}, {"policy": {}, "value": {}}))
    assert config_hash(plain) == config_hash(named)
    assert config_hash(plain) != config_hash(tiny("mbmpc", train={"value": {"hidden_sizes": [9]}}))
