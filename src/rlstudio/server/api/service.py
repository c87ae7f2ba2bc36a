"""What every route works with: the runs folder to look at and to act on, and what the server keeps beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Request

from rlstudio.control.runs.looking.listing import Listing
from rlstudio.control.workspace import Entry, Workspace
from rlstudio.experiment.metrics.indexed.parsing import ROW
from rlstudio.experiment.metrics.indexed.shelf import MetricShelf
from rlstudio.experiment.metrics.indexed.snapshot import MetricSnapshot
from rlstudio.server.api.counts import ServerCounts
from rlstudio.server.api.lists import models_list, queue_document, sweeps_document
from rlstudio.server.api.live.hub import Hub
from rlstudio.server.api.live.store_watch import StoreWatch
from rlstudio.server.api.sparks import Sparks
from rlstudio.server.api.work.operations import Operations
from rlstudio.server.api.work.workbench import Workbench

NOTHING = MetricSnapshot(np.empty(0, ROW), {}, frozenset(), 0)


class Service:
    """`imports`: modules with environments or plug-ins that experiments may use; no other is ever imported."""

    def __init__(self, runs_dir: Path, imports: Sequence[str] = ()) -> None:
        # Apart, so that a GET never uses a connection that may write.
        self.looking = Workspace(runs_dir)
        self.acting = Workspace(runs_dir)
        self.listing = Listing(self.looking)
        self.shelf = MetricShelf(self.looking.state_dir / "cache" / "metrics")
        self.sparks = Sparks(self.measured)
        self.hub = Hub(self.shelf, StoreWatch(self.looking, self.listing, self._lists()))
        self.streams = 0
        self.counts = ServerCounts()
        self._described: dict[tuple[str | None, ...], Any] = {}
        self.workbench = Workbench(self.acting, imports)
        self.operations = Operations(self.acting, imports)

    def measured(self, entry: Entry) -> MetricSnapshot:
        """What a run has measured up to now; nothing for one that has not begun."""
        return self.shelf.snapshot(entry.folder.path) if entry.has_folder else NOTHING

    def described(self, what: str, **of: str | None) -> Any:
        """What does not change while the server runs, and needs what the server does not import."""
        key = (what, *of.values())
        if key not in self._described:
            self._described[key] = self.workbench.do(what, of)
        return self._described[key]

    def _lists(self) -> dict[str, Callable[[], object]]:
        """What listeners get whole when it changed."""
        return {
            "queue": lambda: queue_document(self.looking, self.listing),
            "sweeps": lambda: sweeps_document(self.looking),
            "models": lambda: models_list(self.looking),
        }

    def close(self) -> None:
        self.workbench.close()


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(service_of)]
