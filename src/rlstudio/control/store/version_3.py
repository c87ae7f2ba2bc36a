"""From version 2 of the store to version 3: what the user let a run import, and the PID namespace of a process."""

from __future__ import annotations

import json

from sqlalchemy import Connection, text

_STATEMENTS = (
    text("ALTER TABLE run ADD COLUMN imports TEXT DEFAULT '[]' NOT NULL"),
    text("ALTER TABLE run ADD COLUMN import_path TEXT DEFAULT '[]' NOT NULL"),
    text("ALTER TABLE run ADD COLUMN pid_namespace BIGINT DEFAULT '0' NOT NULL"),
    text("ALTER TABLE worker ADD COLUMN pid_namespace BIGINT DEFAULT '0' NOT NULL"),
    text("ALTER TABLE sweep ADD COLUMN pid_namespace BIGINT DEFAULT '0' NOT NULL"),
)

# An adopted run begins with a random token, one that was launched here with none.
_LAUNCHED_HERE = text(
    "SELECT run.id, run.config_yaml FROM run JOIN event ON event.run_id = run.id"
    " WHERE event.version = 1 AND event.token = 0"
)
_SET_IMPORTS = text("UPDATE run SET imports = :imports WHERE id = :id")


def from_version_2(connection: Connection) -> None:
    for statement in _STATEMENTS:
        connection.execute(statement)
    for run_id, config_yaml in connection.execute(_LAUNCHED_HERE).all():
        if modules := _imports(config_yaml):
            connection.execute(_SET_IMPORTS, {"id": run_id, "imports": json.dumps(modules)})


def _imports(config_yaml: str) -> list[str]:
    """The modules that a stored config names: until version 2 it was the only place that remembered `--import`."""
    if "imports:" not in config_yaml or "imports: []" in config_yaml:
        return []
    from rlstudio.core.errors import ConfigError
    from rlstudio.core.parsing.yaml_file import read_text

    try:
        named = read_text(config_yaml, "config.yaml").data.get("imports")
    except (ConfigError, AttributeError):
        return []
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
