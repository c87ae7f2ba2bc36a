"""The server stops and starts again under an open page."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from support.made_up_runs import made_up_run
from support.page_server import PageServer

# Pressed if it is still there: the page tries by itself too, and takes the button away.
TRY_NOW = "[...document.querySelectorAll('button')].find((button) => button.textContent === 'Try now')?.click()"


def test_a_lost_connection_says_so_and_comes_back_with_nothing_twice(page: Page, outside) -> None:
    server = PageServer(300)
    try:
        page.goto(server.url)
        expect(page.locator(".grid-foot")).to_have_text("300 runs")
        server.stop()
        expect(page.get_by_role("alert")).to_contain_text("Connection to the server lost")
        expect(page.locator(".grid-foot")).to_have_text("300 runs")
        fresh = made_up_run(700, 702)
        server.runs = {fresh["id"]: fresh} | server.runs
        server.start()
        page.evaluate(TRY_NOW)
        expect(page.get_by_text("Connected again")).to_be_visible()
        expect(page.locator(".grid-foot")).to_have_text("301 runs")
        expect(page.get_by_text(fresh["handle"], exact=True)).to_have_count(1)
    finally:
        server.stop()


def test_a_run_that_learned_meanwhile_is_caught_up_with(page: Page) -> None:
    server = PageServer(40)
    try:
        page.goto(f"{server.url}#/runs/{server.newest['handle']}")
        chart = page.locator("figure[aria-label^='train/kl']")
        expect(chart).to_be_visible()
        server.stop()
        expect(page.get_by_role("alert")).to_contain_text("Connection to the server lost")
        server.epochs = 44
        server.newest["epoch"] = 44
        server.start()
        expect(page.get_by_text("Connected again")).to_be_visible()
        expect(page.locator(".summary")).to_contain_text("44 of 60")
        page.reload()
        again = page.locator("figure[aria-label^='train/kl']").get_attribute("aria-label")
        expect(chart).to_have_attribute("aria-label", again or "")
    finally:
        server.stop()


def test_a_view_that_was_not_open_before_appears_when_the_server_is_back(page: Page, outside) -> None:
    server = PageServer(3)
    try:
        page.goto(server.url)
        expect(page.locator(".grid-foot")).to_have_text("3 runs")
        server.stop()
        expect(page.get_by_role("alert")).to_contain_text("Connection to the server lost")
        page.route("**/assets/compare-*", lambda route: route.abort())  # a connection that was kept may still bring it
        page.get_by_role("link", name="Compare").click()
        expect(page.get_by_text("The server does not answer")).to_be_visible()
        page.unroute("**/assets/compare-*")
        server.start()
        expect(page.get_by_role("heading", level=1)).to_have_text("Compare")
        outside.complaints.clear()  # the page writes into the console which of its files it could not load
    finally:
        server.stop()
