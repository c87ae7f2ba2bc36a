"""Views of many runs: groups, sweeps, models and the queue."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from support.page_server import PageServer


def test_groups_are_compared_and_the_address_says_which(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/compare?runs=slow,fast")
    table = page.get_by_role("region", name="Statistics")
    expect(table.get_by_role("row", name="fast")).to_contain_text("478.3")
    expect(table.get_by_role("row", name="fast")).to_contain_text("1.00")
    expect(page.get_by_text("few runs")).to_be_visible()
    expect(page.get_by_role("heading", name="rollout/return_mean")).to_be_visible()  # what is drawn, and why
    expect(page.get_by_text("so the training return is drawn")).to_be_visible()
    expect(page.get_by_text("by its last eval/return_mean")).to_be_visible()
    page.get_by_label("Metric").select_option("eval/return_mean")
    expect(page.get_by_role("heading", name="eval/return_mean")).to_be_visible()
    expect(page.get_by_text("so the training return is drawn")).to_have_count(0)
    page.get_by_label("Metric").select_option("")
    differing = page.get_by_role("region", name="Differences").get_by_role("row")
    expect(differing).to_have_count(2)
    expect(differing.nth(1)).to_contain_text("train.lr")
    expect(page.locator("canvas").first).to_be_visible()
    page.get_by_role("button", name="Compare with fast").click()
    expect(page).to_have_url(re.compile("runs=fast,slow"))
    page.get_by_role("button", name="Leave slow out").first.click()
    expect(page).to_have_url(re.compile("runs=fast$"))
    page.keyboard.press("s")
    expect(page).to_have_url(re.compile("single=1"))


def test_groups_that_share_a_name_are_moved_and_taken_out_by_their_runs(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/compare?runs=both")  # whose runs have two configs: the server calls them slow and fast
    table = page.get_by_role("region", name="Statistics")
    table.get_by_role("button", name="Compare with fast").click()
    expect(page).to_have_url(re.compile(r"runs=([\d-]+fast,){3}([\d-]+slow,?){3}$"))
    table.get_by_role("button", name="Leave slow out").click()
    expect(page).to_have_url(re.compile(r"runs=([\d-]+fast,?){3}$"))


def test_a_group_is_found_by_its_name(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/compare")
    name = made_up.newest["name"]
    page.get_by_role("row", name=re.compile(f"^{name}")).get_by_role("button").click()
    expect(page).to_have_url(re.compile(f"runs={name}"))


def test_a_sweep_in_pictures(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/sweeps")
    page.get_by_role("link", name="search").click()
    for name in ("Result of each trial", "11 trials over 3 settings", "over train.lr and train.passes"):
        expect(page.get_by_role("img", name=name)).to_be_visible()
    assert page.locator(".slices figure").count() == 3
    expect(page.get_by_role("region", name="Trials").get_by_role("row")).to_have_count(13)
    page.keyboard.press("p")
    expect(page.get_by_role("region", name="Trials").get_by_role("row")).to_have_count(8)
    page.keyboard.press("b")
    expect(page).to_have_url(re.compile("trial=2"))
    expect(page.get_by_role("region", name="Trial 2")).to_contain_text("epoch 9")
    page.locator(".mark").first.click()
    expect(page).to_have_url(re.compile("trial=0"))
    page.get_by_label("Across").select_option("train.gamma")
    expect(page).to_have_url(re.compile("x=train.gamma"))
    for _ in range(2):  # up, then down: a trial without a result comes last either way
        page.get_by_role("button", name="eval/return_mean").click()
        expect(page.locator("th[aria-sort]")).to_have_text(re.compile("eval/return_mean"))
        expect(page.get_by_role("region", name="Trials").get_by_role("row").last).to_contain_text("–")
    page.reload()
    expect(page.get_by_role("region", name="Trial 0")).to_be_visible()


def test_the_best_trial_runs_with_five_seeds(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/sweeps/search")
    page.get_by_role("button", name="Run the best with 5 seeds").click()
    expect(page.get_by_text("are in the queue")).to_be_visible()
    path, body = made_up.sent[-1]
    assert (path, body["seeds"]) == ("/experiments", 5)


def test_a_sweep_is_launched_from_text(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/sweeps?new=1&at_once=2")
    expect(page.get_by_text("Ready to launch")).to_be_visible()
    page.get_by_role("button", name="Launch").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("search")
    path, body = made_up.sent[-1]
    assert (path, body["max_concurrent"]) == ("/sweeps", 2)
    assert "ppo_cartpole_sweep" in body["yaml"]


def test_the_registry_shows_the_numbers_of_a_decision(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/registry/walker?version=3")
    chosen = page.get_by_role("region", name="walker:3")
    expect(chosen).to_contain_text("not better than production")
    expect(chosen.get_by_label("Gates")).to_contain_text("min_return 460, wanted 470")
    expect(chosen.get_by_label("Looks")).to_contain_text("after 40 episodes")
    bundle = chosen.get_by_role("link", name="Bundle").get_attribute("href")
    assert bundle == "api/v1/models/walker/versions/3/bundle"
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("version=2"))


def test_promotion_asks_first_and_shows_a_refusal(page: Page, made_up: PageServer) -> None:
    refusal = "model walker:3: not promoted: not better than production"
    failed = {"id": "1", "kind": "promote", "state": "failed", "error": {"status": 409, "detail": refusal}}
    made_up.actions["/models/walker/promote"] = lambda body: failed
    page.goto(made_up.url + "#/registry/walker?version=3")
    expect(page.get_by_role("button", name="Roll back")).to_be_visible()
    page.keyboard.press("p")
    dialog = page.get_by_role("dialog", name="Promote walker:3")
    expect(dialog).to_contain_text("It plays against version 2")
    dialog.get_by_label("Lower bound of its mean return").fill("470")
    dialog.get_by_role("button", name="Promote to production").click()
    refused = page.get_by_role("dialog", name="Not promoted")
    expect(refused).to_contain_text("min_return")
    _, body = made_up.sent[-1]
    assert body["what"] == "walker:3"
    assert (body["to"], body["if_current"], body["settings"]) == ("production", 2, {"min_return": 470})
    refused.get_by_role("button", name="Close").click()
    expect(page).not_to_have_url(re.compile("promote="))


def test_a_rollback_says_what_comes_back(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/registry/walker")
    expect(page.get_by_role("button", name="Roll back")).to_be_visible()
    page.keyboard.press("b")
    dialog = page.get_by_role("dialog", name="Roll walker back?")
    expect(dialog).to_contain_text("Version 1 goes back into production in place of version 2")
    dialog.get_by_label("Why").fill("falls over")
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("version 1 is in production")).to_be_visible()
    assert made_up.sent[-1] == ("/models/walker/rollback", {"reason": "falls over", "if_current": 2})


def test_keys_change_the_order_of_the_queue(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/queue")
    rows = page.locator(".queue-table tbody tr")
    expect(rows).to_have_count(5)
    for key in ("j", "j", "J"):
        page.keyboard.press(key)
    expect(rows.nth(2)).to_contain_text("waiting-0")
    expect(rows.nth(1)).to_contain_text("waiting-1")
    page.get_by_role("button", name="Move waiting-3 up").click()
    expect(rows.nth(3)).to_contain_text("waiting-3")
    sent = [body["ids"] for path, body in made_up.sent if path == "/queue/order"]
    assert len(sent) == 2
    assert [len(ids) for ids in sent] == [2, 3]
    expect(page.get_by_role("region", name="Slots")).to_contain_text("2 of 16")
    expect(page.get_by_role("region", name="Workers")).to_contain_text("18k steps a second")


def test_empty_views_say_what_to_do(page: Page, made_up: PageServer, outside: Any) -> None:
    kept = dict(made_up.documents)
    made_up.documents |= {"/sweeps": {"items": []}, "/models": {"versions": []}}
    made_up.documents["/queue"] = {"running": [], "queued": [], "paused": [], "not_recorded": [], "workers": []}
    for place, text in (
        ("#/sweeps", "Start from a ready-made sweep"),
        ("#/registry", "rlctl promote RUN --model NAME"),
        ("#/queue", "rlctl launch -f FILE --detach"),
        ("#/sweeps/none", "Not found"),
        ("#/registry/none", "Not found"),
    ):
        page.goto(made_up.url + place)
        expect(page.get_by_text(text)).to_be_visible()
    page.goto(made_up.url + "#/registry")
    page.get_by_role("link", name="Look at completed runs").click()
    expect(page.locator("[role=row] .state").first).to_have_text("completed")
    outside.allow("status of 404")
    made_up.documents.clear()
    made_up.documents |= kept
