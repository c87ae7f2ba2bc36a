"""`rlctl serve`: API, scheduler and dashboard in one process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from fastapi import FastAPI

from rlstudio.control.queue.service import worker as make_worker
from rlstudio.control.store.resources import Slots
from rlstudio.control.workspace import Workspace
from rlstudio.server.api.routers import PREFIX, routers
from rlstudio.server.api.service import Service
from rlstudio.server.http.access import COOKIE, Access
from rlstudio.server.http.accounts.login import login_routes
from rlstudio.server.http.accounts.routes import account_routes
from rlstudio.server.http.app import create_app
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.limits import Limits
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.roles import Role
from rlstudio.server.http.sessions import BrowserSessions
from rlstudio.server.http.token_file import write_token
from rlstudio.server.http.tokens import FROM_FILE, Tokens, new_secret
from rlstudio.server.http.wire.running import ListenPlace, Server, listen, names_of, url_of, warn_of_plain_http
from rlstudio.server.page.routes import is_built, page_routes

SCHEDULER_SECONDS = 2.0
"""For its last look at the queue; whatever it started goes on by itself."""


def studio_app(
    service: Service,
    *,
    tokens: Tokens,
    access: Access,
    hosts: Collection[str],
    limits: Limits | None = None,
    complain: Callable[[str], None] = lambda text: None,
) -> FastAPI:
    """Everything that `rlctl serve` answers."""
    state_dir = service.looking.state_dir
    app = create_app(
        *routers(),
        account_routes(PREFIX, tokens, AuditLog(state_dir)),
        login_routes(access),
        page_routes(),
        title="RLStudio",
        access=access,
        hosts=hosts,
        limits=limits,
        complain=complain,
        observe=service.counts.answered,
        state_dir=state_dir,
        openapi_path=f"{PREFIX}/openapi.json",
    )
    app.state.service = service
    return app


def serve_studio(
    runs_dir: Path,
    place: ListenPlace,
    *,
    slots: Slots,
    imports: Sequence[str] = (),
    token_file: Path | None = None,
    say: Callable[[str], object],
    complain: Callable[[str], None] = lambda text: None,
) -> None:
    """Until Ctrl-C or SIGTERM. Runs are processes of their own and go on."""
    with listen(place) as listener, contextlib.closing(Service(runs_dir, imports)) as service:
        warn_of_plain_http(place, complain)
        tokens, sessions = Tokens(service.looking.state_dir), BrowserSessions(service.looking.state_dir)
        access = Access(tokens, sessions=sessions, cookie=f"{COOKIE}_{listener.getsockname()[1]}")
        hosts = names_of(listener, place.allowed_hosts)
        app = studio_app(service, tokens=tokens, access=access, hosts=hosts, complain=complain)
        if token_file is not None:
            secret = new_secret()
            access.allow(secret, Caller(FROM_FILE, Role.ACT))
            write_token(token_file, secret)

        def ready() -> None:
            url = url_of(listener, place.certificate)
            say(f"serving the runs in {runs_dir} at {url}/login?token={access.one_time_token()} (signs in once)")
            if token_file is not None:
                say(f"token for programs in {token_file}")
            if not is_built():
                say("the dashboard is not built: make web")
            say("stop with Ctrl-C; runs go on")

        with contextlib.closing(sessions), _scheduling(runs_dir, slots, complain):
            Server(app, listener, certificate=place.certificate).serve_until_stopped(ready)


@contextlib.contextmanager
def _scheduling(runs_dir: Path, slots: Slots, complain: Callable[[str], None]) -> Iterator[None]:
    """A worker of the queue in a thread, with connections of its own."""
    worker = make_worker(Workspace(runs_dir), slots, until_idle=False, complain=complain)
    thread = threading.Thread(target=worker.serve, kwargs={"until_signal": False}, name="scheduler", daemon=True)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(SCHEDULER_SECONDS)
