"""Keep one of memoryd's own tokens in a file, which is made at first use.

Only memoryd's user can read a secret token.
"""

import secrets
import stat
from contextlib import suppress
from pathlib import Path

from memoryd.errors import StateError
from memoryd.files import durable, regular
from memoryd.files.folders import make_private_dir
from memoryd.files.open_folder import follow_folder

_BYTES = 32
_HINT = "delete it: memoryd creates a new one, which every user of it needs"


def read_or_make(path: Path, *, is_secret: bool = True) -> str:
    """Return the token in a file; create it if there is no file.

    Raises:
        StateError: it cannot be read or created, is readable by others although it is secret, or is not a token.
    """
    make_private_dir(path.parent)
    with follow_folder(path.parent) as folder:
        entry = folder / path.name
        if not entry.exists():
            token = secrets.token_urlsafe(_BYTES)
            with suppress(durable.MovedError):  # another process has created it first, so that token is used
                durable.replace(entry, f"{token}\n".encode(), None, mode=0o600 if is_secret else 0o644)
        if is_secret and stat.S_IMODE(entry.lstat().st_mode) & 0o077:
            raise StateError("others can read the token", str(path), _HINT)
        token = (regular.read(entry, limit=4096) or b"").decode("ascii", "replace").strip()
    if len(token) < _BYTES or not token.isascii() or not token.isprintable():
        raise StateError("the file holds no token", str(path), _HINT)
    return token
