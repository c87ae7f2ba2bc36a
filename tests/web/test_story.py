"""The whole story on a real server: launch from the form, watch, stop, resume, search, compare, promote, roll back."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.deadlines import PATIENCE
from support.rlctl_process import end_all, start

pytestmark = [pytest.mark.real_process, pytest.mark.first]

LONG_MS = PATIENCE * 1000
TRAIN = (
    "train: { epochs: %d, steps_per_epoch: 256, batch_size: 64, passes: 2 }\neval: { every_epochs: 1, episodes: 2 }\n"
)
EXPERIMENT = "# mine\nname: story\nenv: { id: CartPole-v1, num_envs: 4 }\npolicy: { algo: ppo }\n" + TRAIN % 4000
SWEEP = """\
name: search
experiment:
  env: { id: CartPole-v1, num_envs: 4 }
  policy: { algo: ppo }
  train: { epochs: 2, steps_per_epoch: 256, batch_size: 64, passes: 2 }
  eval: { every_epochs: 1, episodes: 2 }
seeds: [0, 1]
trials: 2
space:
  train.lr: { low: 1e-4, high: 1e-2, log: true }
"""


@pytest.fixture
def login(tmp_path: Path) -> Iterator[str]:
    """The address that signs in once, as the server prints it."""
    process = start(tmp_path, "serve", "--port", 0, "--token-file", "token")
    assert process.stdout is not None
    yield process.stdout.readline().split(" at ")[1].split()[0]
    end_all()


def curve_end(page: Page) -> str:
    return page.locator("figure.chart").first.get_attribute("aria-label") or ""


def state(page: Page, word: str) -> None:
    expect(page.locator(".heading .state")).to_have_text(word, timeout=LONG_MS)


def test_from_the_form_to_production_and_back(login: str, page: Page, tmp_path: Path) -> None:
    page.set_default_timeout(LONG_MS)
    expect.set_options(timeout=LONG_MS)
    page.goto(login)
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    address = page.url.partition("#")[0]

    page.goto(address + "#/new?section=train")
    page.get_by_label("The experiment as YAML").fill(EXPERIMENT)
    page.locator('[data-field="train.lr"] input').fill("5e-4")
    assert page.get_by_label("The experiment as YAML").input_value().startswith("# mine\n")
    expect(page.get_by_text("Ready to launch")).to_be_visible()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("story")
    state(page, "running")
    expect(page.locator("figure.chart").first).to_have_attribute("aria-label", re.compile("ends at [0-9]"))
    before = curve_end(page)
    expect(page.locator("figure.chart").first).not_to_have_attribute("aria-label", before)
    page.get_by_role("button", name="Stop", exact=True).click()
    state(page, "interrupted")
    run = page.url.rpartition("/")[2].partition("?")[0]

    page.goto(address + "#/sweeps?new=1&at_once=2")
    page.get_by_label("The sweep as YAML").fill(SWEEP)
    expect(page.get_by_text("Ready to launch")).to_be_visible()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("search")
    state(page, "completed")
    expect(page.get_by_role("button", name="Run the best with 5 seeds")).to_be_enabled()

    page.goto(address + "#/compare?runs=search-0,search-1")
    other = page.get_by_role("region", name="Statistics").get_by_role("row", name="search-1")
    expect(other.locator(".probability b")).to_have_text(re.compile(r"[01]\.\d\d"))
    expect(page.get_by_role("region", name="Differences").get_by_role("row", name="train.lr")).to_be_visible()

    searched = (page.locator(".strip a.end").first.get_attribute("href") or "").rpartition("/")[2]
    for number, promoted in enumerate((run, searched), 1):
        page.goto(address + f"#/registry?promote=1&run={promoted}")
        dialog = page.get_by_role("dialog", name="Promote a run")
        dialog.get_by_label("Model").fill("walker")
        dialog.get_by_role("button", name="Production").click()
        dialog.get_by_label("Without a comparison").fill("first steps")
        dialog.get_by_role("button", name="Promote to production").click()
        page.get_by_role("dialog", name="walker is in production").get_by_role("button", name="Close").click()
        expect(page.get_by_text(f"version {number} is in production")).to_be_visible()
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("version 1 is in production")).to_be_visible()
    with page.expect_download() as found:
        page.get_by_role("link", name="Bundle").click()
    found.value.save_as(tmp_path / "bundle.tar")
    with tarfile.open(tmp_path / "bundle.tar") as bundle:
        assert any(name.endswith("spec.json") or "bundle" in name for name in bundle.getnames())

    page.goto(address + f"#/runs/{run}")
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog", name="Resume story").get_by_role("button", name="Resume").click()
    state(page, "running")
    page.get_by_role("button", name="Stop", exact=True).click()
    state(page, "interrupted")
