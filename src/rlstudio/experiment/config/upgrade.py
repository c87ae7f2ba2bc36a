"""Experiment files of an older RLStudio: lines whose settings changed nothing, and are gone, are taken out."""

from __future__ import annotations

import re
from typing import NamedTuple

from rlstudio.core.errors import ConfigError
from rlstudio.core.parsing.yaml_file import Document, read_text
from rlstudio.experiment.config.algorithm import train_section
from rlstudio.experiment.config.experiment import experiment_from


class Upgraded(NamedTuple):
    text: str
    removed: tuple[str, ...]  # `train.batch_size: why there is nothing to set`, in the order of the file


def upgraded(text: str, source: str) -> Upgraded:
    """The file as this version reads it, comments and order as they were; ConfigError where it is no experiment even
    then, or where a setting shares its line with others."""
    document = read_text(text, source)
    lines, removed = text.splitlines(keepends=True), []
    for field, reason in _retired(document):
        line = document.marks["train", field].line
        if not re.fullmatch(rf"\s*{re.escape(field)}\s*:[^\n{{\[|>&]*\n?", lines[line - 1]):
            raise ConfigError(
                f"{source}:{line}: train.{field}: {reason}; remove it by hand: its line has more than this setting"
            )
        lines[line - 1] = ""
        removed.append(f"train.{field}: {reason}")
    new = "".join(lines)
    experiment_from(read_text(new, source))
    return Upgraded(new, tuple(removed))


def _retired(document: Document) -> list[tuple[str, str]]:
    try:
        train, retired = document.data["train"], train_section(document.data["policy"]["algo"]).retired
        return [(field, retired[field].reason) for field in train if field in retired]
    except (KeyError, TypeError):  # no such section: what is wrong with it is said when it is read
        return []
