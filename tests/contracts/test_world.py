"""The contract of World, for every world of the catalog and the toys that stand for those of other packages."""

import numpy as np
import pytest
import torch

import support.worlds  # registers its toys
from rlstudio.core.catalog import WORLDS
from rlstudio.core.spaces import Box, Dict
from rlstudio.envs.worlds.catalog import NEEDED, make_world
from rlstudio.envs.worlds.kernel import NUMPY

TOYS = [kind.id for kind in (support.worlds.Slider, support.worlds.MaskedWorld, support.worlds.ThreeAgents)]
LEAD = (2, 3)


@pytest.fixture(params=sorted({*WORLDS.builtin, *TOYS}))
def world(request):
    return make_world(request.param, {})


def lead_of(world, lead=LEAD):
    return lead if world.agents == 1 else (*lead, world.agents)


def drawn(world):
    """States some steps into their episodes, and actions for them."""
    rng = np.random.default_rng(1)
    states = world.initial(rng.random((*LEAD, world.noise_size)), world.params, NUMPY)
    for _ in range(3):
        states = world.dynamics(states, actions(world, rng), world.params, NUMPY).states
    return states, actions(world, rng)


def actions(world, rng):
    space = world.spaces.action
    if isinstance(space, Box):
        return rng.uniform(*space.bounds(), (*lead_of(world), *space.shape)).astype(np.float32)
    return rng.integers(0, space.n, lead_of(world))


def entries(observed, space):
    return [(observed[name], leaf) for name, leaf in space.items()] if isinstance(space, Dict) else [(observed, space)]


def test_it_has_what_the_contract_says(world):
    assert all(hasattr(world, name) for name in NEEDED)
    assert world.id in WORLDS
    assert world.limit is None or world.limit > 0
    assert all(isinstance(value, float) for value in world.params.values())


def test_shapes(world):
    states, chosen = drawn(world)
    assert states.shape == (*LEAD, world.state_size)
    following, rewards, terminated, active = world.dynamics(states, chosen, world.params, NUMPY)
    assert following.shape == states.shape
    assert rewards.shape == terminated.shape == lead_of(world)
    assert terminated.dtype == bool
    assert active is None or (active.shape == lead_of(world) and active.dtype == bool)
    for rows, leaf in entries(world.observe(states, world.params, NUMPY), world.spaces.observation):
        assert rows.shape == (*lead_of(world), *leaf.shape)


def test_its_functions_are_pure(world):
    states, chosen = drawn(world)
    before = states.copy(), chosen.copy()
    first, second = (world.dynamics(states, chosen, world.params, NUMPY) for _ in range(2))
    world.observe(states, world.params, NUMPY)
    assert all(np.array_equal(one, other) for one, other in zip(first[:3], second[:3], strict=True))
    assert np.array_equal(states, before[0])
    assert np.array_equal(chosen, before[1])


def test_each_row_is_for_itself(world):
    states, chosen = drawn(world)
    together, alone = (
        world.dynamics(states, chosen, world.params, NUMPY),
        world.dynamics(states[1], chosen[1], world.params, NUMPY),
    )
    for many, few in zip(together[:3], alone[:3], strict=True):
        assert np.array_equal(many[1], few)


def test_torch_computes_what_numpy_does(world):
    states, chosen = drawn(world)
    ours = world.dynamics(states, chosen, world.params, NUMPY)
    theirs = world.dynamics(torch.from_numpy(states), torch.from_numpy(chosen), world.params, torch)
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-6, atol=1e-7)
    left, right = (world.observe(s, world.params, xp) for s, xp in ((states, NUMPY), (torch.from_numpy(states), torch)))
    for (one, _), (other, _) in zip(
        entries(left, world.spaces.observation), entries(right, world.spaces.observation), strict=True
    ):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-6, atol=1e-7)


def test_a_parameter_may_be_a_number_per_row(world):
    states, chosen = drawn(world)
    plain = world.dynamics(states, chosen, world.params, NUMPY)
    per_row = {name: np.full(LEAD, value) for name, value in world.params.items()}
    varied = world.dynamics(states, chosen, per_row, NUMPY)
    for one, other in zip(plain[:3], varied[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_what_can_be_recalled_is_the_state(world):
    if not hasattr(world, "recall"):
        return
    states, _ = drawn(world)
    observed = world.observe(states, world.params, NUMPY)
    again = world.observe(world.recall(observed, world.params, NUMPY), world.params, NUMPY)
    np.testing.assert_allclose(again, observed, rtol=1e-9, atol=1e-9)
