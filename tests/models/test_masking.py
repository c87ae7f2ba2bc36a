"""Action masks: the distribution over the allowed choices, and nothing else, for every reader of a mask."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlstudio.agents.policy import PolicyAgent
from rlstudio.agents.q_value import QValueAgent
from rlstudio.core.action_mask import FORBIDDEN, ActionMask
from rlstudio.core.contracts import Place
from rlstudio.core.errors import Incompatible
from rlstudio.core.rng import Rng
from rlstudio.core.spaces import Box, Dict, Discrete, MultiDiscrete, Spaces
from rlstudio.data.collect.explore import EpsilonGreedy
from rlstudio.models.build import build_model, build_policy_value
from rlstudio.models.config import NetworkConfig
from rlstudio.models.policies.distributions import entropy, log_prob
from rlstudio.models.policies.policy_value import PolicyValue
from rlstudio.models.policies.q_values import QValue
from rlstudio.ops.flat import flatten
from support.examples import examples

LINE = Box((3,), "float32", (-1,), (1,))
SMALL = NetworkConfig(hidden_sizes=(8,))


def spaces(action, **entries) -> Spaces:
    size = action.n if isinstance(action, Discrete) else sum(action.nvec)
    mask = Box((size,), "uint8", (0,), (1,))
    return Spaces(Dict((("action_mask", mask), *sorted({"seen": LINE, **entries}.items()))), action)


def rows(seed: int, n: int, action) -> dict[str, np.ndarray]:
    """Observations with at least one choice in every part, but for the first row, which allows nothing."""
    g = np.random.default_rng(seed)
    parts = []
    for count in (action.n,) if isinstance(action, Discrete) else action.nvec:
        part = (g.random((n, count)) < 0.4).astype(np.uint8)
        part[np.arange(n), g.integers(0, count, n)] = 1
        parts.append(part)
    mask = np.concatenate(parts, -1)
    mask[0] = 0
    return {"seen": g.standard_normal((n, 3)).astype(np.float32), "action_mask": mask}


def tensors(observations):
    return {name: torch.from_numpy(array) for name, array in observations.items()}


def shaken(model, seed):
    data = flatten(model).data
    data.add_(2.0 * torch.randn(data.shape, generator=torch.Generator().manual_seed(seed)))
    return model


def is_allowed(mask: np.ndarray, chosen: np.ndarray) -> bool:
    """Row 0 forbids everything, which forbids nothing."""
    return bool(mask[np.arange(len(mask)), chosen][1:].all())


@given(st.integers(2, 7), st.integers(0, 10**6))
@examples(25)
def test_a_masked_policy_is_the_renormalised_one(n, seed):
    space = Discrete(n)
    model = shaken(build_policy_value(spaces(space), SMALL, Rng(seed)), seed)
    seen = tensors(rows(seed, 6, space))
    with torch.no_grad():
        policy, _ = model(seen)
        logits = model.policy_net(model.encoder(seen))
    for row in range(6):
        allowed = seen["action_mask"][row].bool() | (row == 0)
        plain = torch.distributions.Categorical(logits=logits[row][allowed])
        chosen = torch.arange(n)[allowed]
        mine = torch.stack([log_prob(type(policy)(policy.logits[row : row + 1]), a[None])[0] for a in chosen])
        torch.testing.assert_close(mine, plain.logits, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(entropy(policy)[row], plain.entropy(), atol=1e-5, rtol=1e-4)
        forbidden = policy.logits.softmax(-1)[row][~allowed]
        assert (forbidden == 0).all()


def test_entropy_and_gradients_are_finite_and_reach_no_forbidden_choice():
    space = Discrete(4)
    model = build_policy_value(spaces(space), SMALL, Rng(0))
    seen = tensors(rows(0, 5, space))
    seen["action_mask"][1] = torch.tensor([0, 0, 1, 0])  # a single choice: entropy 0, not NaN
    policy, _ = model(seen)
    logits = policy.logits
    logits.retain_grad()
    total = entropy(policy).sum() + log_prob(policy, policy.logits.argmax(-1)).sum()
    total.backward()
    assert torch.isfinite(total)
    assert entropy(policy)[1] == 0
    bias = model.policy_net.layers[-1].bias.grad
    assert torch.isfinite(bias).all()
    model.zero_grad()
    seen["action_mask"][:] = torch.tensor([1, 1, 0, 1])
    entropy(model(seen)[0]).sum().backward()
    assert model.policy_net.layers[-1].bias.grad[2] == 0


def test_multi_discrete_masks_are_the_parts_one_after_the_other():
    space = MultiDiscrete((2, 3))
    model = shaken(build_policy_value(spaces(space), SMALL, Rng(0)), 0)
    seen = tensors(rows(1, 4, space))
    seen["action_mask"][1] = torch.tensor([0, 1, 1, 0, 1])
    with torch.no_grad():
        policy, _ = model(seen)
        logits = model.policy_net(model.encoder(seen))[1]
    second = torch.distributions.Categorical(logits=logits[2:][[0, 2]])
    torch.testing.assert_close(entropy(policy)[1], second.entropy(), atol=1e-5, rtol=1e-4)  # the first has one choice
    actions = torch.tensor([[0, 0], [1, 2], [0, 0], [0, 0]])
    torch.testing.assert_close(log_prob(policy, actions)[1], second.logits[1], atol=1e-5, rtol=1e-4)


AGENTS = {
    "policy": (PolicyAgent, lambda s, seed: build_policy_value(s, SMALL, Rng(seed))),
    "recurrent": (
        PolicyAgent,
        lambda s, seed: build_policy_value(s, NetworkConfig(hidden_sizes=(8,), memory="gru"), Rng(seed)),
    ),
    "q-value": (QValueAgent, lambda s, seed: build_model(QValue, s, SMALL, Rng(seed))),
}


@given(st.sampled_from(sorted(AGENTS)), st.integers(2, 6), st.integers(0, 10**6))
@examples(25)
def test_no_agent_takes_a_forbidden_choice_greedy_or_sampling(name, n, seed):
    space = Discrete(n)
    kind, build = AGENTS[name]
    agent = kind(shaken(build(spaces(space), seed), seed), spaces(space))
    seen = rows(seed, 8, space)
    noise = agent.noise(np.random.default_rng(seed), 20, 8)
    for draw in (None, *noise):
        assert is_allowed(seen["action_mask"], agent.step(seen, None, draw).actions)


@given(st.integers(0, 10**6))
@examples(25)
def test_no_part_of_a_multi_discrete_action_is_forbidden(seed):
    space = MultiDiscrete((3, 2, 4))
    agent = PolicyAgent(shaken(build_policy_value(spaces(space), SMALL, Rng(seed)), seed), spaces(space))
    seen = rows(seed, 8, space)
    for draw in (None, *agent.noise(np.random.default_rng(seed), 10, 8)):
        actions = agent.step(seen, None, draw).actions
        for i, part in enumerate(ActionMask(space.nvec).parts):
            assert is_allowed(seen["action_mask"][:, part], actions[:, i])


@given(st.integers(2, 6), st.floats(0, 1), st.integers(0, 10**6))
def test_epsilon_greedy_draws_allowed_choices_only(n, epsilon, seed):
    seen = rows(seed, 8, Discrete(n))
    explore = EpsilonGreedy(Discrete(n), epsilon, epsilon, 1.0)
    greedy = np.where(seen["action_mask"].any(-1), seen["action_mask"].argmax(-1), 0)
    for noise in explore.noise(np.random.default_rng(seed), 20, 8):
        assert is_allowed(seen["action_mask"], explore(greedy, noise, seen, Place(8, np.arange(8), 8)))


def test_epsilon_greedy_is_uniform_over_the_allowed():
    explore = EpsilonGreedy(Discrete(4), 0.3, 0.3, 1.0)
    mask = np.tile(np.array([1, 0, 1, 1], np.uint8), (100_000, 1))
    noise = explore.noise(np.random.default_rng(0), 1, 100_000)[0]
    chosen = explore(np.zeros(100_000, np.int64), noise, {"action_mask": mask}, Place(1, np.arange(1), 1))
    shares = np.bincount(chosen, minlength=4) / 100_000
    np.testing.assert_allclose(shares, [0.7 + 0.1, 0, 0.1, 0.1], atol=0.005)


def test_values_of_forbidden_choices_are_the_lowest_there_are():
    space = Discrete(3)
    model = shaken(build_model(QValue, spaces(space), SMALL, Rng(0)), 0)
    seen = tensors(rows(0, 6, space))
    q = model(seen)
    allowed = seen["action_mask"].bool()
    allowed[0] = True
    assert (q[~allowed] == FORBIDDEN).all()
    assert torch.equal(q[allowed], model.q_net(model.encoder(seen))[allowed])


def test_a_search_is_guided_by_the_values_of_the_choices_that_are_allowed():
    """By the spread among these: beside the lowest number there is, all others would be alike."""
    space = Discrete(3)
    model = shaken(build_model(QValue, spaces(space), SMALL, Rng(0)), 0)
    seen = tensors(rows(0, 6, space))
    values, logits = model.values(seen), model.policy_for_plan()(seen).logits
    several = seen["action_mask"].bool().sum(-1) > 1
    assert several.any()
    assert torch.equal(logits.argmax(-1), values.argmax(-1))
    assert torch.equal(model.value_for_plan({})(seen), values.amax(-1))
    worst = logits.where(seen["action_mask"].bool(), 0.0).amin(-1)
    torch.testing.assert_close(worst[several], torch.full_like(worst[several], -10.0))


def test_the_mask_is_no_feature_and_the_normalizer_never_sees_it():
    for entries, size in (({}, 3), ({"room": Discrete(4)}, 7)):
        network = NetworkConfig(hidden_sizes=(8,), normalize_observations=True)
        model = build_model(PolicyValue, spaces(Discrete(2), **entries), network, Rng(0))
        assert model.encoder.size == model.encoder.normalizer.mean.numel() == size
    seen = tensors(rows(0, 3, Discrete(2)))
    other = {**seen, "action_mask": 1 - seen["action_mask"]}
    model = build_policy_value(spaces(Discrete(2)), SMALL, Rng(0))
    assert torch.equal(model.value(seen), model.value(other))


def test_one_box_and_a_mask_act_through_numpy():
    space = Discrete(4)
    model = shaken(build_policy_value(spaces(space), NetworkConfig(normalize_observations=True), Rng(0)), 0)
    agent = PolicyAgent(model, spaces(space))
    assert agent.acting == "numpy"
    seen = rows(3, 16, space)
    expected = model(tensors(seen))[0].logits.argmax(-1).numpy()
    assert np.array_equal(agent.step(seen).actions, expected)
    assert PolicyAgent(
        build_policy_value(spaces(space, room=Discrete(2)), SMALL, Rng(0)), spaces(space, room=Discrete(2))
    ).acting == "torch"  # fmt: skip


def test_masks_that_fit_no_actions_are_refused():
    wrong = Spaces(Dict((("action_mask", Box((5,), "uint8", (0,), (1,))), ("seen", LINE))), Discrete(4))
    with pytest.raises(Incompatible, match=r"'action_mask' is Box\(5,\) uint8, but Discrete\(4\) needs a mask of 4"):
        build_policy_value(wrong, SMALL, Rng(0))
    numbers = Spaces(wrong.observation, Box((5,), "float32", (-1,), (1,)))
    with pytest.raises(Incompatible, match=r"forbids choices, but the actions are Box\(5,\).*rename"):
        build_policy_value(numbers, SMALL, Rng(0))
    alone = Spaces(Dict((("action_mask", Box((4,), "uint8", (0,), (1,))),)), Discrete(4))
    with pytest.raises(Incompatible, match="nothing but an action mask"):
        build_policy_value(alone, SMALL, Rng(0))
