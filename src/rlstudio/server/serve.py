"""`rlctl serve-policy`: from the command line to the end of the server."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from rlstudio.core.errors import UserError
from rlstudio.delivery.bundle import Bundle
from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role
from rlstudio.server.http.token_file import write_token
from rlstudio.server.http.wire.running import (
    ListenPlace,
    Server,
    is_loopback,
    listen,
    names_of,
    url_of,
    warn_of_plain_http,
)
from rlstudio.server.policy.app import policy_app


def serve_policy(
    bundle: Bundle,
    place: ListenPlace,
    *,
    max_batch: int,
    token_file: Path | None,
    auth: bool,
    say: Callable[[str], object],
    complain: Callable[[str], None] = lambda text: None,
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    if not auth and not is_loopback(place.host):
        raise UserError(
            f"--no-auth: {place.host} can be reached from other machines; leave it out, or use --host 127.0.0.1"
        )
    access, token = Access(is_open=not auth), secrets.token_hex(32)
    access.allow(token, Caller("client", Role.ACT))
    with listen(place) as listener:
        warn_of_plain_http(place, complain)
        hosts = names_of(listener, place.allowed_hosts)
        app = policy_app(bundle, access=access, hosts=hosts, max_batch=max_batch, complain=complain)
        if auth and token_file is not None:
            write_token(token_file, token)

        def ready() -> None:
            say(f"serving {bundle.spec.name} at {url_of(listener, place.certificate)}, sha256 {bundle.sha256[:12]}")
            if auth:
                say(f"token in {token_file}" if token_file else f"token {token}")

        Server(app, listener, certificate=place.certificate).serve_until_stopped(ready)
