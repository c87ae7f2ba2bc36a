"""Recurrent Models: sequences give what acting gave step by step, and values look at the true successor."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.agents.policy import PolicyAgent
from rlstudio.core.batch import Batch
from rlstudio.core.errors import Incompatible, UserError
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.models.build import build_model, build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import log_prob
from rlstudio.models.policies.policy_value import PolicyOnly
from rlstudio.models.policies.q_values import QValue
from rlstudio.models.policies.recurrent import RecurrentPolicyValue
from support.examples import examples

LINE = Box((3,), "float32", (-1,), (1,))
ACTIONS = {"discrete": Discrete(3), "multi_discrete": MultiDiscrete((2, 4)), "box": Box((2,), "float32", (-1,), (1,))}


def network(kind: str, **fields) -> NetworkConfig:
    return NetworkConfig(hidden_sizes=(8,), memory=kind, memory_size=5, **fields)


def lived(agent: PolicyAgent, observations: np.ndarray, dones: np.ndarray, carry=None) -> Batch:
    """The rollout [T, B] of an agent that acts on these observations, with episodes ending where `dones` says."""
    rows, actions, carries = len(observations), [], []
    noise = agent.noise(np.random.default_rng(0), rows, observations.shape[1])
    for t in range(rows):
        acted = agent.step(observations[t], carry, noise[t])
        fresh = {part: np.zeros_like(held) for part, held in acted.carry.items()}
        carries.append(fresh if carry is None else {part: held.copy() for part, held in carry.items()})
        actions.append(acted.columns.get("actions", acted.actions))
        carry = {part: np.where(dones[t][:, None, None], 0, held) for part, held in acted.carry.items()}
    resets = np.zeros_like(dones)
    resets[1:] = dones[:-1]
    return Batch(
        lead=2,
        observations=torch.from_numpy(observations),
        actions=torch.from_numpy(np.stack(actions)),
        carry={part: torch.from_numpy(np.stack([c[part] for c in carries])) for part in carries[0]},
        resets=torch.from_numpy(resets),
    )


def built(kind: str, actions="discrete", observation=LINE, seed=0, **fields):
    spaces = Spaces(observation, ACTIONS[actions])
    model = build_policy_value(spaces, network(kind, **fields), Rng(seed))
    assert isinstance(model, RecurrentPolicyValue)
    return model, PolicyAgent(model, spaces)


@given(
    st.sampled_from(["gru", "lstm"]),
    st.sampled_from(sorted(ACTIONS)),
    st.integers(1, 8),
    st.integers(1, 3),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
@examples(25)
def test_sequences_and_single_steps_give_what_acting_gave(kind, actions, steps, envs, share, seed):
    g = np.random.default_rng(seed)
    model, agent = built(kind, actions, seed=seed)
    rollout = lived(agent, g.standard_normal((steps, envs, 3)).astype(np.float32), g.random((steps, envs)) < share)
    flat = rollout.flatten()
    with torch.no_grad():
        policy, values = model(**rollout.only(model.reads))
        stepwise, step_values = model(**flat.only(model.reads))
    assert values.shape == (steps, envs)
    torch.testing.assert_close(values.flatten(), step_values, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        log_prob(policy, rollout.actions).flatten(), log_prob(stepwise, flat.actions), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_the_value_of_a_successor_is_the_next_row_within_an_episode_and_the_true_one_at_its_end(kind):
    g = np.random.default_rng(0)
    model, agent = built(kind)
    observations = g.standard_normal((6, 2, 3)).astype(np.float32)
    dones = np.zeros((6, 2), bool)
    dones[2, 1] = True
    rollout = lived(agent, observations, dones)
    following = np.concatenate([observations[1:], g.standard_normal((1, 2, 3)).astype(np.float32)])
    following[2, 1] = [7.0, -7.0, 1.0]  # the last observation of the episode that ended, not the first of the next
    rollout = rollout.with_(next_observations=torch.from_numpy(following))
    with torch.no_grad():
        next_values = model.successor_values(rollout)
        values = model(**rollout.only(model.reads))[1]
        # The slow way: the episode so far and its successor as one sequence from an empty memory.
        seen = torch.from_numpy(np.concatenate([observations[:3, 1], following[2:3, 1]]))[:, None]
        empty = {part: rows.expand(4, *rows.shape) for part, rows in model.memory.empty(1).items()}
        expected = model(seen, empty, torch.zeros(4, 1, dtype=torch.bool))[1][-1, 0]
    assert next_values.shape == (6, 2)
    torch.testing.assert_close(next_values[:-1, 0], values[1:, 0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(next_values[2, 1], expected, atol=1e-5, rtol=1e-4)
    assert not torch.isclose(next_values[2, 1], values[3, 1], atol=1e-3)


def test_a_carry_from_an_earlier_rollout_is_where_a_sequence_starts():
    g = np.random.default_rng(0)
    model, agent = built("gru")
    observations, dones = g.standard_normal((8, 2, 3)).astype(np.float32), np.zeros((8, 2), bool)
    whole = lived(agent, observations, dones)
    with torch.no_grad():
        values = model(**whole.only(model.reads))[1]
        pieces = model(**whole.sequences(4).only(model.reads))[1]
    torch.testing.assert_close(torch.cat([pieces[:, :2], pieces[:, 2:]]), values, atol=1e-5, rtol=1e-4)


def test_only_what_has_a_memory_takes_one():
    spaces = Spaces(LINE, Discrete(2))
    for variant, name in ((PolicyOnly, "policy-only"), (QValue, "q-value")):
        with pytest.raises(Incompatible, match=f"policy.network.memory: a {name} Model has no lstm; set it to none"):
            build_model(variant, spaces, network("lstm"), Rng(0))
    assert build_policy_value(spaces, NetworkConfig(), Rng(0)).variant == "policy-value"
    with pytest.raises(Incompatible, match=r"a policy with memory \(gru\) has no state_dependent noise"):
        built("gru", exploration="state_dependent")


def test_a_user_acts_in_episodes():
    _, agent = built("gru")
    assert agent.remembers
    assert agent.acting == "numpy"
    with pytest.raises(UserError, match=r"this agent remembers.*agent\.episode\(\)"):
        agent.act(np.zeros(3, np.float32))
    observations = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    both, alone = agent.episode(), agent.episode()
    for row in observations[:3]:
        assert both.act(row)[0] == alone.act(row[0])
    np.testing.assert_allclose(both.carry["h"][:1], alone.carry["h"], atol=1e-6)
    both.restart([False, True])
    assert both.carry["h"][0].any()
    assert not both.carry["h"][1].any()
    both.restart()
    assert both.carry is None
    assert alone.act(observations[4, 0]).shape == ()


def test_batches_can_be_given_actions_and_values():
    _, agent = built("lstm")
    rollout = lived(agent, np.zeros((3, 2, 3), np.float32), np.zeros((3, 2), bool)).flatten()
    assert agent.with_actions(rollout).actions.shape == (6,)
    assert agent.with_values(rollout).values.shape == (6,)


def test_images_dicts_and_normalizers_go_in_front_of_a_memory():
    space = Dict((("camera", Box((40, 40, 1), "uint8", (0,), (255,))), ("speed", LINE)))
    model, agent = built("gru", observation=space, normalize_observations=True)
    rows = {"camera": np.zeros((2, 40, 40, 1), np.uint8), "speed": np.ones((2, 3), np.float32)}
    acted = agent.step(rows)
    assert acted.actions.shape == (2,)
    model.encoder.normalizer.update(model.encoder.raw({"speed": torch.ones(4, 3)}))
    assert agent.step(rows, acted.carry).carry["h"].shape == (2, 2, 5)
