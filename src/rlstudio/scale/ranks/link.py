"""Link: the connection of one rank to all others, over process groups of torch.distributed.

Groups are made from a store and owned here: nothing is registered in torch's global state, which belongs to the user's
own code. Gloo carries what is decided and gathered, and tensors of the CPU; with the backend `nccl` tensors of a GPU go
over NCCL. An operation is waited for in short slices: in between Python handles signals, and `check` may find out that
another rank will never come.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rlstudio.core.errors import RankLost

c10d: Any = dist  # its stores and process groups have no types

SLICE = timedelta(seconds=0.5)
FOR_EVER = timedelta(days=365)
"""Of a rank that waits for rank 0, which may evaluate for hours; it ends with rank 0 all the same."""

CONNECTING = timedelta(seconds=30)
"""Between ranks that all know of each other's being there."""

CLOSING = timedelta(seconds=30)
"""Beyond the patience of rank 0, until torch gives an operation up by itself."""

LOOPBACK = "127.0.0.1"

Check = Callable[[float], None]
"""Called with the seconds that an operation was waited for so far; raises RankLost to give it up."""


class Link:
    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        *,
        host: str | None = LOOPBACK,
        nccl: bool = False,
        timeout: timedelta = FOR_EVER,
        check: Check = lambda waited: None,
        failure: Callable[[], Exception | None] = lambda: None,
    ) -> None:
        """`store`: of torch.distributed, where the ranks meet. `host`: the address to listen on; None: what torch takes
        for this machine's. `failure` is asked why a connection was lost, as far as that is known."""
        self.rank, self.size = rank, size
        self._check, self._failure = check, failure
        self.grace = 0.0  # seconds that the others get beyond those that `check` counts
        gloo: Any = c10d.ProcessGroupGloo
        options = gloo._Options()
        options._timeout = CONNECTING
        options._devices = [gloo.create_default_device() if host is None else gloo.create_device(hostname=host)]
        try:
            self._gloo = gloo(c10d.PrefixStore("gloo", store), rank, size, options)
            self._gloo._set_default_timeout(timeout)
            self._nccl: Any = None
            if nccl:
                more = c10d.ProcessGroupNCCL.Options()
                more._timeout = timeout
                self._nccl = c10d.ProcessGroupNCCL(c10d.PrefixStore("nccl", store), rank, size, more)
        except RuntimeError as error:
            raise self._lost(error) from error
        self.reduce(torch.zeros(1))  # then all ranks have read what the others left in the store

    def reduce(self, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        """In place, over all ranks; all of them get the same bits."""
        options = dist.AllreduceOptions()
        options.reduceOp = op
        group = self._nccl if self._nccl is not None and tensor.is_cuda else self._gloo
        self._finish(lambda: group.allreduce([tensor], options))

    def share(self, tensor: Tensor, root: int = 0) -> None:
        """In place, what one rank has."""
        options = dist.BroadcastOptions()
        options.rootRank = root
        self._finish(lambda: self._gloo.broadcast([tensor], options))

    def share_bytes(self, data: bytes | None, root: int = 0) -> bytes:
        """What one rank has: the one that gives some. All take part, since gloo closes a connection on which one of two
        has waited for the other for longer than a slice."""
        size = torch.tensor([0 if data is None else len(data)])
        self.share(size, root)
        received = torch.empty(int(size), dtype=torch.uint8) if data is None else _as_tensor(data)
        if len(received):
            self.share(received, root)
        return received.numpy().tobytes() if data is None else data

    def answer(self, data: bytes) -> None:
        """To rank 0, which takes the answers of all others in turn (`answers`)."""
        for root in range(1, self.size):
            self.share_bytes(data if root == self.rank else None, root)

    def answers(self) -> list[bytes]:
        return [self.share_bytes(None, root) for root in range(1, self.size)]

    def _finish(self, start: Callable[[], Any]) -> None:
        """Begin an operation and wait for it."""
        waited = -self.grace
        try:
            work = start()
            while not _is_done(work):
                waited += SLICE.total_seconds()  # counted: a process that was stopped (Ctrl-Z) has not waited
                self._check(waited)
        except RuntimeError as error:
            raise self._lost(error) from error

    def _lost(self, error: RuntimeError) -> Exception:
        reason = str(error).splitlines()[0]
        return self._failure() or RankLost(
            f"the connection to another rank was lost ({reason}); resume the run to go on"
        )


def _is_done(work: Any) -> bool:
    """Wait a slice; RuntimeError where the operation failed."""
    try:
        work.wait(SLICE)
    except RuntimeError:
        if not work.is_completed():
            return False
        work.wait()  # raises what it failed by; it may also have succeeded just now
    return True


def _as_tensor(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def file_store(folder: Path, size: int) -> Any:
    """A meeting point of the ranks of one machine that opens no port."""
    return c10d.FileStore(str(folder / "store"), size)


def announce(folder: Path, rank: int) -> None:
    """This rank is about to connect."""
    (folder / f"rank-{rank}").touch()


def announced(folder: Path, rank: int) -> bool:
    return (folder / f"rank-{rank}").exists()


def present(rank: int) -> str:
    """In the store of rank 0 once this rank is about to connect."""
    return f"rlstudio/rank-{rank}"


def store_at(host: str) -> tuple[Any, int]:
    """A store that listens on this address alone, and its port; torch itself would listen on all addresses."""
    with socket.socket() as listening:
        listening.bind((host, 0))
        listening.listen(128)
        port, own = listening.getsockname()[1], os.dup(listening.fileno())
    return c10d.TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=own), port


def store_of_rank_0(address: str, rank: int) -> Any:
    """At HOST:PORT, seen from another rank, which is about to connect."""
    host, _, port = address.rpartition(":")
    store = c10d.TCPStore(host, int(port), is_master=False, timeout=CONNECTING)
    store.set(present(rank), "")
    return store


def within(patience: float, waited: float) -> None:
    """RankLost where rank 0 has waited for longer than it is to."""
    if waited >= patience:
        raise RankLost(
            f"rank 0 waited {patience:g} s for the other ranks, and they still compute or hang in an environment; raise"
            " rollout.step_timeout if a step may take that long"
        )
