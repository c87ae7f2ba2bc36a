"""Memory that may be used: the machine's, or the smallest limit of the control groups around this process."""

import os
from pathlib import Path

import pytest

from rlstudio.core.host.ram import usable_ram

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
MB = 1 << 20
NO_LIMIT_V1 = 0x7FFFFFFFFFFFF000


def ram(tmp_path: Path, groups: str, limits: dict[str, str]) -> int:
    (tmp_path / "groups").write_text(groups)
    for name, text in limits.items():
        file = tmp_path / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return usable_ram(tmp_path / "groups", tmp_path / "mount")


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        pytest.param("0::/\n", {}, PHYSICAL, id="v2, no limit file: the root of the host"),
        pytest.param("0::/\n", {"memory.max": "max\n"}, PHYSICAL, id="v2, no limit"),
        pytest.param("0::/\n", {"memory.max": f"{64 * MB}\n"}, 64 * MB, id="v2, a container that sees its own group"),
        pytest.param("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": f"{32 * MB}"}, 32 * MB, id="v2, above"),
        pytest.param("0::/a/b\n", {"a/b/memory.max": f"{8 * MB}", "a/memory.max": f"{32 * MB}"}, 8 * MB, id="v2, own"),
        pytest.param("0::/a/b\n", {"a/other/memory.max": f"{MB}"}, PHYSICAL, id="v2, of somebody else"),
        pytest.param("0::/a:b\n", {"a:b/memory.max": f"{8 * MB}"}, 8 * MB, id="v2, a name with a colon"),
        pytest.param("0::/\n", {"memory.max": f"{2 * PHYSICAL}\n"}, PHYSICAL, id="v2, more than there is"),
        pytest.param(
            "4:cpu:/x\n3:memory:/docker/1\n0::/docker/1\n",
            {"memory/memory.limit_in_bytes": f"{16 * MB}\n"},
            16 * MB,
            id="v1, a container with the host's name for its group",
        ),
        pytest.param(
            "5:hugetlb,memory:/a\n", {"memory/a/memory.limit_in_bytes": f"{NO_LIMIT_V1}\n"}, PHYSICAL, id="v1, no limit"
        ),
        pytest.param("4:cpu:/x\n", {"x/memory.max": f"{MB}", "memory.max": f"{MB}"}, PHYSICAL, id="no group of memory"),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, groups: str, limits: dict[str, str], expected: int) -> None:
    assert ram(tmp_path, groups, limits) == expected


def test_a_machine_without_control_groups(tmp_path: Path) -> None:
    assert usable_ram(tmp_path / "nothing", tmp_path / "nowhere") == PHYSICAL


def test_here() -> None:
    assert 1 << 28 < usable_ram() <= PHYSICAL
