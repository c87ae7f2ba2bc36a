"""Registry: versions of trained policies, and which one is in production. Each change is one transaction.

A version is a bundle in the blob store, named by the hash of its manifest, read-only, so that pruning a run cannot
break a release. Versions of a model are numbered without holes. At most one is in production at any time: the database
has an index for it. A promotion may name the version that it replaces, and is refused if another one is in production
by then. Every change leaves a row in the audit log, which adds up to the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, RowMapping, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from rlstudio.control.registry.records import ROLLBACK, Decision, Stage, Version, check_model
from rlstudio.control.store.database import Database
from rlstudio.control.store.registry_tables import audit, versions
from rlstudio.core.errors import Conflict, UnknownName, suggest
from rlstudio.core.host.process import user_name
from rlstudio.core.timestamps import timestamp

TRIES = 5
"""How often a registration that lost a race for the same number reads again before it gives up."""


class Registry:
    def __init__(self, database: Database) -> None:
        self.database = database

    # -- reading ----------------------------------------------------------------------------------------------------

    def models(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(select(versions.c.model).distinct().order_by(versions.c.model)).scalars())

    def versions(self, model: str) -> list[Version]:
        """Newest first."""
        with self.database.read() as connection:
            entries = _versions(connection, model)
        if not entries:
            raise UnknownName(
                f"model {model!r}: there is no such model{suggest(model, self.models())}; see: rlctl models"
            )
        return entries

    def get(self, model: str, which: int | Stage) -> Version:
        """By its number, or the newest of a stage."""
        entries = self.versions(model)
        for entry in entries:
            if which in (entry.version, entry.stage):
                return entry
        if isinstance(which, Stage):
            raise UnknownName(f"model {model}: nothing is in {which}; see: rlctl models {model}")
        known = ", ".join(str(entry.version) for entry in reversed(entries))
        raise UnknownName(f"model {model}: has no version {which}; it has {known}")

    def production(self, model: str) -> Version | None:
        with self.database.read() as connection:
            return _production(connection, model)

    def history(self, model: str | None = None) -> list[Decision]:
        """The audit log, oldest first."""
        query = select(audit).order_by(audit.c.seq)
        if model is not None:
            query = query.where(audit.c.model == model)
        with self.database.read() as connection:
            rows = connection.execute(query).mappings().all()
        return [Decision(**{**row, "stage": Stage(row["stage"])}) for row in rows]

    def digests(self) -> set[str]:
        """Every bundle that some version refers to."""
        with self.database.read() as connection:
            return set(connection.execute(select(versions.c.digest)).scalars())

    # -- changing ---------------------------------------------------------------------------------------------------

    def register(self, model: str, digest: str, *, run_id: str = "", step: int = 0, reason: str = "") -> Version:
        """A new version in stage `none`; the same bundle twice is the same version."""
        check_model(model)
        for _ in range(TRIES):
            try:
                with self.database.write() as connection:
                    known = [entry for entry in _versions(connection, model) if entry.digest == digest]
                    if known:
                        return known[0]
                    last = connection.execute(
                        select(func.max(versions.c.version)).where(versions.c.model == model)
                    ).scalar_one()
                    number = (last or 0) + 1
                    row = {"model": model, "version": number, "digest": digest, "run_id": run_id, "step": step}
                    connection.execute(insert(versions).values(**row, created_at=timestamp()))
                    _write(connection, model, number, Stage.NONE, "register", reason)
                    return _version(connection, model, number)
            except IntegrityError:
                continue  # another registration took the number meanwhile
        raise Conflict(f"model {model}: many register at once; try again")

    def promote(
        self,
        model: str,
        version: int,
        to: Stage,
        *,
        if_current: int | None = None,
        kind: str = "promote",
        reason: str = "",
        verdict: Mapping[str, object] | None = None,
    ) -> Version:
        """Put a version into a stage. For production the one that is there is archived in the same transaction;
        `if_current`: only if that version is there (0: only if none is)."""
        try:
            with self.database.write() as connection:
                chosen = _version(connection, model, version, lock=True)
                current = _production(connection, model, lock=True)
                refuse_stale(chosen, to, current, if_current)
                if to == Stage.PRODUCTION and current is not None:
                    _set(connection, current, Stage.ARCHIVED)
                    _write(connection, model, current.version, Stage.ARCHIVED, "archive", f"replaced by {version}")
                _set(connection, chosen, to)
                _write(connection, model, version, to, kind, reason, verdict)
                return _version(connection, model, version)
        except IntegrityError as error:
            raise Conflict(f"model {model}: another one was promoted meanwhile; see: rlctl models {model}") from error

    def refuse(self, version: Version, reason: str, verdict: Mapping[str, object]) -> None:
        """Keep the numbers by which a version was not promoted. It stays what it is."""
        with self.database.write() as connection:
            now = _version(connection, version.model, version.version, lock=True)
            _write(connection, now.model, now.version, now.stage, "refuse", reason, verdict)

    def previous(self, model: str) -> tuple[Version, Version]:
        """What is in production, and what was there before it."""
        self.versions(model)  # refuses a model that is not there, by its name
        current = self.production(model)
        if current is None:
            raise Conflict(f"model {model}: nothing is in production, so there is nothing to go back from")
        before = before_production(self.history(model))
        if before is None:
            raise Conflict(f"model {model}: version {current.version} is the first in production; none was before")
        return current, self.get(model, before)


def before_production(history: Sequence[Decision]) -> int | None:
    """The version that a rollback of the one in production brings back. Going back twice goes back two steps: versions
    that were rolled back from do not count."""
    line: list[int] = []
    for decision in history:
        if decision.stage != Stage.PRODUCTION or decision.kind == "refuse":
            continue
        if decision.kind == ROLLBACK and decision.version in line:
            while line[-1] != decision.version:
                line.pop()
        else:
            line.append(decision.version)
    earlier = [version for version in line[:-1] if version != line[-1]]
    return earlier[-1] if earlier else None


def refuse_stale(chosen: Version, to: Stage, current: Version | None, if_current: int | None) -> None:
    """Conflict where another version than `if_current` is in production, or the chosen one is in that stage already."""
    in_production = current.version if current else 0
    if if_current is not None and in_production != if_current:
        there = f"version {in_production} is" if in_production else "none is"
        wanted = f"not {if_current or 'none'}; look again with: rlctl models {chosen.model}"
        raise Conflict(f"model {chosen.model}: {there} in production, {wanted}")
    if chosen.stage == to:
        raise Conflict(f"model {chosen.model}: version {chosen.version} is in {to} already")


# -- inside a transaction ---------------------------------------------------------------------------------------------


def _versions(connection: Connection, model: str) -> list[Version]:
    query = select(versions).where(versions.c.model == model).order_by(versions.c.version.desc())
    return [_record(row) for row in connection.execute(query).mappings()]


def _version(connection: Connection, model: str, version: int, lock: bool = False) -> Version:
    query = select(versions).where(versions.c.model == model, versions.c.version == version)
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    if row is None:
        raise UnknownName(f"model {model}: has no version {version}; see: rlctl models {model}")
    return _record(row)


def _production(connection: Connection, model: str, lock: bool = False) -> Version | None:
    query = select(versions).where(versions.c.model == model, versions.c.stage == str(Stage.PRODUCTION))
    row = connection.execute(query.with_for_update() if lock else query).mappings().one_or_none()
    return None if row is None else _record(row)


def _record(row: RowMapping) -> Version:
    return Version(**{**row, "stage": Stage(row["stage"])})


def _set(connection: Connection, version: Version, stage: Stage) -> None:
    """Compare and swap: the version must still be in the stage it was read in."""
    same = (
        (versions.c.model == version.model)
        & (versions.c.version == version.version)
        & (versions.c.stage == str(version.stage))
    )
    if connection.execute(update(versions).where(same).values(stage=str(stage))).rowcount != 1:
        raise Conflict(f"model {version.model}: version {version.version} was changed meanwhile; look again")


def _write(
    connection: Connection,
    model: str,
    version: int,
    stage: Stage,
    kind: str,
    reason: str,
    verdict: Mapping[str, object] | None = None,
) -> None:
    verdict_json = json.dumps(verdict, sort_keys=True) if verdict else ""
    values = {"model": model, "version": version, "stage": str(stage), "kind": kind, "actor": user_name()}
    connection.execute(insert(audit).values(**values, reason=reason, verdict=verdict_json, at=timestamp()))
