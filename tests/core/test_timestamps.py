from datetime import UTC, datetime

from rlstudio.core.timestamps import timestamp


def test_a_moment_is_utc_to_the_millisecond():
    assert timestamp(datetime(2026, 1, 2, 3, 4, 5, 678_912, UTC)) == "2026-01-02T03:04:05.678+00:00"


def test_without_one_it_is_a_moment_of_utc():
    assert datetime.fromisoformat(timestamp()).tzinfo == UTC
