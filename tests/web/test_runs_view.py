"""The table of 10,000 runs."""

from __future__ import annotations

import re
from urllib.parse import unquote

from playwright.sync_api import BrowserContext, Page, expect

from rlstudio.server.api.routes.measured import MOST_NAMES
from support.page_server import PageServer


def rows(page: Page) -> int:
    return page.locator(".grid-rows > [role=row]").count()


def shown(page: Page) -> str:
    return page.locator(".grid-foot").inner_text()


def test_all_runs_are_there_and_only_those_in_sight_exist(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url)
    expect(page.locator(".grid-foot")).to_have_text("10,000 runs")
    assert 10 < rows(page) < 60
    page.get_by_role("grid").press("End")
    oldest = list(made_up.runs.values())[-1]
    expect(page.get_by_text(oldest["handle"], exact=True)).to_be_visible()
    assert rows(page) < 60
    expect(page.locator(".sparkline path").first).to_be_visible()


def test_filter_order_and_groups_are_in_the_address(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url)
    expect(page.locator(".grid-foot")).to_have_text("10,000 runs")
    page.keyboard.press("/")
    page.keyboard.type("hopper")
    page.get_by_role("button", name="Algorithm").click()
    page.get_by_role("checkbox", name=re.compile("^sac")).check()
    page.keyboard.press("Escape")
    page.get_by_role("columnheader", name="Evaluation").get_by_role("button").click()
    page.get_by_label("Group").select_option("name")
    expected = [run for run in made_up.runs.values() if run["algo"] == "sac" and "hopper" in run["id"]]
    expect(page.locator(".grid-foot")).to_contain_text(f"{len(expected):,} runs")
    expect(page.locator(".sparkline").first.locator("path")).to_have_count(8)  # those of its first runs
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Note").check()
    page.get_by_role("checkbox", name="Seed").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("columnheader", name="Note")).to_be_visible()
    page.locator(".group-name").first.click()
    for part in ("show=note", "hide=seed", "q=hopper", "algo=sac", "sort=-eval", "group=name", "open=sac-hopper-lr"):
        assert part in page.url
    before = page.locator(".grid-rows").inner_text()
    best = max(expected, key=lambda run: run["eval_return"] or 0)
    assert best["handle"] in before
    page.reload()
    expect(page.locator(".grid-rows")).to_have_text(re.compile(re.escape(best["handle"])))
    page.wait_for_function("text => document.querySelector('.grid-rows').innerText === text", arg=before)


def test_keys_select_and_what_is_selected_is_tagged_stopped_and_removed(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/runs?state=running")
    expect(page.locator(".grid-foot")).to_contain_text("9,997 more do not match")
    running = [run for run in made_up.runs.values() if run["state"] == "RUNNING"]
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("x")
    bar = page.get_by_role("toolbar", name="Selected runs")
    expect(bar).to_contain_text("2 runs selected")
    page.keyboard.press("#")
    page.get_by_label("Tags", exact=True).fill("tonight, -paper")
    page.get_by_role("button", name="Tag", exact=True).last.click()
    expect(page.locator(".chip", has_text="tonight")).to_have_count(2)
    assert running[0]["tags"] == running[1]["tags"] == ["tonight"]
    page.keyboard.press("n")
    page.get_by_label("Note", exact=True).fill("look again")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".note-mark")).to_have_count(2)
    assert running[0]["note"] == running[1]["note"] == "look again"
    with page.expect_download() as file:
        bar.get_by_role("button", name="CSV").click()
    assert file.value.suggested_filename == "metrics-of-2-runs.csv"
    assert unquote(file.value.url).endswith(f"metrics.csv?runs={running[0]['id']},{running[1]['id']}")
    page.keyboard.press("s")
    page.get_by_role("button", name="Stop 2 runs").click()
    expect(page.locator(".grid-foot")).to_contain_text("1 run,")
    assert [run["state"] for run in running] == ["STOPPING", "STOPPING", "RUNNING"]
    for run in running[:2]:
        run |= {"state": "INTERRUPTED", "tags": [], "note": ""}
        made_up.publish("run", run)
    page.goto(made_up.url + "#/runs?state=interrupted")
    expect(page.get_by_text(running[0]["handle"], exact=True)).to_be_visible()
    bar.get_by_role("button", name="Remove").click()
    page.get_by_role("button", name="Remove 2 runs").click()
    expect(page.get_by_text(running[0]["handle"], exact=True)).to_have_count(0)
    assert running[0]["id"] not in made_up.runs
    page.get_by_role("button", name="Clear", exact=True).first.click()
    expect(page.locator(".grid-foot")).to_have_text("9,998 runs")
    expect(page.locator(".heading .sub")).to_contain_text("9,998")
    for run in running[:2]:  # as it was, for the other tests
        run |= {"state": "RUNNING"}
    made_up.runs = {run["id"]: run for run in running} | made_up.runs


def test_a_change_on_the_server_shows_at_once(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url)
    newest = made_up.newest
    row = page.locator("[role=row]", has_text=newest["handle"])
    expect(row).to_contain_text("running")
    made_up.publish("run", {**newest, "state": "COMPLETED", "eval_return": 4321.5})
    expect(row).to_contain_text("completed")
    expect(row).to_contain_text("4,322")
    trial = {"state": "INTERRUPTED", "reason": "paused", "sweep": "search", "trial": 4, "eval_return": 58.0}
    made_up.publish("run", {**newest, **trial})
    expect(row).to_contain_text("waiting")  # the sweep has not decided yet whether it goes on
    made_up.publish("sweeps", {"items": [{"name": "search", "live_trials": [9]}]})
    expect(row).to_contain_text("pruned")
    expect(row).to_contain_text("58.00")
    page.goto(made_up.url + "#/runs?state=pruned")
    expect(page.locator(".grid-foot")).to_contain_text("1 run,")
    expect(row).to_be_visible()
    made_up.publish("run", newest)
    expect(row).to_have_count(0)


