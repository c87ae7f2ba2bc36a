"""Where a server is: `http://127.0.0.1:8710`, `https://host:port`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from rlstudio.core.errors import UserError


@dataclass(frozen=True)
class ServerAddress:
    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ServerAddress:
        """Refused: what is no address of a server, and plain http to another machine, which would show the token and
        everything else to whoever listens on the way."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise UserError(f"server {_quoted(text)}: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or not text.isascii():
            raise UserError(f"server {_quoted(text)}: is no address; give http://127.0.0.1:PORT or https://HOST:PORT")
        if parts.username is not None or parts.password is not None:
            raise UserError("server: a token is not part of the address; set RLSTUDIO_TOKEN, or keep it in a file")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise UserError(f"server {_quoted(text)}: give it without a path, as {parts.scheme}://{parts.netloc}")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise UserError(
                f"server {_quoted(text)}: plain http is for this machine alone; use https, or forward a port with:"
                f" ssh -L 8710:127.0.0.1:{port or 8710} {parts.hostname}"
            )
        return cls(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80))

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 100 else f"{text[:100]}...")
