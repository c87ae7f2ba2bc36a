"""The learning table: what is trained, what is skipped, what the verdict says."""

import json

import pytest
from benchmarks.cells import CELLS, Cell, Published
from benchmarks.jobs import JobFailed
from benchmarks.settings import OURS
from benchmarks.venvs import ours

from benchmarks import learning, learning_page


def line(task, value=500.0, episodes=2):
    fields = {"cell": task.cell.key, "side": task.side, "seed": task.seed, "identity": task.identity}
    return {**fields, "returns": [value] * episodes, "env_steps": task.env_steps, "seconds": 1.0}


WHERE = {"versions": {OURS: {"torch": "2"}}, "date": "d", "machine": {"cores": 2, "processor": "p"}}


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.published], ids=lambda cell: cell.key)
def test_the_budget_is_the_published_one(cell):
    (task,) = learning.tasks([cell], OURS, seeds=1, episodes=1)
    assert task.env_steps <= 1.03 * cell.published.steps
    assert all(peer.job()["env_steps"] == task.env_steps for peer in learning.tasks([cell], "sb3", 1, 1))


def test_seeds_that_are_there_are_not_trained_again_unless_the_config_changed():
    wanted = learning.tasks(CELLS[:2], OURS, seeds=2, episodes=2)
    assert [task.seed for task in wanted] == [0, 0, 1, 1]
    done = [line(wanted[0]), line(wanted[3])]
    assert learning.missing(wanted, done) == wanted[1:3]
    assert learning.missing(wanted, [{**done[0], "identity": "another config"}]) == wanted
    assert learning.missing(wanted, [line(wanted[0], episodes=1)]) == wanted


def test_seeds_that_chose_nothing_have_a_column_of_their_own():
    usual, held_out = (learning.tasks(CELLS[:1], OURS, 2, 1), learning.held_out_tasks(CELLS[:1], 1))
    assert [task.seed for task in held_out] == [101, 102, 103, 104, 105]
    stored = [{**line(task), **WHERE} for task in usual]
    stored += [{**line(task, value=300.0 + task.seed), **WHERE} for task in held_out]
    lines = learning.current_lines(stored, 10), learning.held_out_lines(stored)
    assert [len(side) for side in lines] == [2, 5]
    row = learning_page.report(*lines).splitlines()[2]
    assert "| 500.0 [500.0, 500.0] | 500.0 | 2 of 2 (>= 475) | 403.0, lowest 401.0 (n=5) |" in row
    with pytest.raises(SystemExit):
        learning.arguments(["--held-out", "--peer", "sb3"])


def test_our_runs_and_theirs_have_each_their_identity():
    mine, theirs = (learning.tasks([CELLS[1]], side, 1, 1)[0] for side in (OURS, "sb3"))
    assert mine.identity != theirs.identity
    assert "config" in mine.job()
    assert "zoo" in theirs.job()
    assert learning.tasks([CELLS[0]], "sb3", 1, 1) == []  # no published counterpart


def test_a_torn_line_is_no_seed_and_the_next_one_is_whole(tmp_path):
    store = tmp_path / "learning.jsonl"
    learning.append(store, {"seed": 1})
    store.write_text(store.read_text() + '{"seed": 2, "ret')
    learning.append(store, {"seed": 3})
    assert learning.read_store(store) == [{"seed": 1}, {"seed": 3}]


def test_a_failed_seed_is_counted_and_the_others_are_kept(tmp_path, monkeypatch):
    def run_job(python, runner, job, timeout):
        if job["seed"] == 1:
            raise JobFailed("killed")
        return {"returns": [1.0], "env_steps": 5, "seconds": 0.1}

    monkeypatch.setattr(learning, "run_job", run_job)
    store = tmp_path / "learning.jsonl"
    work = learning.tasks([CELLS[0]], OURS, seeds=3, episodes=1)
    assert learning.train(work, ours(), jobs=2, store=store) == 1
    assert sorted(row["seed"] for row in learning.read_store(store)) == [0, 2]
    assert [task.seed for task in learning.missing(work, learning.read_store(store))] == [1]
    assert "rlstudio" in json.loads(store.read_text().splitlines()[0])["versions"]


def test_the_newest_line_of_today_s_config_counts():
    (task,) = learning.tasks([CELLS[0]], OURS, 1, 1)
    stored = [line(task, 1.0), {**line(task, 2.0), "identity": "old"}, line(task, 3.0)]
    assert [row["returns"][0] for row in learning.current_lines(stored, seeds=1)] == [3.0]


def score(*means):
    return learning_page.score([{"seed": i, "returns": [m], "env_steps": 10} for i, m in enumerate(means)])


def test_a_score_is_over_seeds_and_its_interval_encloses_it():
    found = score(*range(10))
    assert found.iqm == 4.5
    assert found.low < 4.5 < found.high
    assert score(*range(10)) == found  # no clock, no global generator


PUBLISHED = Cell("c", "f", 475.0, Published(500, 0, 1_000_000))
PROMISE = Cell("c", "f", 475.0)


@pytest.mark.parametrize(
    ("cell", "mine", "other", "words"),
    [
        (PUBLISHED, (500, 500), None, "at or above published"),
        (PUBLISHED, (490, 500), (400, 500), "not below Stable-Baselines3 here"),
        (PUBLISHED, (490, 491), (400, 401), "not below Stable-Baselines3 here"),
        (PUBLISHED, (490, 491), (499, 500), "**below**"),
        (PUBLISHED, (490, 491), None, "not run here yet"),
        (PROMISE, (475, 500), None, "every seed solved"),
        (PROMISE, (474, 500), None, "**a seed missed**"),
    ],
)
def test_the_verdict(cell, mine, other, words):
    assert words in learning_page.verdict(cell, score(*mine), score(*other) if other else None)


def test_the_report_has_a_line_for_each_cell_that_was_trained():
    rows = [{**line(task), **WHERE} for task in learning.tasks(CELLS[:2], OURS, seeds=2, episodes=2)]
    text = learning_page.report(rows)
    assert text.count("2 of 2 (>= 475)") == 2
    assert "500.0 [500.0, 500.0]" in text
    assert learning_page.report([]) == "No seed has been trained yet."
