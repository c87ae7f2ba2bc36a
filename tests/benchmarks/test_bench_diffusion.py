"""The page of diffusion shows the stored numbers, and what it promises holds in them."""

from __future__ import annotations

import pytest
from benchmarks.diffusion import PAGE, page, spearman
from benchmarks.records import read_result


def test_the_page_is_that_of_the_stored_result() -> None:
    result = read_result("diffusion")
    assert result is not None
    shown = page(result)
    assert shown in PAGE.read_text(), "run: .venv/bin/python -m benchmarks.diffusion"
    assert " no |" not in shown


def test_ranks_are_compared_and_not_sizes() -> None:
    assert spearman([1.0, 2.0, 30.0], [-5.0, -4.9, 0.0]) == pytest.approx(1.0)
    assert spearman([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)
    assert spearman([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]) == pytest.approx(0.8)
