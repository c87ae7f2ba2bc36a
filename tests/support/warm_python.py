"""Processes of `rlctl` that need not import torch again: a process that has imported it forks one for each command.

Importing torch takes two seconds of a core, most of what a short command costs. What is forked is a process like any
other: own id, own signals, own end, a child of whoever asked for it. Only the start of Python itself is left out, which
`tests/e2e/test_cli_processes.py` and all processes that RLStudio starts by itself go through.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rlstudio.cli.app import main

IMPORTED = ("gymnasium", "rlstudio.experiment.run.session", "rlstudio.delivery.export", "rlstudio.control.workspace")
"""What commands import: nothing that starts a thread, and nothing of a test."""
STREAMS = (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2))
BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_LARGEST_REQUEST = 1 << 20


class WarmPopen(subprocess.Popen[str]):
    """A `subprocess.Popen` whose process is forked by the warm one; `args` are those of `rlctl`."""

    def _execute_child(self, args: Any, *settings: Any) -> None:  # private, but the rest of Popen stays as it is
        _, before, _, inherited, cwd, env, *_ = settings
        pipes, session = settings[9:15], settings[-2]
        assert (before, tuple(inherited)) == (None, ()), "a warm process inherits nothing but its standard streams"
        standard = [mine if given == -1 else given for mine, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {"args": args, "cwd": str(cwd), "env": dict(env or os.environ), "session": session}
        self.pid = _server().fork(request, standard)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _Server:
    """The warm process, seen from the process of the tests."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"from support.warm_python import serve; serve({theirs.fileno()})"
        paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], env=environment, cwd="/")
        theirs.close()

    def fork(self, request: Mapping[str, object], standard: list[int]) -> int:
        """The id of a new process, a child of ours: its parent ends at once, and orphans come to us meanwhile."""
        become = ctypes.CDLL(None, use_errno=True).prctl
        become(BECOME_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], standard)
            return int(self._socket.recv(64))
        finally:
            become(BECOME_SUBREAPER, 0, 0, 0, 0)


@cache
def _server() -> _Server:
    return _Server()


def serve(descriptor: int) -> None:
    """Fork a process for each request, until nobody can ask any more."""
    for name in IMPORTED:
        import_module(name)
    asked = socket.socket(fileno=descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the tests ends them, and with them this
    while True:
        text, standard, _, _ = socket.recv_fds(asked, _LARGEST_REQUEST, 3)
        if not text:
            return
        pid = _fork_for_others()
        if pid == 0:
            asked.close()
            _become(json.loads(text), standard)
            sys.exit(main())
        asked.send(str(pid).encode())
        for number in standard:
            os.close(number)


def _fork_for_others() -> int:
    """The id of a new process, told once its parent has ended; in that process 0."""
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid:
            os.write(write, str(pid).encode())
            os._exit(0)
        os.close(read)
        os.close(write)
        return 0
    os.close(write)
    os.waitpid(between, 0)
    with open(read) as told:
        return int(told.read())


def _become(request: dict[str, Any], standard: list[int]) -> None:
    """What a new process of its own would find."""
    for number, (name, mode, own) in zip(standard, STREAMS, strict=True):
        os.dup2(number, own)
        os.close(number)
        stream = open(own, mode, buffering=1 if own == 2 else -1, closefd=False)  # noqa: SIM115, as long as the process
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    tests = str(Path(__file__).parents[1])
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*given, *(path for path in sys.path if path not in (tests, "", *given))]
    sys.argv = ["rlctl", *request["args"]]
