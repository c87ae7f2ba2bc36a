"""The packages that a server needs; they come with the extra `serve`."""

from __future__ import annotations

from rlstudio.core.host.extras import Extra

FASTAPI, UVICORN, PROMETHEUS = (Extra("serve", module) for module in ("fastapi", "uvicorn", "prometheus_client"))


def require_stack(command: str) -> None:
    """One line with the missing package and its range, before anything is opened."""
    for extra in (FASTAPI, UVICORN, PROMETHEUS):
        extra.load(command, "the server")
