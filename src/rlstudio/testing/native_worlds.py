"""What every World in array code promises: pure functions of rows, the same in NumPy and torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rlstudio.core.catalog import WORLDS
from rlstudio.core.contracts import World
from rlstudio.envs import check_world
from rlstudio.envs.worlds.catalog import NEEDED, make_world


class WorldContract:
    """The contract of a World in array code as tests: extend this class and name the part."""

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
        check_world.attributes(world)

    def test_shapes(self) -> None:
        check_world.shapes(self.make())

    def test_what_it_shows_is_what_its_space_says(self) -> None:
        check_world.what_it_shows(self.make())

    def test_its_functions_are_pure(self) -> None:
        check_world.purity(self.make())

    def test_each_row_is_for_itself(self) -> None:
        check_world.rows_for_themselves(self.make())

    def test_torch_computes_what_numpy_does(self) -> None:
        check_world.torch_computes_the_same(self.make())

    def test_a_parameter_may_be_a_number_per_row(self) -> None:
        check_world.parameters_per_row(self.make())

    def test_what_can_be_recalled_is_the_state(self) -> None:
        check_world.recall(self.make())

    def test_numbers_stay_finite(self) -> None:
        check_world.finite_numbers(self.make())
