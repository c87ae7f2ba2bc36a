import pytest


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Children are forked: no thread pool may exist in the parent."""
    from rlstudio.experiment.training.machine import set_threads

    set_threads(1)
