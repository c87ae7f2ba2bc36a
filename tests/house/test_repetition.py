"""`support.repetition`: nothing is lost, and what stays in `make test` has every kind."""

import itertools

import pytest

from support.repetition import few, first_of_each, some_points

pytest_plugins = ["pytester"]

CASES = """
import pytest
from support.repetition import few

NAMED = pytest.param("d", 4, id="own", marks=pytest.mark.xfail)
CASES = [("a", 1), ("b", 2), ("c", object()), NAMED]

@pytest.mark.parametrize(("letter", "number"), {cases})
def test_two(letter, number):
    pass

@pytest.mark.parametrize("value", {values})
def test_one(value):
    pass
"""
WHOLE = {"cases": "CASES", "values": "['x', 2.5, pytest.param((1, 2)), len]"}
FEW = {
    "cases": "few(CASES, lambda case: case[0] == 'b')",
    "values": "few(['x', 2.5, pytest.param((1, 2)), len], lambda value: value == (1, 2))",
}


@pytest.fixture
def ids(pytester):
    pytester.makeini("[pytest]\nmarkers =\n    slow")

    def collected(cases):
        """The id of each case, and whether it is slow."""
        pytester.makepyfile(test_cases=CASES.format(**cases))
        items, _ = pytester.inline_genitems("--strict-markers")
        return {item.nodeid: item.get_closest_marker("slow") is not None for item in items}

    return collected


def test_every_case_is_there_under_its_id_and_the_others_are_slow(ids):
    whole, kept = ids(WHOLE), ids(FEW)
    assert len(whole) == 8
    assert [*kept] == [*whole]
    assert not any(whole.values())
    assert [id for id, slow in kept.items() if not slow] == [
        "test_cases.py::test_two[b-2]",
        "test_cases.py::test_one[value2]",
    ]


def test_marks_of_a_case_stay():
    (case,) = few([pytest.param(1, marks=pytest.mark.xfail)], lambda case: False)
    assert [mark.name for mark in case.marks] == ["xfail", "slow"]


def test_first_of_each():
    cases = [(letter, number) for letter in "abc" for number in (1, 2, 3)]
    kept = list(filter(first_of_each(lambda case: case[0], lambda case: case[1]), cases))
    assert kept == [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("c", 1)]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 100])
@pytest.mark.parametrize("at_most", [2, 3, 8])
def test_some_points(n, at_most):
    points = some_points(n, at_most)
    assert len(points) == len(set(points)) == min(n, at_most)
    assert points == sorted(points)
    if n:
        assert (points[0], points[-1]) == (0, n - 1)
    steps = [after - before for before, after in itertools.pairwise(points)]
    assert not steps or max(steps) - min(steps) <= 1


def test_some_points_needs_room_for_both_ends():
    with pytest.raises(ValueError, match="at_most is 1"):
        some_points(5, 1)
