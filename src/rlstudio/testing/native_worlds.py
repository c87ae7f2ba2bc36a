"""What every World in array code promises: pure functions of rows, the same in NumPy and torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import World
from rlstudio.core.spaces import Box, Dict, MultiDiscrete
from rlstudio.envs.worlds.catalog import NEEDED, make_world
from rlstudio.envs.worlds.equations import TORCH
from rlstudio.envs.worlds.kernel import NUMPY

LEAD = (2, 3)


class WorldContract:
    part: ClassVar[str]
    """Id of the world."""

    kwargs: ClassVar[Mapping[str, Any]] = {}
    """Arguments of its constructor, `env.kwargs`."""

    def __init_subclass__(cls) -> None:
        """Without `recall` nobody plans by the equations."""
        if not hasattr(WORLDS.load(cls.part), "recall"):
            cls.test_what_can_be_recalled_is_the_state = None  # type: ignore[method-assign, assignment]

    def make(self) -> World[np.ndarray]:
        return make_world(self.part, self.kwargs)

    def test_it_has_what_the_contract_says(self) -> None:
        world = self.make()
        assert all(hasattr(world, name) for name in NEEDED)
        assert world.id == self.part
        assert world.id in WORLDS
        assert world.limit is None or world.limit > 0
        assert all(isinstance(value, float) for value in world.params.values())

    def test_shapes(self) -> None:
        world = self.make()
        states, actions = drawn(world)
        assert states.shape == (*LEAD, world.state_size)
        following, rewards, terminated, active = world.dynamics(states, actions, world.params, NUMPY)
        assert following.shape == states.shape
        assert rewards.shape == terminated.shape == lead_of(world)
        assert terminated.dtype == bool
        assert active is None or (active.shape == lead_of(world) and active.dtype == bool)
        for name, rows in observed_entries(world, states).items():
            assert rows.shape == (*lead_of(world), *spaces_by_entry(world)[name].shape)

    def test_what_it_shows_is_what_its_space_says(self) -> None:
        world = self.make()
        for name, rows in observed_entries(world, drawn(world)[0]).items():
            space = spaces_by_entry(world)[name]
            if isinstance(space, Box):
                low, high = space.bounds()
                assert ((rows >= low - 1e-5) & (rows <= high + 1e-5)).all()
            else:
                sizes = np.asarray(space.nvec) if isinstance(space, MultiDiscrete) else space.n
                assert ((rows >= 0) & (rows < sizes)).all()

    def test_its_functions_are_pure(self) -> None:
        world = self.make()
        states, actions = drawn(world)
        before = states.copy(), actions.copy()
        first, second = (world.dynamics(states, actions, world.params, NUMPY) for _ in range(2))
        world.observe(states, world.params, NUMPY)
        assert all(np.array_equal(one, other) for one, other in zip(first[:3], second[:3], strict=True))
        assert np.array_equal(states, before[0])
        assert np.array_equal(actions, before[1])

    def test_each_row_is_for_itself(self) -> None:
        world = self.make()
        states, actions = drawn(world)
        together = world.dynamics(states, actions, world.params, NUMPY)
        alone = world.dynamics(states[1], actions[1], world.params, NUMPY)
        for many, few in zip(together[:3], alone[:3], strict=True):
            assert np.array_equal(many[1], few)

    def test_torch_computes_what_numpy_does(self) -> None:
        world = self.make()
        states, actions = drawn(world)
        ours = world.dynamics(states, actions, world.params, NUMPY)
        same: World[Tensor] = make_world(self.part, self.kwargs)  # type: ignore[assignment]
        theirs = same.dynamics(torch.from_numpy(states), torch.from_numpy(actions), same.params, TORCH)
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                np.testing.assert_allclose(one, other.numpy(), rtol=1e-6, atol=1e-7)
        left = observed_entries(world, states)
        right = by_entry(same.observe(torch.from_numpy(states), same.params, TORCH))
        for name, rows in left.items():
            np.testing.assert_allclose(rows, right[name].numpy(), rtol=1e-6, atol=1e-7)

    def test_a_parameter_may_be_a_number_per_row(self) -> None:
        world = self.make()
        states, actions = drawn(world)
        plain = world.dynamics(states, actions, world.params, NUMPY)
        per_row = {name: np.full(LEAD, value) for name, value in world.params.items()}
        varied = world.dynamics(states, actions, per_row, NUMPY)
        for one, other in zip(plain[:3], varied[:3], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)

    def test_what_can_be_recalled_is_the_state(self) -> None:
        world: Any = self.make()
        observed = world.observe(drawn(world)[0], world.params, NUMPY)
        again = observed_entries(world, world.recall(observed, world.params, NUMPY))
        for name, rows in by_entry(observed).items():
            np.testing.assert_allclose(again[name], rows, rtol=1e-9, atol=1e-9)


def lead_of(world: World[np.ndarray]) -> tuple[int, ...]:
    return LEAD if world.agents == 1 else (*LEAD, world.agents)


def drawn(world: World[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """States some steps into their episodes, and actions for them."""
    rng = np.random.default_rng(1)
    states = world.initial(rng.random((*LEAD, world.noise_size)), world.params, NUMPY)
    for _ in range(3):
        states = world.dynamics(states, random_actions(world, rng), world.params, NUMPY).states
    return states, random_actions(world, rng)


def random_actions(world: World[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    space = world.spaces.action
    if isinstance(space, Box):
        return rng.uniform(*space.bounds(), (*lead_of(world), *space.shape)).astype(np.float32)
    if isinstance(space, MultiDiscrete):
        return rng.integers(0, np.asarray(space.nvec), (*lead_of(world), *space.shape))
    assert not isinstance(space, Dict)
    return rng.integers(0, space.n, lead_of(world))


def spaces_by_entry(world: World[np.ndarray]) -> dict[str, Any]:
    space = world.spaces.observation
    return dict(space.items()) if isinstance(space, Dict) else {"": space}


def by_entry(observed: Any) -> dict[str, Any]:
    return observed if isinstance(observed, dict) else {"": observed}


def observed_entries(world: World[np.ndarray], states: Any) -> dict[str, Any]:
    """What the world shows of these states, by entry; a plain observation is the entry ""."""
    entries = by_entry(world.observe(states, world.params, NUMPY))
    assert entries.keys() == spaces_by_entry(world).keys()
    return entries
