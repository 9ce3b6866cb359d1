"""Counting tokens as `o200k_base` does, with no network ever.

The vocabulary comes with the package (`vocabulary/o200k_base.tiktoken.xz`, byte for byte what OpenAI publishes
under `VOCABULARY_URL`, checked by its sha256). tiktoken itself would fetch it with no timeout, so both of its ways to
the network are closed first. Found or unpacked once, it lies in tiktoken's own cache layout: a folder with a file
named by the sha1 of the URL.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import math
import os
import secrets
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from memoryd.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import tiktoken

ENCODING = "o200k_base"
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
CACHE_NAME = hashlib.sha1(VOCABULARY_URL.encode(), usedforsecurity=False).hexdigest()
CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"

# tiktoken 0.14 panics on about a million spaces (openai/tiktoken#15, #245), and a panic is no Exception.
PIECE_CHARACTERS = 100_000
CHARACTERS_PER_TOKEN = 4

# A vocabulary that is wrong but loads counts everything wrong without a word; these counts would show it.
_KNOWN = {
    "": 0,
    "hello world": 2,
    "The quick brown fox jumps over the lazy dog.": 10,
    '{"role": "user", "content": "naïve café"}': 15,
    "def f(x):\n    return x ** 2\n": 11,
    "記憶は大切です。": 8,
    "<|endoftext|>": 7,
    "\ud83d": 1,
}


class TokenCounter:
    """Counts with tiktoken where it can be had, else by characters, and says which."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._encoding: tiktoken.Encoding | None = None
        self._tried = False

    def count(self, texts: Sequence[str]) -> tuple[list[int], str]:
        """Tokens of each text, and how they were counted: `tiktoken` or `characters`.

        Texts of more than 100,000 characters are counted in pieces, which may add a token per cut. Special tokens
        in a text are text. Lone surrogates count as the replacement character does.
        """
        encoding = self._load()
        if encoding is None:
            return [math.ceil(len(text) / CHARACTERS_PER_TOKEN) for text in texts], "characters"
        return [tokens_of(encoding, text) for text in texts], "tiktoken"

    def _load(self) -> tiktoken.Encoding | None:
        if not self._tried:
            self._tried = True
            # Whatever the reason, an estimate that is called one is better than no count at all.
            with contextlib.suppress(StateError, ImportError, OSError, ValueError):
                self._encoding = load_encoding(self._state_dir)
        return self._encoding


def tokens_of(encoding: tiktoken.Encoding, text: str) -> int:
    """Tokens of one text of any length."""
    if len(text) <= PIECE_CHARACTERS:
        return len(encoding.encode_ordinary(text))
    starts = range(0, len(text), PIECE_CHARACTERS)
    return sum(len(encoding.encode_ordinary(text[start : start + PIECE_CHARACTERS])) for start in starts)


def load_encoding(state_dir: Path) -> tiktoken.Encoding:
    """The encoding, from a cache or from the package."""
    import tiktoken.load

    data = find_vocabulary(state_dir)

    def from_memory(blobpath: str, expected_hash: str | None = None) -> bytes:
        return data if blobpath == VOCABULARY_URL else _refuse_network(blobpath, expected_hash)

    tiktoken.load.read_file = _refuse_network
    tiktoken.load.read_file_cached = from_memory
    encoding = tiktoken.get_encoding(ENCODING)
    if any(tokens_of(encoding, text) != count for text, count in _KNOWN.items()):
        raise StateError("the tokenizer does not count as it must", ENCODING, "install memoryd and tiktoken again")
    return encoding


def _refuse_network(blobpath: str, expected_hash: str | None = None) -> NoReturn:
    raise StateError("is not fetched: memoryd uses no network for counting", blobpath, expected_hash or "")


def find_vocabulary(state_dir: Path) -> bytes:
    """The vocabulary's bytes: from the folder `TIKTOKEN_CACHE_DIR` names, else the state folder, else the package.

    Unpacked from the package it is kept in the state folder; a cache folder of the user is only ever read. Unless the
    variable is set, it names the state folder's from here on, so that other users of tiktoken in this process find it.
    """
    own = state_dir / "tiktoken"
    theirs = os.environ.get(CACHE_VARIABLE)
    folders = [Path(theirs), own] if theirs else [own]
    data = next((data for folder in folders if (data := _cached(folder)) is not None), None)
    if data is None:
        data = unpack_vocabulary()
        with contextlib.suppress(OSError):  # a full or read-only disk costs only the unpacking, each time
            _keep(own, data)
    os.environ.setdefault(CACHE_VARIABLE, str(own))
    return data


def _cached(folder: Path) -> bytes | None:
    try:
        data = (folder / CACHE_NAME).read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == VOCABULARY_SHA256 else None


def unpack_vocabulary() -> bytes:
    """The vocabulary as the package ships it."""
    packed = resources.files("memoryd.worker") / "vocabulary" / f"{ENCODING}.tiktoken.xz"
    try:
        data = lzma.decompress(packed.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise _damaged(str(packed)) from error
    if hashlib.sha256(data).hexdigest() != VOCABULARY_SHA256:
        raise _damaged(str(packed))
    return data


def _damaged(where: str) -> StateError:
    return StateError("the vocabulary that comes with memoryd is missing or damaged", where, "install memoryd again")


def _keep(folder: Path, data: bytes) -> None:
    # Derived data: nothing is lost with it, so a rename without fsync will do; a torn file fails its hash.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temp = folder / f".{CACHE_NAME}-{secrets.token_hex(8)}.tmp"
    try:
        temp.touch(mode=0o600)
        temp.write_bytes(data)
        temp.replace(folder / CACHE_NAME)
    finally:
        temp.unlink(missing_ok=True)
