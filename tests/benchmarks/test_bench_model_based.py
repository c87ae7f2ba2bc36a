"""The table of MBMPC: seeds count once, those of another config not at all."""

from benchmarks.model_based import CASES, current, identity, rows

from benchmarks import model_based


def line(case, seed, value, now=None):
    fields = {"case": case.key, "seed": seed, "identity": now or identity(case), "env_steps": 1000}
    return {**fields, "returns": [value] * 2, "cpu_seconds": 3.0}


def test_a_seed_counts_once_and_another_config_does_not():
    case = CASES[0]
    stored = [line(case, 0, 400.0), line(case, 0, 500.0), line(case, 1, 500.0, now="other"), line(CASES[1], 1, -150.0)]
    assert {seed: found["returns"][0] for seed, found in current(case, stored).items()} == {0: 500.0}


def test_the_table_says_how_many_reached_what_was_promised():
    case = CASES[0]
    (row,) = rows([line(case, 0, 500.0), line(case, 1, 499.0)])
    assert row[1:] == ["1,000", "500, 499", "1 of 2 (>= 500)", "8 of 10", "-", "3 s"]


def test_the_trust_stands_where_plans_count_the_value_and_the_row_without_one_beside_it():
    guided, without = (next(case for case in CASES if case.key == f"cartpole_guided{end}") for end in ("", "_no_value"))
    stored = [line(case, seed, 490.0) | {"value_trust": 0.2 * seed} for case in (guided, without) for seed in (1, 2)]
    assert [row[5] for row in rows(stored)] == ["0.30", "-"]
    assert [row[4] for row in rows(stored)] == ["8 of 10", "-"]


def test_the_promises_are_within_their_steps():
    steps = {case.key: model_based.load_experiment(case.config, case.overrides).train.planned_steps for case in CASES}
    assert steps["cartpole"] <= 1000
    assert steps["pendulum"] <= 3000
    assert steps["cartpole_guided"] <= 2000
    assert steps["pendulum_guided"] <= 3000
    for key in ("cartpole_guided", "pendulum_guided"):
        train = model_based.load_experiment(f"configs/mbmpc/{key}.yaml").train
        assert (train.planner.kind, train.planner.value, train.planner.reward) == ("guided", "own", "native")
        assert train.dynamics.kind == "mlp"
