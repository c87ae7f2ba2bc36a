import pytest

from rlstudio.control.workspace import Workspace
from support.api_world import api_over
from support.reading_world import fill


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("api") / "runs"


@pytest.fixture(scope="module")
def world(runs_dir):
    """A run of each kind, a sweep, a model."""
    workspace = Workspace(runs_dir)
    made = fill(workspace)
    workspace.store.database.close()
    return made


@pytest.fixture(scope="module")
def api(world, runs_dir):
    with api_over(runs_dir) as api:
        yield api
