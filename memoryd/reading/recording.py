"""Record the sessions that a program passes to memoryd as transcripts, which are then read like any other.

    state_dir/sessions/AGENT/flushed-BEGIN-RANDOM.jsonl     one message a line, redacted, with an id and a time

BEGIN is the hash of the first message, by which a conversation that was recorded before is found.
"""

import secrets
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from memoryd.clock import Clock
from memoryd.files.folders import make_private_dir
from memoryd.files.journal import Journal
from memoryd.files.locks import Lock
from memoryd.files.regular import as_state_error
from memoryd.reading.scrubbing import Scrubber, UnscannedError
from memoryd.transcripts import chat
from memoryd.transcripts.turn import Role

FOLDER = "sessions"
NEWEST = 50  # sessions that are searched for the one that the conversation continues
PATIENCE = timedelta(seconds=30)  # for another process that records
_HEAD_CHARS = 16
_SYSTEM = "system"  # represents the neighbour of a system message


class Recording(NamedTuple):
    """Hold the place of a recorded conversation."""

    path: Path
    size: int  # bytes to read
    added: int  # messages that were new


class _Session(NamedTuple):
    path: Path
    recorded: list[dict[str, Any]]
    known: int  # known messages among the given ones, without the system's


def folder_of(state_dir: Path, agent_id: str) -> Path:
    """Return the folder of an agent's recorded sessions."""
    return state_dir / FOLDER / agent_id


def record(
    state_dir: Path, agent_id: str, messages: Sequence[dict[str, Any]], scrubber: Scrubber, clock: Clock
) -> Recording:
    """Record the new part of a conversation; write nothing if all of it was recorded before.

    The messages are checked, and at least one of them is not the system's.
    """
    given = redact_messages(list(map(chat.select_recorded, messages)), scrubber)
    folder = make_private_dir(folder_of(make_private_dir(state_dir), agent_id))
    with _lock_recording(folder):
        session = _session_of(folder, given)
        new = _news(session, _as_kept(folder, given))
        at = clock.text()
        if new:
            stamped = ({"timestamp": at} | message | {"uuid": str(uuid.uuid4())} for message in new)
            with as_state_error("cannot be written", session.path):
                Journal(session.path).append(*stamped)
        return Recording(session.path, session.path.stat().st_size, len(new))


def list_paths(state_dir: Path, agent_id: str) -> list[Path]:
    """List the recorded sessions of an agent."""
    return sorted(folder_of(state_dir, agent_id).glob("*.jsonl"))


def change(path: Path, changed: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> bool:
    """Change the messages of a recorded session; return True if one changed."""
    with _lock_recording(path.parent):  # a writer that appends meanwhile would write to a file without a name
        old = Journal(path).entries()
        new = changed(old)
        if new == old:
            return False
        Journal(path).rewrite(lambda _: new)
        return True


def _lock_recording(folder: Path) -> Lock:
    return Lock(folder / ".lock", PATIENCE)


def remove_text(message: dict[str, Any], cut: Callable[[str], str]) -> dict[str, Any]:
    """Return a recorded message without forgotten text; its digest still identifies it when it comes again."""
    left: dict[str, Any] = chat.with_texts(message, lambda text, is_name: text if is_name else cut(text))
    return message if left == message else {**left, chat.FORGOTTEN: chat.compute_digest(message)}


def _session_of(folder: Path, given: Sequence[dict[str, Any]]) -> _Session:
    """Return the session that a conversation continues or repeats, or else a new one."""
    digests = _list_texts(given)
    head = digests[0][:_HEAD_CHARS]
    paths = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for number, path in enumerate(paths):
        if number < NEWEST or path.name.startswith(f"flushed-{head}-"):
            recorded = [entry for entry in Journal(path).entries() if "role" in entry]
            known = chat.known_until(_list_texts(recorded), digests)
            if known is not None:
                return _Session(path, recorded, known)
    return _Session(folder / f"flushed-{head}-{secrets.token_hex(4)}.jsonl", [], 0)


def _as_kept(folder: Path, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages without text that was forgotten in any recorded session.

    A message is recognised by its digest and a neighbour, or by its place at the start. So a branch of a forgotten
    conversation restores no forgotten text, and the same words in another conversation are kept.
    """
    left: dict[tuple[str, str], dict[str, Any]] = {}
    for path in folder.glob("*.jsonl"):
        if f'"{chat.FORGOTTEN}"'.encode() not in path.read_bytes():
            continue
        recorded = [entry for entry in Journal(path).entries() if "role" in entry]
        for message, links in zip(recorded, _links(recorded), strict=True):
            if chat.FORGOTTEN in message:
                left |= dict.fromkeys(links, message)
    if not left:
        return list(given)
    found = ([left[link] for link in links if link in left] for links in _links(given))
    return [_in_its_place(message, kept[0]) if kept else message for message, kept in zip(given, found, strict=True)]


def _in_its_place(message: dict[str, Any], left: dict[str, Any]) -> dict[str, Any]:
    stamp = {name: message[name] for name in ("timestamp",) if name in message}
    return {name: value for name, value in left.items() if name not in {"uuid", "timestamp"}} | stamp


def _links(messages: Sequence[dict[str, Any]]) -> Iterator[list[tuple[str, str]]]:
    """Return the marks of each message: with its predecessor and with its successor; a system message stands alone."""
    digests = _list_texts(messages)
    place = 0
    for message in messages:
        if chat.role_of(message) is Role.SYSTEM:
            yield [(_SYSTEM, chat.compute_digest(message))]
            continue
        before = digests[place - 1] if place else ""
        after = [(digests[place], f"{digests[place + 1]}>")] if place + 1 < len(digests) else []
        yield [(before, digests[place]), *after]
        place += 1


def _list_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [chat.compute_digest(message) for message in messages if chat.role_of(message) is not Role.SYSTEM]


def _news(session: _Session, given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the new messages: all after the known ones, and new system messages."""
    known = {chat.compute_digest(message) for message in session.recorded if chat.role_of(message) is Role.SYSTEM}
    new, spoken = [], 0
    for message in given:
        if chat.role_of(message) is not Role.SYSTEM:
            spoken += 1
            is_new = spoken > session.known
        elif is_new := (digest := chat.compute_digest(message)) not in known:
            known.add(digest)
        new += [message] if is_new else []
    return new


def redact_messages(messages: Sequence[dict[str, Any]], scrubber: Scrubber) -> list[dict[str, Any]]:
    """Return messages without their secrets; a text that the policy drops becomes empty."""
    texts: dict[str, str] = {}
    names: dict[str, str] = {}

    def gather(text: str, is_name: bool) -> str:  # noqa: FBT001
        (names if is_name else texts)[text] = text
        return text

    chat.with_texts(list(messages), gather)
    for text, scrubbed in zip(texts, scrubber.scan(list(texts)), strict=True):
        if scrubbed is None:
            raise UnscannedError("could not be scanned for secrets", "a message", "hand it over again; see the log")
        texts[text] = "" if scrubbed.dropped else scrubbed.text
    for name, kept in scrubber.names(names).items():
        if kept is None:
            raise UnscannedError("could not be scanned for secrets", "an id", "hand it over again; see the log")
        names[name] = kept
    return list(chat.with_texts(list(messages), lambda text, is_name: (names if is_name else texts)[text]))
