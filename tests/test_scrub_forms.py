"""What the library is given, and secrets that are known by their form alone."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan
from memoryd.worker.scanner import OVERLAP, PIECE, Known, cache_folder, pieces
from tests.secret_samples import ALNUM, secret

REDACT = Policy()


def drawn(length: int, alphabet: str = ALNUM, seed: int = 1) -> str:
    return "".join(Random(f"{seed} {length}").choices(alphabet, k=length))


def shown(text: str) -> str:
    return scan([text], REDACT, lambda _: ())[0].text


# --- the library ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return Known(cache_folder(tmp_path_factory.mktemp("rules")))


@given(st.lists(st.integers(0, 3 * PIECE), max_size=6), st.integers(0, 9))
def test_pieces_cover_a_buffer_and_have_a_bound(lengths: list[int], rest: int) -> None:
    buffer = b"".join(b"x" * length + b"\n" for length in lengths) + b"y" * rest
    found = [*pieces(buffer)]
    assert found[0][0] == 0
    assert found[-1][1] == len(buffer)
    for (first, last, behind), (following, _, _) in itertools.pairwise(found):
        assert first < following == behind < last <= first + PIECE + OVERLAP
        assert last - following >= OVERLAP // 2


@pytest.mark.parametrize("between", ["\n", " "])
def test_a_secret_is_found_wherever_a_piece_ends(known: Known, between: str) -> None:
    token = secret("github", Random(7))
    for before in range(PIECE - 60, PIECE + 4, 7):
        text = between.join(["word"] * (before // 5)) + between + token + between + "more words\n" * 9000
        places = {(first, last) for _, first, last in known.find(text.encode())}
        assert (text.index(token), text.index(token) + len(token)) in places


def test_places_are_those_of_the_text_when_it_has_nul_bytes(known: Known) -> None:
    token = secret("github", Random(3))
    text = f"a\0b {token} c\0" + "d\0e\0f\0" * 40
    assert scan([text], REDACT, known.find)[0].text == text.replace(token, "[REDACTED:github-pat]")


def test_calls_of_curl_are_found_without_the_library() -> None:
    key, number = drawn(32), drawn(16, "0123456789")
    left = shown(f"curl -H 'X-Api-Key: {key}' https://x.example\ncurl -H 'Authorization: Bearer {number}' https://x")
    assert key not in left
    assert number not in left


def test_base64_is_decoded_though_only_its_first_part_has_digits() -> None:
    assert "VE9L" not in shown("so VE9LRU49YWJjOFF+VXZYNFZSdXNQMWEyMzZYVVNScnRydjROVVlUYXphZHRpUQo= it is")


# --- what lies inside a key -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inside",
    ["\x1b(B", "\ufe0f", "\u3164", "\U000e0041", "\x9b31m", "a\b", "\r", "=\n", "=\r\n", "\u200b", "\x1b[m\x1b[K"],
)
def test_what_has_no_width_does_not_hide_a_key(inside: str) -> None:
    token = secret("github", Random(11))
    for at in (2, 4, 20):
        assert shown(f"so {token[:at]}{inside}{token[at:]} it is") == "so [REDACTED:github-token] it is"


@pytest.mark.parametrize("spelt", ["&#{:d};", "&#x{:x};", "\\u{{{:x}}}", "\\U{:08X}", "\\{:o}"])
def test_a_letter_may_be_spelt_by_its_number(spelt: str) -> None:
    token = secret("github", Random(12))
    assert shown(f"so {spelt.format(ord('g'))}{token[1:]} it is") == "so [REDACTED:github-token] it is"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_two_bytes_a_letter_hide_nothing(encoding: str) -> None:
    token = secret("github", Random(13))
    left = shown(f"# mine\n- key {token} end\n".encode(encoding).decode())
    assert token[8:] not in left.replace("\0", "")
    assert left.replace("\0", "").startswith("# mine\n- key [REDACTED:github-token]")


def test_bytes_between_entries_part_them() -> None:
    environment = "HOME=/home/bob\0TERM=xterm-256color\0PAGER=less\0"
    assert shown(environment) == environment
