"""YAML and JSON files as plain data with the place of every key, read by strict rules.

Scalars follow the YAML 1.2 core schema, because YAML 1.1 misreads what experiments contain: there `3e-4` is text,
`010` is eight, `on` is true and `12:30:45` is 45045. Tags, merge keys, duplicate keys and keys that are not text are
refused. Nothing is constructed but dicts, lists, text, numbers, booleans and null, and what a file can cost is capped:
bytes, depth, nodes after alias expansion, digits of a number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import yaml

from rlstudio.core.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
MAX_NODES = 10_000
MAX_DIGITS = 100
MAX_KEY = 200

KeyPath = tuple[str | int, ...]
Scalar = str | int | float | bool | None

CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
NON_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
BREAKS = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Plain characters in JSON text, but line breaks or nothing at all in YAML."""

CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Mark(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Document:
    """Plain data, and where each part of it comes from."""

    data: Any
    source: str
    marks: Mapping[KeyPath, Mark] = field(default_factory=dict)
    overrides: Mapping[KeyPath, str] = field(default_factory=dict)

    def where(self, path: KeyPath = ()) -> str:
        """The place of a key, or of the nearest section around it: `file:line:column` or `override key=value`."""
        for length in range(len(path), -1, -1):
            prefix = path[:length]
            if prefix in self.overrides:
                return f"override {self.overrides[prefix]}"
            if prefix in self.marks and prefix:
                return f"{self.source}:{self.marks[prefix].line}:{self.marks[prefix].column}"
            below = [text for other, text in self.overrides.items() if prefix and other[:length] == prefix]
            if below:
                return f"override {below[-1]}"
        root = self.marks.get(())
        return f"{self.source}:{root.line}:{root.column}" if root else self.source


def read_file(path: str | Path) -> Document:
    """Read a `.json` file as JSON and any other as YAML; a ConfigError says in one line why it cannot be used."""
    source = str(path) if str(path).isprintable() else ascii(str(path))
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{source}: no such file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_BYTES} bytes; this is no configuration file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{source}:{line}:{column}: not UTF-8 text; save the file as UTF-8") from None
    return read_json(text, source) if str(path).lower().endswith(".json") else read_text(text, source)


def read_text(text: str, source: str) -> Document:
    """Read one YAML document."""
    return _Reader(text, source).document()


def read_value(text: str, source: str) -> object:
    """Read one value given on a command line; an error names the source alone."""
    return _Reader(text, source, located=False).document().data


def read_json(text: str, source: str) -> Document:
    """Read one JSON document. The json module judges the syntax, then the YAML reader (JSON is YAML) adds the marks."""

    def refuse(name: str) -> NoReturn:
        raise ConfigError(f"{source}: {name} is not JSON; write a finite number")

    try:
        json.loads(text, parse_int=str, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}:{error.lineno}:{error.colno}: {error.msg[0].lower()}{error.msg[1:]}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested deeper than {MAX_DEPTH} levels") from None
    text = BREAKS.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return read_text(text.replace("\t", " "), source)


def plain_scalar(text: str) -> Scalar:
    """What unquoted text means: null, a boolean, a number, or the text itself."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    is_integer = INTEGER.fullmatch(text)
    if not is_integer and not FLOAT.fullmatch(text):
        return float(text.replace(".", "", 1)) if NON_FINITE.fullmatch(text) else text
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} digits; at most {MAX_DIGITS} are accepted")
    if not is_integer:
        return float(text)
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


class _Position(Protocol):
    """PyYAML's own mark, of its parser in Python or in C: counted from 0."""

    line: int
    column: int


class _Node(NamedTuple):
    value: object
    nodes: int = 1
    height: int = 1


