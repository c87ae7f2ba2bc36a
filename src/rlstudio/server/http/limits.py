"""What one client may take: bytes, seconds, places."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Limits:
    body: int = 1 << 20
    """Bytes of a request's body; counted while they arrive."""

    public_body: int = 8192
    """Of a route that takes no token: what strangers may make a server hold."""

    target: int = 8192
    """Bytes of path and query."""

    headers: int = 64
    header_bytes: int = 16384
    seconds: float = 9.0
    """For a head to arrive, for a body to arrive after it, and for a client to take what it asked for. With the moment
    that a refusal lingers, who does not keep to it is gone within ten."""

    idle_seconds: float = 30.0
    """Between two requests of a kept connection."""

    unproven: int = 256
    """Connections that have shown no token. Where there are more, the one that has been here longest is closed."""

    grace_seconds: float = 0.25
    """Nobody is closed for another sooner after it was accepted, nor after its TLS: who has a token has shown it by
    then. Until one of them has had its time, whoever comes next waits in the queue of the system."""

    callers: int = 512
    """Connections that have shown one. Where there are more, the next is refused (503)."""

    def within_descriptors(self) -> Limits:
        """So that connections leave descriptors for the files of the process."""
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if soft == resource.RLIM_INFINITY:
            return self
        return replace(
            self, unproven=max(8, min(self.unproven, soft // 4)), callers=max(8, min(self.callers, soft // 3))
        )
