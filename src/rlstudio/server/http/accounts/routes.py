"""Routes about callers: named tokens, and who did what."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from rlstudio.core.errors import UnknownName
from rlstudio.server.http.callers import Actor, Reader
from rlstudio.server.http.problems import RequestRefused
from rlstudio.server.http.records.audit import AuditLog
from rlstudio.server.http.roles import Role
from rlstudio.server.http.tokens import MOST_DAYS, Tokens

MOST_ITEMS = 500


class NewToken(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=64)
    role: Role = Role.READ
    expires_days: float | None = Field(default=None, gt=0, le=MOST_DAYS, allow_inf_nan=False)


class TokenRow(BaseModel):
    """A token without its secret. Times are epoch seconds; `state` is active, expired or revoked."""

    name: str
    role: Role
    created: float
    expires: float | None
    revoked: float | None
    state: str


class TokenSecret(TokenRow):
    secret: str
    """Shown this once."""


class TokenRows(BaseModel):
    items: list[TokenRow]


class AuditRows(BaseModel):
    """`status` is null for a change that is under way, or whose server died over it."""

    items: list[dict[str, Any]]


def account_routes(prefix: str, tokens: Tokens, audit: AuditLog) -> APIRouter:
    router = APIRouter(prefix=prefix, tags=["accounts"])

    @router.get("/tokens")
    def list_tokens(caller: Actor) -> TokenRows:
        """Named tokens, oldest first."""
        now = time.time()
        return TokenRows(items=[TokenRow.model_validate(token.document(now)) for token in tokens.listed()])

    @router.post("/tokens", status_code=201)
    def add_token(caller: Actor, request: Request, response: Response, wanted: NewToken) -> TokenSecret:
        """A new token; its secret is shown this once, also to who asks again with an Idempotency-Key."""
        request.state.keeps_answer = False
        token, secret = tokens.add(wanted.name, wanted.role, wanted.expires_days)
        response.headers["Location"] = f"{prefix}/tokens/{token.name}"
        return TokenSecret.model_validate({**token.document(time.time()), "secret": secret})

    @router.delete("/tokens/{name}", status_code=204)
    def revoke_token(caller: Actor, name: str) -> None:
        """From its next request on, the token is refused."""
        try:
            tokens.revoke(name)
        except UnknownName as error:
            raise RequestRefused(HTTPStatus.NOT_FOUND, str(error)) from error

    @router.get("/audit")
    def list_changes(caller: Reader, limit: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = 200) -> AuditRows:
        """Who changed what over HTTP, newest first."""
        return AuditRows(items=audit.listed(limit))

    return router
