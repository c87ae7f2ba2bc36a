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

from rlstudio.core.errors import Incompatible
from rlstudio.experiment.lineage.lineage import EVENT, machine_of
from rlstudio.experiment.training import machine, numerics
from rlstudio.experiment.training.machine import set_threads
from support.experiments import tiny
from support.sessions import resume, start

PLAY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.tiny_runs import TRAIN, config, run_to_the_end
from rlstudio.experiment.training.numerics import fingerprint
ends = {}
for algo in ("ppo", "sac"):
    run = run_to_the_end(config(algo, "auto", train=TRAIN[algo] | {"epochs": 2}), Path(sys.argv[2]) / algo)
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
PROCESSORS["neither with AVX"] = PROCESSORS["OpenBLAS without AVX"] | PROCESSORS["NumPy without AVX"]
ONE_OF_EACH = ["torch without vectors", "MKL with one order of sums", "neither with AVX"]
"""Every library whose code for a processor differs; NumPy and its OpenBLAS in one process."""


@pytest.fixture(scope="module")
def play(tmp_path_factory):
    """The fingerprint and the ends of two epochs of PPO and SAC, on a processor."""

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
@pytest.mark.parametrize("processors", [ONE_OF_EACH, pytest.param([*PROCESSORS], marks=pytest.mark.slow)])
def test_where_a_run_ends_in_other_bits_the_fingerprint_differs(play, processors):
    """Which variables have an effect depends on the machine: the test says which had, and that one had."""
    here, ends = play("this")
    others = {name: play(name) for name in processors}
    changed = [name for name, (_, other_ends) in others.items() if other_ends != ends]
    print("other bits by:", changed, "the same bits by:", [name for name in others if name not in changed])
    assert [name for name in changed if others[name][0] == here] == []
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert "torch without vectors" in changed, f"only {changed} changed any bits: nothing was tested"
    elif not changed:
        pytest.skip("torch has no vector code for this processor, and no other variable changed the bits")


def test_a_resume_elsewhere_says_where_the_run_was_computed_and_what_going_on_means(tmp_path, monkeypatch):
    with start(tiny(ckpt={"every_epochs": 1}), tmp_path) as session:
        session.folder.event(EVENT, host="zebra", hardware={"cpu": "Some Xeon"})
        for tick in session:
            if tick.report:
                break
    there, here = machine.fingerprint("cpu"), f"{numerics.PROBE}-{7:016x}"
    monkeypatch.setattr(machine, "fingerprint", lambda device: here)
    with pytest.raises(Incompatible) as refused:
        resume(session.folder)
    differs = f"numerics {there} -> {here}"
    assert f"would not be exact ({differs}); computed on zebra (Some Xeon), this is " in str(refused.value)
    assert "--allow-inexact: from the same state, but to other bits" in str(refused.value)
    with resume(session.folder, allow_inexact=True) as session:
        for _ in session:
            pass
    status = session.folder.read_status()
    assert (status.exact, differs in status.exact_reason) == (False, True)
    assert "computed on zebra (Some Xeon)" in status.exact_reason


@pytest.mark.parametrize(
    ("recorded", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"host": "zebra"}, "zebra"),
        ({"host": "zebra", "hardware": {"cpu": "A", "cores": 2}}, "zebra (A)"),
        ({"host": "zebra", "hardware": "nonsense"}, "zebra"),
    ],
)
def test_a_machine_is_named_as_far_as_it_was_recorded(recorded, text):
    assert machine_of(recorded) == text


def test_it_is_computed_once_and_again_for_another_number_of_threads(monkeypatch):
    calls = []
    monkeypatch.setattr(numerics, "measured", lambda device: calls.append(device) or f"{len(calls):016x}")
    assert numerics.fingerprint("made-up") == f"{numerics.PROBE}-{1:016x}"
    assert numerics.fingerprint("made-up") == f"{numerics.PROBE}-{1:016x}"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert numerics.fingerprint("made-up") == f"{numerics.PROBE}-{2:016x}"
    assert calls == ["made-up", "made-up"]


@pytest.mark.parametrize("part", [*numerics.NUMPY_PARTS, *numerics.TORCH_PARTS])
def test_one_bit_of_any_part_changes_it(part, monkeypatch):
    here = numerics.measured("cpu")
    assert re.fullmatch(r"[0-9a-f]{16}", here)
    parts = numerics.NUMPY_PARTS if part in numerics.NUMPY_PARTS else numerics.TORCH_PARTS
    whole = parts[part]

    def with_another_bit(*device):
        *results, last = whole(*device)
        other = last.detach().clone().numpy() if isinstance(last, torch.Tensor) else last.copy()
        other.reshape(-1).view("u1")[0] ^= 1
        yield from results
        yield torch.from_numpy(other) if isinstance(last, torch.Tensor) else other

    monkeypatch.setitem(parts, part, with_another_bit)
    assert numerics.measured("cpu") != here
