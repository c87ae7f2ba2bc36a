"""What every route works with: the runs folder to look at and to act on, and what the server keeps beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request

from rlstudio.control.runs.listing import Listing
from rlstudio.control.workspace import Workspace
from rlstudio.server.api.work.workbench import Workbench


class Service:
    """`imports`: modules with environments or plug-ins that experiments sent here may use; no other is ever imported."""

    def __init__(self, runs_dir: Path, imports: Sequence[str] = ()) -> None:
        # Apart, so that a GET never uses a connection that may write.
        self.looking = Workspace(runs_dir)
        self.acting = Workspace(runs_dir)
        self.listing = Listing(self.looking)
        self.workbench = Workbench(self.acting, imports)


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Served = Annotated[Service, Depends(service_of)]
