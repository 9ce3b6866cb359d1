"""Counting tokens: right, offline, on any text, and honest about an estimate."""

from __future__ import annotations

import json
import lzma
import os
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
from memoryd.worker.tokens import CACHE_NAME, TokenCounter, find_vocabulary, load_encoding, tokens_of, unpack_vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cache folder, no encoding from another test, no network, and all of it restored."""

    def no_network(*_args: object, **_more: object) -> None:
        raise AssertionError("network")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "x")
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    monkeypatch.setattr(tiktoken.load, "read_file", no_network)
    monkeypatch.setattr(tiktoken.load, "read_file_cached", tiktoken.load.read_file_cached)
    monkeypatch.setattr(socket, "create_connection", no_network)


@pytest.fixture(scope="module")
def encoding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tiktoken.Encoding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiktoken.load, "read_file", None)
        patch.setattr(tiktoken.load, "read_file_cached", None)
        patch.setenv("TIKTOKEN_CACHE_DIR", "")
        yield load_encoding(tmp_path_factory.mktemp("state"))


def test_the_package_counts_offline_and_leaves_a_cache(tmp_path: Path) -> None:
    counter = TokenCounter(tmp_path)
    assert counter.count(["hello world", "", "<|endoftext|>"]) == ([2, 0, 7], "tiktoken")
    kept = tmp_path / "tiktoken" / CACHE_NAME
    assert kept.read_bytes() == unpack_vocabulary()
    assert [entry.name for entry in kept.parent.iterdir()] == [CACHE_NAME]
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(kept.parent)


def test_a_cache_of_the_users_is_honoured_and_never_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(theirs))
    (theirs / CACHE_NAME).write_bytes(unpack_vocabulary())
    find_vocabulary(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    (theirs / CACHE_NAME).write_bytes(b"torn")
    assert find_vocabulary(tmp_path / "state") == unpack_vocabulary()
    assert (theirs / CACHE_NAME).read_bytes() == b"torn"
    assert os.environ["TIKTOKEN_CACHE_DIR"] == str(theirs)


def test_a_damaged_cache_of_our_own_is_made_anew(tmp_path: Path) -> None:
    kept = tmp_path / "tiktoken" / CACHE_NAME
    kept.parent.mkdir()
    kept.write_bytes(unpack_vocabulary()[:-1])
    assert load_encoding(tmp_path).name == "o200k_base"
    assert kept.read_bytes() == unpack_vocabulary()


def test_nothing_writable_still_counts(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    assert TokenCounter(tmp_path / "state").count(["hello world"]) == ([2], "tiktoken")


def test_no_other_encoding_is_fetched(tmp_path: Path) -> None:
    load_encoding(tmp_path)
    with pytest.raises(StateError, match="no network"):
        tiktoken.get_encoding("cl100k_base")


def test_a_wrong_vocabulary_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "find_vocabulary", lambda _state: _bytes_only())
    monkeypatch.setattr(tiktoken.load, "check_hash", lambda *_args: True)
    with pytest.raises(StateError, match="count as it must"):
        load_encoding(tmp_path)


def _bytes_only() -> bytes:
    return b"".join(line + b"\n" for line in unpack_vocabulary().splitlines()[:256])


def test_a_damaged_package_counts_characters_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lzma, "decompress", lambda _data: b"short")
    assert TokenCounter(tmp_path).count(["", "a", "abcd", "abcde"]) == ([0, 1, 1, 2], "characters")
    with pytest.raises(StateError, match="damaged"):
        unpack_vocabulary()


def test_a_million_spaces_do_not_panic(encoding: tiktoken.Encoding) -> None:
    assert tokens_of(encoding, " " * 1_000_001) > 0
    assert tokens_of(encoding, "a" * 100_000) == len(encoding.encode_ordinary("a" * 100_000))


@given(text=st.text(st.characters() | st.characters(categories=["Cs"])))
def test_any_text_has_a_count(encoding: tiktoken.Encoding, text: str) -> None:
    count = tokens_of(encoding, text)
    assert bool(count) == bool(text)
    assert count <= len(text.encode(errors="surrogatepass"))
    assert tokens_of(encoding, json.loads(json.dumps(text))) == count
