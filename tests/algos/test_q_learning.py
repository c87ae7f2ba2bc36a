"""The parts that DQN and QR-DQN share: what is chosen, how agents act with each Model, priorities along the run."""

from functools import partial

import numpy as np
import pytest
import torch

from rlstudio.agents.q_value import QValueAgent
from rlstudio.algos.dqn import DQN, DQNConfig
from rlstudio.algos.qrdqn import QRDQN, QRDQNConfig
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Discrete, Spaces
from rlstudio.data.runtime import LocalRuntime
from rlstudio.envs.config import EnvConfig
from rlstudio.envs.make import make_vec_env
from rlstudio.models.build import build_model
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.q_values import Dueling, QuantileValue, QValue

FLAT = Spaces(Box((3,), "float32", (-1,), (1,)), Discrete(5))
VARIANTS = {
    "plain": QValue,
    "dueling": partial(QValue, dueling=True),
    "quantile": partial(QuantileValue, quantiles=7),
    "dueling-quantile": partial(QuantileValue, quantiles=7, dueling=True),
}


def trainer(kind, **fields):
    runtime = LocalRuntime(make_vec_env(EnvConfig(id="CartPole-v1", num_envs=2, seed=3)), replay_capacity=128)
    settings = {"batch_size": 16, "learning_starts": 20, "target_every": 5, "steps_per_epoch": 100, **fields}
    return kind(kind.Config(**settings), runtime, NetworkConfig(hidden_sizes=(8,)), Rng(0))


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_an_agent_takes_the_choice_of_the_highest_value_with_either_kernel(variant, activation):
    model = build_model(variant, FLAT, NetworkConfig(hidden_sizes=(16,), activation=activation), Rng(1))
    agent = QValueAgent(model, FLAT)
    assert agent.acting == ("numpy" if activation == "relu" else "torch")
    observations = np.random.default_rng(0).standard_normal((400, 3)).astype(np.float32)
    values = model.values(torch.from_numpy(observations))
    assert values.shape == (400, 5)
    assert np.array_equal(agent.step(observations).actions, values.argmax(1).numpy())
    assert len(set(agent.step(observations).actions.tolist())) > 1


def test_a_choice_of_quantiles_is_worth_their_mean():
    spaces = Spaces(FLAT.observation, Discrete(2))
    model = build_model(partial(QuantileValue, quantiles=3), spaces, NetworkConfig(), Rng(0))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.q_net.layers[-1].bias.copy_(torch.tensor([-9.0, 0.0, 10.0, 1.0, 1.0, 1.0]))  # means 1/3 and 1
    assert QValueAgent(model, spaces).act(np.zeros(3, np.float32)) == 1


@torch.no_grad()
@pytest.mark.parametrize("quantiles", [None, 4])
def test_dueling_is_value_plus_advantage_less_its_mean(quantiles):
    kind = partial(QValue, dueling=True) if quantiles is None else partial(QuantileValue, quantiles=4, dueling=True)
    model = build_model(kind, FLAT, NetworkConfig(hidden_sizes=(8,)), Rng(2))
    assert isinstance(model.q_net, Dueling)
    observations = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    values, advantages = model.q_net.value_net(observations), model.q_net.advantage_net(observations)
    outputs = model(observations)
    for row in range(6):
        for choice in range(5):
            for k in range(quantiles or 1):
                own = [float(advantages[row, a * (quantiles or 1) + k]) for a in range(5)]
                expected = float(values[row, k]) + own[choice] - sum(own) / 5
                found = outputs[row, choice] if quantiles is None else outputs[row, choice, k]
                assert float(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", [DQN, QRDQN])
def test_errors_of_a_sample_become_priorities(kind):
    learner = trainer(kind, prioritized={"alpha": 1.0, "eps": 1e-3})
    for _ in range(10):
        learner.progress(0.5)
        learner.train_step()
    rows = learner.source.last.rows.numpy()
    held = learner.source.priorities.tree.leaves[rows % 128]
    assert len(set(held.tolist())) > 5
    assert (held >= 1e-3).all()
    assert learner.source.last.weights.max() == 1


@pytest.mark.parametrize("kind", [DQN, QRDQN])
def test_a_poisoned_sample_changes_no_priority(kind):
    learner = trainer(kind, prioritized={})
    learner.train_step()
    batch, before = learner.source.last, learner.source.priorities.tree.nodes.copy()
    learner.update(batch.with_(rewards=torch.full_like(batch.rewards, torch.nan)))
    assert np.array_equal(learner.source.priorities.tree.nodes, before)


def test_exploration_and_importance_go_by_the_progress_of_the_run():
    fields = {"epsilon_start": 1.0, "epsilon_end": 0.2, "epsilon_fraction": 0.5}
    learner = trainer(DQN, prioritized={"beta": 0.4, "beta_end": 1.0}, **fields)
    for fraction, epsilon, beta in [(0.0, 1.0, 0.4), (0.25, 0.6, 0.55), (0.5, 0.2, 0.7), (1.0, 0.2, 1.0)]:
        learner.progress(fraction)
        assert learner.source.collector.exploration.explore.epsilon == pytest.approx(epsilon)
        assert learner.source.priorities.beta == pytest.approx(beta)


def test_without_priorities_rows_count_the_same():
    learner = trainer(QRDQN)
    learner.train_step()
    assert learner.source.last.weights is None
    assert learner.source.priorities is None


@pytest.mark.parametrize(("kind", "config"), [(DQN, DQNConfig), (QRDQN, QRDQNConfig)])
def test_what_does_not_fit_is_refused_by_the_algorithms_own_name(kind, config):
    runtime = LocalRuntime(make_vec_env(EnvConfig(id="CartPole-v1", num_envs=1)), replay_capacity=64)
    name = kind.__name__.lower()
    with pytest.raises(Incompatible, match=f"normalize_observations: {name} keeps no running statistics"):
        kind(config(), runtime, NetworkConfig(normalize_observations=True), Rng(0))
