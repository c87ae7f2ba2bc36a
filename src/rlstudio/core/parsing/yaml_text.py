"""Plain data as YAML text that reads back to the same data, by our own reader and by readers of YAML 1.1."""

from __future__ import annotations

import re
from typing import Any

import yaml

from rlstudio.core.parsing.yaml_file import FLOAT, INTEGER


class _Dumper(yaml.SafeDumper):
    """Quotes text that YAML 1.1 or 1.2 would take for something else, and never writes anchors."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _list(dumper: yaml.SafeDumper, items: list[object]) -> yaml.Node:
    flat = not any(isinstance(item, dict | list) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=flat)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = '"' if "\x85" in text else None  # elsewhere PyYAML writes this line break so that it reads as another
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(list, _list)
_Dumper.add_representer(str, _text)
for _tag, _pattern in (("int", INTEGER), ("float", FLOAT)):
    _Dumper.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern.pattern})\Z"), list("-+.0123456789")
    )


def write_text(data: object) -> str:
    """Plain data as YAML, in its own order, lists of scalars on one line; `read_text` gives the same data back."""
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "default_flow_style": False, "width": 120}
    return str(yaml.dump(data, Dumper=_Dumper, **options))
