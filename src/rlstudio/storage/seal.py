"""A JSON file whose last line is the sha256 of the lines above it: checked before anything is parsed.

It is ordinary JSON, so any program reads it. The hash is no signature: it can be rewritten with the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from rlstudio.core.contracts import State
from rlstudio.core.errors import CheckpointError
from rlstudio.storage.state_tree import plain

_TAIL = re.compile(rb',\n  "sha256": "([0-9a-f]{64})"\n\}\n')
_TAIL_SIZE = len(',\n  "sha256": ""\n}\n') + 64


def sealed(fields: Mapping[str, object]) -> bytes:
    """The file as it lies on the disk."""
    text = json.dumps(plain(fields, "manifest"), sort_keys=True, indent=2, allow_nan=False).encode()
    above = text.removesuffix(b"\n}")
    return above + f',\n  "sha256": "{sha256(above).hexdigest()}"\n}}\n'.encode()


def unsealed(data: bytes, label: str) -> State:
    """The parsed content, with its own `sha256`; `label` names the file in an error message."""
    tail = _TAIL.fullmatch(data[-_TAIL_SIZE:])
    if tail is None or sha256(data[:-_TAIL_SIZE]).hexdigest().encode() != tail[1]:
        raise CheckpointError(f"{label}: its sha256 does not match its content")
    try:
        content: State = json.loads(data)  # one object: nothing else ends as `sealed` ends a file
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{label}: not a manifest: {type(error).__name__} {error}") from error
    return content
