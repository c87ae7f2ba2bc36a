"""A server whose packages are not installed says which command to type, once."""

from __future__ import annotations

import sys

import pytest

from rlstudio.core.errors import UserError
from rlstudio.server.http.extras import require_stack


def test_it_names_the_command_and_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was `rlctl: rlctl: serve needs fastapi`."""
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(UserError, match=r"^serve: the server needs fastapi; run `"):
        require_stack("serve")
