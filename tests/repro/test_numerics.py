"""The fingerprint of the numerics: wherever a run ends in other bits, it is another one.

Other processors are played by variables that make libraries take the code for one: each in a process of its own, since
they are read when a library is loaded.
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from rlstudio.experiment.training import numerics
from rlstudio.experiment.training.machine import set_threads

PLAY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.tiny_runs import TRAIN, config, run_to_the_end
from rlstudio.experiment.training.numerics import fingerprint
ends = {}
for algo in ("ppo", "sac"):
    run = run_to_the_end(config(algo, "auto", train=TRAIN[algo] | {"epochs": 3}), Path(sys.argv[2]) / algo)
    ends[algo] = run.read_status().state_hash
print(json.dumps([fingerprint("cpu"), ends]))
"""
PROCESSORS = {
    "torch without vectors": {"ATEN_CPU_CAPABILITY": "default"},
    "MKL with one order of sums": {"MKL_CBWR": "AVX2"},
    "MKL without AVX-512": {"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "OpenBLAS without AVX": {"OPENBLAS_CORETYPE": "Prescott"},
    "NumPy without AVX": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR AVX2 FMA3 AVX512F"},
}


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """The fingerprint and the ends of three epochs of PPO and SAC, on a processor."""

    def played(name):
        command = [sys.executable, "-c", PLAY, str(Path(__file__).parents[1]), str(tmp_path_factory.mktemp("runs"))]
        environment = os.environ | PROCESSORS.get(name, {})
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return cache(played)


@pytest.mark.real_process
def test_the_same_processor_gives_the_same_fingerprint_in_every_process(play):
    set_threads(1)
    assert play("this")[0] == numerics.fingerprint("cpu")


@pytest.mark.real_process
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "MKL without AVX-512")) for name in PROCESSORS],
)
def test_where_a_run_ends_in_other_bits_the_fingerprint_differs(play, name):
    (here, ends), (there, other_ends) = play("this"), play(name)
    assert ends == other_ends or here != there
    if name == "torch without vectors" and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512"):
        assert ends != other_ends  # the play is none if nothing can change


def test_it_is_computed_once_and_again_for_another_number_of_threads(monkeypatch):
    monkeypatch.setattr(numerics, "_results", lambda device: iter([torch.zeros(calls.append(device) or 1).numpy()]))
    calls = []
    numerics._digest.cache_clear()
    try:
        assert re.fullmatch(rf"{numerics.PROBE}-[0-9a-f]{{16}}", numerics.fingerprint("cpu"))
        numerics.fingerprint("cpu")
        assert calls == ["cpu"]
        monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
        numerics.fingerprint("cpu")
        assert calls == ["cpu", "cpu"]
    finally:
        numerics._digest.cache_clear()


@pytest.mark.parametrize("part", ["_in_numpy", "_acting", "_products", "_functions", "_convolutions", "_updates"])
def test_one_bit_of_any_part_changes_it(part, monkeypatch):
    here = numerics.fingerprint("cpu")
    whole = getattr(numerics, part)

    def with_another_bit(*device):
        *results, last = whole(*device)
        other = last.detach().clone().numpy() if isinstance(last, torch.Tensor) else last.copy()
        other.reshape(-1).view("u1")[0] ^= 1
        yield from results
        yield torch.from_numpy(other) if isinstance(last, torch.Tensor) else other

    monkeypatch.setattr(numerics, part, with_another_bit)
    numerics._digest.cache_clear()
    try:
        assert numerics.fingerprint("cpu") != here
    finally:
        numerics._digest.cache_clear()
