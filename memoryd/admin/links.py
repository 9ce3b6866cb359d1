"""Authenticate the users of the page by one-time links, sessions and passphrases, with a limit of attempts.

Any user who may read the state folder can make a link. It is valid for two minutes and opens one session. The server
remembers a used link for that time, and refuses links from before its start. So no restart makes a used link valid
again.
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from memoryd.config import Settings
from memoryd.files.token_file import read_or_make
from memoryd.requests import access
from memoryd.requests.access import Person
from memoryd.requests.rate import Bucket

KEY = "admin.key"
LOCK = "admin.lock"
DEFAULT = "127.0.0.1:8765"
LINK_SECONDS = 120
SESSION_SECONDS = 12 * 3600
IDLE_SECONDS = 2 * 3600
MOST_SESSIONS = 200


def make_link(settings: Settings) -> str:
    """Return a link that opens one session as the user of this process."""
    until, nonce = int(time.time()) + LINK_SECONDS, secrets.token_urlsafe(24)
    scheme = "https" if settings.admin.tls_certificate else "http"
    address = settings.admin.host or settings.admin.listen or DEFAULT
    return f"{scheme}://{address}/enter/{until}.{nonce}.{_sign(settings, until, nonce)}"


def _sign(settings: Settings, until: int, nonce: str) -> str:
    key = read_or_make(settings.state_dir / KEY).encode()
    return hmac.new(key, f"{until}.{nonce}".encode(), hashlib.sha256).hexdigest()


@dataclass(slots=True)
class BrowserSession:
    """Hold one person's session.

    Each of its forms must carry the token `csrf`. `told` and `shown` hold the messages and the result of the last act,
    which the next page shows once.
    """

    person: Person
    csrf: str
    ends: float  # in seconds of the monotonic clock
    used: float
    told: list[tuple[str, str]] = field(default_factory=list)  # kind and text of each message
    shown: dict[str, Any] = field(default_factory=dict)  # a preview or a diff
    allowance: Bucket = field(default_factory=lambda: Bucket(120, 20.0))


class Sessions:
    """Hold the open sessions in memory only, so that a restart ends them."""

    def __init__(self, since: float | None = None) -> None:
        """Start without sessions. Links from before `since`, by default the current time, are refused."""
        self._open: dict[str, BrowserSession] = {}
        self._used: dict[str, int] = {}
        self._began = time.time() if since is None else since
        self._wrong = Bucket(10, 0.5)  # limits wrong links and passphrases

    def enter(self, settings: Settings, link: str) -> str | None:
        """Return the name of a new session for a one-time link, or None if the link is not valid."""
        parts = link.split(".")
        if len(parts) != 3 or not parts[0].isdecimal() or len(link) > 200:
            return None
        until, nonce, given = int(parts[0]), parts[1], parts[2]
        now = time.time()
        self._used = {one: end for one, end in self._used.items() if end >= now}
        is_made_here = hmac.compare_digest(given.encode(), _sign(settings, until, nonce).encode())
        is_in_time = now <= until <= now + LINK_SECONDS + 1 and until - LINK_SECONDS >= self._began - 1
        if not (is_made_here and is_in_time) or nonce in self._used:
            return None
        self._used[nonce] = until
        return self.begin(Person(access.find_user_name()))

    def may_try(self) -> bool:
        """Return False if too many wrong passphrases or links came recently."""
        return self._wrong.take()

    def log_in(self, settings: Settings, name: str, passphrase: str) -> str | None:
        """Return the name of a new session, or None if the passphrase or the name is wrong."""
        from argon2 import PasswordHasher
        from argon2.exceptions import Argon2Error, InvalidHashError

        user = next((one for one in settings.admin.users if one.name == name and one.passphrase), None)
        # An unknown name must take as long as a wrong passphrase, so that nobody can find names by time.
        hashed = _NOBODY if user is None or user.passphrase is None else user.passphrase
        try:
            PasswordHasher().verify(hashed, passphrase)
        except (Argon2Error, InvalidHashError):
            return None
        return None if user is None else self.begin(Person(user.name, is_here=False, owns=user.owner))

    def begin(self, person: Person) -> str:
        """Open a session and return its new random name, so that a browser cannot choose one."""
        now = time.monotonic()
        self._open = {name: one for name, one in self._open.items() if _is_open(one, now)}
        while len(self._open) >= MOST_SESSIONS:
            del self._open[min(self._open, key=lambda name: self._open[name].used)]
        name = secrets.token_urlsafe(32)
        self._open[name] = BrowserSession(person, secrets.token_urlsafe(24), now + SESSION_SECONDS, now)
        return name

    def find(self, name: str | None) -> BrowserSession | None:
        """Return the open session with this name and note its use, or None if there is none."""
        found, now = self._open.get(name or ""), time.monotonic()
        if found is None or not _is_open(found, now):
            self._open.pop(name or "", None)
            return None
        found.used = now
        return found

    def is_empty(self) -> bool:
        """Return True if nobody has an open session."""
        now = time.monotonic()
        return not any(_is_open(one, now) for one in self._open.values())

    def close(self, name: str | None) -> None:
        """End the session with this name, if there is one."""
        self._open.pop(name or "", None)


def _is_open(one: BrowserSession, now: float) -> bool:
    return now < one.ends and now - one.used < IDLE_SECONDS


# This is the hash of a random text that nobody knows.
_NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$bWVtb3J5ZC1ub2JvZHkxMg$Q5nB5Cz3o0J9S5pW5mV7hU6yX3iY8mJr2b1K0f4s7dE"


def hash_passphrase(passphrase: str) -> str:
    """Return the argon2id hash of a passphrase, for `admin.users`."""
    from argon2 import PasswordHasher

    return PasswordHasher().hash(passphrase)
