"""The tables of many agents: seeds count once, another config does not; players by rule are better than chance."""

import numpy as np
import pytest
from benchmarks.learning import stated
from benchmarks.multi_agent import CASES, SIDES, SPEAKER, SPREAD, TAG, config, current, page, reference

from benchmarks import multi_agent, multi_agent_overhead, particle_players

ON_SPREAD, WITH_WORDS, _ = CASES


def line(case, seed, scores, now=None):
    times = {"env_steps": 3_456_000, "cpu_seconds": 100.0}
    return {"case": case.id, "seed": seed, "identity": now or stated(config(case)), "scores": scores, **times}


def test_a_seed_counts_once_and_another_config_does_not():
    old, new = {"return": -20.0}, {"return": -12.0}
    stored = [line(ON_SPREAD, 0, old), line(ON_SPREAD, 0, new), line(ON_SPREAD, 1, new, now="other")]
    assert {seed: entry["scores"] for seed, entry in current(ON_SPREAD, stored).items()} == {0: new}


def test_the_tables_have_what_is_stored():
    cost = {"what": "overhead", "env": SPREAD, "num_envs": 8, "agents": 3, "vector": 0.002, "loop": 0.004}
    words = [line(WITH_WORDS, seed, {"speaker and listener": share}) for seed, share in ((0, 0.9), (1, 0.3))]
    text = page([*words, cost, line(ON_SPREAD, 0, {"return": -12.0})])
    assert (
        f"| `{SPREAD}` | return of an agent | 3,456,000 | -12.00 | -12.00 [-12.00, -12.00] | -12.4, reached |" in text
    )
    assert "| 0.90, 0.30 | 0.60 [0.30, 0.90] | 0.5, missed | 100 |" in text
    assert f"| `{SPREAD}` | 8 | 4,000 | 2,000 | 0.50 |" in text


def test_both_sides_of_the_comparison_play(monkeypatch):
    monkeypatch.setattr(multi_agent_overhead, "STEPS", 3)
    monkeypatch.setattr(multi_agent_overhead, "ROUNDS", 1)
    for id in multi_agent_overhead.OVERHEAD:
        measured = multi_agent_overhead.overhead(id)
        assert measured["vector"] > 0
        assert measured["loop"] > 0


@pytest.mark.parametrize(
    ("id", "name", "least"), [(SPEAKER, "speaker and listener", 25), (TAG, "hunters", 25), (TAG, "prey", 20)]
)
def test_players_by_rule_are_far_better_than_chance(id, name, least, monkeypatch):
    monkeypatch.setattr(multi_agent, "EPISODES", 40)
    reference.cache_clear()
    assert reference(id, name, "scripted") - reference(id, name, "random") > least
    reference.cache_clear()


def test_a_player_goes_along_the_longer_axis():
    ways = {(1, 0.2): 2, (-1, 0.2): 1, (0.2, 1): 4, (0.2, -1): 3, (0.01, 0.01): 0}
    assert {way: particle_players.toward(np.array(way)) for way in ways} == ways


def test_every_agent_has_a_player():
    for case in CASES:
        for side in case.sides:
            assert set(side.agents) <= side.by_rule.keys() == side.choices.keys()
    assert {side.name for sides in SIDES.values() for side in sides} == {"speaker and listener", "hunters", "prey"}
