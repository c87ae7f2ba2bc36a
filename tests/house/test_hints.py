"""What RLStudio tells people to type can be typed: every program, command, option, target and package is there.

Messages and pages are read, not run; pip is asked up to the download.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import pytest

from rlstudio.core.host.installation import COVERED_BY, remedy, requirements
from rlstudio.models.config import NetworkConfig
from support import typed_commands
from support.pages import ROOT
from support.pip_offline import EXTRAS, PROJECT, pip_would_install, stub_index
from support.rlctl_parser import options, problem
from support.typed_commands import BUILTINS, PROGRAMS, SAMPLE, SOURCE, Typed, everything

OUR_FILE = f"./{PROJECT['name']}-{PROJECT['version']}-py3-none-any.whl"
"""RLStudio from a file that the reader has; never by its name, which an index would answer."""

FILLED_IN = "src/rlstudio/core/host/installation.py"
"""Where hints are made from our own metadata: their literals hold only what is put in."""


@cache
def typed_lines() -> list[Typed]:
    return [typed for typed in everything() if not typed.place.startswith(FILLED_IN)]


@pytest.fixture(autouse=True)
def _empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here may act; if it did, it would not be on the files of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))


def typed_with(*programs: str) -> list[Typed]:
    return [typed for typed in typed_lines() if typed.program in programs]


def pip_lines() -> list[Typed]:
    """Of messages and pages, and those that are made for each extra."""
    extras = [extra for extra in EXTRAS if extra != "envs"]
    return [*typed_with("pip"), *(Typed(f"remedy of {extra}", remedy(extra).split("`")[1]) for extra in extras)]


def test_commands_are_collected_from_everywhere() -> None:
    """The tests below mean something: they have what they are about."""
    places = {typed.place.partition(":")[0] for typed in typed_lines()}
    for place in ("README.md", "docs/howto/environments.md", "src/rlstudio/configs/ppo/pong.yaml", "docs/tutorial.md"):
        assert place in places
    assert len(typed_commands.of_messages()) > 60
    assert {typed.program for typed in typed_lines()} <= {*PROGRAMS, *BUILTINS}
    assert len(pip_lines()) > 20


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("run 7: gone; go on with: rlctl resume 7 --empty-replay", ["rlctl resume 7 --empty-replay"]),
        ("go on with: rlctl sweep --resume 7, or choose", ["rlctl sweep --resume 7"]),
        ("choose another (rlctl algos) or a file", ["rlctl algos"]),
        ("unknown; `rlctl envs` lists them", ["rlctl envs"]),
        ("run `pip install \"a>=1,<2\" 'b'`", ["pip install \"a>=1,<2\" 'b'"]),
        ("or `make -C '/a b' setup-dev`", ["make -C '/a b' setup-dev"]),
        ("rlctl 7 7", []),
        ("make one with it; rlctl: error", []),
        ("## Use\n```\nrlctl eval {this folder}  # what it earns\n```\n", ["rlctl eval 7"]),
    ],
)
def test_a_command_ends_where_its_sentence_does(text: str, lines: list[str]) -> None:
    assert list(typed_commands.sentences_and_quotes(text)) == lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("rlctl lunch -f x", "No such command"),
        ("rlctl resume 7 --empty", "No such option"),
        ("rlctl envs lists all of them", "unexpected extra argument"),
        ("rlctl fork", "Missing"),
        ("rlctl eval RUN --planner", "requires an argument"),
        ("rlctl ls --limit many", "not a valid int"),
        ("rlctl sweep shwo x", "No such command"),
    ],
)
def test_a_line_that_cannot_be_typed_is_noticed(line: str, reason: str) -> None:
    assert reason in str(problem(line))


def test_the_parser_takes_every_rlctl_line() -> None:
    lines = [typed for typed in typed_with("rlctl", "rlstudio") if typed.line not in ("rlctl", "rlstudio")]
    problems = {str(typed): problem(typed.line, typed.complete) for typed in lines}
    assert {place: reason for place, reason in problems.items() if reason} == {}


OF_OTHERS = {"--serve-artifacts"}
"""Options of other programs that a message names: mlflow server."""


def test_every_option_in_a_message_exists() -> None:
    """Also of messages that name no command: `give --env ENV`."""
    unknown = []
    for file in typed_commands.files_with("--[a-z]", SOURCE):
        tree = typed_commands.parsed(file)
        for node in typed_commands.strings(tree, apart_from=typed_commands.docstrings(tree)):
            text = typed_commands.text_of(node)
            if " " in text.strip() and "var(--" not in text:  # a style sheet names its own properties so
                named = re.findall(r"(?<![\w-])--[a-z][\w-]*", text)
                unknown += [
                    f"{file.relative_to(ROOT)}:{node.lineno}: {name}"
                    for name in named
                    if name not in options() | OF_OTHERS
                ]
    assert unknown == []


@pytest.mark.parametrize("folder", ["src/rlstudio", "docs/howto", "docs/algorithms", "docs/reference"])
def test_a_setting_of_the_network_is_named_by_its_whole_path(folder: str) -> None:
    """`network.memory` is refused where it is typed: the section is `policy.network`."""
    setting = re.compile(rf"(?<![\w.])network\.({'|'.join(NetworkConfig.model_fields)})\b")
    named = [
        f"{file.relative_to(ROOT)}: {match[0]}"
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in (".py", ".md", ".yaml")
        for match in setting.finditer(_texts_of(file))
    ]
    assert named == []


def _texts_of(file: Path) -> str:
    """Of Python its strings, since `network.memory` is an attribute there too."""
    if file.suffix != ".py":
        return file.read_text()
    return "\n".join(typed_commands.text_of(node) for node in typed_commands.strings(typed_commands.parsed(file), []))


# -- pip --------------------------------------------------------------------------------------------------------------


def packages(typed: Typed) -> list[str]:
    return shlex.split(typed.line)[2:]


def test_pip_is_asked_for_our_requirements_in_our_ranges_and_for_nothing_else() -> None:
    """A package in a folder of the reader's own is the only other thing that may be installed."""
    ours = {str(requirement) for extra in ("", *EXTRAS) for requirement in requirements(extra)}
    wrong = []
    for typed in pip_lines():
        match packages(typed):
            case ["-e", folder]:
                assert folder in ("examples/my_parts", "my-algos"), typed
            case [file] if file.startswith(OUR_FILE):
                continue
            case words:
                wrong += [f"{typed}: {word}" for word in words if word not in ours or word.startswith(PROJECT["name"])]
    assert wrong == []


