"""Lines: every metric as a line of text, `STEP KEY VALUE`."""

from pydantic import Field

from rlstudio.experiment.config.sections import SinkConfig
from rlstudio.storage.folder import Folder
from rlstudio.storage.jsonl import LineWriter


class LinesConfig(SinkConfig):
    file: str = Field("lines.txt", pattern=r"^\w+\.txt$")
    """Name of the file, in the run's `artifacts`."""


class Lines:
    Config = LinesConfig

    def __init__(self, cfg, run_dir):
        self.folder, self.name = Folder(run_dir), f"artifacts/{cfg.file}"
        self.waiting, self.file = [], None

    def write(self, records):
        self.waiting += [f"{record.step} {record.key} {record.value!r}\n" for record in records]

    def flush(self):
        if self.file is None:
            self.file = LineWriter(self.folder, self.name)
        self.file.append("".join(self.waiting).encode())
        self.waiting = []

    def offset(self):
        self.flush()
        self.file.sync()
        return self.file.size

    def cut_back(self, offset):
        self.close()
        self.waiting = []
        size = self.folder.size(self.name) or 0
        if size > offset:
            self.folder.keep_prefix(self.name, offset)
        return max(0, offset - size)

    def close(self):
        if self.file is not None:
            self.file.close()
            self.file = None
