"""The loop of a worker: it waits for a store that is away, and leaves one that is gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rlstudio.control.queue import worker as module
from rlstudio.control.queue.worker import Worker
from rlstudio.control.store.resources import Slots
from rlstudio.control.store.store import Store
from rlstudio.control.store.workers import Workers
from rlstudio.core.errors import StorageError


class Away:
    """A scheduler whose store is away for so many ticks."""

    def __init__(self, store: Store, ticks: float) -> None:
        self.store, self.slots, self.processes, self.left = store, Slots(1), {}, ticks

    def tick(self) -> Any:
        self.left -= 1
        if self.left >= 0:
            raise StorageError("away")
        return SimpleNamespace(throughput=0.0, queue_depth=0, waits=False, never=[])


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "_wait", lambda self, seconds: None)


def test_a_store_that_is_away_is_waited_for(store: Store) -> None:
    complaints: list[str] = []
    scheduler = Away(store, 10)
    Worker(scheduler, until_idle=True, complain=complaints.append).serve()  # type: ignore[arg-type]
    assert complaints == ["away"] * 10
    assert scheduler.left == -1


def test_one_that_was_taken_to_be_gone_is_known_again_with_its_next_beat(store: Store) -> None:
    """It was frozen for longer than others wait."""
    workers, seen = Workers(store.database), []

    def tell(_: Any) -> None:
        seen.append([found.id for found in workers.alive()])
        workers.remove(worker.id)
        if len(seen) > 2:
            worker._stop_asked = True

    worker = Worker(Away(store, 0), tell=tell)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BEAT_SECONDS", 0.0)
        worker.serve()
    assert seen == [[worker.id]] * 3
    assert workers.alive() == []


def test_a_background_worker_leaves_a_store_that_is_gone(store: Store) -> None:
    complaints: list[str] = []
    Worker(Away(store, float("inf")), until_idle=True, complain=complaints.append).serve()  # type: ignore[arg-type]
    assert len(complaints) == module.GONE_SECONDS / module.TICK_SECONDS
