"""The harness that measures: windows, processes, environments. Nothing here depends on how fast anything is."""

import ast
import json
import platform
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.settings import ROWS, SOLVE_ROW

from benchmarks import compare, jobs, records, venvs
from support.deadlines import PATIENCE

PEERS = Path(jobs.__file__).parent / "peers"


@pytest.fixture
def measure(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    import measure

    return measure


@pytest.fixture
def clock(measure, monkeypatch):
    """A clock that shows what it is told."""
    clock = {"now": 0.0}
    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock["now"])
    return clock


def test_a_window_opens_after_the_warmup_and_closes_when_it_is_full(measure, clock):
    window = measure.Window(seconds=3.0, warmup_steps=200)
    for now, steps, full in ((5.0, 100, False), (6.0, 200, False), (8.9, 900, False), (9.0, 1000, True)):
        clock["now"] = now
        assert window.mark(steps) is full
    assert window.result() == {"steps_per_second": round(800 / 3.0, 1), "env_steps": 800, "window_s": 3.0}


def test_a_window_that_was_never_filled_gives_no_number(measure, clock):
    window = measure.Window(seconds=3.0, warmup_steps=200)
    window.mark(500)
    with pytest.raises(SystemExit, match="never filled"):
        window.result()


def test_peak_memory_is_this_process_own(measure):
    first = measure.peak_rss_mb()
    block = bytearray(64 << 20)
    assert measure.peak_rss_mb() >= first
    assert 1 < first < 1 << 20
    del block


@pytest.fixture
def runners(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "RUNNERS", tmp_path)
    return tmp_path


def run(runners: Path, script: str, **job):
    (runners / "some_runner.py").write_text(script)
    return jobs.run_job(Path(sys.executable), "some_runner", {"threads": 3, **job}, timeout=PATIENCE)


@pytest.mark.real_process
def test_a_job_gets_its_settings_and_thread_count_and_only_the_last_line_counts(runners):
    script = """
import json, os, sys
print("chatter")
spec = json.loads(sys.argv[1])
print(json.dumps({"lr": spec["lr"], "started": spec["started"] > 0, "omp": os.environ["OMP_NUM_THREADS"]}))
"""
    assert run(runners, script, lr=0.25) == {"lr": 0.25, "started": True, "omp": "3"}


@pytest.mark.real_process
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise RuntimeError('no such env')", "no such env"),
        ("print('not json')", "no JSON"),
        ("pass", "exit status 0"),
        ("raise SystemExit(4)", "exit status 4"),
    ],
)
def test_a_job_that_fails_says_why(runners, script, words):
    with pytest.raises(jobs.JobFailed, match=words):
        run(runners, script)


def test_repetitions_are_interleaved():
    row = ROWS[0]
    steps = list(compare.plan_rates(row, threads=[1, 2], reps=3))
    width = len(row.entries)
    assert len(steps) == 6 * width
    for start in range(0, len(steps), width):
        block = steps[start : start + width]
        assert {step["entry"] for step in block} == {entry.key for entry in row.entries}
        assert len({(step["rep"], step["threads"]) for step in block}) == 1


def test_who_solves_first_alternates():
    steps = list(compare.plan_solves(SOLVE_ROW, seeds=2))
    assert [step["seed"] for step in steps] == [0, 0, 1, 1]
    assert [step["entry"] for step in steps[:2]] == [step["entry"] for step in steps[2:]][::-1]


def test_a_failed_peer_is_a_line_and_not_the_end(monkeypatch):
    def run_job(python, runner, job):
        if runner == "skrl_runner":
            raise jobs.JobFailed("broken")
        return {"steps_per_second": 10.0, "peak_rss_mb": 1.0}

    monkeypatch.setattr(compare, "run_job", run_job)
    sides = {name: venvs.Venv(Path("python"), {}) for name in ("rlstudio", "sb3", "skrl")}
    found = compare.measure(ROWS[2], compare.plan_rates(ROWS[2], [1], 1), sides, 1.0, checkout=None)
    assert {row["entry"] for row in found} == {"rlstudio/native", "rlstudio/sync", "sb3/sync", "skrl/sync"}
    assert [row["error"] for row in found if "error" in row] == ["broken"]


def test_an_environment_is_made_once_and_again_when_its_pins_change(tmp_path, monkeypatch):
    calls = []

    def call(command):
        calls.append(command)
        (tmp_path / "sb3").mkdir(exist_ok=True)

    monkeypatch.setattr(venvs, "FOLDER", tmp_path)
    monkeypatch.setattr(venvs, "_call", call)
    monkeypatch.setattr(venvs, "_versions", lambda python, names: dict.fromkeys(names, "1"))
    assert "stable-baselines3" in venvs.prepare("sb3").versions
    installs = len(calls)
    assert calls[0][-1] == str(tmp_path / "sb3")
    assert any("torch==2.13.0" in part for part in calls[1])
    venvs.prepare("sb3")
    assert len(calls) == installs
    monkeypatch.setitem(venvs.PINS, "sb3", ("stable-baselines3==9.9.9",))
    venvs.prepare("sb3")
    assert len(calls) == 2 * installs


