"""The parts of a training step."""

import pytest
from benchmarks.update_cost import LARGE, PARTS, ROWS, THREADS, _part, measure, page

from benchmarks import update_cost


@pytest.mark.parametrize(
    ("name", "size", "part"),
    [
        ("mm", 1, "products"),
        ("relu", LARGE, "passes"),
        ("relu", LARGE - 1, None),
        ("transpose", LARGE, None),
        ("_fused_adam_", LARGE, "optimizer"),
    ],
)
def test_an_operation_belongs_to_a_part_by_name_and_size(name, size, part):
    assert _part(name, size) == part


def test_the_page_shows_shares_of_a_step_and_what_an_update_spends_outside_its_products():
    times = dict(zip(PARTS, (600.0, 100.0, 50.0, 50.0, 200.0), strict=True))
    machine = {"cores": 2, "processor": "some"}
    text = page(
        {
            "us": {algo: {str(threads): times for threads in THREADS} for algo in ROWS},
            "machine": machine,
            "date": "2026-01-01",
            "command": "python",
        }
    )
    assert "| matrix products | 600 (60%) |" in text
    assert "| share of the update outside the products | 25% |" in text


def test_the_parts_of_a_real_step_are_there_and_its_products_cost_something(monkeypatch):
    monkeypatch.setattr(update_cost, "STEPS", 8)
    small = {**ROWS["sac"], "hidden_sizes": [16, 16], "batch_size": 32, "warmup_steps": 110}
    monkeypatch.setitem(update_cost.ROWS, "sac", small)
    found = measure("sac", 1)
    assert tuple(found) == PARTS
    assert 0 < found["products"] < sum(found.values())
