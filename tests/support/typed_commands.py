"""Every command that RLStudio tells people to type: in messages, help and pages, and in the comments of its configs.

A message is a string literal. A command in it stands in backticks, or begins at `rlctl` and ends where the sentence
does: at a comma, a semicolon, a bracket or the end of the line. What an f-string puts in becomes a sample word.
A command in a code block, or in a message, is there to be typed as it stands; one inside a sentence of a page may leave
arguments out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from support.pages import BLOCK, EXAMPLES, PAGES, ROOT

SOURCE = ROOT / "src/rlstudio"
SAMPLE = "7"
"""Stands for what a message fills in: a run, a name, a number."""

PROGRAMS = ("rlctl", "rlstudio", "pip", "make", "python", "minari", "tensorboard", "pre-commit", "torchrun")
BUILTINS = ("cd", "source", "export", "curl")
COMMAND = rf"(?:\w+=\S+ )*(?:\.venv/bin/)?(?:{'|'.join(PROGRAMS)}) \S"
QUOTED = re.compile(rf"`({COMMAND}[^`]*|rlctl)`")
IN_SENTENCE = re.compile(r"(?<![\w/.:{-])rlctl (?=[a-z{-])[^,;()`\n]*")
MENTION = rf"(?:{'|'.join(PROGRAMS)}) "
BARE_PIP = re.compile(r"(?<![\w`])pip install [^`\n]*")


class Typed(NamedTuple):
    place: str
    """File, and line where it is known."""

    line: str
    complete: bool = True
    """Typed as it stands; otherwise it may leave arguments out."""

    @property
    def program(self) -> str:
        return self.words[0].rpartition("/")[2]

    @property
    def words(self) -> list[str]:
        """Variables that are set before the program are left out."""
        words = self.line.split()
        while "=" in words[0]:
            words.pop(0)
        return words

    def __str__(self) -> str:
        return f"{self.place}: {self.line}"


def sentences_and_quotes(text: str) -> Iterator[str]:
    """The commands in a message, a comment or a sentence. A file that is written may have a code block."""
    text = re.sub(r"\{[^}]*\}", SAMPLE, text)  # {this folder}: the reader fills it in
    for _, body in BLOCK.findall(text):
        yield from (line.partition(" #")[0].strip() for line in body.splitlines() if re.match(COMMAND, line))
    prose = BLOCK.sub("", text)
    yield from (match.strip() for match in QUOTED.findall(prose))
    rest = re.sub(r"`[^`]*`", "`", prose)
    for pattern in (IN_SENTENCE, BARE_PIP):
        yield from (match.strip().rstrip(".:") for match in pattern.findall(rest))


@cache
def of_messages() -> list[Typed]:
    """In every string of the package that is not a docstring."""
    found = []
    for file in files_with(MENTION, SOURCE):
        tree = parsed(file)
        for node in strings(tree, apart_from=docstrings(tree)):
            place = f"{file.relative_to(ROOT)}:{node.lineno}"
            found += [Typed(place, line) for line in sentences_and_quotes(text_of(node))]
    return found


@cache
def of_docstrings() -> list[Typed]:
    """The help of the commands, the meaning of settings, the heads of the examples. Lines of their own are complete."""
    found = []
    for file in files_with(MENTION, SOURCE, EXAMPLES):
        for node in docstrings(parsed(file)):
            place = f"{file.relative_to(ROOT)}:{node.lineno}"
            lines = [line.partition(" #")[0].strip() for line in str(node.value).splitlines()]
            alone = [line for line in lines if line.startswith("rlctl ")]
            found += [Typed(place, line) for line in alone]
            prose = "\n".join(line for line in lines if line not in alone)
            found += [Typed(place, " ".join(line.split()), complete=False) for line in QUOTED.findall(prose)]
    return found


@cache
def of_configs() -> list[Typed]:
    found = []
    for file in sorted((SOURCE / "configs").rglob("*.yaml")):
        comments = "\n".join(line for line in file.read_text().splitlines() if line.startswith("#"))
        found += [Typed(str(file.relative_to(ROOT)), line) for line in sentences_and_quotes(comments)]
    return found


@cache
def of_blocks() -> list[Typed]:
    """In the code blocks of the pages: every line of a shell block, and in others those that begin with a program."""
    found = []
    for page in PAGES:
        place = page.relative_to(ROOT).as_posix()
        for language, body in BLOCK.findall(page.read_text()):
            if language not in ("", "bash"):
                continue
            for written in body.replace("\\\n", " ").splitlines():
                line = written.partition(" #")[0].strip()
                if line and (language == "bash" or re.match(rf"{COMMAND}|{'|'.join(BUILTINS)} ", line)):
                    found.append(Typed(place, line))
    return found


@cache
def of_sentences() -> list[Typed]:
    """Outside the code blocks of the pages, in backticks."""
    found = []
    for page in PAGES:
        prose = BLOCK.sub("", page.read_text())
        place = page.relative_to(ROOT).as_posix()
        found += [Typed(place, " ".join(line.split()), complete=False) for line in QUOTED.findall(prose)]
    return found


def everything() -> list[Typed]:
    return [*of_messages(), *of_docstrings(), *of_configs(), *of_blocks(), *of_sentences()]


def files_with(pattern: str, *folders: Path) -> list[Path]:
    """Only they are parsed, which takes a while."""
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return [file for file in files if re.search(pattern, file.read_text())]


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Strings that stand alone: of modules, classes and functions, and below fields."""
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def strings(tree: ast.Module, apart_from: list[ast.Constant]) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Whole literals: neither the pieces of an f-string nor docstrings."""
    pieces = [piece for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for piece in node.values]
    left_out = {id(node) for node in (*pieces, *apart_from)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in left_out:
            yield node


def text_of(node: ast.Constant | ast.JoinedStr) -> str:
    """With a sample for each value that is put in. What names the folder of runs is an option of its own."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    text = ""
    for piece in node.values:
        if isinstance(piece, ast.Constant):
            text += str(piece.value)
        elif isinstance(piece, ast.FormattedValue):
            written = ast.unparse(piece.value)
            is_option = text[-1:].isalnum() and (written == "where" or written.startswith("in_runs_dir("))
            text += f" --runs-dir {SAMPLE}" if is_option else SAMPLE
    return text
