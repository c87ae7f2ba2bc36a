"""What every sink promises: a checkpoint says where it stood, and a resumed run cuts it back to there and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from rlstudio.core.config import parse
from rlstudio.experiment.config.sections import TrackingConfig
from rlstudio.experiment.metrics.records import Record
from rlstudio.experiment.metrics.sinks import Sink


def some(first: int, last: int) -> list[Record]:
    return [Record(float(n), n, "loss", n / 3, ("clock", "eval")) for n in range(first, last)]


class SinkContract:
    """The contract of a sink as tests: extend this class and name the part."""

    part: ClassVar[str]
    """Name of the sink."""

    settings: ClassVar[Mapping[str, object]] = {}
    """Its own, where it needs some."""

    @pytest.fixture
    def run_dir(self, tmp_path: Path) -> Path:
        (tmp_path / "artifacts").mkdir()
        return tmp_path

    def make(self, run_dir: Path) -> Sink:
        tracking = parse(TrackingConfig, {"sinks": [{"kind": self.part, **self.settings}]})
        sink: Sink = tracking.chosen_sinks()[0].build(run_dir)
        return sink

    def test_it_comes_back_to_where_it_stood_and_goes_on(self, run_dir: Path) -> None:
        sink = self.make(run_dir)
        sink.write(some(0, 4))
        sink.flush()
        sink.flush()
        offset = sink.offset()
        assert isinstance(offset, int)
        sink.write(some(4, 6))
        sink.flush()
        sink.close()
        again = self.make(run_dir)
        assert again.cut_back(offset) == 0
        assert again.offset() == offset
        again.write(some(4, 9))
        again.flush()
        again.close()

    def test_a_new_run_begins_at_nothing(self, run_dir: Path) -> None:
        sink = self.make(run_dir)
        assert sink.cut_back(0) == 0
        sink.write(some(0, 2))
        assert sink.offset() > 0
        sink.close()

    def test_a_second_close_is_nothing(self, run_dir: Path) -> None:
        sink = self.make(run_dir)
        sink.write(some(0, 1))
        sink.flush()
        sink.close()
        sink.close()
