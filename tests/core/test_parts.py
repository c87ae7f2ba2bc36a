"""Sections whose `kind` names a part: settings of plug-ins, what is wrong with them, hashes and schemas."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, PositiveInt

from rlstudio.core.catalog import Catalog
from rlstudio.core.config import Config, config_hash, parse, to_yaml
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.core.parts import PartConfig
from support.plugins import install_package

SOURCE = """
from pydantic import PositiveInt
from {here} import ToolConfig

class SawConfig(ToolConfig):
    teeth: PositiveInt = 8
    '''How many.'''

    inner: ToolConfig = ToolConfig()
    '''A tool for the tool.'''

class Saw:
    Config = SawConfig
    def __init__(self, cfg, wood):
        self.cfg, self.wood = cfg, wood

class Plain:
    def __init__(self, cfg, wood):
        self.cfg, self.wood = cfg, wood

class Stubborn:
    class Config: ...
"""


class Hammer:
    """Ours."""

    def __init__(self, cfg: ToolConfig, wood: str) -> None:
        self.cfg, self.wood = cfg, wood


class ToolConfig(PartConfig):
    parts: ClassVar[Catalog] = Catalog("tool", {"hammer": f"{__name__}:Hammer"})

    kind: str = "hammer"
    """Which."""

    weight: PositiveInt = 1
    """Of every tool."""


class BoxConfig(Config):
    hashed_if_set: ClassVar[tuple[str, ...]] = ("spare",)

    tool: ToolConfig = Field(default_factory=ToolConfig)
    """The one."""

    more: tuple[str | ToolConfig, ...] = ()
    """By name, or with settings."""

    maybe: ToolConfig | None = None
    """Perhaps."""

    spare: ToolConfig = Field(default_factory=ToolConfig)
    """Added later."""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {
        "saw": "acme_tools:Saw",
        "plain": "acme_tools:Plain",
        "bad": "acme_tools:Gone",
        "odd": "acme_tools:Stubborn",
    }
    source = textwrap.dedent(SOURCE).format(here=__name__)
    install_package(tmp_path, "acme-tools", "1.2", {"rlstudio.tools": entries}, {"acme_tools.py": source})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_tools", raising=False)
    monkeypatch.setattr(ToolConfig, "parts", Catalog("tool", {"hammer": f"{__name__}:Hammer"}))


def box(text: str) -> BoxConfig:
    return parse(BoxConfig, read_text(text, "box.yaml"))


def refused(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        box(text)
    return str(caught.value)


def test_a_plug_in_reads_its_own_settings() -> None:
    cfg = box("tool: {kind: saw, teeth: 3, weight: 2}")
    assert type(cfg.tool).__name__ == "SawConfig"
    saw = cfg.tool.build("oak")
    assert (saw.cfg.teeth, saw.cfg.weight, saw.wood) == (3, 2, "oak")


def test_a_plug_in_without_settings_has_those_of_its_kind() -> None:
    assert type(box("tool: {kind: plain, weight: 5}").tool.build("ash").cfg) is ToolConfig


def test_ours_are_built_in_the_same_way() -> None:
    hammer = box("tool: {weight: 4}").tool.build("ash")
    assert isinstance(hammer, Hammer)
    assert (hammer.cfg.weight, hammer.wood) == (4, "ash")


def test_a_section_made_in_python_is_read_by_the_plug_in_when_it_is_built() -> None:
    assert ToolConfig(kind="saw", weight=3).build("oak").cfg.teeth == 8


@pytest.mark.parametrize("place", ["tool: {}", "maybe: {}", "more: [{}]", "more: [hammer, {}]"])
def test_settings_of_a_plug_in_survive_the_file(place: str) -> None:
    cfg = box(place.replace("{}", "{kind: saw, teeth: 3}"))
    again = parse(BoxConfig, read_text(to_yaml(cfg), "again"))
    assert again == cfg
    assert config_hash(again) == config_hash(cfg)
    assert "teeth: 3" in to_yaml(cfg)


def test_a_plug_in_inside_a_plug_in_keeps_its_settings() -> None:
    cfg = box("tool: {kind: saw, inner: {kind: saw, teeth: 4}}")
    assert cfg.model_dump(mode="json")["tool"]["inner"]["teeth"] == 4
    assert cfg.model_dump(exclude_unset=True) == {"tool": {"kind": "saw", "inner": {"kind": "saw", "teeth": 4}}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tool:\n  kind: hamer\n  x: 1", "box.yaml:2:3: tool.kind: unknown tool 'hamer'; did you mean hammer?"),
        ("tool:\n  kind: 3", "box.yaml:2:3: tool.kind: expected text, got 3"),
        ("tool:\n  kind: saw\n  tooth: 3", "box.yaml:3:3: tool.tooth: unknown key; did you mean teeth?"),
        ("tool:\n  kind: saw\n  teeth: -3", "box.yaml:3:3: tool.teeth: must be greater than 0, got -3"),
        ("tool:\n  teeth: 3", "box.yaml:2:3: tool.teeth: unknown key; known: kind, weight"),
        ("maybe:\n  kind: saw\n  tooth: 3", "box.yaml:3:3: maybe.tooth: unknown key; did you mean teeth?"),
        ("more:\n- hammer\n- kind: saw\n  tooth: 3", "box.yaml:4:3: more[1].tooth: unknown key; did you mean teeth?"),
        ("more:\n- kind: hamer", "box.yaml:2:3: more[0].kind: unknown tool 'hamer'; did you mean hammer?"),
        (
            "tool:\n  kind: bad",
            "box.yaml:2:3: tool.kind: tool 'bad' of package acme-tools cannot be loaded from acme_tools:Gone: "
            "AttributeError: module 'acme_tools' has no attribute 'Gone'; repair or uninstall that package",
        ),
        (
            "tool:\n  kind: odd",
            "box.yaml:2:3: tool.kind: tool 'odd': the Config of acme_tools:Stubborn must extend ToolConfig",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, message: str) -> None:
    assert refused(text) == message


def test_a_later_field_changes_a_hash_only_when_it_is_set() -> None:
    class Earlier(Config):
        tool: ToolConfig = Field(default_factory=ToolConfig)
        more: tuple[str | ToolConfig, ...] = ()
        maybe: ToolConfig | None = None

    assert config_hash(BoxConfig()) == config_hash(box("spare: {kind: hammer}")) == config_hash(Earlier())
    assert config_hash(box("spare: {kind: plain}")) != config_hash(BoxConfig())


def test_the_schema_offers_what_is_installed_with_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for broken in ("bad", "odd"):
        del ToolConfig.parts.plugins[broken]
    ours, saw = BoxConfig.model_json_schema()["$defs"]["ToolConfig"]["anyOf"]
    assert ours["properties"]["kind"]["enum"] == ["hammer", "plain"]
    assert (saw["properties"]["kind"]["enum"], saw["required"]) == (["saw"], ["kind"])
    assert saw["properties"].keys() - ours["properties"].keys() == {"teeth", "inner"}
    assert saw["properties"]["inner"]["$ref"] == "#/$defs/ToolConfig"
    monkeypatch.setattr(ToolConfig, "parts", Catalog("tool", {"hammer": ""}, group="rlstudio.nothing"))
    assert BoxConfig.model_json_schema()["$defs"]["ToolConfig"]["properties"]["kind"]["enum"] == ["hammer"]
