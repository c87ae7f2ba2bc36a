"""Two source trees on one machine: this working tree, and a commit checked out beside it for as long as it is needed.

Modules move between commits, so a tree is used only through what stays: the `rlctl` command line, started as a fresh
process of this interpreter with the tree's `src` first on its path, and the files that it leaves in a run's folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.jobs import THREAD_VARIABLES
from benchmarks.venvs import ROOT

MAIN = "main"
TIMEOUT_S = 600.0
STATED = {"activation": "tanh", "normalize_observations": False}
"""Settings of a network that are the same in both trees, whatever their defaults are."""


class CommandFailed(Exception):
    """A command ended with an error; the message is its last line."""


@dataclass(frozen=True)
class Tree:
    """A folder with `src` and `pyproject.toml`, and what it is called in a table."""

    root: Path
    title: str

    def command(self, *arguments: str) -> list[str]:
        """`rlctl` of this tree: the function that its own pyproject.toml names."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        module, function = project["project"]["scripts"]["rlctl"].split(":")
        start = f"import sys; from {module} import {function}; sys.exit({function}())"
        return [sys.executable, "-c", start, *arguments]

    def rlctl(self, *arguments: str, place: Path) -> str:
        """What the command prints, run in the folder `place`."""
        return _output(self.command(*arguments), cwd=place, env=self.environment(place))

    def launch(self, experiment: dict[str, Any], runs_dir: Path, place: Path, *options: str) -> None:
        """Train the experiment to its end, in the foreground."""
        file = place / f"{experiment['name']}.yaml"
        file.write_text(json.dumps(experiment))  # JSON is YAML
        self.rlctl("launch", "-f", str(file), "--runs-dir", str(runs_dir), "-q", *options, place=place)

    def environment(self, place: Path) -> dict[str, str]:
        """One thread, this tree's modules, datasets in `place`, and none of the caller's RLStudio settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RLSTUDIO_")}
        own = {"PYTHONPATH": str(self.root / "src"), "MINARI_DATASETS_PATH": str(place / "datasets")}
        quiet = {"SDL_VIDEODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
        return {**kept, **dict.fromkeys(THREAD_VARIABLES, "1"), **quiet, **own}

    def check(self, place: Path) -> None:
        """Fail unless the modules come from here: an installed RLStudio before them would be compared with itself."""
        ask = [sys.executable, "-c", "import rlstudio; print(rlstudio.__file__)"]
        used = Path(_output(ask, cwd=place, env=self.environment(place)).strip())
        if not used.resolve().is_relative_to(self.root.resolve()):
            raise CommandFailed(f"{self.root}: its src is not used, but {used}; uninstall that RLStudio")


@contextmanager
def two_trees(base: str | None, keep: bool = False) -> Iterator[tuple[Tree, Tree, Path]]:
    """The base, the working tree and a temporary folder for runs, which `keep` leaves; prints what is compared."""
    commit, how = base_revision(base)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the worktree is removed
    place = Path(tempfile.mkdtemp(prefix="rlstudio-runs-"))
    try:
        with base_tree(commit) as old:
            new = working_tree()
            old.check(place)
            new.check(place)
            print(
                f"base: {commit[:12]} ({how}); new: the working tree" + (f"; runs: {place}" if keep else ""), flush=True
            )
            yield old, new, place
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def working_tree() -> Tree:
    return Tree(ROOT, "new")


@contextmanager
def base_tree(revision: str) -> Iterator[Tree]:
    """The commit in a temporary worktree, which is removed at the end, also after an error or Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="rlstudio-base-", ignore_cleanup_errors=True) as folder:
        root = Path(folder) / "tree"
        try:
            git("worktree", "add", "--detach", "--quiet", str(root), revision)
            yield Tree(root, "base")
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(root)], cwd=ROOT, capture_output=True, check=False
            )


def base_revision(given: str | None) -> tuple[str, str]:
    """The commit to compare with, and in words how it was chosen."""
    if given is not None:
        return commit_of(given), given
    head = commit_of("HEAD")
    try:
        merge_base = git("merge-base", "HEAD", MAIN)
    except CommandFailed:  # no such branch, for example in a shallow clone
        merge_base = head
    if merge_base != head:
        return merge_base, f"where this branch left {MAIN}"
    return commit_of("HEAD~1"), "HEAD~1"


def run_folder(runs_dir: Path) -> Path:
    """The folder of the one run that was launched into `runs_dir`."""
    folders = sorted(path.parent for path in runs_dir.glob("*/metrics.jsonl"))
    if len(folders) != 1:
        raise CommandFailed(f"{runs_dir}: {len(folders)} runs with metrics where one was launched")
    return folders[0]


def metric_records(folder: Path) -> list[dict[str, Any]]:
    """What the run wrote, oldest first: full files are metrics-0001.jsonl and so on, metrics.jsonl is the last one."""
    files = [*sorted(folder.glob("metrics-*.jsonl")), folder / "metrics.jsonl"]
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def commit_of(revision: str) -> str:
    try:
        return git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except CommandFailed:
        raise CommandFailed(f"--base {revision}: no such commit here; give a hash, branch or tag") from None


def git(*arguments: str) -> str:
    return _output(["git", *arguments], cwd=ROOT, env=dict(os.environ)).strip()


def _output(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    try:
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"no end within {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise CommandFailed(lines[-1])
    return done.stdout
