"""Parsing a Config: exact kinds, one located line per problem, suggestions."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, model_validator

from rlstudio.core.config import Config, parse, refuse
from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import read_text
from support.examples import examples


class Part(Config):
    weight: float = 1.0
    label: str = "x"


class Network(Config):
    hidden_sizes: tuple[PositiveInt, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"


class Section(Config):
    clip: PositiveFloat = 0.2
    epochs: PositiveInt = Field(50, le=10**9)
    double: bool = True
    target_kl: PositiveFloat | None = None
    span: tuple[float, float] | None = None
    either: float | Literal["auto"] = "auto"
    stated: bool | None = None
    network: Network = Field(default_factory=Network)
    parts: tuple[Part, ...] = ()
    optional: Part | None = None
    kwargs: dict[str, Any] = {}
    scales: dict[str, float] = {}


class Root(Config):
    name: str
    train: Section = Field(default_factory=Section)

    @model_validator(mode="after")
    def _agree(self) -> "Root":
        if self.name == "contrary" and self.train.double:
            refuse(("train", "double"), "contrary takes no {double}; set it to false")
        return self


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(Root, read_text(text, "f.yaml"))
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("clip: 3e-4", "clip", 0.0003),
        ("clip: 1", "clip", 1.0),
        ("clip: '3e-4'", "clip", 0.0003),
        ("epochs: 1e6", "epochs", 1_000_000),
        ("epochs: 010", "epochs", 10),
        ("epochs: 10.0", "epochs", 10),
        ("epochs: '12'", "epochs", 12),
        ("epochs: 0x10", "epochs", 16),
        ("target_kl: null", "target_kl", None),
        ("target_kl:", "target_kl", None),
        ("either: auto", "either", "auto"),
        ("either: 2", "either", 2.0),
        ("span: [0, 1]", "span", (0.0, 1.0)),
        ("stated: false", "stated", False),
        ("kwargs: {a: 10.0, b: [true, x]}", "kwargs", {"a": 10.0, "b": [True, "x"]}),
        ("network:", "network", Network()),
        ("network: {hidden_sizes: [1e2, 3]}", "network", Network(hidden_sizes=(100, 3))),
    ],
)
def test_accepted_values(line, field, value):
    cfg = parse(Root, read_text(f"name: n\ntrain:\n  {line}\n", "f.yaml"))
    read = getattr(cfg.train, field)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("clipp: 1", "train.clipp: unknown key; did you mean clip?"),
        ("zzz: 1", "train.zzz: unknown key; known: clip, epochs, double,"),
        ("Clip: 1", "train.Clip: unknown key; did you mean clip?"),
        ("clip: fast", "train.clip: expected a number, got 'fast'"),
        ("clip: 1_000", "train.clip: expected a number, got '1_000'"),
        ("clip: 12:30:45", "train.clip: expected a number, got '12:30:45'"),
        ("clip: true", "train.clip: expected a number, got true"),
        ("clip: [1]", "train.clip: expected a number, got [1]"),
        ("clip: {a: 1}", "train.clip: expected a number, got a section"),
        ("clip: null", "train.clip: expected a number, got null"),
        ("clip: 0", "train.clip: must be greater than 0, got 0"),
        ("clip: .nan", "train.clip: must be finite, got nan"),
        ("clip: -.inf", "train.clip: must be finite, got -inf"),
        ("clip: 1e999", "train.clip: must be finite, got inf"),
        ("clip: '.nan'", "train.clip: must be finite, got nan"),
        ("epochs: 1.5", "train.epochs: expected a whole number, got 1.5"),
        ("epochs: true", "train.epochs: expected a whole number, got true"),
        ("epochs: many", "train.epochs: expected a whole number, got 'many'"),
        ("epochs: 1e10", "train.epochs: must be 1000000000 or less, got 10000000000"),
        ("epochs: 1e30", "train.epochs: is too large a number, got 1e+30"),
        ("epochs: " + "9" * 90, "train.epochs: must be 1000000000 or less, got a number of about"),
        ("double: yes", "train.double: expected true or false, got 'yes'"),
        ("double: on", "train.double: expected true or false, got 'on'"),
        ("double: 1", "train.double: expected true or false, got 1"),
        ("double: 'true'", "train.double: expected true or false, got 'true'"),
        ("stated: 0", "train.stated: expected true or false, got 0"),
        ("span: [1]", "train.span[1]: required, but missing; add it"),
        ("span: [1, 2, 3]", "train.span: must have at most 2 items, got [1, 2, 3]"),
        ("span: 5", "train.span: expected a list, got 5"),
        ("span: [0, x]", "train.span[1]: expected a number, got 'x'"),
        (
            "either: automatic",
            "train.either: expected a number or 'auto', got 'automatic'; did you mean auto?",
        ),
        ("network: 3", "train.network: expected a section (`key: value` lines), got 3"),
        ("network: {activation: rellu}", "expected 'tanh' or 'relu', got 'rellu'; did you mean relu?"),
        ("network: {hidden_sizes: [64, -1]}", "train.network.hidden_sizes[1]: must be greater than 0, got -1"),
        (
            "network: {hidden_sizes: [64, true]}",
            "train.network.hidden_sizes[1]: expected a whole number, got true",
        ),
        ("parts: [{weight: 1}, {wight: 1}]", "train.parts[1].wight: unknown key; did you mean weight?"),
        ("optional: {lable: x}", "train.optional.lable: unknown key; did you mean label?"),
        ("optional: {label: 3}", "train.optional.label: expected text, got 3"),
        ("kwargs: {a: [1, {b: .nan}]}", "train.kwargs.a[1].b: must be finite, got nan"),
        ("kwargs: [1]", "train.kwargs: expected a section"),
        ("scales: {a: true}", "train.scales.a: expected a number, got true"),
    ],
)
def test_refused_values_are_told_in_one_located_line(line, message):
    reported = problem(f"name: n\ntrain:\n  {line}\n")
    assert message in reported
    assert reported.startswith("f.yaml:3:")
    assert "\n" not in reported


def test_every_problem_has_its_line():
    reported = problem("name: 3\ntrain:\n  clip: 0\n  clipp: 1\nzzz: 1\n")
    assert reported.splitlines() == [
        "f.yaml:1:1: name: expected text, got 3",
        "f.yaml:3:3: train.clip: must be greater than 0, got 0",
        "f.yaml:4:3: train.clipp: unknown key; did you mean clip?",
        "f.yaml:5:1: zzz: unknown key; known: name, train",
    ]


def test_roots_that_are_no_section():
    assert problem("") == "f.yaml: is empty; expected `key: value` lines"
    assert problem("# nothing\n").startswith("f.yaml: is empty")
    assert problem("- a\n- b") == "f.yaml:1:1: expected `key: value` lines, got ['a', 'b']"
    assert problem("just text") == "f.yaml:1:1: expected `key: value` lines, got 'just text'"
    assert problem("{}") == "f.yaml:1:1: name: required, but missing; add it"


def test_plain_mappings_carry_their_source():
    assert parse(Root, {"name": "n"}).name == "n"
    with pytest.raises(ConfigError, match=r"^the request: name: required"):
        parse(Root, {}, "the request")


def test_validators_that_compare_fields_name_the_place():
    assert problem("name: contrary\n") == "f.yaml:1:1: train.double: contrary takes no {double}; set it to false"
    reported = problem("name: contrary\ntrain:\n  double: true\n")
    assert reported.startswith("f.yaml:3:3: train.double: contrary")


def test_hostile_keys_and_values_stay_on_one_short_line():
    for text in ('"a\\nb": 1', '"\\e[31m": 1', f'name: ["{"x" * 5000}"]', f"name: n\n{'k' * 150}: 1"):
        reported = problem("name: n\n" + text if not text.startswith("name") else text)
        assert all(line.isprintable() and len(line) < 300 for line in reported.splitlines())


def test_python_construction_is_as_exact():
    for wrong in ({"epochs": True}, {"double": "yes"}, {"clip": float("nan")}, {"clip": "1_000"}, {"unknown": 1}):
        with pytest.raises(ValidationError):
            Section(**wrong)
    with pytest.raises(ValidationError, match="frozen"):
        Section().clip = 3


mess = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*Section.model_fields, "clipp"])


@examples(150)
@given(st.dictionaries(fields, mess, max_size=4))
def test_any_data_parses_or_is_refused_line_by_line(train):
    try:
        parse(Root, {"name": "n", "train": train})
    except ConfigError as error:
        reported = str(error)
    else:
        return
    assert all(line.startswith("config: ") and line.isprintable() for line in reported.split("\n"))
