"""Notices a call of an environment in this process that does not return, without costing a step anything.

A thread looks at the stack of the training thread now and then. Where the very same call of an environment is still on
it, look after look, for `rollout.step_timeout` seconds, that is reported with the environment, its step and the stack;
after `rollout.hang_timeout` seconds, if that is set, the run ends as a fault of the environment. Looks are counted, not
clocks compared, so a process that was stopped (Ctrl-Z) is not taken to hang. An environment in native code that keeps
the interpreter to itself stops this thread too: then `faulthandler`, which needs no interpreter, writes the stack.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import rlstudio.envs
from rlstudio.core.errors import EnvFault, RLStudioError
from rlstudio.core.host.process_exit import leave
from rlstudio.core.run_state import Reason, RunState
from rlstudio.experiment.run.session import Session

LONGEST_PAUSE = 5.0
LOOKS = 12
"""Within `step_timeout`: it is noticed that much later at most."""

ENVS = str(Path(rlstudio.envs.__path__[0])) + os.sep


class EnvCall(NamedTuple):
    """A call of an environment that is under way: its own frame, or ours where it is written in C."""

    frame: FrameType
    place: int | None  # where our frame stands; None for the frame of the call itself, which tells calls apart
    caller: FrameType


class HangWatch:
    """`with HangWatch(session, report): for tick in session: ...`, on the thread that trains, in a program of ours."""

    def __init__(self, session: Session, report: Callable[[str], None], leave: Callable[[int], object] = leave) -> None:
        rollout = session.cfg.rollout
        self._session, self._report, self._leave = session, report, leave
        self._slow_after, self._hung_after = rollout.step_timeout, rollout.hang_timeout
        shortest = min(self._slow_after, self._hung_after or self._slow_after)
        self._pause = min(shortest / LOOKS, LONGEST_PAUSE)
        self._trains = threading.get_ident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="hang watch", daemon=True)
        self._call: EnvCall | None = None
        self._looks = 0

    def __enter__(self) -> HangWatch:
        is_main = threading.current_thread() is threading.main_thread()
        self._handles_stop = is_main and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
        if self._handles_stop:
            signal.signal(signal.SIGTSTP, self._suspend)
        self._let_native_code_be_noticed()  # before the thread has its first turn, which such code may never give it
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._handles_stop:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _suspend(self, signum: int, frame: FrameType | None) -> None:
        """Ctrl-Z. The clock of `faulthandler` goes on meanwhile: it must not run out while nothing can happen."""
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)

    def _look_on(self) -> None:
        try:
            while not self._over.wait(self._pause):
                self._let_native_code_be_noticed()
                self.look()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _let_native_code_be_noticed(self) -> None:
        """Writes the stack unless this thread comes here again in time."""
        after = self._hung_after or self._slow_after
        with suppress(OSError, AttributeError, ValueError, RuntimeError):  # standard error is closed or not a file
            faulthandler.dump_traceback_later(after + self._pause, exit=self._hung_after is not None)

    def look(self) -> None:
        frame = sys._current_frames().get(self._trains)
        call = None if frame is None else env_call(frame)
        if call is None or self._call is None or call[:2] != self._call[:2]:
            self._call, self._looks = call, 0
            return
        self._looks += 1
        if self._hung_after is not None and self._lasts(self._hung_after):
            self._end(self._describe(call, f"{self._hung_after:g} s (rollout.hang_timeout)"), frame)
        elif self._lasts(self._slow_after):
            line = self._describe(call, f"{self._slow_after:g} s")
            remedy = "" if self._hung_after else "; to end a run that hangs, set rollout.hang_timeout"
            stack = self._stack(frame)
            with suppress(RLStudioError):  # the disk is full: the training thread will meet that too
                self._session.folder.event("env_slow", reason=line, stack=stack)
            self._report(f"run {self._session.folder.id}: {line}{remedy}\n{stack}")

    def _lasts(self, seconds: float) -> bool:
        """Whether the call has just come to last this long."""
        return (self._looks - 1) * self._pause < seconds <= self._looks * self._pause

    def _describe(self, call: EnvCall, lasts: str) -> str:
        from rlstudio.envs.gym.env_block import EnvBlock  # a native world needs no Gymnasium before its evaluation

        what = f"its call has not returned for {lasts}"
        at: FrameType | None = call.caller
        while at is not None:
            if isinstance(block := at.f_locals.get("self"), EnvBlock):
                return block.describe(what, at.f_locals.get("index"), at.f_locals.get("choice"))
            at = at.f_back
        return f"env {self._session.cfg.env.id}: {what}"

    def _stack(self, frame: FrameType | None) -> str:
        return "".join(traceback.format_stack(frame)).rstrip()

    def _end(self, line: str, frame: FrameType | None) -> None:
        """The thread that trains is stuck in the environment, so this one records the end."""
        self._report(f"run {self._session.folder.id}: {line}\n{self._stack(frame)}")
        try:
            with suppress(RLStudioError):
                self._session.writer.set_state(RunState.FAILED, Reason.ENV_FAULT, line)
        finally:
            self._leave(EnvFault.exit_code)


def env_call(frame: FrameType) -> EnvCall | None:
    """The call of an environment on this stack: the frame that the innermost of our frames of `envs` has called."""
    inner: FrameType | None = None
    at: FrameType | None = frame
    while at is not None:
        if at.f_code.co_filename.startswith(ENVS):
            return EnvCall(at, at.f_lasti, at) if inner is None else EnvCall(inner, None, at)
        inner, at = at, at.f_back
    return None
