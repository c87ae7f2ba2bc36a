"""The whole service in this process, without its scheduler."""

from __future__ import annotations

from rlstudio.control.workspace import Workspace
from rlstudio.server.api.service import Service
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.tokens import Tokens
from rlstudio.server.studio import studio_app


def studio(runs_dir, *, access, hosts, limits=None, complain=lambda text: None):
    app = studio_app(
        Service(runs_dir),
        tokens=Tokens(Workspace(runs_dir).state_dir),
        access=access,
        hosts=hosts,
        limits=limits or Limits(),
        complain=complain,
    )
    return app
