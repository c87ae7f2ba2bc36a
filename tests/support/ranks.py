"""Ranks in threads of one process: the real group over gloo, and the real commands, without starting anything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlstudio.experiment.training import build
from rlstudio.experiment.training.rank_process import Builder
from rlstudio.scale.ranks.follower import Parts, follow
from rlstudio.scale.ranks.group import RankGroup
from rlstudio.scale.ranks.link import Link, file_store
from rlstudio.scale.ranks.other_ranks import OtherRanks
from support.deadlines import PATIENCE


def in_gloo_ranks(folder: Path, size: int, work: Callable[[RankGroup], Any]) -> list[Any]:
    """work(group) in a thread for each rank; the first error of any of them is raised here."""
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        group = RankGroup(rank, size, lambda: Link(file_store(folder, size), rank, size))
        try:
            results[rank] = work(group)
        except BaseException as error:
            errors.append(error)
        finally:
            group.disconnect()  # the others do not wait for it

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    if errors:
        raise errors[0]
    return results


class ThreadRanks:
    """The other ranks of sessions in this process, each in a thread; `parts` are those that they have built last."""

    def __init__(self, folder: Path) -> None:
        self.parts: dict[int, Parts] = {}
        self.started = 0
        self._folder = folder
        self._threads: list[threading.Thread] = []

    def of(self, cfg: Any) -> OtherRanks | None:
        size = cfg.runtime.learners
        return None if size == 1 else OtherRanks(size, lambda: self._meet(size), self._end)

    def _meet(self, size: int) -> Link:
        self.started += 1
        folder = self._folder / f"ranks-{self.started}"
        folder.mkdir()
        self._threads = [
            threading.Thread(target=self._follow, args=(folder, r, size), daemon=True) for r in range(1, size)
        ]
        for thread in self._threads:
            thread.start()
        return Link(file_store(folder, size), 0, size)

    def _follow(self, folder: Path, rank: int, size: int) -> None:
        group, build = RankGroup(rank, size, lambda: Link(file_store(folder, size), rank, size)), Builder()

        def built(plan: Any) -> Parts:
            self.parts[rank] = build(group, plan)
            return self.parts[rank]

        follow(group, built)

    def _end(self, asked: bool) -> None:
        for thread in self._threads:
            thread.join(PATIENCE if asked else 0.0)


@pytest.fixture
def thread_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThreadRanks:
    """Sessions of this test have their other ranks in threads."""
    ranks = ThreadRanks(tmp_path)
    monkeypatch.setattr(build, "other_ranks", ranks.of)
    return ranks
