"""A new experiment: a form that reaches every setting, and YAML beside it that nobody's comments are lost from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rlstudio.core.catalog import ALGOS
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.experiment import experiment_from
from rlstudio.experiment.config.schema import experiment_schema
from support.made_up_views import preset
from support.page_server import PageServer

ENTRY = "entry"
"""What the test calls an entry of a table whose keys are the user's."""

WALK = """
async (entry) => {
  const found = new Set();
  const settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const note = () => document.querySelectorAll("[data-field]").forEach((one) => found.add(one.dataset.field));
  const opened = new Set(), chosen = new Set();
  for (;;) {
    await settled();
    note();
    const add = [...document.querySelectorAll("[data-add]")].find((one) => !opened.has(one.dataset.add));
    if (add) { opened.add(add.dataset.add); add.querySelector("button").click(); continue; }
    const table = [...document.querySelectorAll("[data-add-entry]")].find((one) => !opened.has(one.dataset.addEntry));
    if (table) {
      opened.add(table.dataset.addEntry);
      const input = table.querySelector("input");
      input.value = entry;
      input.dispatchEvent(new Event("input", { bubbles: true }));
      await settled();
      table.querySelector("button").click();
      continue;
    }
    let chose = false;
    for (const select of document.querySelectorAll("select[data-branches]")) {
      const field = select.closest("[data-field]").dataset.field;
      const isNew = (one) => /^\\d+$/.test(one.value) && !chosen.has(field + "|" + one.value);
      const option = [...select.options].find(isNew);
      if (!option) continue;
      chosen.add(field + "|" + option.value);
      select.value = option.value;
      select.dispatchEvent(new Event("change", { bubbles: true }));
      chose = true;
      break;
    }
    if (!chose) return [...found];
  }
}
"""


