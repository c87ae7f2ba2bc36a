"""Inside a transaction of the store: find a run, claim it, change its state. `change_state` is the only place where a
run changes its state, and the history is written there with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from rlstudio.control.lifecycle import MOVES, Desired, failure_counts, is_retried
from rlstudio.control.store.records import RUN_COLUMNS, RunRequest, RunRow, request_as_columns
from rlstudio.control.store.schema import checkpoints, events, keys, runs
from rlstudio.core.errors import Conflict, LeaseLost, RunNotFound, UserError
from rlstudio.core.host.process import Owner
from rlstudio.core.run_state import Reason, RunState
from rlstudio.core.timestamps import timestamp
from rlstudio.experiment.folder.run_folder import ENDING_LENGTH, new_run_id

# Statements are built once: that takes longer than to run them on one row.
EVERY_RUN = select(*(runs.c[name] for name in RUN_COLUMNS))
_ONE_RUN = EVERY_RUN.where(runs.c.id == bindparam("run_id"))
_ONE_RUN_LOCKED = _ONE_RUN.with_for_update()
_SAME_RUN = update(runs).where(
    runs.c.id == bindparam("same_id"),
    runs.c.version == bindparam("same_version"),
    runs.c.token == bindparam("same_token"),
)
ID_ATTEMPTS = 10  # how often a new id is drawn before giving up


def get_run(connection: Connection, run_id: str, lock: bool = False) -> RunRow:
    query = _ONE_RUN_LOCKED if lock else _ONE_RUN
    row = connection.execute(query, {"run_id": run_id}).mappings().one_or_none()
    if row is None:
        raise unknown_run(run_id)
    return RunRow.from_row(row)


def owned_run(connection: Connection, run_id: str, token: int) -> RunRow:
    """The run, if `token` is its present owner's; LeaseLost otherwise."""
    try:
        run = get_run(connection, run_id, lock=True)
    except RunNotFound:
        raise LeaseLost(f"run {run_id}: was taken away and removed; writing nothing more") from None
    if run.token != token or not run.is_owned:
        raise LeaseLost(
            f"run {run_id}: belongs to another owner (token {run.token}, ours is {token}, {run.state});"
            " writing nothing more"
        )
    return run


def run_of_key(connection: Connection, key: str, config_hash: str | None = None) -> RunRow | None:
    """The run that a key stands for; refused where that is another experiment than this one."""
    row = connection.execute(select(keys).where(keys.c.key == key)).mappings().one_or_none()
    if row is None:
        return None
    if config_hash is not None and row["config_hash"] != config_hash:
        raise UserError(
            f"key {key!r}: was used for another experiment, run {row['run_id']}; one key stands for one launch"
        )
    return get_run(connection, row["run_id"])


def insert_run(
    connection: Connection,
    request: RunRequest,
    key: str | None = None,
    owner: Owner | None = None,
    run_id: str | None = None,
    token: int = 0,
) -> RunRow:
    if run_id is not None and connection.execute(select(runs.c.seq).where(runs.c.id == run_id)).first():
        raise taken(run_id)
    run_id = run_id or _unused_id(connection, request)
    moment = timestamp()
    values = request_as_columns(request) | {"id": run_id, "state": str(RunState.QUEUED), "version": 1, "token": token}
    values |= {"created_at": moment, "updated_at": moment, "is_managed": owner is None}
    connection.execute(insert(runs), values)
    first = {"run_id": run_id, "version": 1, "state": str(RunState.QUEUED), "token": token, "at": moment}
    connection.execute(insert(events), first)
    if key is not None:
        connection.execute(insert(keys).values(key=key, run_id=run_id, config_hash=request.config_hash))
    run = get_run(connection, run_id)
    return run if owner is None else claim_run(connection, run, owner, has_process=True)


def _unused_id(connection: Connection, request: RunRequest) -> str:
    """A new id whose random end no other run of the store has, so that it can be the run's handle."""
    ends = {run_id[-ENDING_LENGTH:] for run_id in connection.execute(select(runs.c.id)).scalars()}
    for _ in range(ID_ATTEMPTS):
        run_id = new_run_id(request.algo, request.env_id)
        if run_id[-ENDING_LENGTH:] not in ends:
            break
    return run_id  # with tens of thousands of runs, perhaps one whose end is not its own


def claim_run(connection: Connection, run: RunRow, owner: Owner, *, has_process: bool = False) -> RunRow:
    if run.state != RunState.QUEUED:
        raise Conflict(f"run {run.id}: is {run.state}, not QUEUED, so it cannot be claimed")
    values = {"token": run.token + 1, "attempt": run.attempt + 1, "heartbeat": run.heartbeat + 1, **asdict(owner)}
    values["has_process"] = has_process
    return change_state(connection, run, RunState.STARTING, Reason.NONE, "", **values)


