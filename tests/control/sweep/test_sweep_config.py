"""A sweep's file is judged before its first trial: places, names, both ends of each range. What a space chooses."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstudio.control.sweep.config import PrunerConfig
from rlstudio.control.sweep.rungs import brackets_of, promoted, score
from rlstudio.control.sweep.samplers import make_sampler
from rlstudio.control.sweep.search import from_json, load_search
from rlstudio.control.sweep.sweeps import Trial, TrialState
from rlstudio.core.errors import ConfigError, UserError
from support.experiments import tiny_yaml
from support.sweep_world import SWEEP, search_of

FILE = """\
name: mine
experiment: tiny.yaml
trials: 4
space:
  train.lr: {low: 1e-4, high: 1e-2, log: true}
"""
TINY = tiny_yaml(train={"epochs": 12}, eval={"every_epochs": 2})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "sweep.yaml").write_text(FILE)
    return tmp_path / "sweep.yaml"


def test_the_experiment_lies_beside_the_sweep_or_is_shipped(file: Path) -> None:
    search = load_search(file)
    assert (search.cfg.name, search.epochs, search.trials, search.rungs) == ("mine", 12, 4, ())
    shipped = load_search("configs/sweep/ppo_cartpole.yaml")
    assert (shipped.trials, shipped.rungs, shipped.epochs) == (20, (3, 9), 27)
    assert shipped.cfg.pruner.kind == "asha"


BAD = [
    ("  train.lr:", "  train.lrr:", "sweep.yaml:5:3: space.train.lrr: unknown key; did you mean lr?"),
    ("low: 1e-4, high: 1e-2, log: true", "low: -1, high: 1", r"sweep.yaml:5:3: space\.train\.lr: .*\(at -1\.0\)"),
    ("log: true", "logg: true", r"sweep.yaml:5:37: space\.train\.lr\.logg: unknown key; did you mean log\?"),
    ("low: 1e-4", "low: 1", r"sweep.yaml:5:3: space\.train\.lr: low \(1\) must be below high"),
    ("low: 1e-4, high: 1e-2, log: true", "low: 1e-4", "space.train.lr: give low and high, or choices"),
    ("  train.lr:", "  env.seed:", "sweep.yaml:5:3: space.env.seed: seeds: lists the seeds"),
    ("  train.lr:", "  train.epochs:", "space.train.epochs: a trial costs the same as the others"),
    ("tiny.yaml", "tini.yaml", r"sweep.yaml:2:1: experiment: tini.yaml: no such file"),
    ("trials: 4", "sampler: {kind: tpe}", "trials: say how many; only grid has an end of its own, not tpe"),
    ("trials: 4", "trials: 4\npruner: {kind: asha, rungs: [3, 6]}", "no evaluation at epoch 3 .*eval.every_epochs=3"),
    ("trials: 4", "trials: 4\npruner: {kind: asha, rungs: [12]}", "give at least one rung, all before the last epoch"),
    ("trials: 4", "trials: 4\npruner: {kind: asha, rungs: [4, 2]}", "rungs must rise"),
    ("trials: 4", "trials: 4\npruner: {kind: none, eta: 4}", "eta is for median and asha and hyperband"),
    ("trials: 4", "trials: 4\nsampler: {kind: grid}", "space.train.lr: grid needs choices, a step or whole numbers"),
    ("trials: 4", "trials: 4\nseeds: [1, 1]", "seeds: a seed is listed twice"),
    ("trials: 4", "trials: 4\noverrides: [train.epoch=3]", r"train\.epoch: unknown key; did you mean epochs\?"),
    ("name: mine", "name: a/b", "name: use 1 to 48 letters"),
    ("trials: 4", "trial: 4", r"sweep.yaml:3:1: trial: unknown key; did you mean trials\?"),
    ("log: true}", "log: true, when: {policy.algo: sac}}", "when.policy.algo: is not in the space"),
]


@pytest.mark.parametrize(("before", "after", "said"), BAD)
def test_mistakes_are_named_with_their_place(file: Path, before: str, after: str, said: str) -> None:
    assert before in FILE
    file.write_text(FILE.replace(before, after, 1))
    with pytest.raises(ConfigError, match=said):
        load_search(file)


def test_a_sweep_is_the_same_from_the_store(file: Path) -> None:
    search = load_search(file)
    again = from_json(search.to_json())
    assert again.base == search.base
    assert again.cfg.space == search.cfg.space
    assert again.to_json() == search.to_json()


def test_a_stored_sweep_imports_its_modules_and_says_which_is_missing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = load_search(file, imports=["world_of_a_sweep"]).to_json()
    with pytest.raises(UserError, match=r"^sweep mine: imports: world_of_a_sweep: ModuleNotFound.*or install it$"):
        from_json(stored)
    (file.parent / "world_of_a_sweep.py").touch()
    monkeypatch.syspath_prepend(file.parent)
    assert from_json(stored).base.imports == ("world_of_a_sweep",)
    assert "world_of_a_sweep" in sys.modules


CONDITIONAL: dict[str, Any] = {
    "policy.network.activation": {"choices": ["tanh", "relu"]},
    "train.lr": {"low": 1e-4, "high": 1e-2, "log": True, "when": {"policy.network.activation": "relu"}},
    "policy.network.hidden_sizes": {"choices": [[8], [8, 8]]},
    "train.passes": {"low": 2, "high": 8, "step": 3, "when": {"policy.network.activation": ["tanh", "relu"]}},
}


def test_grid_has_every_combination_once_and_only_what_conditions_ask_for() -> None:
    space = {**CONDITIONAL, "train.lr": {**CONDITIONAL["train.lr"], "log": False, "step": 0.005}}
    search = search_of(space=space, sampler={"kind": "grid"}, trials=None)
    sampler = make_sampler(search.cfg.sampler, search.space)
    found = [sampler.choose(number, []) for number in range(search.trials)]
    assert search.trials == len({repr(params) for params in found}) == 2 * 3 + 2 * 2 * 3
    assert Counter(params["policy.network.activation"] for params in found) == {"tanh": 6, "relu": 12}
    assert all(("train.lr" in params) == (params["policy.network.activation"] == "relu") for params in found)
    for number, params in enumerate(found):
        search.experiment(params, 3, number)


def known(search: Any, sampler: Any, count: int) -> list[Trial]:
    trials: list[Trial] = []
    for number in range(count):
        params = sampler.choose(number, trials)
        worth = -abs(np.log10(params["train.lr"]) + 3) if "train.lr" in params else -9.0
        state = TrialState.PRUNED if number % 4 == 3 else TrialState.FAILED if number == 5 else TrialState.COMPLETED
        trials.append(Trial(number, params, 27, state, {27: {0: float(worth)}}, float(worth)))
    return trials


@pytest.mark.parametrize("kind", ["random", "tpe", "cmaes"])
def test_a_sampler_chooses_by_number_and_what_is_known_alone(kind: str) -> None:
    space = {"train.lr": SWEEP["space"]["train.lr"]}
    own = {"startup_trials": 5} if kind == "tpe" else {}
    search = search_of(sampler={"kind": kind, "seed": 4, **own}, space=space)

    def new() -> Any:
        return make_sampler(search.cfg.sampler, search.space)

    sampler = new()
    trials = known(search, sampler, 30)
    for number in (0, 7, 19, 29):
        assert new().choose(number, trials[:number]) == trials[number].params
    assert len({trial.params["train.lr"] for trial in trials}) == 30
    assert all(1e-5 <= trial.params["train.lr"] <= 1e-1 for trial in trials)
    other = make_sampler(search_of(sampler={"kind": kind, "seed": 5}, space=space).cfg.sampler, search.space)
    assert other.choose(3, trials[:3]) != trials[3].params
    if kind != "random":  # what it learned shows: later choices are nearer to the best
        away = [abs(np.log10(trial.params["train.lr"]) + 3) for trial in trials]
        assert np.mean(away[20:]) < 0.6 * np.mean(away[:10])


def test_tpe_takes_conditions_and_lists() -> None:
    search = search_of(space=CONDITIONAL, sampler={"kind": "tpe", "startup_trials": 4})
    sampler = make_sampler(search.cfg.sampler, search.space)
    for trial in known(search, sampler, 14):
        assert ("train.lr" in trial.params) == (trial.params["policy.network.activation"] == "relu")
        assert trial.params["policy.network.hidden_sizes"] in ([8], [8, 8])
        assert trial.params["train.passes"] in (2, 5, 8)
        search.experiment(dict(trial.params), 0, trial.number)


def test_cmaes_takes_ranges_only() -> None:
    with pytest.raises(ConfigError, match=r"space\.train\.gamma: cmaes takes ranges without conditions only; use tpe"):
        search_of(sampler={"kind": "cmaes"})


@pytest.mark.parametrize(
    "dimension", [{"low": 1, "high": 8}, {"low": 1, "high": 8, "log": True}, {"low": 2, "high": 8, "step": 3}]
)
def test_whole_numbers_come_all_and_evenly(dimension: dict[str, Any]) -> None:
    axis = search_of(space={"train.passes": dimension}).space.axes[0]
    found = Counter(axis.value(share) for share in np.linspace(0, 1, 3001))
    assert set(found) == set(range(dimension["low"], 9, dimension.get("step", 1)))
    assert all(isinstance(value, int) for value in found)
    assert all(axis.value(axis.share(value)) == value for value in found)
    if not dimension.get("log"):
        assert max(found.values()) - min(found.values()) <= 2


def test_a_number_of_the_experiment_says_what_kind_it_is() -> None:
    axis = search_of(space={"train.gamma": {"low": 0, "high": 1}}).space.axes[0]
    assert axis.value(0.5) == 0.5


def test_a_lucky_seed_carries_nobody() -> None:
    steady, lucky = [10.0, 10.0, 10.0], [2.0, 2.0, 40.0]
    bounds = {"minimize": False, "confidence": 0.95}
    assert np.mean(lucky) > np.mean(steady)
    assert score(steady, **bounds) > score(lucky, **bounds)
    assert score([1.0], minimize=True, confidence=0.95) == -1.0


def test_who_is_promoted() -> None:
    scores = {number: float(number) for number in range(9)}
    assert promoted(PrunerConfig(kind="asha", rungs=(1,)), scores, final=False) == {6, 7, 8}
    assert promoted(PrunerConfig(kind="asha", rungs=(1,), eta=4), scores, final=True) == {7, 8}
    few = {3: 1.0, 5: 1.0}
    assert promoted(PrunerConfig(kind="asha", rungs=(1,)), few, final=False) == set()
    assert promoted(PrunerConfig(kind="asha", rungs=(1,)), few, final=True) == {3}  # of equal ones the older
    assert promoted(PrunerConfig(kind="median", rungs=(1,)), scores, final=False) == {4, 5, 6, 7, 8}
    assert promoted(PrunerConfig(kind="median", rungs=(1,)), few, final=False) == {3, 5}


def test_hyperband_has_few_trials_where_few_are_given_up() -> None:
    found = Counter(brackets_of(PrunerConfig(kind="hyperband"), 3, 80))
    assert sorted(found) == [0, 1, 2, 3]
    assert found[0] > found[1] > found[2] >= found[3] > 0


def test_no_trial_ends_before_the_epoch_it_is_compared_at() -> None:
    space = {"train.lr": {"low": 1e-4, "high": 1e-2, "log": True}}
    plateau = {"overrides": ["gates.plateau={epochs: 2}"]}
    search = load_search(
        {"name": "s", "experiment": "configs/ppo/quickstart.yaml", "trials": 2, "space": space, **plateau}
    )
    gates = search.experiment({"train.lr": 1e-3}, seed=0, number=0).gates
    assert (gates.stop_at, gates.plateau) == (None, None)
