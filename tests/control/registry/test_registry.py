"""The registry on SQLite and PostgreSQL: stages, races, audit; the decision is tested in test_promotion.py."""

from __future__ import annotations

import mmap
import os
import random
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from rlstudio.control.registry.records import Stage, Version
from rlstudio.control.registry.registry import Registry, before_production
from rlstudio.control.store.database import Database, ReadOnlyDatabase
from rlstudio.core.errors import Conflict, UnknownName, UserError
from support.histories import stages_after
from support.processes import fork, has_ended, running
from support.rlctl_process import wait_for

PROCESSES, READERS = 8, 2


@pytest.fixture
def registry(database: Database) -> Registry:
    with database.write() as connection:
        for table in ("model_version", "registry_event"):
            connection.execute(text(f"DELETE FROM {table}"))
    return Registry(database)


def digest(number: int) -> str:
    return f"{number:064x}"


def filled(registry: Registry, count: int = 3) -> Registry:
    for number in range(count):
        registry.register("walker", digest(number), run_id=f"run-{number}", step=number)
    return registry


def rollback(registry: Registry, reason: str = "") -> Version:
    """As `Releases.rollback` asks for it, without a bundle to verify."""
    current, before = registry.previous("walker")
    return registry.promote(
        "walker", before.version, Stage.PRODUCTION, if_current=current.version, kind="rollback", reason=reason
    )


def adds_up(registry: Registry) -> None:
    entries = [entry for model in registry.models() for entry in registry.versions(model)]
    table = {(entry.model, entry.version): entry.stage for entry in entries}
    assert stages_after(registry.history()) == table
    promoted = {entry.model for entry in registry.history() if entry.stage == Stage.PRODUCTION}
    live = sorted(model for (model, _), stage in table.items() if stage == Stage.PRODUCTION)
    assert live == sorted(promoted)  # exactly one of each model that was ever in production


def assert_one_in_production(registry: Registry) -> None:
    live = [entry.version for entry in registry.versions("walker") if entry.stage == Stage.PRODUCTION]
    assert len(live) == 1, live
    assert registry.production("walker") is not None


def test_versions_count_up_and_one_bundle_is_one_version(registry: Registry) -> None:
    filled(registry)
    assert [entry.version for entry in registry.versions("walker")] == [3, 2, 1]
    assert registry.register("walker", digest(1)).version == 2
    assert registry.register("runner", digest(1)).version == 1
    assert registry.models() == ["runner", "walker"]
    assert registry.digests() == {digest(0), digest(1), digest(2)}
    assert registry.get("walker", 1).stage == Stage.NONE
    adds_up(registry)


def test_promotion_archives_what_was_there(registry: Registry) -> None:
    filled(registry)
    registry.promote("walker", 1, Stage.STAGING)
    registry.promote("walker", 1, Stage.PRODUCTION, reason="first", verdict={"mean": 3.5})
    registry.promote("walker", 3, Stage.PRODUCTION, if_current=1)
    stages = {entry.version: entry.stage for entry in registry.versions("walker")}
    assert stages == {1: Stage.ARCHIVED, 2: Stage.NONE, 3: Stage.PRODUCTION}
    production = registry.production("walker")
    assert production is not None
    assert production.version == 3
    decisions = [(decision.version, decision.kind, decision.stage) for decision in registry.history("walker")[3:]]
    assert decisions == [
        (1, "promote", "staging"),
        (1, "promote", "production"),
        (1, "archive", "archived"),
        (3, "promote", "production"),
    ]
    assert registry.history("walker")[4].numbers == {"mean": 3.5}
    assert registry.history("walker")[4].reason == "first"
    adds_up(registry)


def test_who_is_not_up_to_date_loses(registry: Registry) -> None:
    filled(registry)
    registry.promote("walker", 1, Stage.PRODUCTION, if_current=0)
    with pytest.raises(Conflict, match="version 1 is in production, not none"):
        registry.promote("walker", 2, Stage.PRODUCTION, if_current=0)
    with pytest.raises(Conflict, match="version 1 is in production, not 3"):
        registry.promote("walker", 2, Stage.PRODUCTION, if_current=3)
    with pytest.raises(Conflict, match="is in production already"):
        registry.promote("walker", 1, Stage.PRODUCTION)
    adds_up(registry)


def test_going_back_step_by_step(registry: Registry) -> None:
    filled(registry)
    with pytest.raises(Conflict, match="nothing is in production"):
        rollback(registry)
    registry.promote("walker", 1, Stage.PRODUCTION)
    with pytest.raises(Conflict, match="is the first in production"):
        rollback(registry)
    registry.promote("walker", 2, Stage.PRODUCTION)
    registry.promote("walker", 3, Stage.PRODUCTION)
    assert rollback(registry, reason="it limps").version == 2
    assert rollback(registry).version == 1
    with pytest.raises(Conflict, match="is the first in production"):
        rollback(registry)
    registry.promote("walker", 3, Stage.PRODUCTION)
    assert rollback(registry).version == 1
    for version in (2, 1, 3):
        registry.promote("walker", version, Stage.PRODUCTION)
    assert [rollback(registry).version for _ in range(3)] == [1, 2, 1]
    assert before_production(registry.history("walker")) is None
    adds_up(registry)


