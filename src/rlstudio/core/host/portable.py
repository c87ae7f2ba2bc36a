"""Portable numerics: the same bits on every x86-64 processor with Linux, at the price of speed (decision 0037).

Libraries choose their code by the processor when they are loaded, the C library even before Python starts. Variables of
the environment choose for them, if they are there when the process starts. So a process is portable or it is not, for
all its life, and what it starts inherits that. `python -m rlstudio.core.host.portable SCRIPT` starts one.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from functools import cache
from typing import Never

from rlstudio.core.errors import Incompatible

TUNABLES, HWCAPS = "GLIBC_TUNABLES", "glibc.cpu.hwcaps"
HIDDEN = ("AVX", "AVX2", "FMA", "FMA4", "AVX512F", "AVX512DQ")
"""Instructions that the C library's functions have variants for. Before glibc 2.33 they end in `_Usable`."""
HIDING = f"{HWCAPS}=" + ",".join(f"-{name},-{name}_Usable" for name in HIDDEN)

VARIABLES = {
    "MKL_CBWR": "COMPATIBLE",  # the only one that MKL takes on an AMD, besides AUTO
    "ATEN_CPU_CAPABILITY": "default",
    "OPENBLAS_CORETYPE": "Nehalem",  # SSE4.2; older types choose their blocks by the size of the cache
    "NPY_DISABLE_CPU_FEATURES": (
        "X86_V3 X86_V4 AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
    ),
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "ONEDNN_DEFAULT_FPMATH_MODE": "STRICT",
}
CONTRADICTING = ("NPY_ENABLE_CPU_FEATURES",)
"""NumPy cannot be imported where features are both enabled and disabled."""
CHANGED = "RLSTUDIO_NATIVE_ENVIRONMENT"
"""What the variables were before, as JSON: for processes that are to be as if they had never been set."""


class NotPortable(Incompatible):
    """A run that asks for portable numerics cannot compute in this process; in one that was started for it, it can."""


def is_portable() -> bool:
    """Whether this process was started with the variables. Those set later came too late for the C library."""
    return is_possible() and _started_with_them()


def is_possible() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


@cache
def _started_with_them() -> bool:
    with open("/proc/self/environ", "rb") as file:
        entries = os.fsdecode(file.read()).split("\0")
    started = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    # The C library writes zeros between its tunables when it reads them: each is an entry of its own then.
    tunables = [tunable for entry in entries for tunable in entry.removeprefix(f"{TUNABLES}=").split(":")]
    return HIDING in tunables and VARIABLES.items() <= started.items() and not set(CONTRADICTING) & started.keys()


def portable_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """These variables with the ones above set; other tunables of the C library stay."""
    changed = {name: variables.get(name) for name in (*VARIABLES, TUNABLES, *CONTRADICTING)}
    kept = [tunable for tunable in variables.get(TUNABLES, "").split(":") if tunable and not tunable.startswith(HWCAPS)]
    others = {name: value for name, value in variables.items() if name not in CONTRADICTING}
    return {CHANGED: json.dumps(changed), **others, **VARIABLES, TUNABLES: ":".join([*kept, HIDING])}


def native_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """These variables as they were before `portable_environment`: a worker of the queue starts runs of both kinds."""
    if CHANGED not in variables:
        return dict(variables)
    before = json.loads(variables[CHANGED])
    others = {name: value for name, value in variables.items() if name != CHANGED and name not in before}
    return {**others, **{name: value for name, value in before.items() if value is not None}}


def require(numerics: str) -> None:
    """Refuse a run with this `runtime.numerics` that the process cannot compute."""
    if numerics != "portable" or is_portable():
        return
    if not is_possible():
        raise Incompatible(
            f"runtime.numerics: portable needs an x86-64 processor and Linux, this is {platform.machine()} with"
            f" {platform.system()}; use native"
        )
    raise NotPortable(
        "runtime.numerics: portable is decided when a process starts, and this one was started without it; start it"
        " with: python -m rlstudio.core.host.portable SCRIPT, or put the run into the queue"
    )


def restart() -> Never:
    """This process begins anew, with the same command and the variables set."""
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], portable_environment(os.environ))


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], portable_environment(os.environ))
