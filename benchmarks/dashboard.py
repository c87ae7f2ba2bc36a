"""What the dashboard costs: `python -m benchmarks.dashboard` prints bytes, the time to the first view, frames a second.

A real Chromium without a GPU opens the built page on loopback, against a server of made-up runs (tests/support), so
that the numbers are those of the page and of no database; and once against `rlctl serve`, whose store has as many runs.
`--json` prints one document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Browser, sync_playwright  # noqa: E402

from benchmarks.page import table  # noqa: E402
from benchmarks.service import fill, started  # noqa: E402
from rlstudio.control.workspace import Workspace  # noqa: E402
from support.chromium import chromium  # noqa: E402
from support.page_server import STATIC, PageServer  # noqa: E402

RUNS = 10_000
CURVES = 50
POINTS = 1_000_000
OF_ONE_RUN = 10_000
LOADS = 5
ZOOMS = 90

READY = """() => new Promise((resolve) => {
  const look = () => {
    const row = document.querySelector(".grid-rows [role=row] a.name");
    if (row) resolve(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Milliseconds from the request of the page to the first frame in which rows stand, as the page measures them."""

ZOOM = """async (times) => {
  const over = document.querySelector(".u-over");
  const box = over.getBoundingClientRect();
  const spin = (delta) => over.dispatchEvent(new WheelEvent("wheel", {
    deltaY: delta, ctrlKey: true, bubbles: true, cancelable: true,
    clientX: box.left + box.width * 0.4, clientY: box.top + 100,
  }));
  const frame = () => new Promise(requestAnimationFrame);
  await frame();
  const frames = [];
  let before = performance.now();
  for (let i = 0; i < times; i++) {
    spin(i < times / 2 ? -60 : 60);
    await frame();
    const now = performance.now();
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""


def compressed_bytes() -> int:
    files = [file for file in STATIC.rglob("*") if file.suffix in (".html", ".js", ".css", ".svg")]
    return sum(len(gzip.compress(file.read_bytes(), 9)) for file in files)


def first_view(browser: Browser, url: str, headers: dict[str, str] | None = None) -> list[float]:
    """Seconds, each with an empty cache."""
    taken = []
    for _ in range(LOADS):
        context = browser.new_context(
            viewport={"width": 1280, "height": 800}, locale="en-US", extra_http_headers=headers or {}
        )
        page = context.new_page()
        page.goto(url, wait_until="commit")
        taken.append(page.evaluate(READY) / 1000)
        context.close()
    return taken


def served_view(browser: Browser) -> list[float]:
    """The same of `rlctl serve`, whose store has that many runs."""
    with tempfile.TemporaryDirectory() as place:
        workspace = Workspace(Path(place) / "runs")
        fill(workspace, RUNS, OF_ONE_RUN)
        server, base, headers = started(workspace.runs_dir)
        try:
            return first_view(browser, base.removesuffix("api/v1"), headers)
        finally:
            server.terminate()
            server.wait()


def zoom_frames(browser: Browser, server: PageServer) -> list[float]:
    """Milliseconds of each frame while the wheel zooms in and out again over all curves."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(server.url + "#/compare?runs=all")
    page.locator(".u-over").wait_for()
    page.evaluate(ZOOM, 10)
    frames: list[float] = page.evaluate(ZOOM, ZOOMS)
    context.close()
    return frames


def measure() -> dict[str, float]:
    found = chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    variables = {**os.environ, **found.variables}
    server = PageServer(RUNS, crowd=(CURVES, POINTS // CURVES))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.program, args=arguments, env=variables)
        views, frames = first_view(browser, server.url), zoom_frames(browser, server)
        served = served_view(browser)
        browser.close()
    server.stop()
    return {
        "compressed_bytes": compressed_bytes(),
        "first_view_seconds": round(statistics.median(views), 3),
        "first_view_of_rlctl_serve_seconds": round(statistics.median(served), 3),
        "frames_a_second": round(1000 / statistics.mean(frames), 1),
        "slowest_tenth_of_frames_ms": round(statistics.quantiles(frames, n=10)[-1], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    numbers = measure()
    if parser.parse_args().json:
        print(json.dumps(numbers))
        return
    rows = [
        ["all views, compressed", f"{numbers['compressed_bytes'] / 1000:.0f} kB"],
        [f"first view with {RUNS:,} runs", f"{numbers['first_view_seconds']:.2f} s"],
        ["the same of `rlctl serve`", f"{numbers['first_view_of_rlctl_serve_seconds']:.2f} s"],
        [f"zooming over {CURVES} curves of {POINTS:,} points", f"{numbers['frames_a_second']:.0f} frames a second"],
        ["slowest tenth of these frames", f"{numbers['slowest_tenth_of_frames_ms']:.0f} ms"],
    ]
    print(table(["dashboard", "measured"], rows))


if __name__ == "__main__":
    main()
