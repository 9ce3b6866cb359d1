"""Secrets of many formats in many places are taken out; what is none stays, byte for byte."""

from __future__ import annotations

import base64
import re
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from secret_samples import BY_NAME, CONTEXTS, HARMLESS, SHAPES, UNNAMED, secret, secrets

from memoryd.errors import ConfigError
from memoryd.scrub import scan as scanning
from memoryd.scrub.finding import Finding, ScrubbedText
from memoryd.scrub.personal import is_card, is_iban
from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan
from memoryd.worker.scanner import KnownFormats, cache_folder

REDACT = Policy()
MARK = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
WORDS = st.lists(
    st.sampled_from(["the", "file", "is", "token", "password", "=", ":", '"', "\n", "ü", "key", "42", " "])
)


@cache
def library() -> KnownFormats:
    """The known formats of the library, loaded once for all tests of this file."""
    return KnownFormats(cache_folder(Path(tempfile.gettempdir())))


def one(text: str, policy: Policy = REDACT) -> ScrubbedText:
    return scan([text], policy, library().find)[0]


def test_there_are_sixty_formats() -> None:
    assert len(SHAPES) >= 60


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_known_format_never_survives(context: str) -> None:
    survived = []
    for name in SHAPES:
        for seed in range(3):
            planted = secret(name, Random(seed))
            found = one(CONTEXTS[context].format(planted))
            if planted[len(planted) // 2 :] in found.text or not found.findings:
                survived.append((name, seed))
    assert survived == []


@pytest.mark.parametrize("context", BY_NAME)
def test_what_only_its_name_gives_away_never_survives(context: str) -> None:
    survived = []
    for name in UNNAMED:
        for seed in range(5):
            planted = secret(name, Random(seed))
            if planted in one(CONTEXTS[context].format(planted)).text:
                survived.append((name, seed))
    assert survived == []


def test_what_is_no_secret_is_untouched() -> None:
    assert [text for text in HARMLESS if one(text) != ScrubbedText(text, ())] == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("my password is hunter2!", "hunter2"),
        ("Mein Passwort lautet sommer2024x.", "sommer2024x"),
        ("la contraseña es perro77gato", "perro77gato"),
        ("le mot de passe est chat88noir", "chat88noir"),
        ("мой пароль: kot77sobaka", "kot77sobaka"),
        ("密码是 mao77gou99", "mao77gou99"),
        ("the token for the staging server: k7Jx2mPq9Lw4", "k7Jx2mPq9Lw4"),
        ("use qX7bLp92mZ as the password", "qX7bLp92mZ"),
        ('"password": "swordfish"', "swordfish"),
        ("PGPASSWORD=s3cr3t,w0rd psql", "s3cr3t,w0rd"),
        ("curl -u admin:Tr0ub4dor https://example.org", "Tr0ub4dor"),
        ("redis://:p4ssw0rdX@cache:6379/0", "p4ssw0rdX"),
        ("Cookie: theme=dark; sid=8f14e45fceea167a5a36dedd4bea2543", "8f14e45fceea167a"),
        ("<password>zq81kdpw</password>", "zq81kdpw"),
        ("- name: DB_PASSWORD\n  value: zq81kdpw", "zq81kdpw"),
        ("Authorization: Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
    ],
)
def test_a_secret_that_is_told_or_carried(text: str, kept: str) -> None:
    assert kept not in one(text).text


PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7Zq2\nq8Zp4WxT7vBn1c9f3k2L\n" * 3


@pytest.mark.parametrize("text", [PEM + "-----END RSA PRIVATE KEY-----", PEM, PEM.strip().replace("\n", "\\n")])
def test_a_private_key_is_taken_out_whole_also_cut_off_or_on_one_line(text: str) -> None:
    assert one(f"see {text}\n\nand so on").text.split() == ["see", "[REDACTED:private-key]", "and", "so", "on"]


@given(secrets())
def test_one_layer_of_encoding_is_looked_through(planted: str) -> None:
    escaped = f"\\u{ord(planted[0]):04x}{planted[1:]}"
    percent = "".join(f"%{ord(char):02X}" for char in planted)
    wrapped = base64.b64encode(f"TOKEN={planted}\n".encode()).decode()
    half = len(planted) // 2
    coloured = f"{planted[:half]}\x1b[1;31m{planted[half:]}"
    parted = f"{planted[:half]}\u200b{planted[half:]}"
    for text in (escaped, percent, quote(planted, safe=""), wrapped, coloured, parted):
        result = one(f"before {text} after")
        assert result.text.startswith("before ")
        assert result.text.endswith(" after")
        assert result.findings, text


