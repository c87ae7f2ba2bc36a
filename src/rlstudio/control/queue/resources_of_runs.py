"""What runs ask for in their own configs, as the store has them. Free of torch."""

from __future__ import annotations

from rlstudio.control.store.reading import StoreReader
from rlstudio.control.store.records import RunRow
from rlstudio.core.config import parse
from rlstudio.core.errors import ConfigError, RunNotFound
from rlstudio.core.parsing.yaml_file import Document, read_text
from rlstudio.core.resources import ResourcesConfig


class KnownResources:
    """The section `resources` of each run, read once."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._known: dict[str, ResourcesConfig] = {}

    def of(self, run: RunRow) -> ResourcesConfig:
        if run.id not in self._known:
            self._known[run.id] = self._read(run.id)
        return self._known[run.id]

    def _read(self, run_id: str) -> ResourcesConfig:
        """A config that cannot be read asks for nothing special: the run's process says what is wrong with it."""
        try:
            data = read_text(self._store.config_yaml(run_id), f"run {run_id}").data
            section = data.get("resources") if isinstance(data, dict) else None
            asked = parse(ResourcesConfig, Document(section or {}, "resources"))
        except (ConfigError, RunNotFound):
            return ResourcesConfig()
        if asked.address == "auto" or self._store.launched_here(run_id):
            return asked
        # To join a cluster is to trust it, and who wrote this folder is not who runs it here.
        return asked.model_copy(update={"address": "auto"})
