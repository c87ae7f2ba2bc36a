"""Starting a server and ending it: what it is told at the command line, the token, what it says."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlstudio.core.errors import StorageError, UserError
from rlstudio.delivery.bundle import Bundle
from rlstudio.server.http.access import Access
from rlstudio.server.http.callers import Caller
from rlstudio.server.http.roles import Role
from rlstudio.server.http.wire.running import Certificate, Server, is_loopback, listen, names_of, url_of
from rlstudio.server.policy.app import policy_app
from rlstudio.storage.writers import translated_os_errors


@dataclass(frozen=True)
class Place:
    """Where a server listens, and by which names."""

    host: str
    port: int
    allowed_hosts: tuple[str, ...] = ()
    certificate: Certificate | None = None


def serve_policy(
    bundle: Bundle,
    place: Place,
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
    with listen(place.host, place.port) as listener:
        hosts = names_of(listener, place.allowed_hosts)
        app = policy_app(bundle, access=access, hosts=hosts, max_batch=max_batch, complain=complain)
        if auth and token_file is not None:
            write_token(token_file, token)

        def ready() -> None:
            say(f"serving {bundle.spec.name} at {url_of(listener, place.certificate)}, sha256 {bundle.sha256[:12]}")
            if auth:
                say(f"token in {token_file}" if token_file else f"token {token}")

        Server(app, listener, certificate=place.certificate).serve_until_stopped(ready)


def write_token(path: Path, token: str) -> None:
    """Readable by the owner only. An old file is removed, not written into: it may be a link, or readable by others."""
    try:
        with translated_os_errors(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(token + "\n")
    except StorageError as error:
        raise UserError(f"--token-file: {error}") from error
