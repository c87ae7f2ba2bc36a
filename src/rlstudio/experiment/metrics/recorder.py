"""Recorder: one place that every metric of a run passes, on its way to the JSON lines and to each chosen sink.

Files of our own are written here. Every other sink is fed from the JSON lines by a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rlstudio.core.contracts import FragmentRound, Lease
from rlstudio.experiment.config.sections import TrackingConfig
from rlstudio.experiment.metrics.fragment_log import FragmentLog
from rlstudio.experiment.metrics.reader import damaged_lines
from rlstudio.experiment.metrics.records import CLOCK, records
from rlstudio.experiment.metrics.sending.process import SinkProcess
from rlstudio.experiment.metrics.sinks import OWN_FILES, Sink
from rlstudio.experiment.metrics.writer import MetricsWriter
from rlstudio.storage.folder import Folder


class Recorder:
    def __init__(self, run_dir: Path, cfg: TrackingConfig, lease: Lease) -> None:
        self._run_dir = run_dir
        self._sinks: dict[str, Sink] = {"jsonl": MetricsWriter(run_dir, lease=lease, rotate_mb=cfg.rotate_mb)}
        chosen = cfg.chosen_sinks()
        for sink in chosen:
            if sink.kind in OWN_FILES:
                self._sinks[sink.kind] = sink.build(run_dir)
        others = [sink for sink in chosen if sink.kind not in OWN_FILES]
        self._fragments = FragmentLog(run_dir)
        self._others = SinkProcess(run_dir, others, cfg.finish_seconds)

    def write(self, step: int, values: Mapping[str, float], tags: Sequence[str] = ()) -> None:
        rows = records(step, values, tags)
        for sink in self._sinks.values():
            sink.write(rows)

    def write_clock(self, step: int, values: Mapping[str, float]) -> None:
        """Values that depend on the clock: outside every promise of reproducibility."""
        self.write(step, values, (CLOCK,))

    def write_fragments(self, step: int, rounds: Sequence[FragmentRound]) -> None:
        """What updates were made of, with asynchronous workers."""
        self._fragments.add(step, rounds)

    def flush(self) -> None:
        for sink in self._sinks.values():
            sink.flush()
        self._others.look()

    def offsets(self) -> dict[str, int]:
        """Where each sink stands, with everything before it safe on disk."""
        offsets = {name: sink.offset() for name, sink in self._sinks.items()}
        self._others.look()
        fragments = self._fragments.offset()
        return {**offsets, "fragments": fragments} if fragments else offsets

    def cut_back(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Forget what came after a checkpoint; a sink it does not know begins empty. Returns what is missing."""
        self._others.drop()
        missing = {name: sink.cut_back(offsets.get(name, 0)) for name, sink in self._sinks.items()}
        missing["fragments"] = self._fragments.cut_back(offsets.get("fragments", 0))
        return {name: count for name, count in missing.items() if count}

    def take_warnings(self) -> list[str]:
        """What there is to say of sinks that failed; each line once."""
        lines, self._others.warnings = self._others.warnings, []
        return lines

    def damaged_lines(self) -> int:
        """Lines of the run's own file that are not what was written; asked for once, when a run goes on."""
        return damaged_lines(Folder(self._run_dir))

    def close(self) -> None:
        for sink in self._sinks.values():
            sink.close()
        self._fragments.close()
        self._others.close()
