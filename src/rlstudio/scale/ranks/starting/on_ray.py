"""RayRanks: ranks that rank 0 has placed in a Ray cluster, as it has them: started, watched and ended.

They meet at a store of torch's that rank 0 keeps at its address in the cluster, on a port that the system chooses; in a
cluster of one machine, and in a Ray of our own, that is the loopback address. Gradients go from rank to rank over gloo
or NCCL and do not pass through Ray.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

from rlstudio.core.errors import RankLost, message_of
from rlstudio.scale.ranks.link import CLOSING, Link, present, store_at, within
from rlstudio.scale.ranks.starting.children import CAUSE_SECONDS, END_SECONDS, STOPPED_SECONDS
from rlstudio.scale.ranks.starting.failure import error_of
from rlstudio.scale.ray_start import PLACED_BY, start_ray

FIELD = "runtime.ranks"

START_SECONDS = 120.0
"""For Ray to find a node and for the rank to import everything; a cluster without room is not waited for longer."""

TRAVELS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables of rank 0 that the others have too, beside all that begin with RLSTUDIO_."""


class RankResources(NamedTuple):
    """What one rank asks Ray for."""

    cpus: int = 1
    gpus: int = 0


class _Placed(NamedTuple):
    actor: Any
    ended: Any  # a reference to what `RankOnNode.ended` says


class RayRanks:
    """Has the methods of `Children`. `address`: of a cluster; None: a Ray of our own, on this machine."""

    def __init__(
        self, module: str, size: int, patience: float, share: RankResources, address: str | None, *, nccl: bool = False
    ) -> None:
        self._module, self._size, self._patience, self._nccl = module, size, patience, nccl
        self._share, self._address = share, address
        self._ray: Any = None
        self._placed: list[_Placed] = []
        self._looks: dict[int, Any] = {}  # by rank: the answer to whether it is stopped
        self._stopped: dict[int, float] = {}  # by rank: how long rank 0 had waited when it was first found stopped
        self._error: Exception | None = None

    def meet(self) -> Link:
        self._ray = start_ray(FIELD, self._address, cpus=(self._size - 1) * self._share.cpus)
        here = self._ray.util.get_node_ip_address()
        store, port = store_at(here)
        try:
            for rank in range(1, self._size):
                actor = self._actor_for(rank, f"{here}:{port}")
                self._placed.append(_Placed(actor, actor.ended.remote()))
            self._wait_for_all(store)
            timeout = timedelta(seconds=self._patience) + CLOSING
            settings: Any = {"timeout": timeout, "check": self.check, "failure": self._cause}
            return Link(store, 0, self._size, host=here, nccl=self._nccl, **settings)
        except BaseException:
            self.end(asked=False)
            raise

    def _actor_for(self, rank: int, meeting: str) -> Any:
        from rlstudio.scale.ranks.starting.ray_actor import RankOnNode

        argument = {"rank": rank, "size": self._size, "nccl": self._nccl, "meeting": meeting}
        options = {
            "num_cpus": self._share.cpus,
            "num_gpus": self._share.gpus,
            "scheduling_strategy": "SPREAD",
            "max_restarts": 0,
            "max_concurrency": 4,  # while it waits for the end it is asked how the process is
        }
        path = [os.path.abspath(place) for place in sys.path]
        variables = _variables() if self._address is None else {**_variables(), PLACED_BY: self._address}
        return self._ray.remote(**options)(RankOnNode).remote(self._module, argument, variables, path, os.getcwd())

    def _wait_for_all(self, store: Any) -> None:
        until = time.monotonic() + START_SECONDS
        for rank in range(1, self._size):
            while not store.check([present(rank)]):
                if (error := self._failure()) is not None:
                    raise error
                if time.monotonic() >= until:
                    raise RankLost(
                        f"rank {rank} did not start within {START_SECONDS:g} s: perhaps no node of the Ray cluster has"
                        f" {self._share.cpus} free cores and {self._share.gpus} GPUs (rlctl cluster status)"
                    )
                time.sleep(0.01)

    # -- while they work ----------------------------------------------------------------------------------------------

    def check(self, waited: float) -> None:
        """Raise where one of them is gone, stopped, or has not come to an operation for too long."""
        if (error := self._failure()) is not None:
            raise error
        for rank in range(1, len(self._placed) + 1):
            self._look(rank, waited)
            since = self._stopped.get(rank, waited)
            if waited - since >= STOPPED_SECONDS:
                raise RankLost(f"rank {rank} is stopped (SIGSTOP); resume the run to go on")
        within(self._patience, waited)

    def _look(self, rank: int, waited: float) -> None:
        asked = self._looks.get(rank)
        if asked is not None and not self._ray.wait([asked], timeout=0)[0]:
            return
        with suppress(self._ray.exceptions.RayError):  # it is gone: the next look at `ended` says so
            if asked is None or not self._ray.get(asked):
                self._stopped.pop(rank, None)
            elif self._stopped.setdefault(rank, waited) > waited:  # which is of an earlier operation
                self._stopped[rank] = waited
        self._looks[rank] = self._placed[rank - 1].actor.is_stopped.remote()

    def _cause(self) -> Exception | None:
        """Why a connection was lost, as soon as it is known."""
        until = time.monotonic() + CAUSE_SECONDS
        while (error := self._failure()) is None and time.monotonic() < until:
            time.sleep(0.01)
        return error

    def _failure(self) -> Exception | None:
        """What ended one of them. Others end by losing that one, which is no cause."""
        for rank, placed in enumerate(self._placed, 1):
            if self._error is None and self._ray.wait([placed.ended], timeout=0)[0]:
                error = self._error_of(rank, placed)
                self._error = None if isinstance(error, RankLost) and error.is_consequence else error
        return self._error

    def _error_of(self, rank: int, placed: _Placed) -> Exception:
        try:
            return error_of(rank, *self._ray.get(placed.ended))
        except self._ray.exceptions.RayError as error:
            reason = [line for line in message_of(error).splitlines() if line.strip()][-1]
            return RankLost(f"rank {rank}: its node is gone, or Ray ended it ({reason[:300]}); resume the run to go on")

    def end(self, asked: bool) -> None:
        """Those that were asked to end get a moment for it. Again: nothing."""
        placed, self._placed = self._placed, []
        if not placed:
            return
        self._ray.wait([one.ended for one in placed], num_returns=len(placed), timeout=END_SECONDS if asked else 0)
        ends = [one.actor.end.remote() for one in placed]
        self._ray.wait(ends, num_returns=len(ends), timeout=END_SECONDS)
        for one in placed:
            self._ray.kill(one.actor, no_restart=True)


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in TRAVELS or name.startswith("RLSTUDIO_")}