def test_no_page_message_or_script_installs_rlstudio_by_name() -> None:
    """Neither the earlier name, which is somebody else's, nor the new one, which may be tomorrow."""
    files = [*ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "configs").rglob("*.yaml")]
    for folder in ("docs", "src", "examples", "benchmarks"):
        files += [*(ROOT / folder).rglob("*.md"), *(ROOT / folder).rglob("*.py")]
    pattern = re.compile(rf"pip install [^`\n]*(?<!\./)\b(rlstudio|{PROJECT['name']})\b")
    named = {file.relative_to(ROOT).as_posix(): pattern.findall(file.read_text()) for file in files}
    assert {file: names for file, names in named.items() if names} == {}


def test_a_plug_in_depends_on_the_installed_distribution() -> None:
    texts = [(ROOT / name).read_text() for name in ("examples/my_parts/pyproject.toml", "CONTRIBUTING.md")]
    assert [re.findall(r"^dependencies = (.+)$", text, re.MULTILINE) for text in texts] == [
        [f'["{PROJECT["name"]}"]']
    ] * 2


@pytest.mark.real_process
def test_pip_takes_what_the_hints_ask_for(tmp_path: Path) -> None:
    """Up to the download: an index that has only our requirements, as they are pinned, has all that is asked for."""
    own = ("-e", OUR_FILE, f"{OUR_FILE}[serve]")
    wanted = {word for typed in pip_lines() for word in packages(typed) if packages(typed)[0] not in own}
    listed = shlex.join(["pip", "install", *sorted(wanted)])
    assert len(pip_would_install(listed, stub_index(tmp_path))) == len(wanted)


@pytest.mark.slow
@pytest.mark.real_process
def test_pip_takes_each_hint_as_it_is_typed(tmp_path: Path) -> None:
    index = stub_index(tmp_path)
    for line in sorted({typed.line for typed in pip_lines()} - {"pip install -e my-algos"}):  # a folder of the reader's
        names = shlex.split(line)[2:]
        installed = pip_would_install(line, index)
        ours = {"-e": {PROJECT["name"], "my-parts"}, f"{OUR_FILE}[serve]": {PROJECT["name"]}}
        assert installed == ours[names[0]] if names[0] in ours else len(installed) == len(names), line


# -- make and python --------------------------------------------------------------------------------------------------


@pytest.mark.real_process
def test_make_knows_every_target() -> None:
    targets = {word for typed in typed_with("make") for word in typed.words[1:]} | set(COVERED_BY)
    command = ["make", "--dry-run", "--directory", str(ROOT), *sorted(targets)]
    alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=alone)
    assert (done.returncode, done.stderr) == (0, "")
    assert "bootstrap.sh dev" in done.stdout


def test_every_python_line_names_a_file_of_ours_and_options_that_it_has() -> None:
    """A module of benchmarks, examples or the package. Its options stand in its source."""
    wrong = []
    for typed in typed_with("python"):
        words = [word for word in typed.words[1:] if word != "-P"]
        name = f"{words[1].replace('.', '/')}.py" if words[0] == "-m" else words[0]
        file = next((path for path in (ROOT / name, ROOT / "src" / name) if path.is_file()), None)
        if file is None:
            if words[:2] in (["-m", "pytest"], ["-m", "venv"]) or name.endswith("example.py"):  # in a bundle
                continue
            wrong.append(f"{typed}: no such file")
        else:
            text = file.read_text()
            wrong += [f"{typed}: {word}" for word in words if word.startswith("--") and f'"{word}"' not in text]
    assert wrong == []


def test_every_file_that_a_line_reads_is_there() -> None:
    """Files of the reader's own are those that a page has them make."""
    paths = [
        (typed, word)
        for typed in typed_lines()
        if typed.complete
        for word in typed.words[1:]
        if word.startswith("configs/")
    ]
    assert len(paths) > 30
    assert [str(typed) for typed, path in paths if not (ROOT / path).is_file()] == []
    folders = [typed for typed in typed_with("cd") if not (ROOT / typed.words[1]).is_dir()]
    assert folders == []


def test_the_sample_is_no_name_of_ours() -> None:
    assert problem(f"rlctl {SAMPLE}") is not None
