"""Who calls, what they may do, and what a route says about it.

Every route states its decision as a dependency; `create_app` refuses a route without one:

    @router.get("/runs")
    def list_runs(caller: Reader, ...): ...            # any token

    @router.get("/stream")
    async def stream(caller: Watcher, ...): ...        # any token; does not keep a session alive

    @router.post("/runs/{run_id}/stop")
    def stop_run(caller: Actor, run_id: str): ...      # a token with the role `act`

    @router.get("/health", dependencies=[PUBLIC])      # no token; its path may have no parameters
    def health(): ...
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from rlstudio.server.http.problems import RequestRefused
from rlstudio.server.http.roles import Role

if TYPE_CHECKING:
    from fastapi.dependencies.models import Dependant


@dataclass(frozen=True)
class Caller:
    name: str
    role: Role
    key: str = ""
    """Of a POST with an `Idempotency-Key`: that key, made unique to this caller and route. A route that starts a run
    passes it on (`launch(..., key=caller.key)`), so that a server that was killed between starting and answering
    starts nothing twice."""

    remember: Callable[[str], str] = field(default=str, compare=False)
    """With such a key: keeps what a route decides on, before it acts on it, and returns what was kept first. So the
    same request asked again, after a server was killed over it, is decided on what it was decided on then."""

    still_counts: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether the token or session that the request came with is good by now. For what goes on after the request was
    let in, as a stream does: its token may be revoked meanwhile."""

    def may(self, role: Role) -> bool:
        return self.role == Role.ACT or role == Role.READ


class Authenticated:
    """The dependency of a route that only callers with this role may use. `is_use`: a request keeps a session alive."""

    def __init__(self, role: Role, *, is_use: bool = True) -> None:
        self.role = role
        self.is_use = is_use

    async def __call__(self, request: Request) -> Caller:  # one that is no coroutine would run in a thread
        caller: Caller | None = getattr(request.state, "caller", None)
        if caller is None:  # the guard answers before; a route that is called without it answers nothing
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "Authorization: expected `Bearer TOKEN`")
        if not caller.may(self.role):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN, f"token {caller.name}: has the role {caller.role}, this needs {self.role}"
            )
        return caller


class Public:
    """The dependency of a route that answers without a token."""

    is_use = False

    async def __call__(self) -> None:
        pass


def authenticated(role: Role) -> Authenticated:
    return _DECISIONS[role]


_DECISIONS = {role: Authenticated(role) for role in Role}

Reader = Annotated[Caller, Depends(_DECISIONS[Role.READ])]
Watcher = Annotated[Caller, Depends(Authenticated(Role.READ, is_use=False))]
Actor = Annotated[Caller, Depends(_DECISIONS[Role.ACT])]
PUBLIC = Depends(Public())


def decision_of(dependant: Dependant) -> Authenticated | Public | None:
    """The one decision about callers among the dependencies of a route, the strictest of several."""
    calls = [dependant.call, *(_decision_call(inner) for inner in dependant.dependencies)]
    decided = [call for call in calls if isinstance(call, Authenticated | Public)]
    strict = [call for call in decided if isinstance(call, Authenticated)]
    return max(strict, key=lambda call: call.role == Role.ACT, default=next(iter(decided), None))


def _decision_call(dependant: Dependant) -> object:
    return decision_of(dependant) or dependant.call
