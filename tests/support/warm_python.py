"""Processes that need not import everything again: a process that has imported it forks one whenever one is asked for.

Importing torch takes two seconds of a core, most of what a short command or a short run costs, and NumPy with Gymnasium
0.3 s, most of what a worker of environments costs. What is forked is a process like any other: own id, own session, own
signals, own end, a child of whoever asked for it. Only the start of Python itself is left out. Tests that are marked
`cold_start` go through it, and so does all that such a process starts in its turn.
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import io
import json
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from support.known_once import know_the_commit, know_the_numerics

RLCTL = str(Path(sys.executable).with_name("rlctl"))
WORKER = "rlstudio.envs.gym.worker"
COMMANDS = "commands and runs"
IMPORTED = {
    # What processes import: nothing that starts a thread, and nothing of a test.
    WORKER: (WORKER,),
    COMMANDS: (
        "gymnasium.envs.classic_control",
        "rlstudio.cli.app",
        "rlstudio.cli.commands.launch",
        "rlstudio.cli.commands.queue",
        "rlstudio.cli.commands.runs",
        "rlstudio.control.queue.scheduler",
        "rlstudio.algos.dqn",
        "rlstudio.algos.ppo",
        "rlstudio.algos.parts.eager",
        "rlstudio.experiment.training.rank_process",
        "rlstudio.scale.workers.acting_parts",
        "rlstudio.experiment.run.hang_watch",
        "rlstudio.experiment.run.session",
        "rlstudio.delivery.export",
        "rlstudio.control.workspace",
        "rlstudio.control.runs.start",
        "rlstudio.server.api.work.operation",
        "rlstudio.server.api.work.tasks",
        "rlstudio.server.studio",
    ),
}
MODULES = {
    WORKER: WORKER,
    "rlstudio.cli.app": COMMANDS,
    "rlstudio.control.queue.runner": COMMANDS,
    "rlstudio.scale.workers.template": COMMANDS,
    "rlstudio.control.queue.service": COMMANDS,
    "rlstudio.experiment.training.rank_process": COMMANDS,
    "rlstudio.server.api.work.operation": COMMANDS,
    "rlstudio.server.api.work.process": COMMANDS,
}
"""What is run with `python -P -m`, and which process forks it."""
STREAMS = (("stdin", "r", 0), ("stdout", "w", 1), ("stderr", "w", 2))
TESTS = str(Path(__file__).parents[1])
BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_LARGEST_REQUEST = 1 << 20
_MOST_DESCRIPTORS = 16


class _State:
    """Of this process."""

    cold = False
    own_server: _Server | None = None
    """Where this process was forked itself: the copy of it that forks what it starts."""


class WarmPopen(subprocess.Popen[Any]):
    """A `subprocess.Popen` that takes commands of RLStudio from a warm process and starts all others as ever."""

    def _execute_child(self, args: Any, *settings: Any) -> None:  # private, but the rest of Popen stays as it is
        _, before, _, inherited, cwd, env, *_ = settings
        pipes, session = settings[9:15], settings[-2]
        kind = None if before else _kind(args)
        if kind is None or (server := _State.own_server or _server(kind)).asked_by != os.getpid():
            super()._execute_child(args, *settings)  # type: ignore[misc]
            return
        standard = [mine if given == -1 else given for mine, given in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {
            "args": args,
            "cwd": str(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "session": session,
            "numbers": [0, 1, 2, *inherited],
            "cold": _State.cold,
        }
        self.pid = server.fork(request, [*standard, *inherited])
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def _kind(args: Any) -> str | None:
    """Which warm process forks this command, if any."""
    if not isinstance(args, list) or not all(isinstance(part, str) for part in args):
        return None
    if args[0] == RLCTL:
        return COMMANDS
    if _State.cold or args[:3] != [sys.executable, "-P", "-m"]:
        return None
    return MODULES.get(args[3])


@contextmanager
def warm_starts() -> Iterator[None]:
    """What RLStudio starts from this process comes from warm ones."""
    _server(WORKER)  # now: tests count the descriptors and the children of this process
    original = subprocess.Popen
    subprocess.Popen = WarmPopen  # type: ignore[misc]
    try:
        yield
    finally:
        subprocess.Popen = original  # type: ignore[misc]


@contextmanager
def cold_starts() -> Iterator[None]:
    """Everything but `rlctl` itself starts as it does for users."""
    _State.cold = True
    try:
        yield
    finally:
        _State.cold = False


class _Server:
    """A warm process, as whoever asks it for others has it. `start` is given the descriptor it is asked through."""

    def __init__(self, start: Callable[[socket.socket, socket.socket], object]) -> None:
        self.asked_by = os.getpid()  # a fork of ours is no parent of what this forks
        self._turn = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        start(theirs, self._socket)
        theirs.close()

    def fork(self, request: Mapping[str, object], descriptors: Sequence[int]) -> int:
        """The id of a new process, a child of ours: its parent ends at once, and orphans come to us meanwhile."""
        become = ctypes.CDLL(None, use_errno=True).prctl
        with self._turn:
            become(BECOME_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
                return int(self._socket.recv(64))
            finally:
                become(BECOME_SUBREAPER, 0, 0, 0, 0)


@cache
def _server(kind: str) -> _Server:
    def start(theirs: socket.socket, _: socket.socket) -> None:
        code = f"from support.warm_python import import_and_serve; import_and_serve({kind!r}, {theirs.fileno()})"
        paths = [TESTS, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], env=environment, cwd="/")

    return _Server(start)


def import_and_serve(kind: str, descriptor: int) -> None:
    for name in IMPORTED[kind]:
        import_module(name)
    if kind == COMMANDS:
        know_the_numerics()
        know_the_commit()
    _serve(socket.socket(fileno=descriptor))


def _serve(asked: socket.socket) -> None:
    """Fork a process for each request, until nobody can ask any more.

    What is garbage now never goes: a file among it would close its number, under which whoever asks may have something
    else by then, and so has what is forked for it.
    """
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the tests ends them, and with them this
    while True:
        text, descriptors, _, _ = socket.recv_fds(asked, _LARGEST_REQUEST, _MOST_DESCRIPTORS)
        if not text:
            return
        pid = _fork_for_others()
        if pid == 0:
            asked.close()
            _become(json.loads(text), descriptors)
        asked.send(str(pid).encode())
        for number in descriptors:
            os.close(number)


def _fork_for_others() -> int:
    """The id of a new process, known once its parent has ended; in that process 0."""
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
    with open(read) as answer:
        return int(answer.read())


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """What a new process of its own would find; does not return."""
    _place(descriptors, request["numbers"])
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    _open_streams()
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [*given, *(path for path in sys.path if path not in (TESTS, "", *given))]
    random.seed()
    sys.modules["numpy"].random.seed()  # type: ignore[attr-defined]
    command = request["args"]
    if _starts_others(command):
        _State.cold = request["cold"]
        MODULES.pop(WORKER, None)  # no torch in it
        fork_from_here_on()
    if command[0] == RLCTL:
        sys.argv = ["rlctl", *command[1:]]
        sys.exit(sys.modules["rlstudio.cli.app"].main())
    sys.orig_argv = command
    sys.argv = command[3:]
    sys.modules.pop(command[3], None)
    runpy.run_module(command[3], run_name="__main__", alter_sys=True)
    sys.exit()


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Descriptors under the numbers that the command names. Nothing else is closed: whatever else is open here has an
    owner, who would close what has the number by then."""
    beyond = max(numbers) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, beyond) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(moved, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _open_streams() -> None:
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, mode, own in STREAMS:
        raw = open(own, f"{mode}b", buffering=0 if unbuffered and own else -1, closefd=False)  # noqa: SIM115, for ever
        stream = io.TextIOWrapper(raw, line_buffering=own == 2, write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _starts_others(command: list[str]) -> bool:
    if command[0] == RLCTL or command[3] == "rlstudio.cli.app":
        return any(word in ("worker", "sweep", "serve", "--detach") for word in command)
    return command[3] in ("rlstudio.control.queue.service", "rlstudio.server.api.work.process")


def fork_from_here_on() -> None:
    """What this process starts comes from a copy of it as it is now: what another process forks is no child of it."""

    def start(theirs: socket.socket, ours: socket.socket) -> None:
        if os.fork():
            return
        ours.close()
        nothing = os.open(os.devnull, os.O_RDWR)
        for _, _, own in STREAMS:  # whoever reads what we print must not wait for a process that prints nothing
            os.dup2(nothing, own)
        _serve(theirs)
        os._exit(0)

    _State.own_server = _Server(start)
    subprocess.Popen = WarmPopen  # type: ignore[misc]
