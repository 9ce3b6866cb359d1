"""Counting tokens: right, offline, on any text, and honest about an estimate."""

from __future__ import annotations

import gzip
import json
import socket
from typing import TYPE_CHECKING

import pytest
import tiktoken
import tiktoken.load
import tiktoken.registry
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import StateError
from memoryd.worker import tokens
from memoryd.worker.tokens import TokenCounter, load_encoding, tokens_of, unpack_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No encoding from another test, no network, and all of it restored."""

    def no_network(*_args: object, **_more: object) -> None:
        raise AssertionError("network")

    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setattr(tiktoken.load, "read_file", no_network)
    monkeypatch.setattr(tiktoken.load, "read_file_cached", tiktoken.load.read_file_cached)
    monkeypatch.setattr(socket, "create_connection", no_network)


@pytest.fixture(scope="module")
def encoding() -> Iterator[tiktoken.Encoding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiktoken.load, "read_file", None)
        patch.setattr(tiktoken.load, "read_file_cached", None)
        yield load_encoding()


def test_the_package_counts_offline() -> None:
    assert TokenCounter().count(["hello world", "", "<|endoftext|>"]) == [2, 0, 7]


def test_no_other_encoding_is_fetched() -> None:
    load_encoding()
    with pytest.raises(StateError, match="no network"):
        tiktoken.get_encoding("cl100k_base")


def test_a_wrong_vocabulary_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_only = b"".join(line + b"\n" for line in unpack_vocabulary().splitlines()[:256])
    monkeypatch.setattr(tokens, "unpack_vocabulary", lambda: bytes_only)
    monkeypatch.setattr(tiktoken.load, "check_hash", lambda *_args: True)
    with pytest.raises(StateError, match="count as it must"):
        load_encoding()


def test_a_damaged_package_counts_characters_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gzip, "decompress", lambda _data: b"short")
    assert TokenCounter().count(["", "a", "abcd", "abcde"]) == [0, 1, 1, 2]
    with pytest.raises(StateError, match="damaged"):
        unpack_vocabulary()


def test_the_lines_of_the_vocabulary_are_made_one_by_one() -> None:
    """A list of 200,000 lines takes 20 MB while the tokenizer loads."""
    lines = tokens._Vocabulary().splitlines()
    assert not isinstance(lines, list)
    assert [line.split() for line in lines] == [line.split() for line in unpack_vocabulary().splitlines()]


def test_a_million_spaces_do_not_panic(encoding: tiktoken.Encoding) -> None:
    assert tokens_of(encoding, " " * 1_000_001) > 0
    assert tokens_of(encoding, "a" * 100_000) == len(encoding.encode_ordinary("a" * 100_000))


@given(text=st.text(st.characters() | st.characters(categories=["Cs"])))
def test_any_text_has_a_count(encoding: tiktoken.Encoding, text: str) -> None:
    count = tokens_of(encoding, text)
    assert bool(count) == bool(text)
    assert count <= len(text.encode(errors="surrogatepass"))
    assert tokens_of(encoding, json.loads(json.dumps(text))) == count