class _Reader:
    """Composes the events of PyYAML's parser, so that nothing is built before it has been judged."""

    def __init__(self, text: str, source: str, located: bool = True) -> None:
        self.text = text
        self.source = source
        self.located = located
        self.marks: dict[KeyPath, Mark] = {}
        self.anchors: dict[str | None, _Node] = {}
        self.events: Iterator[yaml.Event]

    def document(self) -> Document:
        control = CONTROL.search(self.text)
        if control:
            before = self.text[: control.start()]
            mark = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
            self._refuse(mark, f"control character {control.group()!a}; this is not a text file")
        try:
            self.events = yaml.parse(self.text, Loader=yaml.SafeLoader)
            return Document(self._root(), self.source, self.marks)
        except yaml.MarkedYAMLError as error:
            self._refuse(_mark(error.problem_mark), _syntax(error))
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # an escape or directive beyond what int, chr hold
            self._refuse(None, f"cannot be read: {error}")

    def _root(self) -> object:
        next(self.events)  # the start of the stream
        event = next(self.events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        event = next(self.events)
        self.marks[()] = _mark(event.start_mark)
        root = self._node(event, (), 1)
        next(self.events)  # the end of the document
        event = next(self.events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "a second document starts here; one file holds one document")
        return root.value

    def _node(self, event: yaml.Event, path: KeyPath, depth: int) -> _Node:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if depth > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if event.tag is not None:
            self._refuse(event, f"tag {event.tag!a} is not supported; write the plain value")
        if isinstance(event, yaml.ScalarEvent):
            node = _Node(self._scalar(event))
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(path, depth)
        else:
            node = self._mapping(path, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, depth: int) -> _Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            self._refuse(event, f"alias *{event.anchor} has no anchor &{event.anchor} that ends before it")
        if depth + node.height - 1 > MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        try:
            value = plain_scalar(event.value) if event.implicit[0] else event.value
            # Pairs of surrogates (JSON escapes) become one character; a lone one is an error.
            return value.encode("utf-16", "surrogatepass").decode("utf-16") if isinstance(value, str) else value
        except UnicodeDecodeError:
            self._refuse(event, "text with half of a surrogate pair; this is not valid Unicode")
        except ValueError as error:
            self._refuse(event, str(error))

    def _sequence(self, path: KeyPath, depth: int) -> _Node:
        items: list[object] = []
        size, height = 1, 0
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            place = (*path, len(items))
            self.marks[place] = _mark(event.start_mark)
            node = self._node(event, place, depth + 1)
            items.append(node.value)
            size, height = self._grown(event, size, node), max(height, node.height)
        return _Node(items, size, height + 1)

    def _mapping(self, path: KeyPath, depth: int) -> _Node:
        items: dict[str, object] = {}
        size, height = 1, 0
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event)
            place = (*path, key)
            if key in items:
                self._refuse(event, f"duplicate key {key!a}; first given on line {self.marks[place].line}")
            self.marks[place] = _mark(event.start_mark)
            node = self._node(next(self.events), place, depth + 1)
            items[key] = node.value
            size, height = self._grown(event, size, node), max(height, node.height)
        return _Node(items, size, height + 1)

    def _key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            self._refuse(event, "a key must be plain text")
        if event.implicit[0] and event.value == "<<":
            self._refuse(event, "merge keys (<<) are not supported; write the keys out")
        if len(event.value) > MAX_KEY:
            self._refuse(event, f"a key of {len(event.value)} characters; at most {MAX_KEY} are accepted")
        key = self._scalar(event)
        if not isinstance(key, str):
            self._refuse(event, f"the key {event.value or 'null'} is not text; put it in quotes")
        return key

    def _grown(self, event: yaml.Event, size: int, node: _Node) -> int:
        if size + node.nodes > MAX_NODES:
            self._refuse(event, f"more than {MAX_NODES} values once aliases are expanded")
        return size + node.nodes

    def _refuse(self, place: yaml.Event | Mark | None, reason: str) -> NoReturn:
        mark = place if isinstance(place, Mark) else _mark(place.start_mark) if place else None
        at = f":{mark.line}:{mark.column}" if mark and self.located else ""
        raise ConfigError(f"{self.source}{at}: {reason}") from None


def _mark(mark: _Position | None) -> Mark:
    assert mark is not None  # the parser places all that it says
    return Mark(mark.line + 1, mark.column + 1)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's complaint, reworded for the person who edits the file."""
    problem = " ".join((error.problem or "not valid YAML").split())
    if "'\\t'" in problem:
        return "a tab where only spaces may stand; indent with spaces"
    if problem.startswith("mapping values are not allowed"):
        return "a second `key:` where a value was expected; check the indentation, or put the text in quotes"
    if problem == "could not find expected ':'":
        return "expected `key: value`; the colon is missing"
    return f"{problem} {error.context}" if error.context else problem