def test_a_peer_that_cannot_be_installed_is_reported(monkeypatch, capsys):
    def prepare(peer):
        if peer == "skrl":
            raise venvs.CannotInstall("no network")
        return venvs.Venv(Path("python"), {})

    monkeypatch.setattr(compare, "prepare", prepare)
    found, missing = compare.prepare_sides(["sb3", "skrl"], checkout=None)
    assert set(found) == {"rlstudio", "sb3"}
    assert missing == {"skrl": "no network"}
    assert "skrl: cannot be installed here: no network" in capsys.readouterr().err


def test_a_record_says_what_it_ran_on_but_not_whose_machine():
    document = json.dumps(records.provenance({"rlstudio": {"torch": "2"}}))
    assert '"cores"' in document
    assert '"date"' in document
    assert platform.node() not in records.machine().values()
    assert str(Path(records.__file__).parent) not in document


OWN = {
    "pytorch_mppi": {"pytorch_mppi"},
    "rllib": {"ray"},
    "rllib_agents": {"ray", "mpe2", "rllib_runner"},
    "rlstudio": {"rlstudio"},
    "sb3": {"stable_baselines3", "sb3_contrib", "minigrid"},
    "skrl": {"skrl"},
    "tianshou": {"tianshou"},
    "torchrl": {"torchrl", "tensordict"},
}
FREE = sys.stdlib_module_names | {"numpy", "torch", "gymnasium", "measure", "episodes"}


@pytest.mark.parametrize("path", sorted(PEERS.glob("*.py")), ids=lambda path: path.stem)
def test_a_runner_needs_nothing_but_its_own_library(path):
    allowed = FREE | OWN.get(path.stem.rsplit("_", 1)[0], set())
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= allowed


@pytest.mark.parametrize("row", [*ROWS, SOLVE_ROW], ids=lambda row: row.key)
def test_our_side_runs_the_settings_of_the_row_and_keeps_every_default(row, monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    import rlstudio_runner

    what = "solve" if row is SOLVE_ROW else "rate"
    step = {"what": what, "threads": 2, "seed": 7, "vectorization": "native"}
    cfg = rlstudio_runner.experiment({**row.settings, **step})
    assert (cfg.train.lr, cfg.train.gamma) == (row.settings["lr"], row.settings["gamma"])
    whole_rollout = cfg.env.num_envs * (getattr(cfg.train, "rollout_steps", None) or 0)
    assert getattr(cfg.train, "batch_size", whole_rollout) == row.settings["batch_size"]
    assert (cfg.env.num_envs, cfg.env.seed, cfg.runtime.threads) == (row.settings["num_envs"], 7, 2)
    assert list(cfg.policy.network.hidden_sizes) == row.settings["hidden_sizes"]
    _assert_own_fields(cfg, row.settings)
    for section in ("ckpt", "guardrails", "tracking", "gates"):
        value = getattr(cfg, section)
        assert value == type(value)(), f"{section} differs from what a user has"
    assert cfg.eval.every_epochs == (1 if what == "solve" else 0)


def _assert_own_fields(cfg, settings):
    """What only some algorithms have, under the name it has with us."""
    for name in ("rollout_steps", "passes", "gae_lambda", "quantiles", "tau", "noise_std", "train_every"):
        if name in settings:
            assert getattr(cfg.train, name) == settings[name], name
    if "rollout_steps" in settings:
        assert cfg.train.lr_schedule == "constant"
    else:
        assert cfg.buffer.capacity == settings["buffer"]
        assert cfg.train.gradient_steps == 1
    if "epsilon" in settings:
        assert not cfg.train.double
        assert cfg.train.epsilon_start == cfg.train.epsilon_end == settings["epsilon"]
        assert cfg.train.target_every * cfg.train.train_every == settings["target_every_steps"]


def test_the_promise_is_between_ours_and_the_reference_and_they_are_measured_most_often():
    row = replace(ROWS[0], reps=3, peer_reps=1)
    steps = list(compare.plan_rates(row, threads=[1]))
    counts = Counter(step["entry"] for step in steps)
    assert counts == {entry.key: 3 if entry.side in ("rlstudio", "sb3") else 1 for entry in row.entries}
    assert len(list(compare.plan_rates(row, threads=[1], reps=1))) == len(row.entries)
