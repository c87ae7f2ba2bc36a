"""`make soak`: what counts as lost, leaked or slower, on samples that were made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.endurance import POOL, Sample, descriptors, judged


def samples(mb_per_minute: float = 0.0, leaks: int = 0, slows: float = 1.0) -> list[Sample]:
    """Ten minutes; what leaks does so in the middle, where it also slows down."""
    made, steps = [], 0.0
    for second in range(600):
        is_late = second >= 300
        steps += 100 * (slows if is_late else 1.0)
        made.append(Sample(second, int(steps), 300 + mb_per_minute * second / 60, (30 + leaks * is_late, 4, 2, 0, 0)))
    return made


def test_what_stays_as_it_is_is_whole() -> None:
    end = judged("dqn", samples(), [], 9, 60_000)
    assert end.is_whole
    assert set(end.leaked.values()) == {0.0}
    assert end.speed == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [{"mb_per_minute": 1.5}, {"leaks": 1}, {"slows": 0.7}])
def test_each_bound_is_one(bad: dict[str, float]) -> None:
    assert not judged("dqn", samples(**bad), [], 9, 60_000).is_whole  # type: ignore[arg-type]


def test_what_is_lost_counts() -> None:
    assert not judged("dqn", samples(), ["1 of 9 killed workers"], 9, 60_000).is_whole


def test_a_pool_that_fills_is_no_leak_and_one_that_overflows_is(tmp_path: Path) -> None:
    def opened(connections: int) -> int:
        folder = tmp_path / str(connections)
        folder.mkdir()
        (folder / "0").symlink_to("/dev/null")
        for number in range(connections):
            (folder / f"{number + 1}").symlink_to("/runs/.rlstudio/store.db")
        return descriptors(folder)

    assert [opened(count) for count in (1, 2, POOL)] == [1, 1, 1]
    assert opened(POOL + 2) == 3
