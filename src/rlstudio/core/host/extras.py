"""Packages that come with an extra of the installation: imported when they are needed, or one line that says how to
install them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

from rlstudio.core.errors import UserError
from rlstudio.core.host.floors import require_floors
from rlstudio.core.host.installation import remedy


@dataclass(frozen=True)
class Extra:
    name: str
    """The optional dependencies in `pyproject.toml`."""

    module: str
    """The module that comes with it."""

    @property
    def remedy(self) -> str:
        return remedy(self.name)

    @property
    def installed(self) -> bool:
        """Without importing it."""
        if self.module in sys.modules:
            return sys.modules[self.module] is not None
        return find_spec(self.module) is not None

    def load(self, field: str, wanted: str) -> ModuleType:
        """Import the module for `wanted`, the value of `field`."""
        require_floors(self.name)
        try:
            return importlib.import_module(self.module)
        except Exception as error:  # without a system library, packages fail in their own ways
            if isinstance(error, ModuleNotFoundError) and error.name == self.module:
                raise UserError(f"{field}: {wanted} needs {self.module}; {self.remedy}") from error
            kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
            reason = kind + " ".join(str(error).split())
            raise UserError(f"{field}: {self.module} is installed but does not start: {reason}") from error
