"""Portable numerics: one fingerprint and one end of a run, whatever the processor.

A processor is played in two ways. Variables make libraries take the code for another one; portable sets the same
variables, so this shows only that nothing of the machine's settings is left, and that they were there in time. An
emulated processor (QEMU, where it is installed) answers for itself and rounds its approximations in another way, as a
second machine does.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rlstudio import orchestrator
from rlstudio.cli.app import main
from rlstudio.control.queue import runner
from rlstudio.control.runs.folders import folder_of
from rlstudio.control.runs.start import enqueue
from rlstudio.control.workspace import Workspace
from rlstudio.core.errors import ConfigError, Incompatible
from rlstudio.core.host import portable
from rlstudio.core.host.portable import NotPortable, native_environment, portable_environment
from rlstudio.core.host.process import this_process
from rlstudio.experiment.run import session as sessions
from rlstudio.experiment.training import machine, portable_kernels
from support.experiments import tiny, tiny_yaml
from support.sessions import resume, start

PLAY = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from support.sessions import start
from support.tiny_runs import TRAIN, config, run_to_the_end
from rlstudio.experiment.training.numerics import fingerprint
whole, begun, to_leave = map(Path, sys.argv[2:5])
ends, gone_on = {}, {}
for algo in sys.argv[5:]:
    cfg = config(algo, "auto", train=TRAIN[algo] | {"epochs": 3}, runtime={"numerics": "portable"})
    ends[algo] = run_to_the_end(cfg, whole / algo).read_status().state_hash
    if begun.exists():
        status = run_to_the_end(cfg, begun / algo).read_status()
        gone_on[algo] = [status.state_hash, status.exact, status.exact_reason]
    with start(cfg, to_leave / algo) as session:
        for tick in session:
            if tick.report:
                break
print(json.dumps([fingerprint("cpu"), ends, gone_on]))
"""
QEMU = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
PROCESSORS = {
    "this": {},
    "one with every setting": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_ENABLE_CPU_FEATURES": "X86_V3",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "GLIBC_TUNABLES": "glibc.malloc.perturb=0:glibc.cpu.hwcaps=-FMA",
    },
    "one without vectors": {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "one without AVX": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-AVX",
    },
}
pytestmark = pytest.mark.skipif(not portable.is_possible(), reason="for x86-64 and Linux")


def play(name, place, algos, begun, emulator=()):
    """On this processor: the fingerprint, how runs end, and how those end that another processor began in `begun`."""
    folders = [Path(__file__).parents[1], place / name / "whole", begun, place / name / "left"]
    command = [*emulator, sys.executable, "-c", PLAY, *map(str, folders), *algos]
    environment = portable_environment(os.environ | PROCESSORS.get(name, {}))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check_that_all_are_one(place, algos, processors):
    """Each goes on with the runs that the one before it left in the middle. `processors`: name -> emulator."""
    begun, first = place / "none", None
    for name, emulator in processors.items():
        fingerprint, ends, gone_on = play(name, place, algos, begun, emulator)
        first = first or (fingerprint, ends)
        assert (fingerprint, ends) == first, name
        if begun.exists():
            assert gone_on == {algo: [end, True, ""] for algo, end in ends.items()}, name
        begun = place / name / "left"
    return first


@pytest.mark.real_process
def test_a_run_goes_on_exactly_on_another_processor_and_ends_in_the_same_bits(tmp_path):
    processors = dict.fromkeys(("this", "one with every setting"), ())
    fingerprint, _ = check_that_all_are_one(tmp_path, ("ppo",), processors)
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        assert fingerprint != machine.fingerprint("cpu"), "nothing was changed: nothing was tested"


@pytest.mark.slow
@pytest.mark.real_process
def test_so_do_four_of_them_with_ppo_dqn_and_sac(tmp_path):
    check_that_all_are_one(tmp_path, ("ppo", "dqn", "sac"), dict.fromkeys(PROCESSORS, ()))


@pytest.mark.slow
@pytest.mark.real_process
@pytest.mark.skipif(QEMU is None, reason="QEMU's user-mode emulator of x86-64 is not installed")
def test_so_do_emulated_ones_of_both_makers(tmp_path):
    emulated = {model: (QEMU, "-cpu", model) for model in ("Haswell", "Nehalem", "EPYC")}
    check_that_all_are_one(tmp_path, ("ppo", "dqn", "sac"), {"this": (), **emulated})


