"""A page of runs: filtered, sorted and cut in the database, so that a list of ten thousand runs answers at once.

A page begins behind the last run of the page before it, by that run's value and id, not by a count of rows: runs that
appear or go meanwhile neither repeat one nor hide one. A run without a value (never evaluated) comes last, whichever
way the list is sorted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, false, func, or_, select

from rlstudio.control.store.database import Database
from rlstudio.control.store.moves import EVERY_RUN
from rlstudio.control.store.records import RunRow
from rlstudio.control.store.schema import Words, runs
from rlstudio.core.errors import UserError, suggest
from rlstudio.core.run_state import OWNED

SORTABLE = (
    "id",
    "name",
    "state",
    "algo",
    "env_id",
    "seed",
    "epoch",
    "env_steps",
    "eval_return",
    "train_return",
    "priority",
    "created_at",
    "updated_at",
)
"""Columns that a list may be sorted by."""

Value = str | int | float | None
LARGEST = 2**63


@dataclass(frozen=True)
class RowPlace:
    """The last run of a page."""

    value: Value
    id: str


@dataclass(frozen=True)
class RunFilter:
    """Which runs; those that have one of the values in each field that is given, in any case of its letters."""

    states: Sequence[str] = ()
    envs: Sequence[str] = ()
    algos: Sequence[str] = ()
    tags: Sequence[str] = ()
    names: Sequence[str] = ()
    ids: Sequence[str] = ()
    text: str = ""  # in the id, name, algorithm, environment, a tag or the note


@dataclass(frozen=True)
class RunOrder:
    field: str = "id"
    descending: bool = True

    @classmethod
    def parse(cls, text: str) -> RunOrder:
        """`-eval_return`: the best first."""
        field = text.removeprefix("-")
        if field not in SORTABLE:
            near = suggest(field, SORTABLE) or f"; choose from {', '.join(SORTABLE)}"
            raise UserError(f"sort {text!r}: runs cannot be sorted by this{near}")
        return cls(field, text.startswith("-"))

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.field}"

    def takes(self, value: object) -> bool:
        """Whether a run can have this value in the column that the list is sorted by."""
        if value is None:
            return True
        if isinstance(runs.c[self.field].type, Words):
            return isinstance(value, str)
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST  # so no NaN

    def sorted(self, rows: Collection[Any], value: Any) -> list[Any]:
        """In Python what the database does, for runs that it does not have. `value(row)` gives a `RowPlace`."""
        ordered = sorted(rows, key=lambda row: value(row).id, reverse=self.descending)
        known = [row for row in ordered if value(row).value is not None]
        known.sort(key=lambda row: value(row).value, reverse=self.descending)
        return known + [row for row in ordered if value(row).value is None]

    def is_behind(self, place: RowPlace, last: RowPlace | None) -> bool:
        """Whether a run comes after the last one of the page before."""
        if last is None:
            return True
        if (place.value is None) != (last.value is None):
            return place.value is None
        here, there = (place.value, place.id), (last.value, last.id)
        return here < there if self.descending else here > there


def run_page(
    database: Database, wanted: RunFilter, order: RunOrder, after: RowPlace | None, limit: int
) -> tuple[list[RunRow], int]:
    """Every row that a process owns, at most `limit` of the others that pass the filter and come behind `after`, and
    how many others there are on all pages. One statement: a run that is claimed meanwhile is not missed between two."""
    column, descending = runs.c[order.field], order.descending
    ways = [column.is_(None), column.desc() if descending else column.asc()]
    others = and_(_passes(wanted), runs.c.state.not_in(_owned()))
    page = select(runs.c.id).where(others, _behind(column, order, after)).correlate(None)
    page = page.order_by(*ways, runs.c.id.desc() if descending else runs.c.id.asc()).limit(limit)
    counted = select(func.count()).select_from(runs).where(others).correlate(None)
    query = EVERY_RUN.add_columns(counted.scalar_subquery().label("others"))
    query = query.where(or_(runs.c.state.in_(_owned()), runs.c.id.in_(page)))
    with database.read() as connection:
        rows = connection.execute(query).mappings().all()
        count = int(rows[0]["others"]) if rows else connection.execute(counted).scalar_one()
    return [RunRow.from_row(row) for row in rows], count


def _owned() -> list[str]:
    return [str(state) for state in OWNED]


def _behind(column: ColumnElement[Any], order: RunOrder, after: RowPlace | None) -> ColumnElement[bool]:
    if after is None:
        return runs.c.id.is_not(None)
    same_later = runs.c.id < after.id if order.descending else runs.c.id > after.id
    if after.value is None:
        return and_(column.is_(None), same_later)
    later = column < after.value if order.descending else column > after.value
    return or_(later, and_(column == after.value, same_later), column.is_(None))


def _passes(wanted: RunFilter) -> ColumnElement[bool]:
    chosen: list[ColumnElement[bool]] = [runs.c.id.is_not(None)]
    for column, values in ((runs.c.state, wanted.states), (runs.c.env_id, wanted.envs), (runs.c.algo, wanted.algos)):
        if values:
            chosen.append(func.lower(column).in_([value.lower() for value in values]))
    if wanted.names:
        chosen.append(runs.c.name.in_(wanted.names))
    if wanted.ids:
        chosen.append(runs.c.id.in_(wanted.ids))
    if wanted.tags:
        chosen.append(or_(false(), *(_contains(runs.c.tags, json.dumps(tag)) for tag in wanted.tags)))
    if wanted.text:
        columns = (runs.c.id, runs.c.name, runs.c.algo, runs.c.env_id, runs.c.tags, runs.c.note)
        chosen.append(or_(*(_contains(column, wanted.text) for column in columns)))
    return and_(*chosen)


def _contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    return func.lower(column).contains(text.lower(), autoescape=True)


def changed_since(database: Database, moment: str) -> list[RunRow]:
    """Rows that were written at this time or later, as the store writes times; oldest change first."""
    query = EVERY_RUN.where(runs.c.updated_at >= moment).order_by(runs.c.updated_at, runs.c.seq)
    with database.read() as connection:
        return [RunRow.from_row(row) for row in connection.execute(query).mappings()]


def counts_by_state(database: Database) -> dict[str, int]:
    """How many rows there are in each state."""
    query = select(runs.c.state, func.count()).group_by(runs.c.state)
    with database.read() as connection:
        return {state: count for state, count in connection.execute(query)}
