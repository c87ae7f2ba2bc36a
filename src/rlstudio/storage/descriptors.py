"""Descriptors that other code of this process may close under us, and whose numbers the next file then gets."""

from __future__ import annotations

import os
from typing import NamedTuple


class Opened(NamedTuple):
    """A descriptor, and the file that it was opened for."""

    number: int
    device: int
    inode: int

    @classmethod
    def of(cls, number: int) -> Opened:
        status = os.fstat(number)
        return cls(number, status.st_dev, status.st_ino)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for that file."""
        try:
            return Opened.of(self.number) == self
        except OSError:
            return False

    def close(self) -> None:
        if self.is_ours:
            os.close(self.number)
