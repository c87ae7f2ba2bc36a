"""How Ray is started and reached: one place, so that every part of a run has the same safe settings.

A Ray of our own lives as long as this process. It listens on the loopback address only, has no dashboard, reports to
nobody and asks every caller for a token that is drawn anew each time. A cluster that is already there (`address`) is
joined as it is: its address and its token are its owner's affair (`RAY_AUTH_MODE`, `RAY_AUTH_TOKEN`).
"""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import secrets
import socket
import sys
from contextlib import suppress
from types import ModuleType

from rlstudio.core.errors import Incompatible, UserError, message_of
from rlstudio.core.host.floors import require_floors
from rlstudio.core.host.installation import remedy

RAY_ADDRESS = "RAY_ADDRESS"
"""The variable by which Ray itself is told of a cluster; without it a Ray of our own is started."""

PLACED_BY = "RLSTUDIO_RAY_ADDRESS"
"""The variable that a run in a cluster has of it: its workers and ranks that are to be in Ray are in the same one."""

CONNECT_SECONDS = 5.0

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
"""A frame of HTTP/2 without any settings: its length, its type, flags, stream 0."""

OBJECT_STORE = 256 << 20
"""Bytes of a Ray of our own: some rollouts and the newest weights."""

LOOPBACK_VARIABLE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray replaces a loopback address by that of the network card, where nothing listens, unless this says that the machine
can have no cluster. The variable is named after the systems where that is so by default."""

ALWAYS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a worker that asks for no GPU sees what this process sees
}
OWN = {
    LOOPBACK_VARIABLE: "0",
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",  # at Ray's 15 whatever else runs here comes first, and the learner waits
}


def is_installed() -> bool:
    return importlib.util.find_spec("ray") is not None


def require_ray(field: str) -> None:
    """Incompatible that names the config's `field` where the extra is missing."""
    if not is_installed():
        raise Incompatible(f"{field}: Ray is not installed; {remedy('ray')}")


def cluster_address() -> str | None:
    """Of the cluster that a run is told of, or that has placed it; None: a Ray of our own is to be started."""
    return os.environ.get(RAY_ADDRESS) or os.environ.get(PLACED_BY)


def import_ray(field: str, address: str | None = None) -> ModuleType:
    """The module; Incompatible that names the config's `field` where the extra is missing. What Ray reads when it is
    imported must be set before."""
    require_ray(field)
    require_floors("ray")
    imported = sys.modules.get("ray")
    if imported is not None and address is None and os.environ.keys() & OWN.keys() != OWN.keys():
        if imported.is_initialized():
            return imported
        raise Incompatible(
            f"{field}: Ray was imported before its address and token could be set; import it later, or start it"
            " yourself with ray.init"
        )
    os.environ.update(ALWAYS)
    if address is None:
        os.environ.update(OWN)
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    return ray


def start_ray(
    field: str, address: str | None = None, *, cpus: int | None = None, object_store: int = OBJECT_STORE
) -> ModuleType:
    """Ray, running: the one that this process has already, the cluster at `address` (`auto`: the one that runs on this
    host), or else a new one of our own with so many `cpus` to give away."""
    if address is not None:
        require_ray(field)
        reach(field, address)
    ray = import_ray(field, address)
    if ray.is_initialized():
        return ray
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address is None:
        # `local`: without it Ray would join whatever cluster another program of this user has started here.
        ray.init("local", num_cpus=cpus, include_dashboard=False, object_store_memory=object_store, **quiet)
        return ray
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError) as error:
        if address == "auto":
            raise _nobody_at(field, address, message_of(error)) from error
        raise UserError(
            f"{field}: the Ray at {address} does not let this process in ({message_of(error)}); it needs the cluster's"
            " token (RAY_AUTH_MODE=token and ~/.ray/auth_token) and version of Ray (docs/howto/cluster.md)"
        ) from error
    return ray


def is_loopback(address: str) -> bool:
    """Whether HOST:PORT can be this machine alone."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reach(field: str, address: str) -> None:
    """Refuse an address where no Ray listens: Ray itself would try for minutes. `auto` names a file that Ray reads."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise _nobody_at(field, address, "expected HOST:PORT of the cluster's head")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS) as connection:
            is_like_ray = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true") or _speaks_http2(connection)
    except (OSError, UnicodeError) as error:  # nothing listens there, or there is no such host
        raise _nobody_at(field, address, message_of(error)) from error
    if not is_like_ray:
        raise _nobody_at(field, address, "another program listens there")
    if is_loopback(address):
        os.environ[LOOPBACK_VARIABLE] = "0"


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether it answers a client's greeting with settings, as every server of gRPC does."""
    with suppress(TimeoutError, ConnectionError):
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS)
        return connection.recv(len(SETTINGS), socket.MSG_WAITALL)[3:4] == SETTINGS[3:4]
    return False


def _nobody_at(field: str, address: str, reason: str) -> UserError:
    return UserError(
        f"{field}: no Ray answers at {address} ({reason}); start it there (docs/howto/cluster.md), or give another"
        " address"
    )
