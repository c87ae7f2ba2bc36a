"""Reading a pickle without executing it.

A pickle is a program for a small machine, and running it means trusting it. Here its instructions are only looked at: a
few kinds of them build dicts, tuples, text and numbers, a name is compared and never looked up, and every other name or
instruction ends the reading. A subclass says which names it knows and which further instructions it takes: the method
`_reduce` is the instruction REDUCE.
"""

from __future__ import annotations

import pickletools
from typing import ClassVar, NamedTuple

from rlstudio.delivery.sb3.zip_archive import BadArchive

MAX_STEPS = 500_000
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
NUMBERS = ("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE")
TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}

_MARK = object()


class Name(NamedTuple):
    """Something that the file names; it is compared, never looked up."""

    text: str


class PickleReader:
    """The stack of the description; only ever holds values of ours."""

    kind: ClassVar[str]  # of file, in words
    newest_protocol: ClassVar[int] = 4

    def __init__(self, label: str) -> None:
        self.label = label
        self.stack: list[object] = []
        self.memo: dict[int, object] = {}

    def knows(self, name: str) -> bool:
        """Whether such a file has this name: `module attribute`."""
        raise NotImplementedError  # abstract

    def read(self, data: bytes) -> object:
        try:
            for number, (code, argument, _) in enumerate(pickletools.genops(data)):
                if number > MAX_STEPS:
                    raise BadArchive(f"{self.label}: its description is too long")
                if code.name == "STOP":
                    return self._result()
                self._take(code.name, argument)
        except BadArchive:
            raise
        except Exception as error:  # a hostile file can make the parser raise anything
            raise BadArchive(f"{self.label}: its description is damaged: {type(error).__name__} {error}") from error
        raise BadArchive(f"{self.label}: its description ends early")

    def refusal(self, what: str) -> BadArchive:
        return BadArchive(f"{self.label}: holds {what}, which no {self.kind} does; it was not executed")

    def name(self, text: object) -> None:
        """Push a name, if the file may have it."""
        if not isinstance(text, str) or not self.knows(text):
            raise self.refusal(f"the name {text!a}")
        self.stack.append(Name(text))

    def since_mark(self) -> list[object]:
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise self.refusal("a mark too few")
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    def _result(self) -> object:
        if len(self.stack) != 1:
            raise self.refusal("an unfinished description")
        return self.stack[0]

    def _take(self, code: str, argument: object) -> None:
        if code in CONSTANTS:
            self.stack.append(CONSTANTS[code])
        elif code in NUMBERS:
            self.stack.append(argument)
        elif code == "GLOBAL":
            self.name(argument)
        elif code in TUPLES:
            self.stack[-TUPLES[code] :] = [tuple(self.stack[-TUPLES[code] :])]
        else:
            step = getattr(self, f"_{code.lower()}", None)
            if step is None:
                raise self.refusal(f"the instruction {code}")
            step(argument)

    def _proto(self, version: int) -> None:
        if version > self.newest_protocol:
            raise self.refusal(f"protocol {version}")

    def _frame(self, _: object) -> None:
        """Says how long a part is; the parser knows that by itself."""

    def _mark(self, _: object) -> None:
        self.stack.append(_MARK)

    def _tuple(self, _: object) -> None:
        self.stack.append(tuple(self.since_mark()))

    def _empty_tuple(self, _: object) -> None:
        self.stack.append(())

    def _empty_dict(self, _: object) -> None:
        self.stack.append({})

    def _setitem(self, _: object) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._enter([key, value])

    def _setitems(self, _: object) -> None:
        self._enter(self.since_mark())

    def _enter(self, pairs: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict) or len(pairs) % 2:
            raise self.refusal("entries of something else than a dict")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str) or key in target:
                raise self.refusal("an entry whose name is no text, or there already")
            target[key] = value

    def _binput(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    _long_binput = _binput

    def _memoize(self, _: object) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _binget(self, index: int) -> None:
        self.stack.append(self.memo[index])

    _long_binget = _binget
