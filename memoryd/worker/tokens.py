"""Count tokens as `o200k_base` does, without the network.

The vocabulary is part of the package (`vocabulary/o200k_base.tiktoken.gz`, with the bytes that OpenAI publishes at
`VOCABULARY_URL`, checked by SHA-256). tiktoken would download it without a timeout, so its two download functions are
replaced first.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import zlib
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any, NoReturn

from memoryd.errors import StateError
from memoryd.gauge.estimate import estimate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import tiktoken

# The name `memoryd` alone would install another package from the index.
REINSTALL = "in the clone of memoryd: pip install --force-reinstall ."
ENCODING = "o200k_base"
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# tiktoken 0.14 panics on about a million spaces (openai/tiktoken#15, #245), and a panic is not an `Exception`.
PIECE_CHARACTERS = 100_000

# Known counts. A wrong vocabulary may load without an error, but would give other counts.
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
    """Count with tiktoken if it can be loaded, otherwise estimate by characters."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text.

        A text of more than 100,000 characters is counted in pieces, which may add a token at each boundary. Special
        tokens in a text count as ordinary text. A lone surrogate counts as the replacement character.
        """
        if self._encoding is None:
            return [*map(estimate, texts)]
        return [tokens_of(self._encoding, text) for text in texts]

    @cached_property
    def _encoding(self) -> tiktoken.Encoding | None:
        # If tiktoken cannot be loaded for any reason, an estimate is better than no count.
        with contextlib.suppress(StateError, ImportError, OSError, ValueError):
            return load_encoding()
        return None


def tokens_of(encoding: tiktoken.Encoding, text: str) -> int:
    """Return the number of tokens of one text of any length."""
    if len(text) <= PIECE_CHARACTERS:
        return len(encoding.encode_ordinary(text))
    starts = range(0, len(text), PIECE_CHARACTERS)
    return sum(len(encoding.encode_ordinary(text[start : start + PIECE_CHARACTERS])) for start in starts)


class _Vocabulary:
    """Give tiktoken only the lines of the vocabulary that it reads. A list of them would take 20 MB more."""

    def splitlines(self) -> Iterator[bytes]:
        """Return an iterator over the lines."""
        return io.BytesIO(unpack_vocabulary())


def load_encoding() -> tiktoken.Encoding:
    """Load the encoding from the package.

    Raises:
        StateError: The vocabulary is damaged, or the known counts are wrong.
    """
    import tiktoken.load

    def from_memory(blobpath: str, expected_hash: str | None = None) -> Any:
        return _Vocabulary() if blobpath == VOCABULARY_URL else _refuse_network(blobpath, expected_hash)

    tiktoken.load.read_file = _refuse_network
    tiktoken.load.read_file_cached = from_memory
    encoding = tiktoken.get_encoding(ENCODING)
    if any(tokens_of(encoding, text) != count for text, count in _KNOWN.items()):
        raise StateError("the tokenizer does not count as it must", ENCODING, REINSTALL)
    # tiktoken needs this second copy of the vocabulary only for pickling. It is a third of this process's memory.
    encoding._mergeable_ranks = {}  # noqa: SLF001 - no other way
    return encoding


def _refuse_network(blobpath: str, expected_hash: str | None = None) -> NoReturn:
    raise StateError("is not fetched: memoryd uses no network for counting", blobpath, expected_hash or "")


def unpack_vocabulary() -> bytes:
    """Return the bytes of the packaged vocabulary.

    Raises:
        StateError: The file is missing or damaged.
    """
    packed = resources.files("memoryd.worker") / "vocabulary" / f"{ENCODING}.tiktoken.gz"
    data = b""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        data = gzip.decompress(packed.read_bytes())
    if hashlib.sha256(data).hexdigest() != VOCABULARY_SHA256:
        what = "the vocabulary that comes with memoryd is missing or damaged"
        raise StateError(what, str(packed), REINSTALL)
    return data