@pytest.mark.real_process
def test_the_command_line_starts_itself_anew_and_says_what_it_computes_with(tmp_path, capsys):
    """One process is started: it replaces itself once it knows what it is to train."""
    (tmp_path / "tiny.yaml").write_text(tiny_yaml(runtime={"numerics": "portable"}))
    start_it = "import sys; from rlstudio.cli.app import main; sys.exit(main())"
    arguments = ["run", str(tmp_path / "tiny.yaml"), "--json", "--runs-dir", str(tmp_path)]
    command = [sys.executable, "-c", start_it, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    topology = json.loads(done.stdout)["topology"]
    assert (topology["runtime.numerics"], topology["instructions"]) == ("portable", "DEFAULT")
    main(["show", "last", "--runs-dir", str(tmp_path)])
    assert f"numerics      portable, fingerprint {topology['numerics']}" in capsys.readouterr().out


def test_a_process_that_was_not_started_for_it_refuses_before_anything_is_there(tmp_path, capsys):
    cfg = tiny(runtime={"numerics": "portable"})
    with pytest.raises(
        NotPortable, match=r"started without it; start it with: python -m rlstudio.core.host.portable SCRIPT"
    ):
        orchestrator.run(cfg, runs_dir=tmp_path / "runs", progress=False)
    with pytest.raises(NotPortable):
        start(cfg, tmp_path / "folders")
    assert orchestrator.runs(runs_dir=tmp_path / "runs") == []
    code = main(
        ["launch", "--algo", "ppo", "--env", "CartPole-v1", "runtime.numerics=portable", f"--runs-dir={tmp_path}"]
    )
    assert (code, capsys.readouterr().err.count("\n")) == (2, 1)


def test_elsewhere_it_is_refused_with_the_processor(monkeypatch):
    monkeypatch.setattr(portable.platform, "machine", lambda: "aarch64")
    with pytest.raises(Incompatible, match=r"x86-64 processor and Linux, this is aarch64 with Linux; use native"):
        portable.require("portable")
    portable.require("native")


def test_the_process_of_a_queued_run_begins_anew_and_takes_it_over_again(tmp_path, monkeypatch):
    workspace = Workspace(tmp_path)
    run = workspace.store.claim(enqueue(workspace, tiny(runtime={"numerics": "portable"})).id, this_process())
    folder_of(workspace, run)

    def restart():
        raise InterruptedError

    monkeypatch.setattr(runner, "restart", restart)
    for _ in range(2):
        with pytest.raises(InterruptedError):
            runner.main(run.id, run.token, tmp_path)


def test_other_numerics_are_another_topology(tmp_path, monkeypatch):
    with start(tiny(ckpt={"every_epochs": 1}), tmp_path) as session:
        for tick in session:
            if tick.report:
                break
    path = session.folder.config_path
    path.write_text(path.read_text().replace("numerics: native", "numerics: portable"))
    monkeypatch.setattr(sessions, "require", lambda numerics: None)
    with pytest.raises(Incompatible, match=r"would not be exact \(runtime.numerics native -> portable\)"):
        resume(session.folder)


def test_portable_is_for_the_cpu():
    with pytest.raises(ConfigError, match=r"runtime.numerics: portable is for the CPU, and runtime.device is cuda"):
        tiny(runtime={"numerics": "portable", "device": "cuda"})


def test_the_environment_keeps_what_it_does_not_decide():
    given = {
        "HOME": "/h",
        "GLIBC_TUNABLES": "glibc.malloc.check=1:glibc.cpu.hwcaps=AVX2",
        "NPY_ENABLE_CPU_FEATURES": "X",
    }
    made = portable_environment(given)
    assert made["HOME"] == "/h"
    assert made["GLIBC_TUNABLES"].startswith("glibc.malloc.check=1:glibc.cpu.hwcaps=-AVX,")
    assert "NPY_ENABLE_CPU_FEATURES" not in made
    assert portable_environment(made) == made
    assert native_environment(made) == given
    assert native_environment(given) == given


@pytest.mark.parametrize("name", portable_kernels.FUNCTIONS)
def test_the_functions_of_numpy_are_those_of_torch(name):
    functional, to_output, in_place = portable_kernels._kernels(portable_kernels.FUNCTIONS[name])
    x = torch.linspace(0.01, 0.99, 60)
    kinds = (x.double(), x.bfloat16(), (50 * x).int(), x.to(torch.complex64))
    for given in (x, -x, x[::2], x.view(6, 10).t(), x[3], *kinds):
        expected = getattr(torch, name)(given)
        result = functional(given)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        torch.testing.assert_close(result, expected, equal_nan=True)
    out, changed = torch.empty(0), x.clone()
    assert torch.equal(to_output(x, out=out), functional(x))
    assert torch.equal(out, functional(x))
    assert in_place(changed) is changed
    assert torch.equal(changed, functional(x))
    assert np.array_equal(functional(x).numpy(), portable_kernels.FUNCTIONS[name](x.numpy()))
