"""The commit of a git repository, asked of git without letting the repository run anything.

A repository's own config may name programs: file system monitors, hooks, filter drivers, ways to fetch what is missing.
A run started inside a downloaded repository must not start them, so each is switched off, or git is not asked.
Whether a folder may be trusted at all (`safe.directory`) stays git's decision.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import NotRequired, TypedDict

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


MOST_FILES, LARGEST_FILE = 200, 4 << 20
"""Of files that differ from the commit, how many are hashed, and of which size."""


class Commit(TypedDict):
    root: str
    commit: str
    dirty: bool | None
    files: NotRequired[dict[str, str]]  # where it is dirty: sha256 of each file that differs, "" for one that is gone


def commit_of(directory: Path) -> Commit | None:
    """`root`, `commit`, `dirty` and `files` of the repository around `directory`; None without git, repository or
    commit.

    `dirty` is true when tracked files differ from the commit, as in `git describe --dirty` (looking for untracked ones
    would walk through folders of runs), and null when that cannot be determined.
    """
    answer = _git(directory, "rev-parse", "--show-toplevel", "HEAD")
    if answer is None or answer.returncode != 0:
        return None
    root, _, commit = os.fsdecode(answer.stdout).rstrip("\n").rpartition("\n")
    repository: Commit = {"root": root, "commit": commit, "dirty": None}
    if _has_own_filters(directory):
        return repository  # to compare a file, git would run them
    options = ("--porcelain", "--untracked-files=no", "--ignore-submodules=dirty", "--no-ahead-behind")
    answer = _git(directory, "status", *options)
    if answer is None or answer.returncode != 0:
        return repository
    if answer.stdout:
        repository["files"] = {path: _digest(root, path) for path in _differing(directory, commit)[:MOST_FILES]}
    return {**repository, "dirty": bool(answer.stdout)}


def changed_since(directory: Path, then: Commit) -> list[str] | None:
    """Tracked files whose content is another than it was `then`, below the repository's root; None where that cannot
    be found out: the commit is not in this repository, or was dirty in a way that is not recorded."""
    now = commit_of(directory)
    recorded = then.get("files")
    if now is None or _has_own_filters(directory) or (then["dirty"] is not False and recorded is None):
        return None
    answer = _git(directory, "cat-file", "-e", f"{then['commit']}^{{commit}}")
    if answer is None or answer.returncode != 0:
        return None
    was = recorded or {}
    other = [path for path in _differing(directory, then["commit"]) if path not in was]
    return sorted(other + [path for path, digest in was.items() if _digest(now["root"], path) != digest])


def _differing(directory: Path, commit: str) -> list[str]:
    """Tracked files that differ from a commit, from the repository's root on."""
    options = ("--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
    answer = _git(directory, "diff", *options, commit, "--")
    if answer is None or answer.returncode != 0:
        return []
    return [os.fsdecode(path) for path in answer.stdout.split(b"\0") if path]


def _digest(root: str, path: str) -> str:
    """Empty for a file that is gone or too large, or is none."""
    file = Path(root, path)
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LARGEST_FILE:
            return ""
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


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
