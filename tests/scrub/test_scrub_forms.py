"""What the library is given, and secrets that are known by their form alone."""

from __future__ import annotations

import base64
import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import ALNUM, secret

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan
from memoryd.worker.scanner import OVERLAP, PIECE, KnownFormats, cache_folder, split_buffer

REDACT = Policy()


def drawn(length: int, alphabet: str = ALNUM, seed: int = 1) -> str:
    return "".join(Random(f"{seed} {length}").choices(alphabet, k=length))


def shown(text: str) -> str:
    return scan([text], REDACT, lambda _: ())[0].text


# --- the library ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> KnownFormats:
    return KnownFormats(cache_folder(tmp_path_factory.mktemp("rules")))


@given(st.lists(st.integers(0, 3 * PIECE), max_size=6), st.integers(1, 9))
def test_pieces_cover_a_buffer_and_have_a_bound(lengths: list[int], rest: int) -> None:
    buffer = b"".join(b"x" * length + b"\n" for length in lengths) + b"y" * rest
    found = [*split_buffer(buffer)]
    assert found[0][0] == 0
    assert found[-1][1] == len(buffer)
    for (first, last, behind), (following, _, _) in itertools.pairwise(found):
        assert first < following == behind < last <= first + PIECE + OVERLAP
        assert last - following >= OVERLAP // 2


