"""Find lines that may hold a secret, without the scanner, which takes longer to load than an agent waits.

It knows few formats. It looks for a word for secrets beside something that is no word, and for long runs of random
characters. A withheld harmless line costs little here, but a missed line may show a key. It reads each line alone,
except for private keys between their marks. So it misses secrets that only several lines show. It also misses a
password made of plain words, unless a sign or verb leads to it.
"""

import re

INSTEAD = "[withheld: looks like a secret, and no daemon is there to look closer]"
_NAMES = (
    "passw", "passphrase", "passcode", "passws", "pwd", "kennw", "mot de passe", "contrase", "senha", "lösenord",
    "парол", "密码", "密碼", "パスワード", "비밀번호", "wachtwoord", "secret", "token", "credential", "auth", "bearer",
    "cookie", "key", "login", "curl", "private", "pin ", "pin:", "-----",
)  # fmt: skip
# What memoryd writes in place of a secret or beside a commit, and words that only contain one of the names.
_OURS = re.compile(
    r"\[REDACTED:[\w-]+\]|Last commit: `[0-9a-f]{7,10}`"
    r"|(?i:tokeni[sz]\w*|key(?:words?|boards?|ed)\b|\bauthor(?:s|ed)?\b)"
)
_GIVEN = re.compile(
    r"(?:pass(?:w|phrase|code|ws)\w*|pwd|kennwort|secret|token|key|pin)\W{0,3}"
    r"(?:[:=]|->|\b(?:is|are|was|ist|lautet|est|es|è|é|jest|är)\b)\W{0,4}[^\s\"'`]{4}"
)
_WORDS = re.compile(r"[^\s\"'`=:,;&<>()\[\]{}|\\/]{6,}")
_PLAIN = re.compile(r"(?:[A-Z]?[^\W\d_]*(?:['.-][^\W\d_]+)*|[A-Z]+(?:_[A-Z]+)*|[a-z]+(?:[_.][a-z]+)*|[\d.%-]+)[.!?]*")
_RUNS = re.compile(r"[A-Za-z0-9_+=-]{18,}")
_LOGIN = re.compile(r":[^\s/@]{3,}@|-u\s*\S+:\S{4}")
# These prefixes belong to short keys, and to keys that often have no digits or only pieces as long as words.
_BEGINS = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:A[KS]IA|AIza|LTAI|GOCSPX-|HRKU-|NRAK-|SG\.|dckr_|figd_|fo1_|gh[a-z]_|gl[a-z]+-|hf_|hv[bs]\."
    r"|npm_|nvapi-|pscale_|rk_|rzp_[a-z]+_|sk[-_]|sq0[a-z]+-|tfp_|tvly-|whsec_|ya29\.)[\w.-]{10}"
)
_MARKED = re.compile(r"[A-Za-z][A-Za-z0-9]{1,15}[_-](?:[A-Za-z0-9]{1,4}[_-]){0,2}[0-9a-f]{24}|dapi[0-9a-f]{24}")
_WIDTHLESS = re.compile(rb"[\0-\x08\r\x1b]")
_HEX = re.compile(r"[0-9a-fA-F]+")
_CAPITALS = 0.27
_CASE = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")


def may_hide(data: bytes) -> bool:
    """Return True if a file may have a private part or a private key.

    Otherwise, the caller does not load the search for them.
    """
    # No invisible character separates the letters of a keyword.
    return b"private" in data.lower() or b"-----" in data or not data.isascii() or bool(_WIDTHLESS.search(data))


def withhold_lines(text: str) -> tuple[str, int]:
    """Return a text with `INSTEAD` in place of each likely line, and the number of those lines."""
    lines = []
    armored = False  # inside a private key
    for line in text.split("\n"):
        armored = armored or "-----BEGIN" in line
        lines.append(INSTEAD if armored or is_likely(line) else line)
        armored = armored and "-----END" not in line
    return "\n".join(lines), sum(line is INSTEAD for line in lines)


def is_likely(line: str) -> bool:
    """Return True if a line may hold a secret."""
    line = _OURS.sub(" x ", line.replace("**", ""))
    low = line.lower()
    if any(name in low for name in _NAMES) and (_GIVEN.search(low) or any(map(_is_odd, _WORDS.findall(line)))):
        return True
    if ":" in line and _LOGIN.search(line):
        return True
    return any(map(_is_drawn, _RUNS.findall(line))) or _BEGINS.search(line) is not None


def _is_odd(word: str) -> bool:
    return _PLAIN.fullmatch(word) is None or len(_CASE.findall(word)) > 2


def _is_drawn(run: str) -> bool:
    """Return True if a run of characters looks random, as keys do, rather than written by a person."""
    if _MARKED.match(run):
        return True
    if max(map(len, run.replace("-", "_").split("_"))) < 16 or _HEX.fullmatch(run):  # only words, or a hash or an id
        return False
    digits = sum(char.isdigit() for char in run)
    if run.lower() != run != run.upper():
        # About half of random letters are capitals, but about one letter in five of joined words.
        return digits > 1 or sum(char.isupper() for char in run) > _CAPITALS * len(run)
    return 2 < digits < len(run)
