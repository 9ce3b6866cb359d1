"""Edits of a tool's files. In JSON all that is not memoryd's keeps its value, its order and the file's indentation."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_DEEPEST = 200  # what no settings are; the interpreter's own end is not far behind
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOO_DEEP = "is nested more deeply than any settings are"
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Edit(ABC):
    """What a file is to hold. A file of another shape is refused with what a person would put in: it is not ours."""

    path: Path

    @abstractmethod
    def put(self, old: bytes | None) -> bytes | None:
        """The file with what memoryd needs in it, None for no file; the same bytes where that is there already."""

    @abstractmethod
    def take(self, old: bytes) -> bytes | None:
        """The file without it, None for no file; the same bytes where it was not there."""

    @abstractmethod
    def by_hand(self) -> str:
        """Say what a person would do instead."""

    def doubts(self, _old: bytes | None) -> Sequence[str]:
        """What a person looks at once it is taken away, since nobody knows how it was before."""
        return ()

    def text(self, old: bytes | None) -> str:
        """Decode a file, empty where there is none."""
        try:
            return (old or b"").decode()
        except UnicodeDecodeError as error:
            raise RefusedError("is no UTF-8 text", str(self.path), self.by_hand()) from error


class JsonEdit(Edit):
    """An edit of a JSON file that holds more than is memoryd's."""

    @abstractmethod
    def usual(self) -> str:
        """Say what a document of this tool holds, and under which key."""

    @abstractmethod
    def put_into(self, document: dict[str, Any]) -> None:
        """Put in what memoryd needs; what a person added to it stays."""

    @abstractmethod
    def take_from(self, document: dict[str, Any]) -> bool:
        """Take it out, and what is empty without it; False where it is not there."""

    def put(self, old: bytes | None) -> bytes:
        document = self.read(old)
        before = json.dumps(document)
        with self.expected():
            self.take_from(json.loads(before))  # what it could not be taken from again, it is not put into
            self.put_into(document)
        return old if old is not None and json.dumps(document) == before else written(document, old)

    def take(self, old: bytes) -> bytes | None:
        document = self.read(old)
        with self.expected():
            if not self.take_from(document):
                return old
        return written(document, old) if document else None

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Refuse a document that holds something else than it is looked through for."""
        try:
            yield
        except (AttributeError, KeyError, TypeError) as error:
            raise RefusedError(f"holds something else than {self.usual()}", str(self.path), self.by_hand()) from error

    def read(self, old: bytes | None) -> dict[str, Any]:
        """Read the file, empty where there is none; one with comments, a key twice or too deep is refused."""
        try:
            document = json.loads(old.decode() or "{}", object_pairs_hook=_unique) if old is not None else {}
            fault = "is no JSON object" if not isinstance(document, dict) else _TOO_DEEP if _is_deep(document) else ""
        except ValueError as error:  # no JSON, no UTF-8, or a key twice
            what = "is no plain JSON (comments, a key twice, a stray comma?)"
            raise RefusedError(what, str(self.path), self.by_hand()) from error
        except RecursionError:
            fault = _TOO_DEEP
        if fault:
            raise RefusedError(fault, str(self.path), self.by_hand())
        return document


def _is_deep(document: dict[str, Any]) -> bool:
    level: list[Any] = [document]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands twice")
    return made


def written(document: dict[str, Any], old: bytes | None) -> bytes:
    """The document as the old file was written."""
    text = (old or b"").decode()
    if "\n" not in text.strip() and text.strip() not in {"", "{}"}:
        compact = (",", ":") if '":' in text and '": ' not in text else (", ", ": ")
        made = json.dumps(document, ensure_ascii=False, separators=compact)
    else:
        found = _INDENT.search(text)
        made = json.dumps(document, ensure_ascii=False, indent=found[1] if found else 2)
    ended = "\n" if not text.strip() or text.endswith("\n") else ""
    made = _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", made)  # half of a pair, which UTF-8 cannot say
    return (made + ended).replace("\n", "\r\n" if "\r\n" in text else "\n").encode()


def drop_empty(document: dict[str, Any], keys: Sequence[str]) -> None:
    """Take out what lies at the end of a way of keys where it is empty, and what is empty without it."""
    if not keys:
        return
    inner = document[keys[0]]
    drop_empty(inner, keys[1:])
    if not inner:
        del document[keys[0]]
