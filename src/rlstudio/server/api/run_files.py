"""What a run has written besides its metrics, as documents: events, and pieces of its log."""

from __future__ import annotations

from collections.abc import Iterator

from rlstudio.control.workspace import Entry
from rlstudio.experiment.lineage.secrets import masked_settings
from rlstudio.server.api.answers import Document, without_places
from rlstudio.storage.folder import Folder


def events_of(entry: Entry, after: int) -> Iterator[Document]:
    """The events with a larger number, oldest first: `seq` counts from 1."""
    known = entry.folder.events() if entry.has_folder else iter(())
    for seq, event in enumerate(known, start=1):
        if seq > after:
            masked = masked_settings({name: value for name, value in event.items() if name not in ("ts", "kind")})
            fields = masked if isinstance(masked, dict) else {}
            moment = event.get("ts")
            time = float(moment) if isinstance(moment, int | float) else None
            yield {**without_places(fields), "seq": seq, "time": time, "kind": str(event.get("kind"))}


def log_piece(entry: Entry, offset: int, limit: int) -> Document:
    """So many bytes of what a run printed, from an offset on; a negative one counts from the end."""
    folder, name = Folder(entry.folder.path), entry.folder.log_path.name
    size = (folder.size(name) or 0) if entry.has_folder else 0
    if not size:
        return {"text": "", "offset": 0, "end": 0}
    start = max(0, size + offset) if offset < 0 else min(offset, size)
    with folder.open(name) as file:
        file.seek(start)
        data = file.read(limit)
    whole = _whole_letters(data)
    data = whole if whole or len(data) < limit else data  # a limit of less than a letter goes on all the same
    return {"text": data.decode(errors="backslashreplace"), "offset": start, "end": start + len(data)}


def _whole_letters(data: bytes) -> bytes:
    """Without the first bytes of a letter whose others come with the next piece, or are not written yet."""
    for back, byte in enumerate(reversed(data[-3:]), start=1):
        if byte >= 0b1100_0000:  # the first of 2, 3 or 4
            return data if back >= 2 + (byte >= 0b1110_0000) + (byte >= 0b1111_0000) else data[:-back]
        if byte < 0b1000_0000:
            break
    return data
