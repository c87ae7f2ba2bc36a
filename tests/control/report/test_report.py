"""The page of a run, of groups and of a sweep: everything is in it, it asks nobody for anything, and it is well-formed
whatever names and settings hold."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import rlstudio
from rlstudio import orchestrator
from rlstudio.control.report.axes import axes_around, labels, round_ticks, short
from rlstudio.control.report.content import content_of_runs, content_of_sweep
from rlstudio.control.report.html import table
from rlstudio.control.report.page import page_text, write_page
from rlstudio.control.report.record_section import INCIDENTS
from rlstudio.control.sweep.sweeps import Sweeps, SweepState, Trial, TrialState
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import UserError
from rlstudio.core.host.process import this_process
from rlstudio.core.run_state import RunState
from rlstudio.experiment.folder.run_folder import RunFolder
from support.experiments import tiny_data
from support.measured_runs import learning, measured_run
from support.sweep_world import search_of

VOID = {"meta", "img", "br"}
HOSTILE = "<script>alert(1)</script>\"'&"


class Page(HTMLParser):
    """Tags that were opened and not closed, what is loaded from elsewhere, and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.loaded: list[str] = []
        self.scripts = 0
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Page:
    """A page that is well-formed, loads nothing and runs no script but its own."""
    page = Page(text)
    assert (page.open, page.wrong) == ([], [])
    assert all(value.startswith("data:") for value in page.loaded)
    assert page.scripts == 1
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    return page


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("reported") / "runs"
    orchestrator.run(tiny_data(name="whole", eval={"every_epochs": 1, "episodes": 2}), runs_dir=runs, progress=False)
    return runs


@pytest.fixture
def runs(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "runs")


def page_of(runs: Path, *words: str, metric: str | None = None) -> str:
    workspace = Workspace(runs)
    ids = [run_id for word in words for run_id in workspace.references().all_of(word)]
    return page_text(content_of_runs(workspace.entries_of(ids), metric))


def test_the_page_of_a_run_has_everything(runs: Path) -> None:
    page = parsed(page_of(runs, "whole"))
    for part in ("Return in evaluation", "What it measured", "Evaluations", "Incidents", "Configuration"):
        assert part in page.text
    for fact in ("completed", "ppo on CartPole-v1", "num_envs", "torch version", "state hash", "None: nothing was"):
        assert fact in page.text


def test_a_film_is_inside_and_incidents_are_named(runs: Path) -> None:
    (folder,) = runs.glob("2*")
    (folder / "artifacts").mkdir(exist_ok=True)
    (folder / "artifacts" / "best.mp4").write_bytes(b"not really a film")
    run = RunFolder(folder)
    run.event("rolled_back", to_env_steps=0, attempt=1)
    run.event("bad_rows", env_steps=64, first=HOSTILE)
    run.close()
    page = parsed(page_of(runs, "whole"))
    assert [value for value in page.loaded if value.startswith("data:video/mp4;base64,")]
    assert "artifacts/best.mp4" in page.text
    assert "rolled back" in page.text
    assert f"first {HOSTILE}" in page.text


def test_names_and_settings_may_hold_anything(runs: Path) -> None:
    (folder,) = runs.glob("2*")
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("name: whole", f"name: {json.dumps(HOSTILE)}  # {HOSTILE}"))
    page = parsed(page_of(runs, "whole"))
    assert HOSTILE in page.text


def test_secrets_of_a_config_are_not_in_the_page(runs: Path) -> None:
    (folder,) = runs.glob("2*")
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("kwargs: {}", "kwargs: {api_key: abc123secret}", 1))
    assert "abc123secret" not in page_of(runs, "whole")


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    for seed in range(5):
        measured_run(tmp_path / "runs", "good", seed, learning(400, seed))
        measured_run(tmp_path / "runs", "poor", seed, learning(100, seed), lr=1e-5)
    return tmp_path / "runs"


def test_groups_stand_beside_each_other_with_bands(groups: Path) -> None:
    text = page_of(groups, "good", "poor")
    page = parsed(text)
    assert "good and poor" in page.text
    assert "P(better than good)" in page.text
    assert "0.00 [0.00, 0.00]" in page.text
    assert text.count('class="band"') >= 4  # two groups in two metrics
    assert "10 of 10" in page.text


def test_another_metric_is_drawn_large(groups: Path) -> None:
    assert "<h2>Return in training</h2>" in page_of(groups, "good", metric="rollout/return_mean")


def test_a_curve_of_very_many_points_stays_small(tmp_path: Path) -> None:
    points = [(step, float(np.sin(step / 1000) + (step % 7))) for step in range(20_000)]
    measured_run(tmp_path / "runs", "long", 0, {"rollout/return_mean": points})
    text = page_of(tmp_path / "runs", "long")
    assert len(text) < 80_000
    assert "between the lowest and the highest" in parsed(text).text


def test_a_run_that_measured_nothing_has_a_page_that_says_so(tmp_path: Path) -> None:
    for seed in range(2):
        measured_run(tmp_path / "runs", "empty", seed, {}, state=RunState.FAILED)
    run_id, _ = sorted(folder.name for folder in (tmp_path / "runs").glob("2*"))
    for word in (run_id, "empty"):
        page = parsed(page_of(tmp_path / "runs", word))
        assert "Nothing has been measured yet." in page.text
        assert "failed" in page.text
    with pytest.raises(UserError, match="no metric 'train/kl'; no metric has been written"):
        page_of(tmp_path / "runs", "empty", metric="train/kl")


