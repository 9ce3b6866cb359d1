"""Record the sessions that a program passes to memoryd as transcripts, which are then read like all others.

    state_dir/sessions/AGENT/flushed-BEGIN-RANDOM.jsonl     one message a line, redacted, with an id and a time

BEGIN is taken from the hash of the first message. It identifies a conversation that is recorded already.
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
NEWEST = 50  # recent sessions that are compared with the conversation
PATIENCE = timedelta(seconds=30)  # how long to wait for another process that records
_HEAD_CHARS = 16
_SYSTEM = "system"  # stands for the neighbour of a system message


class Recording(NamedTuple):
    """Hold where a conversation was recorded."""

    path: Path
    size: int  # bytes of the file
    added: int  # number of new messages


class _Session(NamedTuple):
    path: Path
    recorded: list[dict[str, Any]]
    known: int  # number of given messages that are recorded already, without system messages


def folder_of(state_dir: Path, agent_id: str) -> Path:
    """Return the folder of an agent's recorded sessions."""
    return state_dir / FOLDER / agent_id


def record(
    state_dir: Path, agent_id: str, messages: Sequence[dict[str, Any]], scrubber: Scrubber, clock: Clock
) -> Recording:
    """Record the new messages of a conversation; write nothing if all are recorded already.

    The caller has checked the messages. At least one of them must not be a system message.

    Raises:
        UnscannedError: a message could not be scanned for secrets.
        StateError: the file cannot be written.
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
    """Replace the messages of a recorded session by `changed(messages)`; return True if any changed."""
    with _lock_recording(path.parent):  # otherwise a writer could append to the old file while it is replaced
        old = Journal(path).entries()
        new = changed(old)
        if new == old:
            return False
        Journal(path).rewrite(lambda _: new)
        return True


def _lock_recording(folder: Path) -> Lock:
    return Lock(folder / ".lock", PATIENCE)


def remove_text(message: dict[str, Any], cut: Callable[[str], str]) -> dict[str, Any]:
    """Return a recorded message with its texts changed by `cut`.

    The result has a digest of the original, so that the message is recognised when a program passes it again.
    """
    left: dict[str, Any] = chat.with_texts(message, lambda text, is_name: text if is_name else cut(text))
    return message if left == message else {**left, chat.FORGOTTEN: chat.compute_digest(message)}


def _session_of(folder: Path, given: Sequence[dict[str, Any]]) -> _Session:
    """Return the recorded session that a conversation continues or repeats; if there is none, a new one."""
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
    """Return messages without text that was forgotten in a recorded session.

    A message is recognised by its digest and that of a neighbour, or as the first message. So forgotten text does not
    come back with a branch of the conversation, and the same words in another conversation stay.
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
    """Yield the marks of each message: one with each of its neighbours; a system message has a mark of its own."""
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
    """Return the new messages: those after the known ones, and system messages that are not recorded yet."""
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
    """Return messages without their secrets. A text that the policy drops becomes empty.

    Raises:
        UnscannedError: a text or an id could not be scanned.
    """
    texts: dict[str, str] = {}
    names: dict[str, str] = {}

    def gather(text: str, is_name: bool) -> str:  # noqa: FBT001
        (names if is_name else texts)[text] = text
        return text

    chat.with_texts(list(messages), gather)
    for text, scrubbed in zip(texts, scrubber.scan(list(texts)), strict=True):
        if scrubbed is None:
            raise UnscannedError("could not be scanned for secrets", "a message", "pass it again; see the log")
        texts[text] = "" if scrubbed.dropped else scrubbed.text
    for name, kept in scrubber.names(names).items():
        if kept is None:
            raise UnscannedError("could not be scanned for secrets", "an id", "pass it again; see the log")
        names[name] = kept
    return list(chat.with_texts(list(messages), lambda text, is_name: (names if is_name else texts)[text]))
