"""Stores for the tests: each test runs on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlstudio.control.store.database import Database
from rlstudio.control.store.store import Store
from support.control_world import clear
from support.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres) -> Iterator[str]:
    url = postgres.new_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path) -> str:
    """An empty place for a store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/store.db"
    return request.getfixturevalue("postgres_url")


@pytest.fixture(scope="module")
def sqlite_database(tmp_path_factory) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('state')}/store.db")
    yield database
    database.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(request) -> Iterator[Database]:
    """One for all tests of a module; `store` empties it."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_database")
        return
    server = request.getfixturevalue("postgres")
    url = server.new_database()
    database = Database(url)
    yield database
    database.close()
    server.drop_database(url)


@pytest.fixture
def store(database) -> Store:
    clear(database)
    return Store(database)
