"""What a user installs: typed, with every ready experiment, the zoo and the dashboard inside, nothing that is not ours,
the same requirements that the checkout has; and the commands of the pages work from it, in a folder of one's own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import tarfile
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest

from rlstudio.core.host import installation
from rlstudio.core.host.installation import DISTRIBUTION, requirements
from rlstudio.core.version import __version__
from support.deadlines import PATIENCE
from support.pages import ROOT, blocks
from support.pip_offline import EXTRAS, PROJECT
from support.short_lines import shortened
from support.typed_commands import of_blocks
from support.wheel import STATIC, Installed, build_distributions, install


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_distributions(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_and_its_configs(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert "rlstudio/py.typed" in inside
    for path in (ROOT / "src/rlstudio").rglob("*"):
        if path.suffix in (".py", ".yaml", ".safetensors") or (
            STATIC in path.parents and path.suffix in (".js", ".css", ".html")
        ):
            assert f"rlstudio/{path.relative_to(ROOT / 'src/rlstudio').as_posix()}" in inside
    tops = {name.split("/")[0] for name in inside}
    assert tops == {"rlstudio", next(name for name in tops if name.endswith(".dist-info"))}


def test_hints_of_the_wheel_are_those_of_the_checkout(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one reads the metadata that was built, the other pyproject.toml."""
    of_checkout = {extra: sorted(map(str, requirements(extra))) for extra in ("", *EXTRAS)}
    assert of_checkout["box2d"] == ["Box2D>=2.3.10,<3"]
    zipfile.ZipFile(wheel).extractall(tmp_path)
    monkeypatch.setattr(installation, "ROOT", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    of_wheel = {extra: sorted(map(str, requirements(extra))) for extra in ("", *EXTRAS)}
    assert of_wheel.pop("envs") == [f"{DISTRIBUTION}[atari,box2d,minigrid,mujoco]"]
    assert of_checkout.pop("envs") == [f"{DISTRIBUTION}[box2d,mujoco,minigrid,atari]"]
    assert of_wheel == of_checkout


def test_version_and_changes_are_those_of_a_release(wheel: Path) -> None:
    """The version stands in three places; the newest release of the changes is dated, below what is not released."""
    assert wheel.name == f"{PROJECT['name']}-{__version__}-py3-none-any.whl"
    assert PROJECT["version"] == __version__
    unreleased, newest = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[:2]
    assert unreleased == "Unreleased"
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", newest)


def test_the_source_distribution_builds_the_same(wheel: Path) -> None:
    """The wheel was built from it, so what the wheel has it has; the dashboard comes built, Node is not needed."""
    with tarfile.open(wheel.parent / f"{PROJECT['name']}-{__version__}.tar.gz") as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    of_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("rlstudio/")}
    assert {f"src/{name}" for name in of_wheel} <= inside
    assert {"README.md", "NOTICE.md", "pyproject.toml"} <= inside


INSTALLING = ("python -m venv", "source ", "pip install './")
"""Lines that the fixture has done, with the packages of this environment; `test_a_clean_environment` types them."""

TYPED_ELSEWHERE = ("rlctl --install-completion", "rlctl serve", "tensorboard ")
"""The first writes into the shell that is around it; the others serve until they are stopped, see the last test."""

DRIVER = """\
import contextlib, io, json, os, pathlib, sys, traceback
import rlstudio
from rlstudio.cli.app import main
from rlstudio.control.queue import run_group
from rlstudio.control.store.resources import Slots
run_group.of_this_machine = lambda: Slots(1)
home = pathlib.Path(sys.prefix).resolve()
assert home in pathlib.Path(rlstudio.__file__).resolve().parents, rlstudio.__file__
for words in json.load(open("lines.json")):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(words)
    if code:
        sys.exit(f"{words}: {code} {err.getvalue()}")
print("all done")
"""


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Installed:
    return install(wheel, tmp_path)


def lines_of(page: str) -> list[str]:
    return [typed.line for typed in of_blocks() if typed.place == page and not typed.line.startswith(INSTALLING)]


