"""Probe an endpoint: check whether it answers, accepts the key and knows the model, at no cost in tokens.

The probe sends one `GET /models`, which OpenAI and compatible servers support. The rules of every call apply: checked
addresses, no redirects, no proxies. The server's answer is used only to see if it lists the model.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import httpx2

from memoryd.llm import network
from memoryd.llm.endpoint import Deadlines, Endpoint, key_of
from memoryd.llm.failure import Failure

DEADLINES = Deadlines(connect=3.0, first_byte=6.0, idle=3.0, whole=8.0)


class ProbeAnswer(StrEnum):
    """Name the results of a probe."""

    LISTED = "answers, and lists the model"
    UNLISTED = "answers, but does not list the model"
    SILENT = "answers, without a list of its models"
    NOT_THERE = "answers that it has no such path"
    NO_KEY = "does not accept the key"
    NO_CREDIT = "says that the account has no credit"
    REDIRECT = "sends elsewhere, which is not followed"
    REFUSED = "may not be asked"
    UNTRUSTED = "has a certificate that is not trusted here, or is not its own"
    LATE = "did not answer in time"
    AWAY = "cannot be reached"
    BROKEN = "answers with an error"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Hold the result of a probe; `detail` is a status or a reason, never text of the server."""

    answer: ProbeAnswer
    detail: str = ""


_BY_STATUS = {
    401: ProbeAnswer.NO_KEY,
    403: ProbeAnswer.NO_KEY,
    402: ProbeAnswer.NO_CREDIT,
    404: ProbeAnswer.NOT_THERE,
    405: ProbeAnswer.SILENT,
}


def probe(endpoint: Endpoint) -> ProbeResult:
    """Ask an endpoint for its list of models, once, within eight seconds."""
    key = key_of(endpoint)
    if isinstance(key, Failure):
        return ProbeResult(ProbeAnswer.REFUSED, key.what)
    watch = network.Watch(DEADLINES, endpoint.url.scheme)
    headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
    try:
        with network.make_client(watch) as client:
            response = client.get(f"{endpoint.base_url.rstrip('/')}/models", headers=headers)
    except httpx2.TimeoutException:
        return ProbeResult(ProbeAnswer.LATE)
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError):
        if watch.refused:
            untrusted = "certificate" in watch.refused
            return ProbeResult(ProbeAnswer.UNTRUSTED if untrusted else ProbeAnswer.REFUSED, watch.refused)
        return ProbeResult(ProbeAnswer.AWAY)
    if response.is_redirect:
        return ProbeResult(ProbeAnswer.REDIRECT, str(response.status_code))
    if response.status_code != httpx2.codes.OK:
        return ProbeResult(_BY_STATUS.get(response.status_code, ProbeAnswer.BROKEN), str(response.status_code))
    listed = _names(response.content)
    if not listed:
        return ProbeResult(ProbeAnswer.SILENT)
    return ProbeResult(ProbeAnswer.LISTED if endpoint.model in listed else ProbeAnswer.UNLISTED)


def _names(body: bytes) -> set[str]:
    """Return the ids in a list of models; empty if the body is not such a list."""
    try:
        value: Any = json.loads(body)
        return {one["id"] for one in value["data"] if isinstance(one["id"], str)}
    except (ValueError, TypeError, KeyError, RecursionError):
        return set()
