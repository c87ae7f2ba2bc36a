import pytest

from support.env_toys import register_toys


@pytest.fixture(scope="session", autouse=True)
def _toys():
    register_toys()
