"""`python -m benchmarks.guardrails` and `python -m benchmarks.chaos`: what is counted, and when it is good enough."""

from __future__ import annotations

from collections import Counter
from typing import Any

from benchmarks.faults import FAULTS, PPO, Injection
from benchmarks.guardrails import NOT_RUN, cases, report, tried

from benchmarks import chaos
from rlstudio.experiment.config.experiment import experiment_from


def line(name: str, seed: int, **changes: Any) -> dict[str, Any]:
    told = {"case": name, "seed": seed, "caught": True, "after": 3, "rule": "kl", "end": "FAILED diverged"}
    return {**told, "ended": "by settings", **changes}


HEALTHY = {"case": "healthy", "cell": "ppo_cartpole", "env_steps": 1000, "incidents": [], "rolled_back": 0}


def test_forty_eight_of_fifty_and_no_healthy_run_disturbed() -> None:
    lines = [line(name, seed) for name in FAULTS for seed in range(4)]
    text, good = report([*lines, HEALTHY])
    assert good
    assert "60 of 60 faults caught, 60 of 60 ended by following the advice; 0 of 1 healthy runs disturbed" in text
    missed = {"caught": False, "after": None, "ended": "no: it was not caught"}
    assert report([*lines[:-2], *({**one, **missed} for one in lines[-2:]), HEALTHY])[1]
    assert not report([*lines[:-3], *({**one, **missed} for one in lines[-3:]), HEALTHY])[1]
    assert not report([*lines, {**HEALTHY, "incidents": ["kl: 0.6"]}])[1]
    assert not report([*lines, {**HEALTHY, "rolled_back": 1}])[1]
    assert not report([])[1]


def test_twenty_healthy_runs_and_every_fault_of_every_seed() -> None:
    keys = [key for key, _ in cases(seeds=4, seconds=1.0)]
    assert sum(key["case"] == "healthy" for key in keys) == 20
    assert len(keys) == 20 + 4 * len(FAULTS)
    assert not {key.get("cell") for key in keys} & set(NOT_RUN)
    for faults in FAULTS.values():
        for fault in faults:
            experiment_from({**fault.experiment, "env": dict(fault.env)}, overrides=fault.settings)


def test_a_fault_is_put_in_caught_and_its_advice_followed() -> None:
    told = tried("policy certain at once", 0)
    assert told["caught"]
    assert (told["ended"], told["rolled_back"]) == ("by itself", 1)


def test_a_fault_begins_when_it_is_there_first() -> None:
    injection = Injection(session=None, at=3, env=0, rng=None, updates=7)  # type: ignore[arg-type]
    assert not injection.is_on()
    injection.steps = 3
    assert injection.is_on()
    injection.updates = 9
    assert injection.is_on()
    assert injection.began == 7
    assert PPO["policy"]["algo"] == "ppo"


def test_chaos_counts_what_survived() -> None:
    outcomes = [("seed-0", "COMPLETED", chaos.SURVIVED), ("seed-1", "INTERRUPTED user", chaos.ENDED)]
    text = chaos.report(Counter({"run killed": 3, "file cut": 1}), outcomes, [])
    assert "| run killed | 3 |" in text
    ends = "1 as if undisturbed, 1 ended with a reason, 0 DIFFERENT, 0 LOST. Left over: 0."
    assert text.endswith(f"4 strikes, 2 runs: {ends}")
    assert chaos.report(Counter(), outcomes, ["store: torn"]).endswith("Left over: store: torn.")