def change_state(
    connection: Connection, run: RunRow, to: RunState, reason: Reason, message: str, **values: object
) -> RunRow:
    """The one place where a run changes its state."""
    if to not in MOVES[run.state]:
        raise Conflict(f"run {run.id}: is {run.state} and cannot become {to}")
    version = run.version + 1
    outcome = {"state": str(to), "reason": str(reason), "message": message}
    update_run(connection, run, version=version, **outcome, **values)
    token = values.get("token", run.token)
    event = {"run_id": run.id, "version": version, "token": token, "at": timestamp(), **outcome}
    connection.execute(insert(events), event)
    return get_run(connection, run.id)


def update_run(connection: Connection, run: RunRow, **values: object) -> None:
    """Compare and swap: the row must be as it was read."""
    same = {"same_id": run.id, "same_version": run.version, "same_token": run.token}
    changed = connection.execute(_SAME_RUN, {**same, "updated_at": timestamp(), **values})
    if changed.rowcount != 1:
        raise Conflict(f"run {run.id}: was changed by another process meanwhile; try again")


def set_checkpoints(connection: Connection, run_id: str, token: int, entries: Sequence[Mapping[str, object]]) -> None:
    """Replace the list of a run's checkpoints."""
    connection.execute(delete(checkpoints).where(checkpoints.c.run_id == run_id))
    if entries:
        connection.execute(insert(checkpoints), [{"run_id": run_id, "token": token, **entry} for entry in entries])


def failed(run: RunRow, to: RunState, reason: Reason, values: Mapping[str, object]) -> dict[str, int]:
    """The columns that count failures, where this end is one that a scheduler would try again. `values` are those that
    change with it."""
    if not is_retried(to, reason, run.desired):
        return {}
    env_steps = values.get("env_steps")
    reached = env_steps if isinstance(env_steps, int) else run.env_steps
    failures, failed_at = failure_counts(run.failures, run.failed_at, reached)
    return {"failures": failures, "failed_at": failed_at}


def with_end_of_tries(run: RunRow, message: str, values: Mapping[str, object]) -> str:
    """The message of an end that its run could not record itself; after the last of its tries with that."""
    failures = values.get("failures")
    if not (isinstance(failures, int) and run.is_managed and 0 < run.max_retries < failures):
        return message
    return (
        f"{message.partition('; ')[0]}; that was {failures} times in a row without getting farther than"
        f" {values['failed_at']:,} steps, so it is not tried again (resources.retries: {run.max_retries}); see: rlctl"
        f" logs {run.id} --output, and go on with: rlctl resume {run.id}"
    )


def refuse_pause(run: RunRow) -> None:
    """Only a run of the queue has a place there to keep: one that waits in it, or runs for it."""
    if run.state == RunState.STOPPING:
        raise Conflict(f"run {run.id}: is ending already; look again with: rlctl show {run.id}")
    if run.is_owned and not run.is_managed:
        raise Conflict(
            f"run {run.id}: trains in the foreground, so it has no place in the queue to keep; end it with:"
            f" rlctl stop {run.id}"
        )
    if run.is_owned or run.state == RunState.QUEUED or (run.is_managed and run.may_retry):
        return
    if run.reason == Reason.PAUSED and run.sweep:
        raise Conflict(
            f"run {run.id}: waits for its sweep already; to keep the sweep from letting it go on: rlctl sweep stop"
            f" {run.sweep}"
        )
    again = run.state in (RunState.INTERRUPTED, RunState.FAILED)
    remedy = f"; put it into the queue with: rlctl resume {run.id} --detach" if again else ""
    raise Conflict(f"run {run.id}: is {run.state}; there is nothing to pause{remedy}")


def nothing_to_end(run: RunRow, desired: Desired) -> Conflict:
    """Why a run that has no owner and waits for no other try cannot be stopped or cancelled."""
    if desired == Desired.STOP and run.state == RunState.QUEUED:
        return Conflict(
            f"run {run.id}: is QUEUED and has not started; hold it back with: rlctl pause {run.id}, or take it away"
            f" with: rlctl cancel {run.id}"
        )
    return Conflict(f"run {run.id}: is {run.state}; there is nothing to {desired}")


def taken(run_id: str) -> Conflict:
    return Conflict(f"run {run_id}: is in the store already; see: rlctl show {run_id}")


def unknown_run(run_id: str) -> RunNotFound:
    return RunNotFound(f"run {run_id!r}: not in the store; list the runs with: rlctl ls")
