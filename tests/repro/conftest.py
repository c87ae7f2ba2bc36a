import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Children are forked: no thread pool may exist in the parent."""
    from rlstudio.experiment.machine import set_threads

    set_threads(1)
