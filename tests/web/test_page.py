"""What holds for every view: small, readable, usable with keys alone, in both themes and on a phone."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from support.chromium import installed_packages
from support.page_server import STATIC, PageServer

PLACES = (
    "#/runs",
    "#/runs?group=name&open=a2c-hopper-lr0.001",
    "#/runs/270f",
    "#/runs/270f?tab=config",
    "#/compare",
    "#/compare?runs=slow,fast&single=1",
    "#/sweeps",
    "#/sweeps/search?trial=2",
    "#/sweeps?new=1",
    "#/registry",
    "#/registry/walker?version=3",
    "#/registry/walker?promote=3",
    "#/queue",
    "#/new",
    "#/new?section=train",
    "#/new?side=yaml",
)
DIFFERENT_WHEN_NARROW = ("#/runs?group=name", "#/runs/270f?tab=events&events=all", "#/compare?runs=slow,fast", "#/new")
TABS = ("checkpoints", "events", "system", "log", "lineage")
MOST_BYTES = 150_000
GRAVE = ("serious", "critical")
OF_COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
THEMES: dict[Literal["light", "dark"], dict[str, Any]] = {"light": {}, "dark": OF_COLOURS}


@pytest.fixture(scope="session")
def axe() -> str:
    return (installed_packages() / "node_modules/axe-core/axe.min.js").read_text()


def violations(page: Page) -> list[str]:
    """What axe finds grave, as one line each."""
    found: list[dict[str, Any]] = []
    for theme, rules in THEMES.items():
        page.emulate_media(color_scheme=theme)
        result = page.evaluate("rules => axe.run(document, {resultTypes: ['violations'], ...rules})", rules)
        found += result["violations"]
    return [
        f"{one['id']}: {node['html'][:160]}" for one in found if one["impact"] in GRAVE for node in one["nodes"][:3]
    ]


def test_the_page_is_small() -> None:
    files = [file for file in STATIC.rglob("*") if file.suffix in (".html", ".js", ".css", ".svg")]
    assert len(files) > 3
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) < MOST_BYTES


def test_nobody_is_kept_out(browser: Browser, made_up: PageServer, axe: str) -> None:
    """In the light theme by every rule of axe, in the dark one by those for colours: nothing else differs there."""
    context = browser.new_context(locale="en-US", reduced_motion="reduce", bypass_csp=True)
    page = context.new_page()
    page.add_init_script(axe)
    found = {}
    for place in (*PLACES, *(f"#/runs/270f?tab={tab}" for tab in TABS)):
        page.goto(made_up.url + place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        found[place] = violations(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    found["keys"] = violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    for place in DIFFERENT_WHEN_NARROW:
        page.goto("about:blank")  # without the dialog
        page.goto(made_up.url + place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        found[f"{place} at 390 px"] = violations(page)
    context.close()
    assert {place: grave for place, grave in found.items() if grave} == {}


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, made_up: PageServer, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for place in PLACES:
        page.goto(made_up.url + place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('main').scrollWidth") <= width


def test_the_keys_are_listed_and_lead_everywhere(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/runs/270f")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    for text in ("Everywhere", "Light or dark", "Curves", "Logarithmic axis", "Back to all runs"):
        expect(keys).to_contain_text(text)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    page.keyboard.press("Control+k")
    page.keyboard.type(made_up.newest["handle"])
    page.get_by_role("option", name=made_up.newest["name"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(made_up.newest["name"])


def test_the_theme_is_that_of_the_system_until_somebody_chooses(page: Page, made_up: PageServer) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(made_up.url)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Light theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_who_is_signed_out_goes_on_after_signing_in(page: Page, made_up: PageServer, outside) -> None:
    page.route("**/api/v1/**", lambda route: route.fulfill(status=401, json={"title": "Unauthorized"}))
    page.goto(made_up.url + "#/runs/270f")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.unroute("**/api/v1/**")
    page.evaluate("() => window.dispatchEvent(new Event('focus'))")
    expect(page.get_by_role("heading", level=1)).to_have_text(made_up.runs[_id(made_up)]["name"])
    outside.allow("status of 401")


def test_a_token_signs_in_where_one_is_and_stands_in_no_address(page: Page, made_up: PageServer, outside) -> None:
    def login(route: Route) -> None:
        assert route.request.method == "POST"
        is_right = route.request.post_data == "token=right"
        if is_right:
            page.unroute("**/api/v1/**")
        route.fulfill(status=200 if is_right else 401)

    page.route("**/api/v1/**", lambda route: route.fulfill(status=401, json={"title": "Unauthorized"}))
    page.route("**/login", login)
    page.goto(made_up.url + "#/runs/270f?tab=config")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, used up, revoked or expired")
    page.get_by_label("Token").fill("right")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(made_up.runs[_id(made_up)]["name"])
    assert page.url.endswith("/#/runs/270f?tab=config")
    outside.allow("status of 401")


def _id(made_up: PageServer) -> str:
    return next(run["id"] for run in made_up.runs.values() if run["handle"] == "270f")


def test_charts_are_drawn_under_the_posix_locale_too(page: Page, made_up: PageServer) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'language', { value: 'en-US@posix', configurable: true })")
    page.goto(f"{made_up.url}#/runs/270f")
    expect(page.locator(".u-over").first).to_be_visible()


def test_an_address_that_names_nothing_leads_back(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/nowhere")
    page.get_by_role("link", name="Go to the runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")


def test_a_source_file_is_short() -> None:
    files = (Path(__file__).parents[2] / "web/src").rglob("*.*")
    sources = [file for file in files if file.suffix in (".ts", ".tsx", ".css")]
    assert {file.name: lines for file in sources if (lines := len(file.read_text().splitlines())) > 300} == {}
