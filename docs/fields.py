"""Fills the tables of configuration fields and the example files in these pages, so that they cannot drift apart.

A page marks a place with `<!-- fields module:Class -->` and `<!-- /fields -->`, or with `<!-- file path -->` and
`<!-- /file -->`. `python docs/fields.py` rewrites what stands between; a test compares. A class that extends another
shows only the fields it adds or changes.
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import BaseModel

PLACE = re.compile(r"(<!-- fields ([\w.]+):(\w+) -->\n).*?(<!-- /fields -->)", re.DOTALL)
FILE = re.compile(r"(<!-- file (\S+) -->\n).*?(<!-- /file -->)", re.DOTALL)
ROOT = Path(__file__).parents[1]
LIMITS = (("minimum", "≥ {}"), ("exclusiveMinimum", "> {}"), ("maximum", "≤ {}"), ("exclusiveMaximum", "< {}"))


def render(page: str) -> str:
    """The page with every marked table and file as the code has it now."""
    page = PLACE.sub(lambda place: f"{place[1]}\n{table(getattr(import_module(place[2]), place[3]))}\n{place[4]}", page)
    return FILE.sub(lambda place: f"{place[1]}\n```python\n{(ROOT / place[2]).read_text()}```\n\n{place[3]}", page)


def table(config: type[BaseModel]) -> str:
    own = [name for name in config.model_fields if name in config.__annotations__]
    properties = config.model_json_schema()["properties"]
    lines = ["| field | default | values | meaning |", "|---|---|---|---|"]
    for name in own:
        field, schema = config.model_fields[name], properties[name]
        default = "required" if field.is_required() else f"`{_plain(schema.get('default'))}`"
        default = "its own" if field.default_factory is not None else default
        meaning = " ".join((field.description or "").split())
        lines.append(f"| `{name}` | {default} | {_values(schema)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> str:
    return json.dumps(value) if not isinstance(value, str) else value


def _values(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return ", or ".join(_values(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{_plain(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_plain(schema['const'])}`"
    if "$ref" in schema:
        return "section"
    kind = {"array": "list", "object": "mapping", "string": "text", "boolean": "true, false"}.get(
        schema.get("type", "any"), schema.get("type", "any")
    )
    limits = [form.format(f"{schema[key]:.15g}") for key, form in LIMITS if key in schema]
    return " ".join([kind, ", ".join(limits)]).strip()


if __name__ == "__main__":
    for path in sorted(Path(__file__).parent.rglob("*.md")):
        path.write_text(render(path.read_text()))
