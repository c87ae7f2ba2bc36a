"""One line that says how far a run is, in a notebook or on a terminal, and nowhere else."""

from __future__ import annotations

import sys
import time
from typing import Protocol

from rlstudio.experiment.folder.status import Status

REFRESH_SECONDS = 0.2


class _Handle(Protocol):
    """What IPython gives for something that is displayed."""

    def update(self, obj: dict[str, str], *, raw: bool) -> None: ...


class _Display(Protocol):
    """IPython's `display`."""

    def __call__(self, obj: dict[str, str], *, raw: bool, display_id: bool) -> _Handle: ...


class Live:
    def __init__(self, enabled: bool = True) -> None:
        self._next_at = 0.0
        self._handle: _Handle | None = None
        self._notebook = _notebook() if enabled else None
        self._terminal = enabled and self._notebook is None and sys.stderr.isatty()

    def show(self, status: Status, over: bool = False) -> None:
        """Cheap enough for every step: it draws only a few times a second, and when `over`."""
        now = time.monotonic()
        if not over and now < self._next_at:
            return
        self._next_at = now + REFRESH_SECONDS
        line = describe(status)
        if self._notebook is not None:
            if self._handle is None:
                self._handle = self._notebook({"text/plain": line}, raw=True, display_id=True)
            else:
                self._handle.update({"text/plain": line}, raw=True)
        elif self._terminal:
            sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if over else ""))
            sys.stderr.flush()


def describe(status: Status) -> str:
    share = status.epoch / status.total_epochs if status.total_epochs else 0.0
    bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
    reason = f" ({status.reason})" if status.reason else ""
    returns = {"train": status.train_return, "eval": status.eval_return}  # called as in `rlctl ls`
    result = "".join(f"  {name} {value:.4g}" for name, value in returns.items() if value is not None)
    where = f"epoch {status.epoch}/{status.total_epochs}  {status.env_steps:,} steps{result}"
    return f"{status.name}  {bar}  {where}  {status.state.lower()}{reason}"


def _notebook() -> _Display | None:
    """IPython's `display` where there is a notebook; it is never imported for this."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    displays: _Display = display
    return displays
