"""What went wrong, as one line on standard error and an exit code. A traceback is for developers who ask for it."""

from __future__ import annotations

import os
import re
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from typer.exceptions import TyperException

from rlstudio.cli.screen.runs_dir import with_place
from rlstudio.cli.screen.terminal import PipeClosed, stderr, stdout
from rlstudio.core.errors import ConfigError, Notice, RLStudioError, StorageError, message_of
from rlstudio.core.host.process_exit import ProcessExit

PROGRAM = "rlctl"
DEBUG = "RLSTUDIO_DEBUG"
INTERRUPTED, PIPE_CLOSED = 130, 141
"""What a shell shows for a program that SIGINT or SIGPIPE ended."""


def report(error: Exception, where: str = "") -> int:
    """Print the error on standard error; returns the exit code. `where`: what a suggested command needs to find the
    runs of this one."""
    if isinstance(error, PipeClosed):
        stdout().abandon()
        return PIPE_CLOSED
    if isinstance(error, TyperException):
        complain(_usage(error))
        return error.exit_code
    show_traceback(error)
    if isinstance(error, RLStudioError):
        # A configuration may have several problems, a line each; elsewhere a line break came from outside.
        for line in str(error).splitlines() if isinstance(error, ConfigError) else [str(error)]:
            complain(with_place(line, where))
        return error.exit_code
    where = next(iter(getattr(error, "__notes__", ())), f"set {DEBUG}=1 to see where")
    complain(f"internal error: {type(error).__name__}: {error}; {where}")
    return 1


def show_traceback(error: BaseException) -> None:
    """For developers who ask for it."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)


@contextmanager
def notices() -> Iterator[None]:
    """Warnings that are ours are lines on standard error; all others stay what they are."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, Notice):
            complain(f"note: {message}")
        else:
            usual(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield


def claims_success(error: SystemExit) -> bool:
    """Whether it would pass for the end of a command that did what it was asked to."""
    return isinstance(error, ProcessExit) or not error.code


def report_exit(error: SystemExit) -> int:
    """Code of an environment, a plug-in or an imported module asked the program to end: no command ends that way."""
    complain(f"other code ended the program by {type(error).__name__}: {message_of(error)}; set {DEBUG}=1 to see where")
    show_traceback(error)
    return 1


def complain(text: str) -> None:
    with suppress(PipeClosed, StorageError):  # nobody can read it; the exit code remains
        stderr().line(f"{PROGRAM}: {text}")


def write_at_once(text: str) -> None:
    """`complain` for a signal handler, which may have broken into a write of the same stream."""
    with suppress(OSError):
        below = "\n" if os.isatty(2) else ""  # of the ^C that a terminal echoes, and of the panel
        os.write(2, f"{below}{PROGRAM}: {text}\n".encode())


IN_PLAIN_WORDS = {
    r"('[^']*') is not a valid int(eger)?( range)?$": r"expected a whole number, got \1",
    r"('[^']*') is not a valid float( range)?$": r"expected a number, got \1",
    r"(\S+) is not in the range (\S+)<=x<=(\S+)$": r"expected \2 to \3, got \1",
    r"(\S+) is not in the range x>=(\S+)$": r"expected \2 or more, got \1",
}
"""What Typer says of a number."""


def _usage(error: TyperException) -> str:
    """Typer's message in our format; where it names no remedy, followed by the command that prints the help."""
    text = " ".join(error.format_message().split()).rstrip(".")
    text = text[:1].lower() + text[1:].replace(". Did you mean", "; did you mean")
    for typed, plain in IN_PLAIN_WORDS.items():
        text = re.sub(typed, plain, text)
    context = getattr(error, "ctx", None)
    if context is None or "did you mean" in text or "Possible options" in text:
        return text
    return f"{text}; see: {context.command_path} --help"
