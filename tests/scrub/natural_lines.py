"""Lines as people write them, with a secret in them or with none, from `lines/`. The secrets are drawn here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from string import ascii_letters, ascii_lowercase, digits

_FOLDER = Path(__file__).parent / "lines"
_HEX, _ALNUM = "0123456789abcdef", ascii_letters + digits
_BASE58 = "".join(char for char in _ALNUM if char not in "0OIl")
_SEED_WORDS = "ribbon lunar cactus orbit velvet maple hollow tundra cinnamon pepper walnut glide fossil ember quartz"
_STEMS = "sommer kite drache blauwal tiger winter pferd lampe"


def _drawn(random: Random, letters: str, length: int) -> str:
    return "".join(random.choices(letters, k=length))


def _fill(line: str, number: int) -> tuple[str, list[str]]:
    random = Random(number)
    made = {
        "{p}": _drawn(random, ascii_letters, 4)
        + random.choice("!#&*")
        + _drawn(random, digits, 2)
        + _drawn(random, ascii_letters, 3),
        "{w}": random.choice(_STEMS.split()) + _drawn(random, digits, 2) + _drawn(random, ascii_lowercase, 3),
        "{s}": f"{random.choice(_STEMS.split())}_{random.choice(_STEMS.split()).title()}_{_drawn(random, digits, 2)}",
        "{codes}": f"{_drawn(random, _HEX, 4)}7-{_drawn(random, _HEX, 5)}",
        "{t}": _drawn(random, ascii_letters, 30) + _drawn(random, digits, 2),
        "{ngrok}": f"2{_drawn(random, _ALNUM, 26)}_{_drawn(random, _ALNUM, 20)}7",
        "{dj}": _drawn(random, ascii_lowercase + digits + "!@#$%^&*(-_=+)", 50),
        "{wif}": "5" + random.choice("HJK") + _drawn(random, _BASE58, 49),
        "{seed}": " ".join(random.sample(_SEED_WORDS.split(), 12)),
        "{shadow}": f"$6${_drawn(random, _ALNUM, 8)}${_drawn(random, _ALNUM + './', 86)}",
        "{bcrypt}": f"$2b$12${_drawn(random, _ALNUM + './', 53)}",
        "{apr}": f"$apr1${_drawn(random, _ALNUM, 8)}${_drawn(random, _ALNUM + './', 22)}",
        "{argon}": f"$argon2id$v=19$m=65536,t=3,p=4${_drawn(random, _ALNUM, 22)}${_drawn(random, _ALNUM, 43)}",
        "{m}": _drawn(random, ascii_letters, 6) + "Kq7" + _drawn(random, _ALNUM, 5),
        "{hex40}": _drawn(random, _HEX, 40),
        "{hex64}": _drawn(random, _HEX, 64),
    }  # fmt: skip
    planted = [value for mark, value in made.items() if mark in line]
    for mark, value in made.items():
        line = line.replace(mark, value)
    return line.replace("\\n", "\n").replace("{{", "{").replace("}}", "}"), planted


def lines_with_secrets() -> Iterator[tuple[str, str]]:
    """Yield lines and what must not be left of each."""
    for number, line in enumerate(_read("secrets.txt")):
        text, planted = _fill(line, number)
        yield text, planted[0]


def harmless_lines() -> Iterator[str]:
    """Yield lines that must stay as they are."""
    for line in _read("harmless.txt"):
        yield line.replace("\\\\n", "\0").replace("\\n", "\n").replace("\0", "\\n")


def _read(name: str) -> list[str]:
    return (_FOLDER / name).read_text("utf-8").splitlines()
