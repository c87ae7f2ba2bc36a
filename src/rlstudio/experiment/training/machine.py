"""The machine a run computes on: thread counts, and the topology that exact resume depends on.

Bits depend on more than the seed: on the number of environments that act together, on threads, on the acting kernel, on
library versions and on the code that libraries choose for the processor. All of it is recorded, the last as a
fingerprint of what it computes, and a resume on something else is refused unless it is asked for by name.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Mapping

import torch
from threadpoolctl import threadpool_limits

from rlstudio.core.contracts import Runtime, Trainer
from rlstudio.core.errors import Incompatible
from rlstudio.core.host.floors import require_floors
from rlstudio.core.host.portable import is_portable
from rlstudio.experiment.lineage.libraries import installed_libraries
from rlstudio.experiment.training import portable_kernels
from rlstudio.experiment.training.numerics import fingerprint, probe_of

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP_BYTES = 256 << 20
USUAL = {"lane": "eager", "runtime.numerics": "native", "learners": "1"}
"""Parts of a topology that are written down only where they are something else."""


def set_threads(threads: int) -> None:
    """Torch gets `threads`; NumPy's BLAS one (it only acts, on small products), or it would keep its own pool."""
    require_floors()
    torch.set_num_threads(threads)
    if is_portable():
        portable_kernels.install()
    threadpool_limits(1, user_api="blas")
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        # Blocks of a training step are freed and asked for again all the time: keep them instead of unmapping.
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, KEEP_BYTES)
        libc.mallopt(M_TRIM_THRESHOLD, KEEP_BYTES)


def pick_device(device: str) -> str:
    """`auto` is the CPU: small networks over environments in NumPy are faster there."""
    if device == "auto":
        return "cpu"
    index = int(device.partition(":")[2] or 0)
    if device.startswith("cuda") and index >= torch.cuda.device_count():
        raise Incompatible(f"runtime.device: {device} is not available on this machine; use cpu or auto")
    return device


def topology(
    trainer: Trainer, runtime: Runtime, threads: int, lane: str = "eager", numerics: str = "native"
) -> dict[str, object]:
    """What must be the same for a resumed run to give the same bits."""
    return {
        **runtime.topology(),
        "acting": trainer.agent.acting,
        "device": runtime.device,
        "threads": threads,
        "machine": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "numerics": fingerprint(runtime.device),
        **installed_libraries(),
        **{name: value for name, value in (("lane", lane), ("runtime.numerics", numerics)) if value != USUAL[name]},
    }


def differences(then: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Where two topologies differ, as short phrases. Fingerprints of two probes are unknown, not different."""
    names = (then.keys() | now.keys()) - (set() if have_same_probe(then, now) else {"numerics"})
    pairs = ((name, then.get(name, USUAL.get(name)), now.get(name, USUAL.get(name))) for name in sorted(names))
    return [f"{name} {before} -> {after}" for name, before, after in pairs if before != after]


def learners(topology: Mapping[str, object]) -> int:
    """How many ranks learned a run."""
    return int(str(topology.get("learners", USUAL["learners"])).split()[0])


def have_same_probe(then: Mapping[str, object], now: Mapping[str, object]) -> bool:
    """Whether the fingerprints of both can be compared: the oldest checkpoints have none, and a probe may change."""
    return probe_of(str(then.get("numerics", ""))) == probe_of(str(now.get("numerics", "")))