@pytest.mark.learning
@pytest.mark.real_process
def test_the_readme_from_the_wheel_in_short(installed: Installed) -> None:
    """Every command on runs of two epochs, in one process of the new environment; as typed below, which is slow."""
    assert installed.run("rlctl --version").stdout == f"rlstudio {__version__}\n"
    words = [shlex.split(line.partition(" > ")[0]) for line in lines_of("README.md")]
    typed = [shortened(line[1:]) for line in words if line[0] == "rlctl" and line[1] != "serve"]
    assert len(typed) > 15
    (installed.place / "lines.json").write_text(json.dumps(typed))
    (installed.place / "driver.py").write_text(DRIVER)
    done = installed.run("python driver.py")
    assert (done.returncode, done.stdout) == (0, "all done\n"), done.stderr
    assert not (installed.place / "src").exists()


def interrupted(installed: Installed, line: str) -> None:
    """Typed, and Ctrl-C once it trains."""
    before = set((installed.place / "runs").glob("*/metrics.jsonl"))
    process = installed.start(line)
    deadline = time.monotonic() + PATIENCE
    while not set((installed.place / "runs").glob("*/metrics.jsonl")) - before:
        assert time.monotonic() < deadline
        assert process.poll() is None, (installed.place / "started.txt").read_text()
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    process.wait(PATIENCE)


def type_verbatim(installed: Installed, page: str) -> None:
    """Every line of the page in order, then its Python, each as it stands."""
    for body in blocks(ROOT / page, "yaml"):
        if named := re.match(r"# ([a-z]+\.yaml)\n", body):
            (installed.place / named[1]).write_text(body)
    comments = {
        line.partition(" #")[0].strip()
        for body in blocks(ROOT / page, "bash")
        for line in body.splitlines()
        if line.endswith("# Ctrl-C")
    }
    for line in lines_of(page):
        if line in comments:
            interrupted(installed, line)
        elif not line.startswith(TYPED_ELSEWHERE):
            done = installed.run(line)
            assert done.returncode == 0, f"{line}: {done.stdout[-500:]} {done.stderr}"
    (installed.place / "typed.py").write_text("\n".join(blocks(ROOT / page, "python")))
    done = installed.run("python typed.py")
    assert done.returncode == 0, done.stderr


def end_background(installed: Installed) -> None:
    """What `--detach` and `orchestrator.launch` left in the queue."""
    listed = installed.run("rlctl ls --json")
    ids = [run["id"] for run in json.loads(listed.stdout) if run["state"] in ("QUEUED", "RUNNING", "STARTING")]
    if ids:
        installed.run(f"rlctl cancel {' '.join(ids)}")


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.real_process
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_every_command_of_a_page_works_as_it_stands(page: str, installed: Installed) -> None:
    try:
        type_verbatim(installed, page)
    finally:
        end_background(installed)


@pytest.mark.slow
@pytest.mark.real_process
def test_the_dashboard_is_served_from_the_wheel(installed: Installed) -> None:
    if not (STATIC / "index.html").is_file():
        pytest.skip("the dashboard is not built; run: make web")
    process = installed.start("rlctl serve --port 0")
    try:
        deadline, link = time.monotonic() + PATIENCE, None
        while link is None:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.2)
            link = re.search(r"http://[\d.:]+/", (installed.place / "started.txt").read_text())
        with urllib.request.urlopen(link[0], timeout=PATIENCE) as answer:
            assert b'<script type="module"' in answer.read()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)


@pytest.mark.slow
@pytest.mark.real_process
def test_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """Nothing shared: pip fetches what the wheel needs, in our pinned versions; then the first commands."""
    installed = install(wheel, tmp_path, shares=False)
    for name in ("PIP_NO_INDEX", "PIP_CONFIG_FILE", *(name for name in installed.variables if "proxy" in name.lower())):
        installed.variables.pop(name, None)
    torch = re.findall(r"^torch==.+$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[0]
    if installed.run(f"pip install --no-deps {torch}+cpu").returncode:
        assert installed.run(f"pip install {torch}").returncode == 0
    installed.variables["PIP_CONSTRAINT"] = str(ROOT / "constraints.txt")
    for line in [typed.line for typed in of_blocks() if typed.place == "README.md"][:2]:
        done = installed.run(line)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert "site-packages" in installed.run("python -c 'import rlstudio; print(rlstudio.__file__)'").stdout
    assert installed.run("rlctl eval zoo:ppo/cartpole --episodes 2").returncode == 0
