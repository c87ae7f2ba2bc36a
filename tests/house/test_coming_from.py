"""The pages for who knows another library: every row has something to type, and it is typed here, on short runs."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from rlstudio.cli.app import main
from rlstudio.cli.arguments.experiments import ExperimentRequest, choose
from rlstudio.control.store.resources import Slots
from rlstudio.core.parsing.yaml_file import read_text
from rlstudio.experiment.config.experiment import experiment_from, load_experiment
from rlstudio.experiment.config.presets import locate
from support.pages import BLOCK, DOCS, EXAMPLES, ROOT
from support.short_lines import shortened, small

LEAST = {"from-sb3": 30, "from-rllib": 15, "from-cleanrl": 10}
"""Rows that a page has at least."""

ROW = re.compile(r"^\|(?!-)(.+)\|(.+)\|$", re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
SETTING = re.compile(r"[a-z_]+(\.[a-z_]+)+=\S+")
YAML = re.compile(r"[a-z_]+(\.[a-z_]+)+: \S.*")
NUMBER = re.compile(r"(?<![\w.-])\d[\d_]*(?:\.\d+)?(?:e-?\d+)?")
NEEDS_A_PERSON = ("rlctl serve-policy",)
"""It serves until it is stopped; tests/server/policy."""


class Row(NamedTuple):
    there: str
    here: str

    @property
    def spans(self) -> list[str]:
        return SPAN.findall(self.here)


def rows_of(page: Path) -> list[Row]:
    rows = [Row(there.strip(), here.strip()) for there, here in ROW.findall(BLOCK.sub("", page.read_text()))]
    return [row for row in rows if row.here != "here"]


def is_python(span: str) -> bool:
    return not span.startswith("rlctl ") and re.search(r"[(=]", span) is not None and not SETTING.fullmatch(span)


def sections(page: Path) -> dict[str, list[tuple[str, str]]]:
    """The code blocks below each heading, by its anchor; those above the first one have none."""
    parts = re.split(r"^## (.+)$", page.read_text(), flags=re.MULTILINE)
    named = dict(zip(["", *parts[1::2]], parts[0::2], strict=True))
    return {name.lower().replace(" ", "-"): BLOCK.findall(text) for name, text in named.items()}


def typed(line: str) -> list[str]:
    """A command on short runs; settings of the page go after those that make it short, and so count."""
    words = shlex.split(line)[1:]
    words = [re.sub(r"^train\.total_steps=\d+$", "train.total_steps=128", word) for word in words]
    if words[0] == "launch":
        words = [re.sub(r"^train\.epochs=10$", "train.epochs=2", word) for word in words]
        words = [re.sub(r"^train\.batch_size=128$", "train.batch_size=16", word) for word in words]
        at = 3 if words[1] == "-f" else 5
        algo = words[2] if words[1] == "--algo" else load_algo(words[2])
        left_out = "env." if algo == "bc" else "train.epochs=" if "train.total_steps=128" in words else "-"
        brief = [word for word in small(algo) if not word.startswith(left_out)]
        words[at:at] = brief
        if "--seeds" in words:
            words[words.index("--seeds") + 1] = "2"
        return [word if word != "--detach" else "--dry-run" for word in words]
    if words[:2] == ["fork", "bundles/old"]:
        return [*words, *small("ppo")]
    if words[0] in ("resume", "fork"):  # of a run that is short
        return [re.sub(r"^train\.epochs=60$", "train.epochs=6", word) for word in words]
    return [*shortened(words), *(["--format", "bundle"] if words[0] == "import" else [])]


def load_algo(file: str) -> str:
    return str(read_text(locate(file).read_text(), file).data["policy"]["algo"])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    shutil.copy(EXAMPLES / "my_worlds.py", tmp_path / "corridor.py")
    shutil.copy(ROOT / "tests/golden/sb3/ppo_cartpole.zip", tmp_path / "model.zip")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    monkeypatch.setattr("rlstudio.control.queue.run_group.of_this_machine", lambda: Slots(1))  # no worker beside
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # it gets this folder, and the next page has another
    yield tmp_path
    sys.modules.pop("corridor", None)


class Typist:
    """Types what a page shows, in its order, with the names that it has defined so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._names: dict[str, object] = {}

    def type(self, span: str) -> None:
        if span.startswith(NEEDS_A_PERSON):
            return
        if span.startswith("rlctl "):
            code = main(typed(span))
            output = self._capsys.readouterr()
            assert code == 0, f"{span}: {output.err}"
        elif SETTING.fullmatch(span):
            load_experiment("configs/ppo/cartpole.yaml", [span])
        elif YAML.fullmatch(span):
            key, _, value = span.partition(": ")
            section, name = key.split(".")
            base = {"env": {"id": "CartPole-v1"}, "policy": {"algo": "ppo"}}
            given = read_text(f"{name}: {value}", span).data
            experiment_from({**base, section: {**base.get(section, {}), **given}})
        elif is_python(span):
            self.run(span)

    def run(self, body: str) -> None:
        """Python; what it would train is made short."""
        body = body.replace('"train.total_steps=10000"', ", ".join(map(repr, small("ppo"))))
        body = re.sub(r'"train\.epochs=\d+"', ", ".join(map(repr, small("ppo"))), body)
        exec(compile(body, "page", "exec", dont_inherit=True), self._names)
        self._capsys.readouterr()