def test_names_and_numbers_that_are_not_there(registry: Registry) -> None:
    filled(registry)
    with pytest.raises(UnknownName, match="model 'wolker': there is no such model; did you mean walker"):
        registry.versions("wolker")
    with pytest.raises(UnknownName, match="has no version 9; it has 1, 2, 3"):
        registry.get("walker", 9)
    with pytest.raises(UnknownName, match="has no version 9"):
        registry.promote("walker", 9, Stage.STAGING)
    for name in ("", "../x", "A", "a/b", "-x", "x" * 65, "a b", "a\n"):
        with pytest.raises(UserError, match="use 1 to 64"):
            registry.register(name, digest(0))


def test_the_database_itself_refuses_a_second_production(registry: Registry) -> None:
    filled(registry)
    registry.promote("walker", 1, Stage.PRODUCTION)
    with pytest.raises(IntegrityError), registry.database.write() as connection:
        connection.execute(text("UPDATE model_version SET stage = 'production' WHERE version = 2"))
    adds_up(registry)


@pytest.mark.real_process
@pytest.mark.parametrize("each", [10, pytest.param(25, marks=pytest.mark.slow)])
def test_many_promote_and_go_back_at_once(url: str, tmp_path: Path, each: int) -> None:
    """Decisions from 8 processes; a reader looks all the time, and there is always exactly one in production."""
    filled(Registry(Database(url)), 5).promote("walker", 1, Stage.PRODUCTION)
    pids = [fork(lambda number=number: _decide(url, number, each, tmp_path)) for number in range(PROCESSES)]
    reader = Registry(Database(url))
    looks, living = 0, set(pids)
    while living:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            assert status == 0
            living.discard(pid)
        assert_one_in_production(reader)
        looks += 1
    outcomes = [line for path in tmp_path.glob("outcomes-*") for line in path.read_text().splitlines()]
    assert len(outcomes) == PROCESSES * each
    won = outcomes.count("won")
    assert won >= 1
    changes = [decision for decision in reader.history("walker") if decision.stage == Stage.PRODUCTION]
    assert len(changes) == 1 + won
    numbers = sorted(entry.version for entry in reader.versions("walker"))
    assert numbers == list(range(1, len(numbers) + 1))
    adds_up(reader)
    assert looks > 10


@pytest.mark.real_process
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_readers_elsewhere_find_exactly_one_in_production_while_writers_are_killed(url: str, kills: int) -> None:
    """A writer is killed only after it has decided something and each reader has looked since: reads and kills meet."""
    filled(Registry(Database(url)), 5).promote("walker", 1, Stage.PRODUCTION)
    looks, chance = mmap.mmap(-1, 8 * READERS), random.Random(7)
    counts = memoryview(looks).cast("q")
    decisions = Registry(Database(url))
    with ExitStack() as stack:
        readers = [
            stack.enter_context(running(lambda number=number: _look(url, counts, number))) for number in range(READERS)
        ]
        for _ in range(kills):
            before, decided = counts.tolist(), len(decisions.history("walker"))
            with running(lambda: _decide_for_ever(url)) as writer:
                wait_for(lambda decided=decided: len(decisions.history("walker")) > decided)
                wait_for(lambda before=before: all(map(int.__lt__, before, counts)) or any(map(has_ended, readers)))
                time.sleep(chance.uniform(0, 0.02))
                assert not has_ended(writer)
            assert_one_in_production(decisions)
            assert not any(map(has_ended, readers)), "a reader found none or two in production"
    adds_up(decisions)


def _look(url: str, counts: memoryview, number: int) -> None:
    """One reader as a command that changes things looks, the other as one that only looks."""
    registry = Registry((Database, ReadOnlyDatabase)[number](url))
    while True:
        assert_one_in_production(registry)
        counts[number] += 1


def _decide_for_ever(url: str) -> None:
    registry = Registry(Database(url))
    while True:
        current = registry.production("walker")
        assert current is not None
        if current.version == 5:
            rollback(registry)
        registry.promote("walker", current.version % 5 + 1, Stage.PRODUCTION)


def _decide(url: str, number: int, decisions: int, place: Path) -> None:
    registry, dice, outcomes = Registry(Database(url)), random.Random(number), []
    for count in range(decisions):
        try:
            if count % 5 == 4:
                rollback(registry)
            else:
                made = dice.randint(1, 5)
                if count % 5 == 0:
                    made = registry.register("walker", digest(1000 + 100 * number + count)).version
                current = registry.production("walker")
                registry.promote("walker", made, Stage.PRODUCTION, if_current=current.version if current else 0)
            outcomes.append("won")
        except Conflict:
            outcomes.append("lost")
    (place / f"outcomes-{number}").write_text("\n".join(outcomes))
