"""For trying the API by hand: a server on loopback, of a runs folder and at a port, with the token `dev`."""

import sys
from pathlib import Path

import uvicorn

from rlstudio.server.api.routers import routers
from rlstudio.server.api.service import Service
from rlstudio.server.http.access import Access
from rlstudio.server.http.app import create_app
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role

runs_dir, port = Path(sys.argv[1]), int(sys.argv[2])
access = Access()
access.allow("dev", Caller("dev", Role.ACT))
app = create_app(*routers(), title="RLStudio", access=access, hosts={f"127.0.0.1:{port}", f"localhost:{port}"})
app.state.service = Service(runs_dir)
uvicorn.run(app, host="127.0.0.1", port=port)
