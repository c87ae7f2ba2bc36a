"""Every race has its story, and every guard of the store and the reaper is needed by one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlstudio.control.store.store import Store
from support.control_world import World, clear
from support.mutants import MUTANTS
from support.traces import TRACES


@pytest.mark.parametrize("trace", TRACES.values(), ids=TRACES)
def test_trace(store, monkeypatch, trace):
    trace(World(store, monkeypatch.setattr))


def failures(database) -> Iterator[str]:
    """The stories that do not end as they must."""
    for name, trace in TRACES.items():
        clear(database)
        with pytest.MonkeyPatch.context() as world:
            try:
                trace(World(Store(database), world.setattr))
            except (Exception, pytest.fail.Exception):
                yield name


@pytest.fixture(scope="module")
def always_false(sqlite_database) -> set[str]:
    """Nothing, as `test_trace` says; but what fails anyway must not count below."""
    return set(failures(sqlite_database))


@pytest.mark.parametrize("break_it", MUTANTS.values(), ids=MUTANTS)
def test_a_missing_guard_is_noticed(sqlite_database, always_false, monkeypatch, break_it):
    break_it(monkeypatch.setattr)
    caught = next((name for name in failures(sqlite_database) if name not in always_false), None)
    assert caught is not None, "no trace notices"
    print(f"{break_it.__name__}: {caught}")


def test_there_are_enough():
    assert len(TRACES) >= 12
    assert len(MUTANTS) >= 10
