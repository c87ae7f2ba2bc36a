"""The grid of the randomisation benchmark, on policies whose results are known."""

import numpy as np

from benchmarks import randomised


def test_a_policy_that_knows_the_pole_holds_it_longer_than_one_that_does_not():
    """The angle and its rate, weighted: enough for most of the grid. Always left falls at once, sooner when short."""
    grid = randomised.points()
    assert len(grid) == 3 * 4 * 3 * 3
    steered = randomised.held(lambda rows: (rows @ np.array([0.05, 0.2, 1.0, 0.4]) > 0).astype(np.int64))
    fallen = randomised.held(lambda rows: np.zeros(len(rows), np.int64))
    assert np.mean(steered) > 200
    assert max(fallen) < 40
    lengths = {length: np.mean([r for p, r in zip(grid, fallen, strict=True) if p["length"] == length])
               for length in randomised.GRID["length"]}  # fmt: skip
    assert lengths[0.25] < lengths[1.5]


def test_rows_count_only_lines_of_this_config_and_grid():
    case = randomised.CASES[1]
    line = {"case": case.name, "seed": 0, "identity": randomised.identity(case), "env_steps": 1000}
    lines = [{**line, "returns": [500.0, 400.0]}, {**line, "identity": "older", "returns": [1.0, 1.0]}]
    assert randomised.rows(lines) == [["randomised", "1,000", "450", "450", "400", "50 %", "0 of 1"]]
    assert randomised.config(randomised.CASES[0]).env.params == {}
    assert set(randomised.config(case).env.params) == set(randomised.GRID)
