"""Makes `tests/golden/store-v1.db`: a small store with a run in each state, as version 1 writes it.

    PYTHONPATH=tests .venv/bin/python -m support.golden_store

Only for a version that was never released: afterwards the file stays, and a new version gets one beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rlstudio.control.lifecycle import Desired
from rlstudio.control.store.database import Database
from rlstudio.control.store.migrations import VERSION
from rlstudio.control.store.store import Store
from rlstudio.core.run_state import Reason, RunState
from support.control_world import S, in_state, owner, request

GOLDEN = Path(__file__).parents[1] / "golden"


def write(path: Path) -> None:
    store = Store(Database(f"sqlite:///{path}"))
    for state in RunState:
        in_state(store, state, name=f"is {state}")
    run = store.create(request(name="whole ü", seed=7, lineage={"git": "1f2e"}, max_retries=2), key="launch-1")
    run = store.claim(run.id, owner())
    store.move(run.id, run.token, S.RUNNING)
    store.beat(run.id, run.token, 3, {"env_steps": 640, "eval_return": 21.5, "eval_interval": (20.0, 23.0)})
    store.publish(run.id, run.token, [{"step": 640, "state_hash": "h", "manifest_sha256": "m"}])
    store.ask(run.id, Desired.STOP)
    store.move(run.id, run.token, S.INTERRUPTED, Reason.SIGNAL, "as asked")
    store.database.close()


if __name__ == "__main__":
    target = GOLDEN / f"store-v{VERSION}.db"
    target.unlink(missing_ok=True)
    write(target)
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes\n")
