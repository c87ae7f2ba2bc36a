"""Who is connected, and who has to leave where places run out.

A connection counts as unproven from the moment it is accepted, before any TLS, until a request on it showed a token.
Where too many are unproven, the one that has been so for longest is closed: a client with a token shows it in its first
request, within milliseconds, while one without can only wait. So whoever fills these places empties them again, and
nobody who may call is kept out. Proven connections have places of their own.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from typing import Protocol

from rlstudio.server.http.limits import Limits


class Speaking(Protocol):
    """The protocol of a connection, once there is one."""

    def drop(self) -> None:
        """Close at once, whatever is unsent."""
        ...


class _Place:
    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.protocol: Speaking | None = None
        self.had_its_time = False
        self._timer: asyncio.TimerHandle | None = None

    def give(self, seconds: float) -> None:
        """Nobody takes this place for so long. By a timer, not by the clock: before a timer the loop reads what has
        arrived, so a busy server closes nobody whose request it has not looked at."""
        self.had_its_time = False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._end_time)

    def _end_time(self) -> None:
        self.had_its_time = True

    @property
    def is_gone(self) -> bool:
        return self.socket.fileno() < 0

    def close(self) -> None:
        if self.protocol is not None:
            self.protocol.drop()
        elif not self.is_gone:  # within its TLS handshake, which fails at the end of what was sent
            try:
                self.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the client left


class Connections:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._unproven: OrderedDict[int, _Place] = OrderedDict()  # by descriptor, oldest first
        self._proven: dict[int, _Place] = {}

    def have_room(self) -> bool:
        """Whether one more can be accepted, if need be for the one that has been unproven for longest."""
        if len(self._unproven) >= self._limits.unproven:
            self._forget_gone()
        if len(self._unproven) < self._limits.unproven:
            return True
        return next(iter(self._unproven.values())).had_its_time

    def accepted(self, connection: socket.socket) -> None:
        """A client has connected; it has to begin to speak HTTP in time."""
        loop, descriptor = asyncio.get_running_loop(), connection.fileno()
        self._proven.pop(descriptor, None)  # a number is used again once its connection is closed
        self._unproven.pop(descriptor, None)
        while len(self._unproven) >= self._limits.unproven:
            self._unproven.popitem(last=False)[1].close()
        self._unproven[descriptor] = place = _Place(connection)
        place.give(self._limits.grace_seconds)
        loop.call_later(self._limits.seconds, self._expect_http, place)

    def speaking(self, descriptor: int, protocol: Speaking) -> None:
        place = self._unproven.get(descriptor)
        if place is not None:
            place.protocol = protocol
            place.give(self._limits.grace_seconds)  # it is listened to only now
            self._unproven.move_to_end(descriptor)

    def admit(self, descriptor: int) -> bool:
        """It showed a token. False where every place for those that do is taken."""
        if descriptor in self._proven:
            return True
        if len(self._proven) >= self._limits.callers or descriptor not in self._unproven:
            return False
        self._proven[descriptor] = self._unproven.pop(descriptor)
        return True

    def closed(self, descriptor: int, protocol: Speaking) -> None:
        for places in (self._unproven, self._proven):
            place = places.get(descriptor)
            if place is not None and place.protocol is protocol:
                del places[descriptor]

    def _expect_http(self, place: _Place) -> None:
        if place.protocol is None:
            place.close()

    def _forget_gone(self) -> None:
        for descriptor in [number for number, place in self._unproven.items() if place.is_gone]:
            del self._unproven[descriptor]


class Listener(socket.socket):
    """A listening socket that counts whom it accepts, and lets the next wait where there is no room."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, object]:
        if not self.connections.have_room():
            raise BlockingIOError
        connection, address = super().accept()
        self.connections.accepted(connection)
        return connection, address