@pytest.mark.parametrize("between", ["\n", " "])
def test_a_secret_is_found_wherever_a_piece_ends(known: KnownFormats, between: str) -> None:
    token = secret("github", Random(7))
    for before in range(PIECE - 60, PIECE + 4, 9):
        text = between.join(["word"] * (before // 5)) + between + token + between + "more words\n" * 500
        places = {(first, last) for _, first, last in known.find(text.encode())}
        assert (text.index(token), text.index(token) + len(token)) in places


def test_places_are_those_of_the_text_when_it_has_nul_bytes(known: KnownFormats) -> None:
    token = secret("github", Random(3))
    text = f"a\0b {token} c\0" + "d\0e\0f\0" * 40
    assert scan([text], REDACT, known.find)[0].text == text.replace(token, "[REDACTED:github-pat]")


def test_calls_of_curl_are_found_without_the_library() -> None:
    key, number = drawn(32), drawn(16, "0123456789")
    left = shown(f"curl -H 'X-Api-Key: {key}' https://x.example\ncurl -H 'Authorization: Bearer {number}' https://x")
    assert key not in left
    assert number not in left


def test_a_number_in_an_authorization_header_is_found_without_a_scheme_and_a_mask_is_not() -> None:
    number = drawn(16, "0123456789")
    assert number not in shown(f"Authorization: {number}")
    masked = "Authorization: Bearer 000000000000"
    assert shown(masked) == masked


def test_base64_is_decoded_though_only_its_first_part_has_digits() -> None:
    assert "VE9L" not in shown("so VE9LRU49YWJjOFF+VXZYNFZSdXNQMWEyMzZYVVNScnRydjROVVlUYXphZHRpUQo= it is")


# --- what lies inside a key -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inside",
    ["\x1b(B", "\ufe0f", "\u3164", "\U000e0041", "\x9b31m", "a\b", "\r", "\u200b", "\x1b[m\x1b[K"],
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


@pytest.mark.parametrize("between", ["\r\n", "\n", "=\n", '" + "', '"\n    "', "' . '"])
def test_a_key_in_two_parts_is_found(between: str) -> None:
    token = secret("github", Random(14))
    quote = between[0] if between[0] in "\"'" else ""
    left = shown(f"so {quote}{token[:20]}{between}{token[20:]}{quote} it is")
    assert token[20:] not in left
    assert token[:20] not in left


@pytest.mark.parametrize("text", ["ghp_short1\nfoo2bar", "see sk-learn-1\nuser_2024_id", "key-file1\nnext-line2-here"])
def test_two_lines_are_no_key_by_themselves(text: str) -> None:
    assert shown(text) == text


# --- forms by themselves ----------------------------------------------------------------------------------------------

FORMS = {
    "discord": "Nzk5MjgxNDk0NDc2NDU1OTg3.YABS5g.2lmzECVlZv3vv6miVnUaKPQi2wI",
    "elevenlabs": "sk_" + drawn(48, "0123456789abcdef"),
    "mailchimp": drawn(32, "0123456789abcdef") + "-us12",
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_known_without_a_name(name: str) -> None:
    assert FORMS[name] not in shown(f"try {FORMS[name]} now")
    assert "REDACTED" in shown(f"try {FORMS[name]} now")


@pytest.mark.parametrize("between", [",", "\n", '","', " | ", "\t", ", "])
def test_the_secret_behind_an_access_key_goes_too(between: str) -> None:
    hidden = "wJalrXUtnFEMI0K7MDENGbPxRfiCY" + drawn(11)
    assert hidden not in shown(f"AKIA{drawn(16, 'ABCDEFGHJKLMNPQRSTUVWXYZ234567')}{between}{hidden}\n")


@pytest.mark.parametrize("beginning", ["key-", "SG.", "live_", "eyJ-----", "ghp_a\n", "AKIA"])
def test_repeated_beginnings_are_left_alone(beginning: str) -> None:
    assert shown(beginning * 20_000) == beginning * 20_000


# --- private keys -----------------------------------------------------------------------------------------------------

BODY = [drawn(64, ALNUM + "+/", seed) for seed in range(12)] + [drawn(30) + "=="]
PEM = ["-----BEGIN RSA PRIVATE KEY-----", *BODY, "-----END RSA PRIVATE KEY-----"]
LINES = {
    "plain": "{line}",
    "read": "{number:6}\u2192{line}",
    "cat -n": "{number:6}\t{line}",
    "grep -n": "{number}:{line}",
    "grep": "id_rsa:{line}",
    "grep -n of files": "keys/id_rsa:{number}:{line}",
    "quoted": "> {line}",
    "comment": "# {line}",
    "removed": "-{line}",
    "list": "- {line}",
    "logged": "web_1  | {line}",
    "timed": "2026-11-22T03:{number:02}:07Z web {line}",
    "strings": '    "{line}\\n" +',
    "blank": "{line}\n",
    "returns": "{line}\r",
}


def written(lines: list[str], how: str) -> str:
    return "\n".join(LINES[how].format(line=line, number=number) for number, line in enumerate(lines, 1))


def survivors(text: str, body: list[str]) -> list[str]:
    return [line for line in body if line[4:] in text]


@pytest.mark.parametrize("how", LINES)
def test_a_private_key_goes_however_its_lines_begin(how: str) -> None:
    left = shown(f"here it is\n{written(PEM, how)}\nand this stays here")
    assert survivors(left, BODY) == []
    assert left.startswith("here it is\n")
    assert left.endswith("and this stays here")


@pytest.mark.parametrize("how", LINES)
def test_a_private_key_goes_without_its_end(how: str) -> None:
    left = shown(f"here it is\n{written(PEM[:-2], how)}\nand this stays here")
    assert survivors(left, BODY[:-1]) == []
    assert left.endswith("and this stays here")


@pytest.mark.parametrize("how", sorted(LINES.keys() - {"blank", "strings"}))
def test_a_private_key_goes_without_its_beginning(how: str) -> None:
    left = shown(f"this stays here\n{written(PEM[4:], how)}\nand this")
    assert survivors(left, BODY[3:-1]) == []
    assert left.startswith("this stays here\n")


def test_a_private_key_in_lines_of_base64_goes() -> None:
    wrapped = base64.encodebytes("\n".join(PEM).encode()).decode()
    left = shown(f"key:\n{wrapped}\nname: x")
    assert survivors(left, wrapped.split("\n")[:-2]) == []
    assert left.endswith("name: x")


def test_the_private_lines_of_putty_go() -> None:
    head = "PuTTY-User-Key-File-3: ssh-rsa\nEncryption: none\nPublic-Lines: 1\nAAAAB3NzaC1yc2EAAAADAQABAAABAQ\n"
    left = shown(f"{head}Private-Lines: 3\n" + "\n".join(BODY[:3]) + "\nPrivate-MAC: 12")
    assert survivors(left, BODY[:3]) == []
    assert left.startswith(head)
    assert left.endswith("Private-MAC: 12")


def test_talk_of_private_keys_stays() -> None:
    talk = "it begins with -----BEGIN PRIVATE KEY-----\nand then come lines of base64,\nsee the handbook of it"
    left = shown(f"{talk}\nand it ends with -----END PRIVATE KEY-----\nas ever")
    assert left == talk.replace("-----BEGIN PRIVATE KEY-----", "[REDACTED:private-key]") + (
        "\nand it ends with -----END PRIVATE KEY-----\nas ever"
    )


@pytest.mark.parametrize(
    ("prefix", "alphabet", "lengths"),
    [
        ("ghs_", ALNUM, (36, 40)),
        ("github_pat_", ALNUM, (40, 82)),
        ("glpat-", ALNUM, (20, 27)),
        ("glrt-", ALNUM, (20, 27)),
        ("gloas-", ALNUM, (40, 64)),
        ("CLOJARS_", ALNUM, (45, 60)),
        ("sk-or-v1-", "0123456789abcdef", (48, 64)),
        ("xai-", ALNUM, (64, 80)),
        ("lin_api_", ALNUM, (34, 40)),
        ("xoxb-", ALNUM, (40, 57)),
        ("xoxp-", ALNUM, (40, 57)),
    ],
)
def test_a_key_is_taken_out_whole_whatever_its_length(prefix, alphabet, lengths):
    for length in lengths:
        body = drawn(length, alphabet)
        done = shown(f"use {prefix}{body} here")
        assert body[:8] not in done
        assert body[-8:] not in done


@pytest.mark.parametrize(
    ("prefix", "alphabet", "length"),
    [("npm_", ALNUM, 36), ("ghs_", ALNUM, 36), ("shpat_", "0123456789abcdef", 32), ("lin_api_", ALNUM, 40)],
)
def test_a_key_that_a_terminal_broke_is_taken_out_with_its_second_line(prefix, alphabet, length):
    body = drawn(length, alphabet)
    done = shown(f"use {prefix}{body[:20]}\n{body[20:]} here")
    assert body[:8] not in done
    assert body[-8:] not in done
