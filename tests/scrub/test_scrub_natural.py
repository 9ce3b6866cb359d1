"""Lines as people write them: what is a secret in them is taken out, and nothing else is."""

import tempfile
from functools import cache
from pathlib import Path

from natural_lines import harmless_lines, lines_with_secrets

from memoryd.scrub.policy import Policy
from memoryd.scrub.scan import scan
from memoryd.worker.scanner import KnownFormats, cache_folder

# Written before the rules were; every second one was set aside while they were made. These remain.
MISSED = (
    "Here are the keys:",
    "the secret key below\n\n",
    "user: admin, pass ",
    "mot de passe root ",
    "net use Z: \\\nas",
)
TAKEN = ("the commit key is ", "REDIS_PASSWORD=${REDIS_PASSWORD:?missing}")


@cache
def library():
    return KnownFormats(cache_folder(Path(tempfile.gettempdir())))


def left_of(texts):
    return [one.text for one in scan(texts, Policy(), library().find)]


def is_left(secret, text):
    """Whether a secret is still there, or a part of it that tells it."""
    part = secret[len(secret) // 2 :] if len(secret) >= 16 else secret
    return part in text or any(secret[at : at + 6] in text for at in range(len(secret) - 5) if len(secret) < 16)


def test_secrets_that_people_tell_in_their_own_words_are_taken_out():
    told = list(lines_with_secrets())
    left = [text for (text, secret), after in zip(told, left_of([one[0] for one in told]), strict=True)
            if is_left(secret, after)]  # fmt: skip
    assert [text for text in left if not text.startswith(MISSED)] == []
    assert len(left) <= len(MISSED) < len(told) / 30


def test_lines_that_only_speak_of_secrets_stay_as_they_are():
    lines = list(harmless_lines())
    changed = [line for line, after in zip(lines, left_of(lines), strict=True) if after != line]
    assert [line for line in changed if not line.startswith(TAKEN)] == []
    assert len(changed) <= len(TAKEN) < len(lines) / 30
