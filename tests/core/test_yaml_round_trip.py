"""JSON files, and round trips: what is written reads back; anything else is read or refused in one line."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import Mark, read_file, read_json, read_text
from rlstudio.core.parsing.yaml_text import write_text
from support.examples import examples

JSON_CORPUS = {
    "trailing comma": ('{"a": 1,}', "f.json:1:9: "),
    "single quotes": ("{'a': 1}", "f.json:1:2: expecting property name enclosed in double quotes"),
    "comment": ('{"a": 1} // x', "f.json:1:10: extra data"),
    "NaN": ('{"a": NaN}', "f.json: NaN is not JSON"),
    "Infinity": ('{"a": -Infinity}', "f.json: -Infinity is not JSON"),
    "duplicate": ('{"a": 1,\n "a": 2}', "f.json:2:2: duplicate key 'a'"),
    "depth": ("[" * 100_000, "f.json: nested deeper than 64 levels"),
    "depth closed": ("[" * 100 + "]" * 100, "f.json:1:65: nested deeper than 64 levels"),
    "digits": ('{"a": ' + "9" * 5000 + "}", "f.json:1:7: a number of 5000 digits"),
    "raw tab in text": ('{"a": "x\ty"}', "f.json:1:9: invalid control character"),
    "half a surrogate": ('{"a": "\\ud800"}', "f.json:1:7: text with half of a surrogate pair"),
    "empty": ("", "f.json:1:1: expecting value"),
}


@pytest.mark.parametrize("name", JSON_CORPUS)
def test_json_corpus(name):
    text, expected = JSON_CORPUS[name]
    with pytest.raises(ConfigError) as caught:
        read_json(text, "f.json")
    assert str(caught.value).startswith(expected)
    assert "\n" not in str(caught.value)


def test_json_files_may_be_indented_with_tabs_and_have_marks(tmp_path):
    path = tmp_path / "F.JSON"
    path.write_text('{\n\t"a": {\n\t\t"b": 1e6\n\t}\n}')
    document = read_file(path)
    assert document.data == {"a": {"b": 1e6}}
    assert document.marks[("a", "b")] == Mark(3, 3)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SPECIAL = "3e-4 1e6 010 08 0o17 0x1f on no true null ~ << = 2024-01-01 12:30:45 1_000 .nan .inf *a &a !a @a ' \" %a ?"
tricky = st.sampled_from([*SPECIAL.split(), "", "- a", "a: b", "# x", " x ", "x\ny", "\t", "\x00"])
scalars = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    scalars | words | tricky,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | tricky, inner, max_size=4),
    max_leaves=20,
)


@examples(150)
@given(plain)
@example({"x": [[], {}, [{}]], "y": {"z": []}})
def test_what_is_written_reads_back(data):
    again = read_text(write_text(data), "f.yaml").data
    assert again == data
    assert repr(again) == repr(data)  # also the types: 1 is not 1.0


@examples(150)
@given(plain, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_json_reads_as_the_json_module_reads_it(data, ascii_only, indent):
    text = json.dumps(data, ensure_ascii=ascii_only, indent=indent)
    assert repr(read_json(text, "f.json").data) == repr(json.loads(text))


def refusal(read, *arguments) -> str:
    try:
        read(*arguments)
    except ConfigError as error:
        return str(error)
    return ""


@examples(150)
@given(st.text(st.sampled_from(list("ab:{}[],-?!&*#|>'\"%@` \n\t\\x01~<=.\x00é")), max_size=60))
def test_any_text_is_read_or_refused_in_one_line(text):
    assert "\n" not in refusal(read_text, text, "f.yaml")


@examples(100)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bytes") / "f.yaml"
    path.write_bytes(content)
    assert "\n" not in refusal(read_file, path)


def test_other_readers_take_written_text_the_same_way():
    """Text such as `on` is quoted, so that a YAML 1.1 reader does not turn it into a boolean."""
    data = {"a": "on", "b": "010", "c": "3e-4", "d": 1e-05, "e": 1e22, "f": "2024-01-01", "g": [1, 2], "h": True}
    assert yaml.safe_load(write_text(data)) == data