def test_a_group_has_one_colour_in_every_picture_and_one_run_no_interval(tmp_path: Path) -> None:
    only_second = {"train/q": [(0, 1.0), (100, 2.0)]}
    measured_run(tmp_path / "runs", "first", 0, learning(400, 0))
    measured_run(tmp_path / "runs", "second", 0, {**learning(100, 0), **only_second}, lr=1e-5)
    text = page_of(tmp_path / "runs", "first", "second")
    (picture,) = re.findall(r"<h3>Values of actions</h3>.*?</ul>", text, re.DOTALL)
    assert re.findall(r'<g class="(\w+)"><path', picture) == ["s1"]
    assert '<li class="s1"><i></i>second</li>' in picture
    page = parsed(text)
    assert "nan" not in page.text
    assert "[-, -]" not in page.text


def test_what_is_out_of_the_ordinary_is_an_incident() -> None:
    """A new kind of event is in the one list or in the other."""
    sources = (path.read_text() for path in (Path(rlstudio.__file__).parent).rglob("*.py"))
    written = {kind for source in sources for kind in re.findall(r"\.event\(\s*\"(\w+)\"", source)}
    assert written - set(INCIDENTS) == {"checkpointed", "extended", "migrated", "registered"}


@pytest.fixture
def swept(tmp_path: Path) -> Path:
    """Three trials with a run each; the second one is the best."""
    workspace = Workspace(tmp_path / "runs")
    sweeps, search = Sweeps(workspace.store.database), search_of(name="found")
    sweep = sweeps.create("found", search.to_json(), this_process())
    scores = {0: 9.0, 1: 80.0, 2: 30.0}
    trials = [
        Trial(number, {"train.lr": 10.0 ** -(number + 2)}, 3, TrialState.COMPLETED, {3: {0: score}}, score=score)
        for number, score in scores.items()
    ]
    sweeps.write(sweep, trials)
    for number, score in scores.items():
        run_id = measured_run(tmp_path / "runs", f"found-{number}", 0, learning(score, 0))
        _adopt(workspace, run_id, number)
    sweeps.end(sweep, SweepState.COMPLETED)
    workspace.store.database.close()
    return tmp_path / "runs"


def _adopt(workspace: Workspace, run_id: str, trial: int) -> None:
    from support.control_world import S, request

    asked = request(name=f"found-{trial}", sweep="found", trial=trial)
    from rlstudio.core.run_state import Reason

    workspace.store.adopt(asked, run_id, S.COMPLETED, Reason.NONE, {})


def test_a_sweep_shows_its_best_trial_settings_and_all_trials(swept: Path) -> None:
    text = page_text(content_of_sweep(Workspace(swept), "found"))
    page = parsed(text)
    places = [
        text.index(f'<tr{kind}><td class="whole">{trial}</td>')
        for kind, trial in ((' class="best"', 1), ("", 2), ("", 0))
    ]
    assert places == sorted(places)
    assert "train.lr" in page.text
    assert text.count("<title>trial") == 3


def test_only_html_is_written_and_whole(runs: Path, tmp_path: Path) -> None:
    workspace = Workspace(runs)
    content = content_of_runs(workspace.entries())
    with pytest.raises(UserError, match=r"\.html"):
        write_page(content, tmp_path / "page.pdf")
    assert write_page(content, tmp_path / "page.html").read_text().endswith("</html>\n")


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 100, [0, 20, 40, 60, 80, 100]), (-1, 1, [-1, -0.5, 0, 0.5, 1]), (3, 3, [3]), (0, 1e-6, None)],
)
def test_ticks_are_round_and_inside(low: float, high: float, ticks: list[float] | None) -> None:
    found = round_ticks(low, high, 5)
    assert ticks is None or found == ticks
    assert all(low <= tick <= high for tick in found)


@pytest.mark.parametrize(
    ("value", "text"), [(12_000, "12k"), (2e6, "2M"), (0.05, "0.05"), (5000, "5000"), (-3e7, "-30M")]
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_ticks_of_one_axis_have_one_unit() -> None:
    assert list(labels([0.0, 2000.0, 8000.0, 10_000.0]).values()) == ["0", "2k", "8k", "10k"]
    assert list(labels([-0.5, 0.0, 250.0]).values()) == ["-0.5", "0", "250"]


@pytest.mark.parametrize(
    ("low", "high", "first", "last"),
    [
        (100_000, 100_010, "100k", "100.01k"),
        (1_000_000, 1_000_004, "1M", "1.000004M"),
        (0.123456, 0.123466, "0.123456", "0.123466"),
    ],
)
def test_ticks_of_a_narrow_range_differ(low: float, high: float, first: str, last: str) -> None:
    names = list(labels(round_ticks(low, high, 5)).values())
    assert len(set(names)) == len(names) > 3
    assert (names[0], names[-1]) == (first, last)


def test_names_and_ids_are_not_broken_and_sentences_are() -> None:
    text = table(["run", "why", "steps"], [["20261119-130323-ppo", "it was stopped", "3"], ["x" * 300, "-", "4"]], (2,))
    assert '<td class="whole">20261119-130323-ppo</td><td>it was stopped</td><td class="n">3</td>' in text
    assert f"<td>{'x' * 300}</td>" in text


def test_points_lie_inside_the_picture() -> None:
    xs, ys = np.array([0.0, 5.0, 10.0]), np.array([-1.0, 4.0, 2.0])
    axes = axes_around(xs, ys, 300, 200)
    assert ((axes.x(xs) >= 0) & (axes.x(xs) <= 300)).all()
    assert ((axes.y(ys) >= 0) & (axes.y(ys) <= 200)).all()
    assert axes.y(ys)[1] < axes.y(ys)[2] < axes.y(ys)[0]  # higher values are further up
