"""The process that workers are forked from: `python -m rlstudio.scale.workers.template CONTROL [MODULE ...]`.

Importing torch takes two seconds of a core, which every worker would spend anew: a run of eight on two cores would
begin after eight seconds, and a worker that dies would be away for as long as the import takes. This process imports
once, starts no thread, makes no environment, and forks a worker within milliseconds whenever the learner asks. Workers
share the memory of what was imported.

A request on CONTROL, a socket of packets, is JSON with descriptors: those that `process_worker.run` gets, and last the
pipe for the code that the worker ends with. The answer is the pid, with a handle on that process. The template ends
when the learner closes the socket, or ends itself; its workers have a lifeline of their own.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from rlstudio.core.host.process_exit import leave
from rlstudio.scale.workers import process_worker

MODULE = "rlstudio.scale.workers.template"
LARGEST_REQUEST = 1 << 17
MOST_DESCRIPTORS = 96
"""Of one request: `rollout.max_staleness` is at most 64, with a memory for each fragment."""


class Template:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._ready = selectors.DefaultSelector()
        self._ready.register(control, selectors.EVENT_READ)
        self._codes: dict[int, tuple[int, int]] = {}  # by the handle on a worker: its pid, and where its code goes

    def serve(self) -> None:
        while True:
            for key, _ in self._ready.select():
                if key.fileobj is not self._control:
                    self._report(key.fd)
                    continue
                text, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST, MOST_DESCRIPTORS)
                if not text:
                    return
                self._fork(json.loads(text), descriptors)

    def _fork(self, changes: dict[str, str | None], descriptors: Sequence[int]) -> None:
        *own, code = descriptors
        pid = os.fork()
        if pid == 0:
            self._become_worker(changes, own, code)
        handle = os.pidfd_open(pid)
        self._codes[handle] = pid, code
        self._ready.register(handle, selectors.EVENT_READ)
        for descriptor in own:
            os.close(descriptor)
        socket.send_fds(self._control, [str(pid).encode()], [handle])

    def _become_worker(self, changes: dict[str, str | None], own: Sequence[int], code: int) -> None:
        """Does not return. What belongs to the learner and to other workers is closed: whoever waits for the end of a
        pipe must not wait for this process too."""
        status = 1
        try:
            os.setsid()
            self._ready.close()
            self._control.close()
            for handle, (_, other) in self._codes.items():
                os.close(handle)
                os.close(other)
            os.close(code)
            for name, value in changes.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            process_worker.run(*own)
            status = 0
        except BaseException:
            traceback.print_exc()
        with suppress(OSError, ValueError):  # what the environments printed; they may have closed it
            sys.stdout.flush()
            sys.stderr.flush()
        leave(status)  # taking the interpreter apart would only keep the learner waiting

    def _report(self, handle: int) -> None:
        pid, code = self._codes.pop(handle)
        self._ready.unregister(handle)
        os.close(handle)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # nobody wants to know any more
            os.write(code, str(ended).encode())
        os.close(code)


def main() -> None:
    control, *modules = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # what all workers share stays shared
    Template(socket.socket(fileno=int(control))).serve()
    leave(0)


if __name__ == "__main__":
    main()
