"""What `make test` keeps of many cases of one kind. `make test-all` runs all of them: the others are marked `slow`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest

PARAM = type(pytest.param())


def few(cases: Iterable[Any], keep: Callable[[Any], object]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`, in their order and under their ids; those for which `keep(case)` is
    false are marked `slow`.

    A tuple is one value for each of several names, as `parametrize` has it; a tuple that is the value of one name is
    given as `pytest.param(the_tuple)`. Of a `pytest.param`, `keep` gets the value, or the tuple of its values.
    """
    return [case if keep(_value(case)) else _slow(case) for case in cases]


def first_of_each(*kinds: Callable[[Any], Hashable]) -> Callable[[Any], bool]:
    """For `few`: keep a case where one of `kinds` gives what it gave for no earlier case. With one function for the
    algorithm and one for the environment, each algorithm and each environment is kept at least once, not each pair."""
    known: list[set[Hashable]] = [set() for _ in kinds]

    def keep(case: Any) -> bool:
        values = [kind(case) for kind in kinds]
        is_new = any(value not in before for value, before in zip(values, known, strict=True))
        for value, before in zip(values, known, strict=True):
            before.add(value)
        return is_new

    return keep


def some_points(n: int, at_most: int) -> list[int]:
    """Of the indices 0..n-1 at most so many, evenly spread, with the first and the last."""
    if at_most < 2:
        raise ValueError(f"at_most is {at_most}: the first and the last are two points")
    if n <= at_most:
        return list(range(n))
    return [round(number * (n - 1) / (at_most - 1)) for number in range(at_most)]


def _value(case: Any) -> Any:
    if not isinstance(case, PARAM):
        return case
    return case.values[0] if len(case.values) == 1 else case.values


def _slow(case: Any) -> Any:
    if isinstance(case, PARAM):
        return case._replace(marks=(*case.marks, pytest.mark.slow))
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=pytest.mark.slow)