@given(st.lists(st.one_of(secrets(), WORDS.map(" ".join), st.sampled_from(HARMLESS), st.text()), max_size=8))
def test_a_second_scan_changes_nothing_and_the_rest_stays_in_order(pieces: list[str]) -> None:
    text = " ".join(pieces).encode("utf-8", "replace").decode()
    result = one(text)
    assert one(result.text).text == result.text
    rest, at = [], 0
    for finding in result.findings:
        assert at <= finding.first < finding.last <= len(text)
        rest.append(text[at : finding.first] + f"[REDACTED:{finding.rule}]")
        at = finding.last
    assert "".join([*rest, text[at:]]) == result.text


@given(st.lists(st.one_of(st.text(), secrets(), st.sampled_from(["my password is", "hunter2 x", "<private>"]))))
def test_texts_do_not_change_each_other(texts: list[str]) -> None:
    assert scan(texts, REDACT, library().find) == [one(text) for text in texts]


def test_the_library_is_asked_about_all_texts_at_once_and_believed_of_each_alone() -> None:
    asked = []

    def known(buffer: bytes) -> list[tuple[str, int, int]]:
        asked.append(buffer)
        return [("found", match.start(), match.end()) for match in re.finditer(rb"(?s)be[^x]*?gin", buffer)]

    texts = ["ü be", "gin", "é begin ü", "x"]
    assert [result.text for result in scan(texts, REDACT, known)] == ["ü be", "gin", "é [REDACTED:found] ü", "x"]
    assert scan(texts, REDACT, known)[2].findings == (Finding("found", 2, 7),)
    assert len(asked) < 2 * (len(texts) + 2)


def test_a_placeholder_is_not_a_secret() -> None:
    text = "my password is [REDACTED:token-value] and api_key=[REDACTED:x] or https://u:[REDACTED:url-password]@h/"
    assert one(text).text == text


def test_policies() -> None:
    planted = secret("github", Random(1))
    text = f"a {planted} b"
    assert one(text, Policy("skip")) == ScrubbedText("", (Finding("github-pat", 2, 2 + len(planted)),), dropped=True)
    assert one(text, Policy("off")).text == text
    assert one("a <private>b</private> c", Policy("skip")) == ScrubbedText(
        "a [REDACTED:private] c", (Finding("private", 2, 22),)
    )
    assert one("a <private>b</private> c", Policy("off")).text == "a [REDACTED:private] c"
    assert one(text, Policy(allow=(planted,))).text == text
    assert one(text, Policy(allow=("/ghp_.*/",))).text == text
    assert one(text, Policy(allow=("ghp_",))).text != text
    assert one(text, Policy(allow=("/ghp_/",))).text != text


@pytest.mark.parametrize("entry", ["", "/(/"])
def test_a_bad_entry_of_allow_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Policy(allow=(entry,))
    assert refused.value.where == "scrub.allow"


def test_personal_data_is_masked_only_where_asked() -> None:
    text = "mail ann.o@example.org, call +49 30 1234567, pay 4111 1111 1111 1111 to DE89 3704 0044 0532 0130 00."
    assert one(text).text == text
    masked = one(text, Policy(pii="mask")).text
    assert masked == "mail [REDACTED:email], call [REDACTED:phone], pay [REDACTED:card] to [REDACTED:iban]."
    wrong = "pay 4111 1111 1111 1112 to DE88 3704 0044 0532 0130 00 at 2026-01-02 10:11:12 v1.2.3 id 1234567890"
    assert one(wrong, Policy(pii="mask")).text == wrong


@given(st.text("0123456789", min_size=12, max_size=18), st.integers(0, 9))
def test_one_check_digit_fits_a_card(digits: str, offset: int) -> None:
    if len(set(digits)) > 2:
        assert sum(is_card(f"{digits}{last}".encode()) for last in range(10)) == 1
    assert not is_iban(f"DE{offset}0{digits}"[:14].encode())


@pytest.mark.parametrize(
    "shape",
    [
        *("password=", "<private>", "://a:b:c", "://u:p@", "QUFB", "\\u0041", "%41", "\x1b[0m", 'token="', "sk-ant-"),
        *("-----BEGIN PRIVATE KEY-----", "Authorization: Bearer ", "my password is "),
    ],
)
def test_the_work_on_a_hostile_text_grows_with_its_length(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in calls of the rules: twice the text may at most ask twice as often, and a bit."""
    counted = 0
    whole = scanning._ours

    def counting(joined: object, low: bytes) -> object:
        nonlocal counted
        counted += len(low)
        return whole(joined, low)  # type: ignore[arg-type]

    monkeypatch.setattr(scanning, "_ours", counting)
    work = []
    for size in (10_000, 20_000):
        counted = 0
        one(shape * (size // len(shape)))
        work.append(counted)
    assert work[1] <= 2.2 * work[0] + 1000
    assert work[1] <= 20 * 20_000