def test_the_way_back_leads_to_the_row_and_the_selection(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/runs?env=Hopper-v5&sort=eval")
    expect(page.locator(".grid-foot")).not_to_contain_text("loading")
    page.get_by_role("grid").press("End")
    page.keyboard.press("x")
    before = page.locator(".grid-scroll").evaluate("element => element.scrollTop")
    assert before > 1000
    page.keyboard.press("Enter")
    expect(page.locator(".tabs")).to_be_visible()
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(r"#/runs\?env=Hopper-v5&sort=eval$"))
    expect(page.locator(".grid-row.at.chosen")).to_be_visible()
    page.go_back()
    expect(page.locator(".tabs")).to_be_visible()
    page.go_back()
    expect(page.locator(".grid-row.at.chosen")).to_be_visible()
    assert page.locator(".grid-scroll").evaluate("element => element.scrollTop") == before
    page.goto(made_up.url + "#/runs?env=Ant-v5")
    expect(page.locator(".grid-row.at")).to_have_count(0)
    assert page.locator(".grid-scroll").evaluate("element => element.scrollTop") == 0


def test_whole_groups_are_compared_by_name_and_too_many_runs_not_at_all(page: Page, made_up: PageServer) -> None:
    run = made_up.newest
    page.goto(f"{made_up.url}#/runs?q={run['name']}&group=name")
    expect(page.locator(".grid-foot")).not_to_contain_text("loading")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile(f"#/compare\\?runs={run['name']}$"))
    page.goto(made_up.url + "#/runs")
    expect(page.locator(".grid-foot")).to_have_text("10,000 runs")
    page.get_by_role("checkbox", name="Select all runs").click()
    selected = page.get_by_role("toolbar", name="Selected runs")
    selected.get_by_role("button", name="CSV").click()
    expect(page.get_by_text("10,000 runs are too many for one file")).to_be_visible()
    page.goto(made_up.url + "#/runs?state=failed")
    expect(page.locator(".grid-foot")).to_contain_text("more do not match")
    selected.get_by_role("button", name="Clear").click()
    page.get_by_role("checkbox", name="Select all runs").click()
    selected.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("are too many to compare at once")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")


def test_an_address_holds_as_many_names_as_the_server_takes(page: Page, made_up: PageServer) -> None:
    """Short names reach the limit of names before that of bytes."""
    before = made_up.runs
    numbers = range(MOST_NAMES + 1)
    few = [made_up.newest | {"id": f"20260101-{n}-a-{n:04x}", "handle": f"{n:04x}", "name": f"a{n}"} for n in numbers]
    made_up.runs = {run["id"]: run for run in few}
    try:
        page.goto(made_up.url)
        expect(page.locator(".grid-foot")).to_have_text(f"{len(few)} runs")
        page.get_by_role("checkbox", name="Select all runs").click()
        bar = page.get_by_role("toolbar", name="Selected runs")
        bar.get_by_role("button", name="CSV").click()
        expect(page.get_by_text(f"{len(few)} runs are too many for one file")).to_be_visible()
        bar.get_by_role("button", name="Compare").click()
        expect(page.get_by_text(f"{len(few)} runs are too many to compare at once")).to_be_visible()
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        page.get_by_role("checkbox", name="Select row 1", exact=True).click(timeout=20_000)
        with page.expect_download() as file:
            bar.get_by_role("button", name="CSV").click()
        assert file.value.suggested_filename == f"metrics-of-{MOST_NAMES}-runs.csv"
        page.keyboard.press("c")
        expect(page).to_have_url(re.compile("#/compare"))
    finally:
        made_up.runs = before


def test_ages_grow_while_the_page_is_open(page: Page, made_up: PageServer) -> None:
    run = made_up.newest
    page.clock.install(time=run["updated_at"])
    page.goto(made_up.url)
    row = page.locator("[role=row]", has_text=run["handle"])
    expect(row).to_contain_text("just now")
    page.clock.fast_forward(600_000)
    expect(row).to_contain_text("10 min ago")


def test_a_view_is_saved_and_found_again(page: Page, context: BrowserContext, made_up: PageServer) -> None:
    other = context.new_page()
    other.goto(made_up.url)
    expect(other.get_by_role("button", name="Saved views")).to_be_visible()
    page.goto(made_up.url + "#/runs?env=Hopper-v5&sort=-eval")
    page.get_by_role("button", name="Saved views").click()
    page.get_by_role("button", name="Save this view").click()
    page.get_by_label("Name", exact=True).fill("best hoppers")
    page.get_by_role("button", name="Save", exact=True).click()
    other.get_by_role("button", name="Saved views").click()
    expect(other.get_by_role("button", name="best hoppers", exact=True)).to_be_visible()  # in another tab too
    page.goto(made_up.url + "#/runs")
    page.reload()
    page.get_by_role("button", name="Saved views").click()
    page.get_by_role("button", name="best hoppers", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/runs\?env=Hopper-v5&sort=-eval$"))
