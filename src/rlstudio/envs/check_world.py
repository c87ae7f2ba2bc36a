"""Does a World keep its contract? Pure functions of rows, the same numbers in NumPy and torch, finite ones.

Each check raises Violation with what is wrong, in the words of whoever wrote the world. `rlctl check` reports them all;
the suite `WorldContract` of `rlstudio.testing` runs them one by one. The first two are made before every run: NumPy
stretches arrays of a wrong shape until they fit, and a policy would learn from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rlstudio.core.contracts import Transition, World
from rlstudio.core.errors import EnvFault, Incompatible, raised
from rlstudio.core.spaces import Box, Dict, Leaf, MultiDiscrete, Spaces
from rlstudio.envs.python_envs import is_of_python
from rlstudio.envs.seats.declared import wrong_agents
from rlstudio.envs.worlds.kernel import NUMPY

LEAD = (2, 3)
PLAYED = 300  # steps in which numbers must stay finite
CLOSE = {"rtol": 1e-6, "atol": 1e-7}
PARTS = ("states", "rewards", "terminated", "active")
USE_XP = "use xp instead of numpy, and only what torch has too"
AnyWorld = World[np.ndarray]


class Violation(AssertionError):
    """What a World does that its contract does not allow."""


def violations(world: AnyWorld) -> Iterator[str]:
    """What is wrong with a world, one line for each check that fails."""
    for check in CONTRACT:
        try:
            check(world)
        except Violation as violation:
            yield str(violation)
        except Exception as error:
            name = check.__name__.replace("_", " ")
            yield f"{name}: raised {type(error).__name__}: {' '.join(str(error).split())}"


def refuse_unfit(world: AnyWorld, id: str) -> None:
    """Before a run: attributes and shapes, for rows as a vector has them."""
    try:
        attributes(world)
        shapes(world, (world.agents + 2,))  # so many that no array for agents is taken for one of environments
    except Violation as violation:
        more = "" if is_of_python(id) else f"; `rlctl check {id}` looks for more"
        raise Incompatible(f"env.id: {id}: {violation}{more}") from violation
    except Exception as error:
        raise EnvFault(f"env.id: {id}: a function of it raised {raised(error)}") from error


def attributes(world: AnyWorld) -> None:
    _require(isinstance(world.spaces, Spaces), "`spaces` is no rlstudio.core.spaces.Spaces(observation, action)")
    for name, least in (("state_size", 1), ("noise_size", 0), ("agents", 1)):
        value = getattr(world, name)
        _require(type(value) is int and value >= least, f"`{name}` is {value!r}, not a whole number from {least} on")
    _require(world.limit is None or (type(world.limit) is int and world.limit > 0), "`limit` is no steps, and not None")
    _require(isinstance(world.params, Mapping), f"`params` is {world.params!r}, not a dict of numbers by their names")
    for name, value in world.params.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        _require(is_number, f"`params` {name!r} is {value!r}, not a number")
    if world.agents > 1 and (problem := wrong_agents(world)) is not None:
        raise Violation(problem)


def shapes(world: AnyWorld, lead: tuple[int, ...] = LEAD) -> None:
    """Of states [*lead, S] and what follows from them."""
    rows_of = lead_of(world, lead)

    def same_shape(what: str, rows: np.ndarray, shape: tuple[int, ...]) -> None:
        given = f"for states of shape {(*lead, 'S')}"
        _require(np.shape(rows) == shape, f"{what} of shape {np.shape(rows)} instead of {shape} {given}")

    first = world.initial(np.full((*lead, world.noise_size), 0.25), world.params, NUMPY)
    same_shape("`initial` gives states", first, (*lead, world.state_size))
    states, actions = drawn(world, lead)
    step = world.dynamics(states, actions, world.params, NUMPY)
    _require(isinstance(step, Transition), f"`dynamics` gives a {type(step).__name__}, not a Transition")
    following, rewards, terminated, active = step
    same_shape("`dynamics` gives states", following, states.shape)
    flags = {"terminated": terminated} | ({} if active is None else {"active": active})
    for name, rows in {"rewards": rewards, **flags}.items():
        same_shape(f"`dynamics` gives {name}", rows, rows_of)
    for name, rows in flags.items():
        _require(rows.dtype == bool, f"`dynamics` gives {name} as {rows.dtype}, not bool")
    for name, rows in observed_entries(world, states).items():
        same_shape(f"`observe` gives {_entry(name)}", rows, (*rows_of, *spaces_by_entry(world)[name].shape))


def what_it_shows(world: AnyWorld) -> None:
    """Inside its space."""
    for name, rows in observed_entries(world, drawn(world)[0]).items():
        space = spaces_by_entry(world)[name]
        low, high = _bounds(space)
        fits = ((rows >= low - 1e-5) & (rows <= high + 1e-5)).all()
        _require(bool(fits), f"`observe` shows {_entry(name)} outside of its space: {rows.min():g} to {rows.max():g}")


def purity(world: AnyWorld) -> None:
    states, actions = drawn(world)
    before = states.copy(), actions.copy()
    first, second = (world.dynamics(states, actions, world.params, NUMPY) for _ in range(2))
    world.observe(states, world.params, NUMPY)
    _require(np.array_equal(states, before[0]), "its functions change the states that they are given; make new arrays")
    _require(np.array_equal(actions, before[1]), "`dynamics` changes the actions that it is given; make a new array")
    for name, one, other in zip(PARTS, first[:3], second[:3], strict=False):
        equal = np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)
        _require(equal, f"`dynamics` gives other {name} for the same states and actions; chance belongs into the state")


def rows_for_themselves(world: AnyWorld) -> None:
    states, actions = drawn(world)
    together = world.dynamics(states, actions, world.params, NUMPY)
    alone = world.dynamics(states[1], actions[1], world.params, NUMPY)
    for name, many, few in zip(PARTS, together[:3], alone[:3], strict=False):
        equal = np.array_equal(np.asarray(many)[1], np.asarray(few), equal_nan=True)
        _require(equal, f"`dynamics` gives other {name} for fewer rows: a row must not depend on others; index from the"
                 " end (states[..., 0]) and join with xp.stack(..., -1)")  # fmt: skip


def torch_computes_the_same(world: Any) -> None:
    import torch

    from rlstudio.envs.worlds.equations import TORCH

    states, actions = drawn(world)
    ours = world.dynamics(states, actions, world.params, NUMPY)
    try:
        theirs = world.dynamics(torch.from_numpy(states), torch.from_numpy(actions), world.params, TORCH)
        torch_entries = by_entry(world.observe(torch.from_numpy(states), world.params, TORCH))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise Violation(f"it does not compute in torch ({reason}); {USE_XP}") from error
    for name, one, other in zip(PARTS, ours, theirs, strict=True):
        _require((one is None) == (other is None), f"`dynamics` gives {name} in NumPy or torch alone")
        if one is not None:
            _require(isinstance(other, torch.Tensor), f"`dynamics` makes {name} of NumPy out of tensors; {USE_XP}")
            _same_numbers(f"`dynamics` gives other {name} in torch than in NumPy", one, other.numpy())
    for name, rows in observed_entries(world, states).items():
        other = torch_entries[name]
        _require(isinstance(other, torch.Tensor), f"`observe` makes arrays of NumPy out of tensors; {USE_XP}")
        _same_numbers(f"`observe` shows {_entry(name)} otherwise in torch than in NumPy", rows, other.numpy())


def parameters_per_row(world: AnyWorld) -> None:
    states, actions = drawn(world)
    plain = world.dynamics(states, actions, world.params, NUMPY)
    per_row = {name: np.full(LEAD, value) for name, value in world.params.items()}
    varied = world.dynamics(states, actions, per_row, NUMPY)
    for name, one, other in zip(PARTS, plain[:3], varied[:3], strict=False):
        _same_numbers(
            f"`dynamics` gives other {name} when a parameter is an array with equal numbers", one, other, 1e-6
        )


def recall(world: Any) -> None:
    """Without it nobody plans by the equations."""
    if not hasattr(world, "recall"):
        return
    observed = world.observe(drawn(world)[0], world.params, NUMPY)
    again = observed_entries(world, world.recall(observed, world.params, NUMPY))
    for name, rows in by_entry(observed).items():
        _same_numbers(f"`recall` does not give back the state behind {_entry(name)}", again[name], rows, 1e-9)


def finite_numbers(world: AnyWorld) -> None:
    """In a play that is longer than an episode: planners look beyond its end."""
    rng = np.random.default_rng(0)
    states = world.initial(rng.random((*LEAD, world.noise_size)), world.params, NUMPY)
    for step in range(1, PLAYED + 1):
        states, rewards, _, _ = world.dynamics(states, random_actions(world, rng), world.params, NUMPY)
        for name, rows in {"states": states, "rewards": rewards, **observed_entries(world, states)}.items():
            text = (
                f"step {step} of random play gives {name or 'observations'} that are not finite; bound them (xp.clip)"
            )
            _require(bool(np.isfinite(rows).all()), text)


CONTRACT: tuple[Callable[[Any], None], ...] = (
    attributes,
    shapes,
    what_it_shows,
    purity,
    rows_for_themselves,
    torch_computes_the_same,
    parameters_per_row,
    recall,
    finite_numbers,
)


# -- rows to check with ----------------------------------------------------------------------------------------------


def lead_of(world: AnyWorld, lead: tuple[int, ...] = LEAD) -> tuple[int, ...]:
    return lead if world.agents == 1 else (*lead, world.agents)


def drawn(world: AnyWorld, lead: tuple[int, ...] = LEAD) -> tuple[np.ndarray, np.ndarray]:
    """States some steps into their episodes, and actions for them."""
    rng = np.random.default_rng(1)
    states = world.initial(rng.random((*lead, world.noise_size)), world.params, NUMPY)
    for _ in range(3):
        states = world.dynamics(states, random_actions(world, rng, lead), world.params, NUMPY)[0]
    return states, random_actions(world, rng, lead)


def random_actions(world: AnyWorld, rng: np.random.Generator, lead: tuple[int, ...] = LEAD) -> np.ndarray:
    space, rows = world.spaces.action, lead_of(world, lead)
    if isinstance(space, Box):
        return rng.uniform(*space.bounds(), (*rows, *space.shape)).astype(np.float32)
    if isinstance(space, MultiDiscrete):
        return rng.integers(0, np.asarray(space.nvec), (*rows, *space.shape))
    assert not isinstance(space, Dict)
    return rng.integers(0, space.n, rows)


def spaces_by_entry(world: AnyWorld) -> dict[str, Leaf]:
    space = world.spaces.observation
    return dict(space.items()) if isinstance(space, Dict) else {"": space}


def by_entry(observed: object) -> dict[str, Any]:
    return observed if isinstance(observed, dict) else {"": observed}


def observed_entries(world: AnyWorld, states: np.ndarray) -> dict[str, Any]:
    """What the world shows of these states, by entry; a plain observation is the entry ""."""
    entries = by_entry(world.observe(states, world.params, NUMPY))
    expected = spaces_by_entry(world).keys()
    _require(entries.keys() == expected, f"`observe` shows {sorted(entries)}, its space says {sorted(expected)}")
    return entries


def _bounds(space: Leaf) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(space, Box):
        return space.bounds()
    sizes = np.asarray(space.nvec if isinstance(space, MultiDiscrete) else space.n)
    return np.zeros_like(sizes), sizes - 1


def _entry(name: str) -> str:
    return f"the entry {name!r}" if name else "observations"


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise Violation(text)


def _same_numbers(what: str, one: ArrayLike, other: ArrayLike, tolerance: float | None = None) -> None:
    close = CLOSE if tolerance is None else {"rtol": tolerance, "atol": tolerance}
    equal = np.shape(one) == np.shape(other) and np.allclose(one, other, **close, equal_nan=True)
    _require(equal, what)
