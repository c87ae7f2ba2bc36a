"""The arithmetic of charts, which a picture would not show: run by the Node that builds the page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from support.chromium import NODE

CHART = Path(__file__).parents[2] / "web/src/chart"

HEIGHTS = """
import { heights } from "%s/curve.ts";
let seed = 1;
const random = () => (seed = (seed * 16807) %% 2147483647) / 2147483647;
const wrong = [];
for (let round = 0; round < 200; round++) {
  const length = 1 + Math.floor(random() * 3000);
  const x = Float64Array.from({ length }, (_, i) => i);
  const pick = () => (random() < 0.1 ? NaN : random() < 0.01 ? Infinity : (random() - 0.5) * 10 ** (4 * random()));
  const y = Float64Array.from({ length }, pick);
  const [min, max] = [random() * length, random() * length].sort((a, b) => a - b);
  const positive = random() < 0.3;
  const found = heights([{ x, raw: y, y, low: null, high: null }], { min, max, positive, raw: false });
  // one neighbour on each side is drawn too
  const [from, to] = [Math.max(0, Math.ceil(min) - 1), Math.min(length, Math.ceil(max) + 1)];
  const seen = [...y.subarray(from, to)].filter((value) => Number.isFinite(value) && (!positive || value > 0));
  const expected = [Math.min(...seen), Math.max(...seen)];
  if (seen.length && (found[0] !== expected[0] || found[1] !== expected[1])) wrong.push({ length, found, expected });
}
console.log(JSON.stringify(wrong.slice(0, 3)));
"""

TICKS = """
import { logTicks } from "%s/ticks.ts";
const asked = [[1e-5, 30, 6], [8, 470, 5], [0.26, 0.72, 5], [2, 2.0001, 5]];
console.log(JSON.stringify(asked.map((one) => logTicks(...one))));
"""


def run(script: str) -> Any:
    command = [str(NODE), "--experimental-strip-types", "--no-warnings", "--input-type=module", "-e", script % CHART]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_heights_that_are_found_by_blocks_are_those_of_every_point() -> None:
    assert run(HEIGHTS) == []


def test_a_logarithmic_axis_has_round_numbers() -> None:
    decades, near, narrow, narrowest = run(TICKS)
    assert decades == [1e-5, 1e-3, 0.1, 10]
    assert near == [10, 30, 100, 300]
    assert narrow == [0.3, 0.4, 0.5, 0.6, 0.7]
    assert all(2 <= tick <= 2.0001 for tick in narrowest)
    assert len(narrowest) > 1
