"""The commit of a git repository, asked of git without letting the repository run anything.

A repository's own config may name programs: file system monitors, hooks, filter drivers, ways to fetch what is missing.
A run started inside a downloaded repository must not start them, so each is switched off, or git is not asked.
Whether a folder may be trusted at all (`safe.directory`) stays git's decision.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TypedDict

SECONDS = 1.0
"""For each question. A repository on a sleeping disk delays the start of a run by no more than a few of these."""

_SAFE = ("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # reading never writes the index
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # the same for a git that does not know the line above
    "GIT_TERMINAL_PROMPT": "0",
}
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE")
"""Set inside a git hook, where they point at another repository than the one asked for."""


class Commit(TypedDict):
    root: str
    commit: str
    dirty: bool | None


def commit_of(directory: Path) -> Commit | None:
    """`root`, `commit` and `dirty` of the repository around `directory`; None without git, repository or commit.

    `dirty` is true when tracked files differ from the commit, as in `git describe --dirty` (looking for untracked ones
    would walk through folders of runs), and null when that cannot be determined.
    """
    answer = _git(directory, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None or answer.returncode != 0:
        return None
    root, _, commit = os.fsdecode(answer.stdout).rstrip("\n").rpartition("\n")
    return {"root": root, "commit": commit, "dirty": _is_dirty(directory)}


def _is_dirty(directory: Path) -> bool | None:
    if _has_own_filters(directory):
        return None  # to compare a file, git would run them
    options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=dirty", "--no-ahead-behind")
    answer = _git(directory, "status", *options)
    return bool(answer.stdout) if answer is not None and answer.returncode == 0 else None


def _has_own_filters(directory: Path) -> bool:
    """Whether the repository brings filter drivers; those in the user's own config (git-lfs) are the user's choice."""
    answer = _git(directory, "config", "--show-scope", "--null", "--name-only", "--get-regexp", r"^filter\.")
    if answer is None or answer.returncode not in (0, 1):  # 1: there are none
        return True
    scopes = answer.stdout.split(b"\0")[0::2]
    return not set(scopes) <= {b"system", b"global", b""}


def _git(directory: Path, *args: str) -> subprocess.CompletedProcess[bytes] | None:
    """What git answered, or None where it is not installed or takes too long."""
    variables = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        return subprocess.run(
            ["git", *_SAFE, "-C", str(directory), *args],
            env={**variables, **_VARIABLES},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
