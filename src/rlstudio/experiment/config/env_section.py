"""The section `env` of an experiment file alone, for commands that need nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence

from rlstudio.core.config import Config, apply_overrides, parse
from rlstudio.core.errors import UserError
from rlstudio.core.parsing.yaml_file import Document
from rlstudio.envs.config import EnvConfig


class _EnvOnly(Config):
    env: EnvConfig
    """The world."""


def env_section(document: Document, overrides: Sequence[str] = ()) -> EnvConfig:
    """Messages name file, line and field as they do for the whole experiment; the other sections are not looked at."""
    for override in overrides:
        if not override.startswith("env."):
            raise UserError(f"override {override}: only settings of the environment count here, like env.kwargs.size=5")
    changed = apply_overrides(document, overrides)
    data = {"env": changed.data.get("env")} if isinstance(changed.data, dict) else changed.data
    return parse(_EnvOnly, Document(data, changed.source, changed.marks, changed.overrides)).env
