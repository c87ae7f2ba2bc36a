"""One browser for a file of tests, one server of made-up runs for all; what a page asks elsewhere fails its test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect, sync_playwright

from support.chromium import chromium
from support.deadlines import SLOWNESS
from support.made_up_views import fill
from support.page_server import PageServer

ROOT = Path(__file__).parents[2]

WAIT_MS = 15_000 * SLOWNESS


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    """The page as its sources are now."""
    subprocess.run([ROOT / "web/build.sh"], check=True, env={**os.environ, "PYTHON": sys.executable})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with the last test of a file: while it is open its event loop runs in this thread, and the tests of other
    folders could run none of their own."""
    expect.set_options(timeout=WAIT_MS)  # a file may wait longer
    found = chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found.program, args=arguments, env={**os.environ, **found.variables}
        )
        yield made
        made.close()


@pytest.fixture(scope="session")
def made_up(built: None) -> Iterator[PageServer]:
    server = PageServer(10_000)
    fill(server)
    yield server
    server.stop()


class Outside:
    """What pages asked of other machines, and what they complained of."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self._allowed = ["ERR_CONNECTION_"]

    def allow(self, text: str) -> None:
        """Complaints of the browser that belong to what a test does; some come only after its last line."""
        self._allowed.append(text)
        self.complaints = [complaint for complaint in self.complaints if text not in complaint]

    def route(self, route: Route) -> None:
        if urlsplit(route.request.url).hostname == "127.0.0.1":
            route.continue_()
        else:
            self.asked.append(route.request.url)
            route.abort()

    def listen(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(text in message.text for text in self._allowed):
            self.complaints.append(message.text)


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def context(browser: Browser, outside: Outside) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", reduced_motion="reduce")
    made.set_default_timeout(WAIT_MS)
    made.route("**/*", outside.route)
    yield made
    made.close()
    assert outside.asked == []
    assert outside.complaints == []


@pytest.fixture
def page(context: BrowserContext, outside: Outside) -> Page:
    made = context.new_page()
    made.on("console", outside.listen)
    made.on("pageerror", lambda error: outside.complaints.append(str(error)))
    return made
