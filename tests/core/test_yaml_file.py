"""YAML and JSON reading: what scalars mean, and a corpus of files that must each give one located line."""

import math
import subprocess
import sys

import pytest

from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import (
    MAX_BYTES,
    MAX_DEPTH,
    Mark,
    plain_scalar,
    read_file,
    read_text,
)
from support.repetition import few


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 0.0003),
        ("1e5", 1e5),
        ("1E6", 1e6),
        ("1e+6", 1e6),
        ("-2.5", -2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+.5e1", 5.0),
        ("010", 10),
        ("-010", -10),
        ("+7", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("0", 0),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("0b101", "0b101"),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("NO", "NO"),
        ("2024-01-31", "2024-01-31"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("nil", "nil"),
        ("tRue", "tRue"),
        ("1e", "1e"),
        ("e5", "e5"),
        (".", "."),
        ("-", "-"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("'3e-4'", "3e-4"),
        ('"true"', "true"),
        ("CartPole-v1", "CartPole-v1"),
    ],
)
def test_scalars_follow_yaml_1_2(text, value):
    read = read_text(f"a: {text}\n", "f.yaml").data["a"] if text != "-" else plain_scalar(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize("text", [".inf", "-.inf", "+.INF", ".nan", ".NaN"])
def test_non_finite_numbers_are_read_as_such_and_refused_by_the_config(text):
    assert not math.isfinite(read_text(f"a: {text}", "f.yaml").data["a"])


def bomb() -> str:
    """Nine aliases of nine aliases ...: 9^9 nodes from less than 400 bytes."""
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    return "\n".join(rows)


def chain() -> str:
    """Each anchor holds the one before it 40 levels down: the depth hides behind the aliases."""
    return "\n".join(
        [f"a0: &a0 {'[' * 40}{']' * 40}", f"a1: &a1 {'[' * 40}*a0{']' * 40}"],
    )


CORPUS = {
    "duplicate key": ("a: 1\nb: 2\na: 3\n", ":3:1: duplicate key 'a'; first given on line 1"),
    "duplicate key in flow": ("s: {x: 1, x: 2}", ":1:11: duplicate key 'x'"),
    "duplicate key by quotes": ("a: 1\n'a': 2", ":2:1: duplicate key 'a'"),
    "tab indent": ("a:\n\tb: 1\n", ":2:1: a tab where only spaces may stand"),
    "python object": ("a: !!python/object/apply:os.system ['true']", ":1:4: tag"),
    "python name": ("a: !!python/name:os.system", ":1:4: tag"),
    "python tuple": ("!!python/tuple [1]", ":1:1: tag"),
    "float tag": ("a: !!float 3", ":1:4: tag"),
    "own tag": ("a: !env HOME", ":1:4: tag '!env'"),
    "set": ("a: !!set {x}", ":1:4: tag"),
    "binary": ("a: !!binary aGk=", ":1:4: tag"),
    "tagged key": ("!!str a: 1", ":1:1: a key must be plain text"),
    "merge key": ("a: &a {x: 1}\nb:\n  <<: *a\n  y: 2", ":3:3: merge keys (<<) are not supported"),
    "alias bomb": (bomb(), "more than 10000 values once aliases are expanded"),
    "alias chain": (chain(), ":2:49: nested deeper than 64 levels"),
    "alias to itself": ("a: &a [*a]", ":1:8: alias *a has no anchor"),
    "alias undefined": ("a: *b", ":1:4: alias *b has no anchor"),
    "alias as key": ("a: &a x\n*a : 1", ":2:1: a key must be plain text"),
    "depth 3000": ("[" * 3000 + "]" * 3000, ":1:65: nested deeper than 64 levels"),
    "depth 3000 block": ("".join(" " * i + "a:\n" for i in range(1000)), "nested deeper than 64 levels"),
    "depth unclosed": ("[" * 1_000_000, "nested deeper than 64 levels"),
    "5000 digits": ("a: " + "9" * 5000, ":1:4: a number of 5000 digits"),
    "5000 decimals": ("a: 0." + "9" * 5000, ":1:4: a number of 5002 digits"),
    "hex digits": ("a: 0x" + "f" * 5000, ":1:4: a number of 5002 digits"),
    "long key": ("k" * 1_000_000 + ": 1", ":1:1000001: a second `key:`"),
    "long explicit key": ("? " + "k" * 1_000_000 + "\n: 1", ":1:3: a key of 1000000 characters"),
    "key 300": ("k" * 300 + ": 1", ":1:1: a key of 300 characters"),
    "number key": ("a:\n  1: 2", ":2:3: the key 1 is not text; put it in quotes"),
    "null key": ("~: 2", ":1:1: the key ~ is not text"),
    "empty key": ("? \n: 2", ":1:2: the key null is not text"),
    "no key": (": 2", ":1:1: expected <block end>"),
    "bool key": ("true: 2", ":1:1: the key true is not text"),
    "float key": ("1e3: 2", ":1:1: the key 1e3 is not text"),
    "list key": ("? [a, b]\n: 1", ":1:3: a key must be plain text"),
    "two documents": ("a: 1\n---\nb: 2", ":2:1: a second document"),
    "bad indent": ("a: 1\n b: 2", ":2:3: a second `key:`"),
    "colon in value": ("a: b: c", ":1:5: a second `key:`"),
    "unclosed list": ("a: [1, 2", ":1:9: expected ',' or ']'"),
    "unclosed map": ("{a: 1", ":1:6: expected ',' or '}'"),
    "unclosed quote": ("a: 'x", "found unexpected end of stream"),
    "bad escape": ('a: "\\q"', ":1:6: found unknown escape character 'q'"),
    "huge escape": ('a: "\\UFFFFFFFF"', "cannot be read"),
    "half a surrogate": ('a: "\\ud800"', ":1:4: text with half of a surrogate pair"),
    "at sign": ("a: @b", ":1:4: found character '@' that cannot start any token"),
    "backtick": ("a: `b`", ":1:4: found character '`'"),
    "directive": ("%YAML 3.0\n---\na: 1", ":1:1: found incompatible YAML document"),
    "directive digits": (f"%YAML 1.{'9' * 5000}\n---\na: 1", "cannot be read"),
    "control": ("a: 1\nb: \x07", ":2:4: control character '\\x07'"),
    "NUL": ("a: 1\x00", ":1:5: control character '\\x00'"),
    "escape code": ("a: \x1b[31m", ":1:4: control character"),
    "missing colon": ("a: 1\nfoo\nb: 2", ":3:1: expected `key: value`; the colon is missing"),
    "list then map": ("- a\nb: 1", ":2:1: expected <block end>"),
    "percent": ("%", ""),
    "bang": ("!", ":1:1: tag '!'"),
    "ampersand": ("&", ""),
    "star": ("*", ""),
    "bar": ("a: |3x", ""),
}


LONG = ("depth 3000", "long explicit key")
"""Their neighbours ask the same in a tenth of the time."""


@pytest.mark.parametrize("name", few(CORPUS, lambda name: name not in LONG))
def test_corpus_gives_one_located_line(name):
    text, expected = CORPUS[name]
    with pytest.raises(ConfigError) as caught:
        read_text(text, "f.yaml")
    message = str(caught.value)
    assert message.startswith("f.yaml")
    assert expected in message
    assert "\n" not in message
    assert len(message) < 300


BYTES = {
    "utf-16": ("a: 1".encode("utf-16"), ":1:1: not UTF-8 text"),
    "utf-16 without mark": ("a: é".encode("utf-16-le"), "f.yaml:1:"),
    "utf-32": ("a: 1".encode("utf-32"), ":1:1: not UTF-8 text"),
    "latin-1": ("a: 1\nb: é".encode("latin-1"), ":2:4: not UTF-8 text"),
    "NUL": (b"a: 1\x00", ":1:5: control character"),
    "random": (bytes(range(256)), "f.yaml:2:118: not UTF-8 text"),
    "gzip": (b"\x1f\x8b\x08\x00", "f.yaml:1:2: not UTF-8"),
    "large": (b"#" * (MAX_BYTES + 1), "larger than 1048576 bytes"),
    "surrogate bytes": (b"a: \xed\xa0\x80", ":1:4: not UTF-8"),
}


@pytest.mark.parametrize("name", BYTES)
def test_files_that_are_not_text(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, expected = BYTES[name]
    (tmp_path / "f.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_file("f.yaml")
    assert expected in str(caught.value)
    assert str(caught.value).startswith("f.yaml:")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbfa:\n  b: 1\n", b"a:\r\n  b: 1\r\n", b"a:\r  b: 1\r", b"---\na: {b: 1}\n...\n", b"a:\n  b: 1"],
)
def test_byte_order_mark_and_line_ends_do_not_matter(tmp_path, content):
    path = tmp_path / "f.yml"
    path.write_bytes(content)
    document = read_file(path)
    assert document.data == {"a": {"b": 1}}


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_file(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_file(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file("a\x00b")
    with pytest.raises(ConfigError) as caught:
        read_file("no\nsuch.yaml")
    assert "\n" not in str(caught.value)


def test_empty_files_hold_nothing():
    for text in ("", "\n\n", "# only a comment\n", "---\n", "--- ~\n"):
        assert read_text(text, "f.yaml").data is None


def test_marks_tell_line_and_column_of_keys_and_items():
    document = read_text("a: 1\nenv:\n  id: x\n  sizes: [1, 22]\n  list:\n    - p: 1\n", "f.yaml")
    assert document.marks[("a",)] == Mark(1, 1)
    assert document.marks[("env", "id")] == Mark(3, 3)
    assert document.marks[("env", "sizes", 1)] == Mark(4, 14)
    assert document.marks[("env", "list", 0, "p")] == Mark(6, 7)
    assert document.where(("env", "id")) == "f.yaml:3:3"
    assert document.where(("env", "missing")) == "f.yaml:2:1"
    assert document.where(("missing",)) == "f.yaml:1:1"


def test_aliases_share_values_within_the_caps():
    document = read_text("a: &x [1, 2]\nb: *x\nc: &y {k: *x}\nd: *y", "f.yaml")
    assert document.data == {"a": [1, 2], "b": [1, 2], "c": {"k": [1, 2]}, "d": {"k": [1, 2]}}


def test_depth_cap_is_exact():
    assert read_text("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f.yaml").data
    with pytest.raises(ConfigError):
        read_text("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "f.yaml")


def test_hostile_files_cost_little():
    """Neither memory nor time grows with what a file pretends to hold: measured in a child with a hard limit."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20));"
        "resource.setrlimit(resource.RLIMIT_CPU, (20, 20));"
        "from rlstudio.core.parsing.yaml_file import read_text; from rlstudio.core.errors import ConfigError\n"
        "for text in sys.stdin.read().split('=====') :\n"
        "    try: read_text(text, 'f')\n"
        "    except ConfigError: continue\n"
        "    sys.exit('accepted')\n"
    )
    texts = [bomb(), chain(), "[" * 300_000, "{a: " * 100_000, "- " * 300_000, "? " * 300_000, "a: 1\n" * 100_000]
    command = [sys.executable, "-c", code]
    child = subprocess.run(command, check=False, input="=====".join(texts), text=True, capture_output=True)
    assert (child.returncode, child.stderr) == (0, "")