def code_of(page: Path) -> Iterator[str]:
    """The imports, then the rows, then the blocks of the sections below them."""
    blocks = sections(page)
    yield from (body for _, body in blocks.pop(""))
    for row in rows_of(page):
        yield from row.spans
    for found in blocks.values():
        for language, body in found:
            yield from body.splitlines() if language == "bash" else [body]


@pytest.mark.learning
@pytest.mark.parametrize("name", LEAST)
def test_all_that_a_page_shows_runs(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typist = Typist(capsys)
    for code in code_of(DOCS / f"howto/{name}.md"):
        typist.type(code) if "\n" not in code else typist.run(code)


def epochs_of(words: list[str]) -> int:
    """Of a `launch` as it stands on the page, not made short."""
    option = dict(pairwise(words))
    overrides = [word for word in words if SETTING.fullmatch(word)]
    return choose(ExperimentRequest(None, option["--algo"], option["--env"], overrides)).experiments[0].train.epochs


@pytest.mark.parametrize("name", LEAST)
def test_who_types_a_page_trains_on_for_longer_than_before(name: str) -> None:
    """Six epochs are more than those of the short runs above, and were less than those of the run on the page."""
    launched, done = [""], 0
    for words in (
        shlex.split(span) for row in rows_of(DOCS / f"howto/{name}.md") for span in row.spans if "rlctl" in span
    ):
        if words[:2] == ["rlctl", "launch"]:
            launched = words
        elif words[1:3] in (["resume", "last"], ["fork", "last"]):
            (wanted,) = (int(word.partition("=")[2]) for word in words if word.startswith("train.epochs="))
            assert wanted > (epochs_of(launched) if launched[0] else done), words
            launched, done = [""], wanted


@pytest.mark.parametrize("name", LEAST)
def test_a_row_has_the_numbers_of_the_other_library(name: str) -> None:
    def numbers(text: str) -> set[float]:
        return {float(number) for number in NUMBER.findall(text)}

    for row in rows_of(DOCS / f"howto/{name}.md"):
        assert numbers(" ".join(SPAN.findall(row.there))) <= numbers(row.here), row


@pytest.mark.parametrize(("name", "least"), LEAST.items())
def test_every_row_has_something_to_type(name: str, least: int) -> None:
    page = DOCS / f"howto/{name}.md"
    rows, blocks = rows_of(page), sections(page)
    assert len(rows) >= least
    for row in rows:
        anchors = re.findall(r"\]\(#([\w-]+)\)", row.here)
        commands = [span for span in row.spans if span.startswith("rlctl ") or is_python(span)]
        assert commands or any(blocks.get(anchor) for anchor in anchors), row
