"""The tables of many agents: seeds count once, another config does not; the vector is compared with a plain loop."""

from benchmarks.learning import stated
from benchmarks.multi_agent import config, current, overhead, page

from benchmarks import multi_agent

SPREAD = "mpe2/simple_spread_v3"


def line(seed, score, now=None):
    identity = now or stated(config())
    times = {"env_steps": 9_000_000, "cpu_seconds": 100.0}
    return {
        "what": "learning",
        "seed": seed,
        "identity": identity,
        "return_mean": score,
        "interval": [-13, -12],
        **times,
    }


def test_a_seed_counts_once_and_another_config_does_not():
    stored = [line(0, -20.0), line(0, -12.0), line(1, -11.0, now="other")]
    assert {seed: entry["return_mean"] for seed, entry in current(stored, "learning").items()} == {0: -12.0}


def test_the_tables_have_what_is_stored():
    cost = {"what": "overhead", "env": SPREAD, "num_envs": 8, "agents": 3, "vector": 0.002, "loop": 0.004}
    text = page([line(0, -12.0), line(1, -12.5), cost])
    assert "| 0 | 9,000,000 | -12.00 | -13.00 to -12.00 | yes | 100 |" in text
    assert "| 1 | 9,000,000 | -12.50 | -13.00 to -12.00 | no | 100 |" in text
    assert f"| `{SPREAD}` | 8 | 4,000 | 2,000 | 0.50 |" in text


def test_both_sides_of_the_comparison_play(monkeypatch):
    monkeypatch.setattr(multi_agent, "STEPS", 3)
    monkeypatch.setattr(multi_agent, "ROUNDS", 1)
    for id in multi_agent.OVERHEAD:
        measured = overhead(id)
        assert measured["vector"] > 0
        assert measured["loop"] > 0
