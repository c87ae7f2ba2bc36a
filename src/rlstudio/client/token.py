"""The token that a server knows its callers by. It is never an argument: whoever may list processes would read it.

RLSTUDIO_TOKEN                     the token itself
RLSTUDIO_TOKEN_FILE                a file with it
~/.config/rlstudio/HOST-PORT.token the file that is looked for otherwise: one server's token is not sent to another
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rlstudio.client.address import ServerAddress
from rlstudio.core.errors import UserError

TOKEN_VARIABLE, FILE_VARIABLE = "RLSTUDIO_TOKEN", "RLSTUDIO_TOKEN_FILE"
LONGEST_TOKEN = 256


def find_token(address: ServerAddress, file: Path | None = None) -> str:
    """The token for this server; `file` is what the user named."""
    if file is None and (given := os.environ.get(TOKEN_VARIABLE)):
        return _checked(given, TOKEN_VARIABLE)
    if file is None and (named := os.environ.get(FILE_VARIABLE)):
        file = Path(named)
    if file is not None:
        return read_token(file)
    usual = usual_file(address)
    if usual.exists():
        return read_token(usual)
    raise UserError(
        f"server {address}: needs a token; set {TOKEN_VARIABLE}, or keep it in {usual} (mode 0600); who runs the server"
        " gives it out"
    )


def usual_file(address: ServerAddress) -> Path:
    above = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(above) / "rlstudio" / f"{address.host.replace(':', '_')}-{address.port}.token"


def read_token(file: Path) -> str:
    """Refused: a file that others may read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{file}: is not a regular file; name a file with the token")
            if status.st_mode & 0o077:
                raise UserError(f"{file}: others may read it; run: chmod 600 {file}")
            data = os.read(descriptor, LONGEST_TOKEN + 2)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UserError(f"{file}: the token cannot be read: {error.strerror}") from error
    return _checked(data.decode(errors="replace").strip(), str(file))


def _checked(token: str, where: str) -> str:
    if not token or len(token) > LONGEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{where}: holds no token; it is one word")
    return token
