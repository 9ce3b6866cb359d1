"""memoryd's own secret in a file."""

import os
import stat

import pytest

from memoryd.errors import StateError
from memoryd.files.token_file import read_or_make


def test_a_token_is_made_once_and_is_nobody_elses(tmp_path):
    path = tmp_path / "state" / "mcp.token"
    before = os.umask(0)
    try:
        token = read_or_make(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_or_make(path) == token
    assert read_or_make(path.with_name("other.token")) != token
    path.chmod(0o640)
    with pytest.raises(StateError, match="others can read"):
        read_or_make(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(StateError, match="no token"):
        read_or_make(path)
    path.unlink()
    path.symlink_to(path.with_name("other.token"))
    with pytest.raises(StateError):
        read_or_make(path)