def fields(schema: dict[str, Any], node: dict[str, Any], path: str) -> Iterator[str]:
    """Every named setting that a schema allows, in the words of messages; the first item of a list stands for all."""
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].removeprefix("#/$defs/")]
    for branch in node.get("anyOf", []):
        yield from fields(schema, branch, path)
    for name, inner in node.get("properties", {}).items():
        yield f"{path}.{name}".lstrip(".")
        yield from fields(schema, inner, f"{path}.{name}".lstrip("."))
    if isinstance(node.get("items"), dict):
        yield from fields(schema, node["items"], f"{path}[0]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from fields(schema, node["additionalProperties"], f"{path}.{ENTRY}")


def test_every_setting_of_every_algorithm_is_reachable(page: Page, made_up: PageServer) -> None:
    missing = {}
    page.goto(made_up.url + "#/new")
    text = page.get_by_label("The experiment as YAML")
    expect(text).to_have_value(re.compile("policy:"))
    sections = page.get_by_role("navigation", name="Sections")
    for algo in ALGOS.names():
        schema = experiment_schema(algo)
        schema["properties"]["train"] = {"$ref": f"#/$defs/train.{algo}"}
        text.fill(f"env:\n  id: CartPole-v1\npolicy:\n  algo: {algo}\n")
        names = list(schema["properties"]) if algo == "ppo" else ["train"]  # other sections are the same for all
        for name in names:
            sections.get_by_role("button", name=re.compile(rf"^{'general' if name == 'name' else name}\s*\d*$")).click()
            expect(page.locator(f'[data-field="{name}"]').first).to_be_visible()
            reached = set(page.evaluate(WALK, ENTRY))
            wanted = {name, *fields(schema, schema["properties"][name], name)}
            if wanted - reached:
                missing[f"{algo}: {name}"] = sorted(wanted - reached)
    assert missing == {}


def yaml_of(page: Page) -> str:
    return page.get_by_label("The experiment as YAML").input_value()


def setting(page: Page, field: str) -> Any:
    return page.locator(f'[data-field="{field}"]').locator("input, select").first


def test_the_form_writes_into_the_text_and_leaves_the_rest_alone(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/new?section=train")
    setting(page, "train.lr").fill("3e-4")
    setting(page, "train.target_kl").fill("0.02")
    page.get_by_role("button", name="Back to the default: train.clip").click()
    before, after = preset("ppo/quickstart").splitlines(), yaml_of(page).splitlines()
    assert [line for line in before if line not in after] == ["  lr: 1e-3", "  clip: 0.2"]
    assert [line for line in after if line not in before] == ["  lr: 3e-4", "  target_kl: 0.02"]
    assert after[0].startswith("# PPO on CartPole-v1")


def test_the_text_writes_into_the_form(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/new?section=train")
    text = page.get_by_label("The experiment as YAML")
    expect(text).to_have_value(re.compile("lr: 1e-3"))
    text.fill(yaml_of(page).replace("lr: 1e-3", "lr: 0.25  # mine"))
    expect(setting(page, "train.lr")).to_have_value("0.25")
    setting(page, "train.lr").fill("0.5")
    assert "  lr: 0.5  # mine\n" in yaml_of(page)
    text.fill("env: [")
    expect(page.get_by_role("status").filter(has_text="line")).to_be_visible()
    expect(setting(page, "train.lr")).to_have_value("0.5")  # the form keeps what could be read last


@pytest.mark.parametrize(
    ("lines", "section"),
    [
        ("train:\n  clipp: 0.2\n", "train"),
        ("train:\n  lr: fast\n", "train"),
        ("env:\n  num_envs: 0\n  id: X-v1\n", "env"),
    ],
)
def test_problems_are_those_of_rlctl(page: Page, made_up: PageServer, lines: str, section: str) -> None:
    yaml = lines + "".join(
        line for line in ("env:\n  id: CartPole-v1\n", "policy:\n  algo: ppo\n") if line[:3] != lines[:3]
    )
    with pytest.raises(ConfigError) as refused:
        experiment_from(read_text(yaml, "experiment"))
    page.goto(made_up.url + "#/new")
    expect(page.get_by_text("Ready to launch")).to_be_visible()
    page.get_by_label("The experiment as YAML").fill(yaml)
    for line in str(refused.value).splitlines():
        place, field, message = line.split(": ", 2)
        found = page.get_by_role("button", name=f"{field}: {message}")
        expect(found).to_be_visible()
        assert page.locator(".gutter .wrong").first.inner_text() == place.split(":")[1]
    page.locator(".findings button").first.click()
    expect(page.get_by_role("navigation", name="Sections").locator("[aria-current]")).to_have_text(re.compile(section))


def test_a_draft_is_in_the_address(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/new?section=train&seeds=5")
    setting(page, "train.epochs").fill("7")
    expect(page).to_have_url(re.compile("draft="))
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(setting(page, "train.epochs")).to_have_value("7")
    expect(page.get_by_role("button", name="Launch 5 runs")).to_be_enabled()
    page.goto(made_up.url + "#/new?draft=broken!")
    expect(page.get_by_text("The draft in this address cannot be read")).to_be_visible()


def test_launch_sends_the_text(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/new?seeds=3&priority=2")
    expect(page.get_by_text("Ready to launch")).to_be_visible()
    page.get_by_role("button", name="Launch 3 runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
    path, body = made_up.sent[-1]
    assert (path, body["seeds"], body["priority"]) == ("/experiments", 3, 2)
    assert body["yaml"] == preset("ppo/quickstart")


def test_a_setting_is_found_by_its_meaning(page: Page, made_up: PageServer) -> None:
    page.goto(made_up.url + "#/new")
    page.get_by_label("Find a setting").fill("trace decay")
    expect(page.locator('[data-field="train.gae_lambda"]')).to_be_visible()
    page.get_by_label("Find a setting").fill("no such thing")
    expect(page.get_by_text("No setting of ppo has")).to_be_visible()
