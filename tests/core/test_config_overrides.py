"""Dotted overrides: the YAML rules for values, errors located at the override."""

from typing import Any

import pytest
from pydantic import Field

from rlstudio.core.config import Config, apply_overrides, parse
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import read_text


class Train(Config):
    lr: float = 0.1
    sizes: tuple[int, ...] = ()
    kwargs: dict[str, Any] = {}


class Root(Config):
    name: str = "n"
    train: Train = Field(default_factory=Train)


TEXT = "name: x\ntrain:\n  lr: 1\n  sizes: [1, 2]\n"


def overridden(*overrides, text=TEXT):
    return apply_overrides(read_text(text, "f.yaml"), overrides)


def problem(*overrides, text=TEXT):
    with pytest.raises(ConfigError) as caught:
        parse(Root, overridden(*overrides, text=text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "data"),
    [
        ("train.lr=1e-3", {"lr": 0.001, "sizes": [1, 2]}),
        ("train.lr = 010", {"lr": 10, "sizes": [1, 2]}),
        ("train.sizes=[64,64]", {"lr": 1, "sizes": [64, 64]}),
        ("train.sizes.1=5", {"lr": 1, "sizes": [1, 5]}),
        ("train.sizes=", {"lr": 1, "sizes": None}),
        ("train.kwargs.a.b=on", {"lr": 1, "sizes": [1, 2], "kwargs": {"a": {"b": "on"}}}),
        ("train.kwargs={a: '1', b: {c: 2}}", {"lr": 1, "sizes": [1, 2], "kwargs": {"a": "1", "b": {"c": 2}}}),
        ("train={lr: 2}", {"lr": 2}),
        ("train.kwargs.expr=a=b", {"lr": 1, "sizes": [1, 2], "kwargs": {"expr": "a=b"}}),
    ],
)
def test_values_follow_the_yaml_rules(override, data):
    assert overridden(override).data == {"name": "x", "train": data}


def test_the_document_itself_does_not_change():
    document = read_text(TEXT, "f.yaml")
    apply_overrides(document, ["train.lr=3", "train.sizes.0=9", "new.a=1"])
    assert document.data == {"name": "x", "train": {"lr": 1, "sizes": [1, 2]}}
    assert not document.overrides


def test_the_last_override_wins_and_is_named():
    assert overridden("train.lr=2", "train.lr=3").data["train"]["lr"] == 3
    assert problem("train.lr=2", "train.lr=x") == "override train.lr=x: train.lr: expected a number, got 'x'"
    assert parse(Root, overridden("train.lr=x", "train={lr: 2}")).train.lr == 2


def test_sections_and_files_may_be_missing():
    assert apply_overrides({}, ["train.lr=2"]).data == {"train": {"lr": 2}}
    assert overridden("train.lr=2", text="train:\n").data == {"train": {"lr": 2}}
    assert overridden("train.lr=2", text="").data == {"train": {"lr": 2}}


def test_errors_are_located_at_the_override_or_the_file():
    assert problem("trian.lr=1") == "override trian.lr=1: trian: unknown key; did you mean train?"
    assert problem("train.lrr=1") == "override train.lrr=1: train.lrr: unknown key; did you mean lr?"
    assert problem("lr=1") == "override lr=1: lr: unknown key; did you mean train.lr?"
    assert problem("train={lrr: 1}") == "override train={lrr: 1}: train.lrr: unknown key; did you mean lr?"
    assert problem("train.sizes.1=x").startswith("override train.sizes.1=x: train.sizes[1]: expected a whole")
    assert problem("name=ok", text="train:\n  lr: x").startswith("f.yaml:2:3: train.lr")
    assert problem("train.lr=.nan") == "override train.lr=.nan: train.lr: must be finite, got nan"


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("train.lr", "expected section.key=value, for example train.lr=1e-3"),
        ("=3", "expected section.key=value"),
        ("train..lr=3", "expected section.key=value"),
        (".=3", "expected section.key=value"),
        ("", "expected section.key=value"),
        ("name.x=3", "name is the value 'x' and has no 'x'"),
        ("train.sizes.7=1", "train.sizes is a list of 2 and has no '7'"),
        ("train.sizes.x=1", "train.sizes is a list of 2 and has no 'x'"),
        ("train.sizes.99999999999=1", "train.sizes is a list of 2"),
        ("train.lr=[1,", "expected the node content"),
        ("train.lr=!!python/name:os.system", "tag"),
        ("train.lr=*a", "alias *a has no anchor"),
        ("train.lr=" + "9" * 500, "a number of 500 digits"),
        ("train.lr=a: b: c", "a second `key:`"),
        ("train.lr=\x00", "control character"),
    ],
)
def test_malformed_overrides(override, reason):
    reported = problem(override)
    assert reported.startswith("override ")
    assert reason in reported
    assert len(reported) < 200
