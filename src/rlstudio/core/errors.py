"""Everything RLStudio raises on purpose.

A `UserError` is a mistake in the input and is printed as one line: where, what, and what to do about it. Anything else
that escapes is a defect of ours and keeps its traceback. Each class carries the exit code of the command line.
"""

import os
import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class RLStudioError(Exception):
    """Root of the tree."""

    exit_code = 1


class UserError(RLStudioError):
    """The input is wrong; the message names the place, the reason and the remedy in one line."""

    exit_code = 2


class ConfigError(UserError):
    """A configuration file, override or value cannot be used."""


class UnknownName(UserError):
    """A name that is in no catalog, registry or folder."""


class Incompatible(UserError):
    """Two parts do not fit each other; the message names both."""


class OtherEnvironments(Incompatible):
    """A position of other environments than those that it is given to."""


class RunNotFound(UserError):
    """No run, or more than one, answers to the given name."""


class NoMatch(RunNotFound):
    """There are runs, but none that passes the filters."""


class RunBusy(UserError):
    """Another process owns the run folder."""


class StorageError(RLStudioError):
    """The disk refused (full, read-only, I/O error); what was there before is intact."""

    exit_code = 3


class FilesClosed(StorageError):
    """Other code in this process (an environment) closed a file that we have open."""


class StoreBusy(StorageError):
    """The store was held by others for too long; nothing was changed, and trying again may help."""

    exit_code = 75


class Conflict(UserError):
    """The run is not in a state that allows what was asked for."""


class CheckpointError(RLStudioError):
    """A checkpoint does not verify: the file and the reason are named."""

    exit_code = 4


class NoValidCheckpoint(CheckpointError):
    """None of the run's checkpoints verifies; the run does not start afresh by itself."""


class BundleError(CheckpointError):
    """A bundle does not verify: the file and the reason are named."""


class EnvFault(RLStudioError):
    """An environment crashed, hung or broke its contract; env index, seed, step and last action are named."""

    exit_code = 5


class Diverged(RLStudioError):
    """Training left the finite world and roll-backs did not help."""

    exit_code = 6


class Changed(Conflict):
    """It is not any more what it was when somebody decided about it."""


class GateFailed(RLStudioError):
    """A quality gate on evaluation was not met."""

    exit_code = 7


class ParityFailed(RLStudioError):
    """What would be exported does not act as the agent does: format, row and both actions are named."""

    exit_code = 8


class RankLost(RLStudioError):
    """A process that learns together with this one died, was stopped or does not answer; the run goes on from its last
    checkpoint."""

    exit_code = 9
    is_consequence = False  # of the loss of another rank


class LeaseLost(RLStudioError):
    """Another owner took the run: this process may write nothing more."""

    exit_code = 70


LONGEST_MESSAGE = 2000
"""Characters of an error of other code that are kept: enough to find it, and no screen or row is filled with it."""


LONGEST_TRACEBACK = 100_000
"""Characters; a recursion without end has more."""

_OURS = Path(__file__).parents[1]
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class Notice(UserWarning):
    """Something is done otherwise than it was asked for, and how; the command line prints it as one line."""


def message_of(error: BaseException) -> str:
    """The text of an error of other code, in one line, cut at `LONGEST_MESSAGE`; empty where it has none. An exception
    of an environment may raise another one when it is asked for its text."""
    try:
        text = " ".join(str(error).split())
    except Exception as second:
        return f"its text could not be read ({type(second).__name__})"
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}... ({len(text):,} characters)"


def origin_of(error: BaseException) -> str:
    """`my_env.py:42`, the line of the user's own code that an error comes from: the innermost outside RLStudio and
    installed packages, or else outside RLStudio. Empty where it comes from RLStudio alone."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.isfile(frame.filename)]
    others = [frame for frame in frames if not Path(frame.filename).is_relative_to(_OURS)]
    own = [frame for frame in others if not frame.filename.startswith(_INSTALLED)]
    return next((f"{_short(frame.filename)}:{frame.lineno}" for frame in reversed(own or others)), "")


def raised(error: BaseException) -> str:
    """An error of other code in one line, with its place: `ValueError: no file at my_world.py:12`."""
    text, origin = message_of(error), origin_of(error)
    return type(error).__name__ + (f": {text}" if text else "") + (f" at {origin}" if origin else "")


def _short(path: str) -> str:
    """From the working directory where that is above it."""
    try:
        below = Path(path).relative_to(Path.cwd())
    except (OSError, ValueError):  # it may be gone
        return path
    return str(below)


def traceback_of(error: BaseException) -> str:
    """As Python prints it, with its causes and notes; the middle is left out of a very long one."""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # of an exception that cannot be printed
        text = "".join(traceback.format_tb(error.__traceback__))
    half = LONGEST_TRACEBACK // 2
    return text if len(text) <= LONGEST_TRACEBACK else f"{text[:half]}\n[...]\n{text[-half:]}"


def suggest(name: str, known: Iterable[str]) -> str:
    """`"; did you mean X?"` for the nearest known name, or an empty string."""
    names = sorted(known)
    by_lower = {candidate.lower(): candidate for candidate in names}
    near = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
