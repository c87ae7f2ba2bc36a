"""The program as it is built for a server."""

import pytest
from typer.main import get_command

from rlstudio.cli import app


@pytest.fixture(autouse=True)
def commands_of_a_server(place, monkeypatch):
    """Other tests of the command line share the local one."""
    monkeypatch.setattr(app, "get_command", get_command)
