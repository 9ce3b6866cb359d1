"""Count tokens as `o200k_base` does, without the network.

The vocabulary comes with the package (`vocabulary/o200k_base.tiktoken.gz`, byte for byte what OpenAI publishes
under `VOCABULARY_URL`, checked by its sha256). tiktoken itself would fetch it with no timeout, so both of its ways to
the network are closed first.
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

REINSTALL = "in the clone of memoryd: pip install --force-reinstall ."  # by its name, an index has another
ENCODING = "o200k_base"
VOCABULARY_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

# tiktoken 0.14 panics on about a million spaces (openai/tiktoken#15, #245), and a panic is no Exception.
PIECE_CHARACTERS = 100_000

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
    """Count with tiktoken if it is available, or else by characters."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text.

        Texts of more than 100,000 characters are counted in pieces, which may add a token per cut. Special tokens
        in a text are text. Lone surrogates count as the replacement character does.
        """
        if self._encoding is None:
            return [*map(estimate, texts)]
        return [tokens_of(self._encoding, text) for text in texts]

    @cached_property
    def _encoding(self) -> tiktoken.Encoding | None:
        # Whatever the reason, an estimate is better than no count at all.
        with contextlib.suppress(StateError, ImportError, OSError, ValueError):
            return load_encoding()
        return None


def tokens_of(encoding: tiktoken.Encoding, text: str) -> int:
    """Tokens of one text of any length."""
    if len(text) <= PIECE_CHARACTERS:
        return len(encoding.encode_ordinary(text))
    starts = range(0, len(text), PIECE_CHARACTERS)
    return sum(len(encoding.encode_ordinary(text[start : start + PIECE_CHARACTERS])) for start in starts)


class _Vocabulary:
    """Hold the vocabulary for the library, which wants only its lines: a list of them takes 20 MB more."""

    def splitlines(self) -> Iterator[bytes]:
        """Return its lines one by one."""
        return io.BytesIO(unpack_vocabulary())


def load_encoding() -> tiktoken.Encoding:
    """Load the encoding from the package."""
    import tiktoken.load

    def from_memory(blobpath: str, expected_hash: str | None = None) -> Any:
        return _Vocabulary() if blobpath == VOCABULARY_URL else _refuse_network(blobpath, expected_hash)

    tiktoken.load.read_file = _refuse_network
    tiktoken.load.read_file_cached = from_memory
    encoding = tiktoken.get_encoding(ENCODING)
    if any(tokens_of(encoding, text) != count for text, count in _KNOWN.items()):
        raise StateError("the tokenizer does not count as it must", ENCODING, REINSTALL)
    # The library's second copy of the vocabulary, which it needs only to be pickled: a third of this process.
    encoding._mergeable_ranks = {}  # noqa: SLF001 - no other way
    return encoding


def _refuse_network(blobpath: str, expected_hash: str | None = None) -> NoReturn:
    raise StateError("is not fetched: memoryd uses no network for counting", blobpath, expected_hash or "")


def unpack_vocabulary() -> bytes:
    """The vocabulary as the package ships it."""
    packed = resources.files("memoryd.worker") / "vocabulary" / f"{ENCODING}.tiktoken.gz"
    data = b""
    with contextlib.suppress(OSError, EOFError, zlib.error):
        data = gzip.decompress(packed.read_bytes())
    if hashlib.sha256(data).hexdigest() != VOCABULARY_SHA256:
        what = "the vocabulary that comes with memoryd is missing or damaged"
        raise StateError(what, str(packed), REINSTALL)
    return data
