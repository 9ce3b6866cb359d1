"""Secrets that nobody has: sixty formats as their makers describe them, with values drawn anew for each seed."""

from __future__ import annotations

import base64
import json
import random
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LETTERS = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
BASE64URL = LETTERS + "-_"


@dataclass(frozen=True)
class Planted:
    """One secret, and the line by which it is told what it is."""

    name: str
    secret: str
    line: str
    known_by_itself: bool  # its own form says what it is, wherever it stands


class _Draw:
    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def some(self, count: int, of: str = LETTERS) -> str:
        """Characters of which none but a draw would make a row."""
        return "".join(self._random.choice(of) for _ in range(count))

    def jwt(self) -> str:
        claims = json.dumps({"sub": self.some(8), "iat": 1760000000}).encode()
        head, body = (base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (b'{"alg":"HS256"}', claims))
        return f"{head}.{body}.{self.some(43, BASE64URL)}"

    def pem(self) -> str:
        lines = "\n".join(self.some(64, LETTERS + "+/") for _ in range(6))
        return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----"


# By their own form.
_FORMS: dict[str, Callable[[_Draw], str]] = {
    "aws-key-id": lambda d: f"AKIA{d.some(16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')}",
    "github-classic": lambda d: f"ghp_{d.some(36)}",
    "github-oauth": lambda d: f"gho_{d.some(36)}",
    "github-server": lambda d: f"ghs_{d.some(36)}",
    "github-refresh": lambda d: f"ghr_{d.some(36)}",
    "github-fine-grained": lambda d: f"github_pat_{d.some(22)}_{d.some(59)}",
    "gitlab": lambda d: f"glpat-{d.some(20, BASE64URL[:-2])}",
    "gitlab-runner": lambda d: f"glrt-{d.some(20)}",
    "openai-project": lambda d: f"sk-proj-{d.some(74)}T3BlbkFJ{d.some(74)}",
    "openai": lambda d: f"sk-{d.some(20)}T3BlbkFJ{d.some(20)}",
    "anthropic": lambda d: f"sk-ant-api03-{d.some(93, BASE64URL)}AA",
    "groq": lambda d: f"gsk_{d.some(52)}",
    "huggingface": lambda d: f"hf_{d.some(34, string.ascii_letters)}",
    "replicate": lambda d: f"r8_{d.some(37)}",
    "perplexity": lambda d: f"pplx-{d.some(48)}",
    "xai": lambda d: f"xai-{d.some(80)}",
    "openrouter": lambda d: f"sk-or-v1-{d.some(64, HEX)}",
    "google-api": lambda d: f"AIza{d.some(35)}",
    "google-oauth-secret": lambda d: f"GOCSPX-{d.some(28)}",
    "stripe-live": lambda d: f"sk_live_{d.some(24)}",
    "stripe-restricted": lambda d: f"rk_live_{d.some(24)}",
    "square": lambda d: f"sq0atp-{d.some(22)}",
    "shopify": lambda d: f"shpat_{d.some(32, HEX)}",
    "slack-bot": lambda d: f"xoxb-{d.some(12, string.digits)}-{d.some(13, string.digits)}-{d.some(24)}",
    "slack-app": lambda d: f"xapp-1-A{d.some(10, UPPER)}-{d.some(13, string.digits)}-{d.some(64, HEX)}",
    "slack-hook": lambda d: f"https://hooks.slack.com/services/T{d.some(8, UPPER)}/B{d.some(8, UPPER)}/{d.some(24)}",
    "telegram": lambda d: f"{d.some(9, '123456789')}:AA{d.some(33)}",
    "sendgrid": lambda d: f"SG.{d.some(22)}.{d.some(43)}",
    "npm": lambda d: f"npm_{d.some(36)}",
    "pypi": lambda d: f"pypi-AgEIcHlwaS5vcmc{d.some(140)}",
    "rubygems": lambda d: f"rubygems_{d.some(48, HEX)}",
    "docker": lambda d: f"dckr_pat_{d.some(27)}",
    "digitalocean": lambda d: f"dop_v1_{d.some(64, HEX)}",
    "linear": lambda d: f"lin_api_{d.some(40)}",
    "notion": lambda d: f"ntn_{d.some(11, string.digits)}{d.some(35)}",
    "figma": lambda d: f"figd_{d.some(40)}",
    "postman": lambda d: f"PMAK-{d.some(24, HEX)}-{d.some(34, HEX)}",
    "doppler": lambda d: f"dp.pt.{d.some(43)}",
    "databricks": lambda d: f"dapi{d.some(32, HEX)}",
    "grafana": lambda d: f"glsa_{d.some(32)}_{d.some(8, HEX)}",
    "vault": lambda d: f"hvs.{d.some(95)}",
    "planetscale": lambda d: f"pscale_pw_{d.some(43)}",
    "newrelic": lambda d: f"NRAK-{d.some(27, UPPER)}",
    "age": lambda d: f"AGE-SECRET-KEY-1{d.some(58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L')}",
    "jwt": _Draw.jwt,
    "pem": _Draw.pem,
}
# By what stands beside them.
_BESIDE: dict[str, tuple[Callable[[_Draw], str], str]] = {
    "aws-secret": (lambda d: d.some(40, LETTERS + "+/"), "AWS_SECRET_ACCESS_KEY={}"),
    "env-password": (lambda d: d.some(16, LETTERS), "DB_PASSWORD={}"),
    "env-token": (lambda d: d.some(32, HEX), "DEPLOY_TOKEN={}"),
    "env-api-key": (lambda d: d.some(32), "export ACME_API_KEY='{}'"),
    "json-password": (lambda d: d.some(18), '{{"user": "ann", "password": "{}"}}'),
    "yaml-secret": (lambda d: d.some(24), "client_secret: {}"),
    "url-password": (lambda d: d.some(14), "postgres://app:{}@db.internal:5432/shop"),
    "bearer": (lambda d: d.some(40), "Authorization: Bearer {}"),
    "basic": (
        lambda d: base64.b64encode(f"ann:{d.some(14)}".encode()).decode(),
        "Authorization: Basic {}",
    ),
    "api-key-header": (lambda d: d.some(32), "X-Api-Key: {}"),
    "flag": (lambda d: d.some(16), "mysql --user app --password={} shop"),
    "curl-user": (lambda d: d.some(16), "curl -u ann:{} https://api.shop.example/v1"),
    "prose": (lambda d: d.some(14), "my password is {}"),
    "query": (lambda d: d.some(32), "https://api.shop.example/v1?access_token={}"),
    "netrc": (lambda d: d.some(18), "machine api.shop.example login ann password {}"),
    "private-tag": (lambda d: d.some(20), "<private>{}</private>"),
}


def planted(where: str) -> Iterator[Planted]:
    """One secret of each format; other values for each place."""
    for name, draw in _FORMS.items():
        secret = draw(_Draw(f"{where} {name}"))
        yield Planted(name, secret, secret, known_by_itself=True)
    for name, (make, line) in _BESIDE.items():
        secret = make(_Draw(f"{where} {name}"))
        yield Planted(name, secret, line.format(secret), known_by_itself=False)


def tells(secret: str) -> list[str]:
    """What must not be found anywhere of a secret: itself, or a line of it."""
    return [line for line in secret.split("\n") if not line.startswith("-----")]
