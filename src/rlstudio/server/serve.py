"""Starting a policy server and ending it: the token, the address, the signals."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from rlstudio.core.errors import StorageError, UserError
from rlstudio.delivery.bundle import Bundle
from rlstudio.server.policy import PolicyServer, is_loopback
from rlstudio.storage.writers import translated_os_errors


def serve(
    bundle: Bundle,
    *,
    host: str,
    port: int,
    max_batch: int,
    token_file: Path | None,
    allowed_hosts: tuple[str, ...],
    auth: bool,
    say: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    if not auth and not is_loopback(host):
        raise UserError(f"--no-auth: {host} can be reached from other machines; leave it out, or use --host 127.0.0.1")
    token = secrets.token_hex(32) if auth else None
    try:
        server = PolicyServer(bundle, (host, port), token=token, max_batch=max_batch, allowed_hosts=allowed_hosts)
    except OSError as error:
        raise UserError(f"--host {host} --port {port}: {error.strerror or error}; choose others") from error
    with server:
        if token is not None and token_file is not None:
            write_token(token_file, token)
        place = sorted(server.hosts)[0]
        say(f"serving {bundle.spec.name} at http://{place}, sha256 {bundle.sha256[:12]}")
        if token is not None:
            say(f"token in {token_file}" if token_file else f"token {token}")
        with _until_asked_to_stop(server):
            server.serve_forever(poll_interval=0.2)


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


@contextlib.contextmanager
def _until_asked_to_stop(server: PolicyServer) -> Iterator[None]:
    def stop(*_: object) -> None:
        # In a thread: shutdown() waits for serve_forever(), which this handler has interrupted.
        threading.Thread(target=server.shutdown, daemon=True).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
