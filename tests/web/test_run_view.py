"""One run: its curves while it learns, and everything else about it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from rlstudio.server.api.routes.steering import ForkBody
from support.page_server import PageServer


def open_newest(page: Page, made_up: PageServer, query: str = "") -> None:
    page.goto(f"{made_up.url}#/runs/{made_up.newest['handle']}{query}")
    expect(page.get_by_role("heading", level=1)).to_have_text(made_up.newest["name"])


def test_the_curve_moves_while_the_run_learns(page: Page, made_up: PageServer) -> None:
    open_newest(page, made_up)
    chart = page.get_by_role("figure", name=re.compile("^Return"))
    before = chart.get_attribute("aria-label")
    assert before is not None
    assert "evaluation ends at" in before
    made_up.train(4)
    page.wait_for_function("text => !document.querySelector(`figure[aria-label='${text}']`)", arg=before)
    expect(page.locator(".summary")).to_contain_text(f"{made_up.epochs} of 60")


def test_the_pointer_reads_every_curve_and_a_drag_zooms(page: Page, made_up: PageServer) -> None:
    open_newest(page, made_up)
    plot = page.locator(".u-over").first
    plot.hover(position={"x": 300, "y": 100})
    reading = page.locator(".reading")
    expect(reading).to_contain_text("training return")
    expect(reading).to_contain_text("evaluation")
    epoch = page.evaluate("document.querySelector('.u-over').clientWidth") / (made_up.epochs - 1)
    plot.hover(position={"x": 9 * epoch, "y": 100})  # at the tenth, two from each evaluation
    expect(reading).to_contain_text(re.compile(r"evaluation at \d"))
    expect(reading).to_have_count(1)
    other = page.locator(".charts .panel").filter(has=page.locator("figure[aria-label^='train/kl']"))
    expect(other.locator(".pointed")).to_have_text(re.compile(r"\d"))  # where the pointer is, not at the end
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 400, box["y"] + 90, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"zoom=[\d.]+\.\.\d+"))
    page.keyboard.press("0")
    expect(page).not_to_have_url(re.compile("zoom="))
    page.keyboard.press("l")
    page.keyboard.press("m")
    page.keyboard.press("h")
    expect(page).to_have_url(re.compile(r"(?=.*log=1)(?=.*smooth=0\.3)(?=.*x=time)"))
    expect(page.get_by_role("button", name="Log", exact=True)).to_have_attribute("aria-pressed", "true")


def test_the_address_keeps_up_with_a_wheel_that_turns_long(page: Page, made_up: PageServer) -> None:
    """A browser refuses more than 200 changes of the address in ten seconds."""
    open_newest(page, made_up)
    over = page.locator(".u-over").first
    over.hover(position={"x": 300, "y": 100})
    turn = """(over) => { for (let i = 0; i < 500; i++) over.dispatchEvent(new WheelEvent("wheel", {
      deltaY: i % 2 ? 9 : -10, ctrlKey: true, bubbles: true, cancelable: true, clientX: innerWidth / 2, clientY: 300,
    })); return location.hash; }"""
    first = over.evaluate(turn)
    assert "zoom=" in first
    page.wait_for_function("first => location.hash !== first", arg=first)  # where the wheel came to rest
    shown = page.evaluate("location.hash")
    page.reload()
    expect(page.locator(".u-over").first).to_be_visible()
    assert page.evaluate("location.hash") == shown
    expect(page.get_by_role("button", name="Whole run")).to_be_enabled()


def test_every_part_of_a_run_has_a_place(page: Page, made_up: PageServer) -> None:
    open_newest(page, made_up)
    for key, tab, text in (
        ("2", "config", "lr"),
        ("3", "checkpoints", "20,480"),
        ("4", "events", "No incidents"),
        ("5", "system", "cpu_share"),
        ("6", "log", "epoch 1/60"),
        ("7", "lineage", "Made with"),
    ):
        page.keyboard.press(key)
        expect(page).to_have_url(re.compile(f"tab={tab}"))
        expect(page.locator("main")).to_contain_text(text)


def test_a_run_is_forked_at_a_checkpoint_as_the_server_takes_it(page: Page, made_up: PageServer) -> None:
    open_newest(page, made_up, "?tab=checkpoints")
    page.get_by_role("row", name=re.compile("8,192")).get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog", name=re.compile("at step 8,192"))
    dialog.get_by_label(re.compile("^Changed settings")).fill("train.lr=1e-4  env.seed=3")
    dialog.get_by_role("button", name="Fork").click()
    expect(page.get_by_text("Forked")).to_be_visible()
    path, body = made_up.sent[-1]
    assert path == f"/runs/{made_up.newest['id']}/fork"
    assert ForkBody.model_validate(body).model_dump(exclude_unset=True) == {
        "at": "8192",
        "overrides": ["train.lr=1e-4", "env.seed=3"],
    }


def test_the_changed_lines_of_a_config_are_those_of_their_section(page: Page, made_up: PageServer) -> None:
    changes = [{"field": "rollout.workers", "before": 1, "after": 2}]
    yaml = "env:\n  workers: null\nrollout:\n  workers: 2\n"
    path = f"/runs/{made_up.newest['id']}/config"
    made_up.documents[path] = {"yaml": yaml, "config": {}, "changes": changes}
    open_newest(page, made_up, "?tab=config&against=270f")
    expect(page.get_by_role("row", name="rollout.workers 1 2")).to_be_visible()
    expect(page.locator(".yaml .changed")).to_have_text("  workers: 2\n")
    del made_up.documents[path]


def test_films_stand_beside_the_curve_and_play_when_asked(page: Page, made_up: PageServer) -> None:
    names = ("epoch-000004-best", "epoch-000004-worst", "epoch-000002-best")
    films = [{"name": f"videos/{name}.mp4", "size": 9, "type": "video/mp4"} for name in names]
    path = f"/runs/{made_up.newest['id']}/artifacts"
    made_up.documents[path] = {"items": films}
    page.route("**/*.mp4", lambda route: route.fulfill(status=200, content_type="video/mp4", body=b""))
    open_newest(page, made_up)
    expect(page.locator(".videos video")).to_have_count(2)
    page.get_by_role("button", name="Play: Best episode, epoch 4").click()
    expect(page.locator("video[controls]")).to_have_count(1)
    expect(page.get_by_text("This browser cannot play the film")).to_be_visible()  # an empty file is none
    page.get_by_role("button", name="All 3").click()
    expect(page).to_have_url(re.compile("videos=all"))
    expect(page.locator(".videos video")).to_have_count(3)
    del made_up.documents[path]


def test_an_incident_says_what_happened_why_and_what_helps(page: Page, made_up: PageServer) -> None:
    incident = {"what": "train/kl is 396.7", "cause": "the learning rate is too high", "advice": "set train.lr=3e-4"}
    event = {"seq": 1, "time": 1.77e9, "kind": "incident", "rule": "kl", **incident}
    path = f"/runs/{made_up.newest['id']}/events"
    made_up.documents[path] = {"items": [event], "next": 1}
    open_newest(page, made_up, "?tab=events")
    details = page.locator(".details p")
    expect(details).to_have_text(["train/kl is 396.7: the learning rate is too high", "set train.lr=3e-4", "rule kl"])
    del made_up.documents[path]


def test_a_run_that_is_not_there_says_so(page: Page, made_up: PageServer, outside) -> None:
    page.goto(made_up.url + "#/runs/nothing")
    expect(page.get_by_role("alert")).to_contain_text("there is no such run")
    outside.allow("status of 404")


def test_a_run_that_is_removed_elsewhere_is_shown_no_longer(page: Page, made_up: PageServer, outside) -> None:
    open_newest(page, made_up)
    run = made_up.newest
    del made_up.runs[run["id"]]
    made_up.publish("run", {"id": run["id"], "removed": True})
    expect(page.get_by_role("alert")).to_contain_text("there is no such run")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    made_up.runs = {run["id"]: run} | made_up.runs
    outside.allow("status of 404")
