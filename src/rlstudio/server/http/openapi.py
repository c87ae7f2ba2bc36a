"""The OpenAPI document of an application, with what the guard adds to every route: the token, and how errors look."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fastapi import FastAPI

from rlstudio.server.http.problems import MEDIA_TYPE

SCHEME = "token"
REFUSED = "4XX"


def describe_guard(app: FastAPI, public: Collection[tuple[str, str]]) -> None:
    """From now on `app.openapi()` has both."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes[SCHEME] = {"type": "http", "scheme": "bearer"}
        for path, operations in document.get("paths", {}).items():
            for method, operation in operations.items():
                _describe(operation, is_public=(method.upper(), path) in public)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _describe(operation: dict[str, Any], *, is_public: bool) -> None:
    operation["security"] = [] if is_public else [{SCHEME: []}]
    responses = operation["responses"]
    responses.pop("422", None)  # FastAPI's own document, which is not what we answer
    refused = responses.get(REFUSED)
    if refused is not None and "application/json" in refused.get("content", {}):
        refused["content"] = {MEDIA_TYPE: refused["content"]["application/json"]}
