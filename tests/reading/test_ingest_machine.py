"""Ingest against everything that happens to a transcript: a state machine over real files, SQLite and the real code.

The invariant: every complete record that was ever there at a poll is stored once; a record whose text was changed under
its id is stored with both texts; the order within a file is kept; and spans lead to the bytes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from ingest_world import Row, World, claude, copy_of, message

from memoryd.reading import cursor as reading
from memoryd.reading import ingest as ingesting
from memoryd.reading import store

NAMES = ("a.jsonl", "b.jsonl", "sub/a.jsonl", "sub/c.jsonl")
WORDS = ("yes, do so", "no, do not", "try it now")  # of one length
# The same examples every time in the default run, other ones at each soak, where a failure can be looked into.
STEPS = settings(stateful_step_count=25, derandomize=os.environ.get("HYPOTHESIS_PROFILE") != "soak")
# So small that a few records are read in several goes, and that a batch is handed to the scanner while others are read.
SMALL = {
    (ingesting, "READ_LIMIT"): 700,
    (ingesting, "FLUSH_BYTES"): 40,
    (reading, "CHUNK"): 256,
    (reading, "LONGEST_LINE"): 1 << 16,
    (store, "FLUSH_TURNS"): 4,
}

words = st.sampled_from(WORDS)
names = st.sampled_from(NAMES)


class StoppedError(OSError):
    """The process dies inside the transaction."""


def stop(*_: object) -> None:
    raise StoppedError(errno.ENOSPC, "full")


@dataclass
class Stream:
    """One file through all that happens to it, as far as memoryd can tell it is one."""

    seen: Counter[tuple[str, str]] = field(default_factory=Counter)  # must be stored
    maybe: Counter[tuple[str, str]] = field(default_factory=Counter)  # may be stored: there, but never at a poll
    session: str | None = None


def records_in(data: bytes, *, unended: bool = False) -> list[tuple[str, str]]:
    """The (id, text) of each complete record of a file, in order; also of one glued behind a half."""
    *ended, tail = data.split(b"\n")
    found = []
    for line in ended:
        rest = line
        while rest:
            try:
                value, end = json.JSONDecoder().raw_decode(rest.decode())
            except ValueError:
                value, end = None, 1
            found += _said(value)
            begin = rest.find(b'{"', end)
            rest = rest[begin:] if begin >= 0 else b""
    with contextlib.suppress(ValueError):
        found += _said(json.loads(tail)) if unended else []
    return found


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _said(value: object) -> list[tuple[str, str]]:
    if isinstance(value, dict) and "uuid" in value:
        return [(value["uuid"], value["message"]["content"])]
    return [("", value["content"])] if isinstance(value, dict) and list(value) == ["role", "content"] else []


class Machine(RuleBasedStateMachine):
    """What both shapes of records have in common."""

    shape = "claude"

    def __init__(self) -> None:
        super().__init__()
        self.old = {key: getattr(*key) for key in SMALL}
        for (module, name), value in SMALL.items():
            setattr(module, name, value)
        self.root = Path(tempfile.mkdtemp(prefix="ingest-"))
        self.number = 0
        self.streams: dict[str, Stream] = {}
        self.past: list[Stream] = []
        self.checked = True

    @initialize(kept=st.sampled_from([1, 64]))
    def begin(self, kept: int) -> None:
        self.world = World(self.root, kept=kept)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
        shutil.rmtree(self.root)
        for (module, name), value in self.old.items():
            setattr(module, name, value)

    # --- the files ---

    def record(self, word: str) -> bytes:
        self.number += 1
        return claude(self.number, word) if self.shape == "claude" else message(word)

    def records(self, name: str, *, unended: bool) -> Counter[tuple[str, str]]:
        found = records_in(self.world.path(name).read_bytes(), unended=unended)
        return Counter(one for one in found if bool(one[0]) == (self.shape == "claude"))

    def tells_its_format(self, name: str) -> bool:
        """Whether a line of the file is one record and nothing else: a generic one inside damage may be a part."""
        if self.shape == "claude" or self.stream(name).session is not None:
            return True
        return any(line.startswith(b"{") and _is_json(line) for line in self.world.path(name).read_bytes().split(b"\n"))

    def stream(self, name: str) -> Stream:
        return self.streams.setdefault(name, Stream())

    def there(self, name: str) -> bool:
        return self.world.path(name).exists()

    def make(self, name: str) -> None:
        """A file that is new or anew; records without ids are told apart by their first line only."""
        self.number += 1
        self.world.write(name, b"" if self.shape == "claude" else message(f"start {self.number}") + b"\n")

    def put(self, name: str, data: bytes) -> None:
        if not self.there(name):
            self.make(name)
        self.world.append(name, data)
        self.note()

    def note(self) -> None:
        """What is there now may be seen, by a hint or before a deletion; it need not."""
        self.checked = False
        for name in [*self.streams, *NAMES]:
            if self.there(name):
                stream = self.stream(name)
                stream.maybe |= self.records(name, unended=True)

    # --- what writers do ---

    @rule(name=names, said=st.lists(words, min_size=1, max_size=6))
    def append(self, name: str, said: list[str]) -> None:
        self.put(name, b"".join(self.record(word) + b"\n" for word in said))

    @rule(name=names, word=words, share=st.floats(0.02, 1.0))
    def half(self, name: str, word: str, share: float) -> None:
        record = self.record(word)
        self.put(name, record[: max(1, int(len(record) * share))])

    @rule(name=names)
    def end_line(self, name: str) -> None:
        self.put(name, b"\n")

    @rule(name=names, share=st.floats(0, 0.99), said=st.lists(words, max_size=8))
    def truncate_and_regrow(self, name: str, share: float, said: list[str]) -> None:
        if self.there(name):
            path = self.world.path(name)
            os.truncate(path, int(path.stat().st_size * share))
            self.put(name, b"".join(self.record(word) + b"\n" for word in said))

    @rule(name=names, said=st.lists(words, max_size=6))
    def delete_and_make_anew(self, name: str, said: list[str]) -> None:
        self.world.path(name).unlink(missing_ok=True)
        self.make(name)
        self.put(name, b"".join(self.record(word) + b"\n" for word in said))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.checked = False
        self.world.path(name).unlink(missing_ok=True)

    @rule(name=names, said=st.lists(words, max_size=3), lines_kept=st.integers(0, 40))
    def rewrite_by_rename(self, name: str, said: list[str], lines_kept: int) -> None:
        if self.there(name):
            path = self.world.path(name)
            kept = b"".join(path.read_bytes().splitlines(keepends=True)[:lines_kept])
            fresh = path.with_suffix(".tmp")
            fresh.write_bytes(kept + b"".join(self.record(word) + b"\n" for word in said))
            fresh.replace(path)
            self.note()

    @rule(name=names, place=st.integers(0, 30), word=words)
    def edit_text(self, name: str, place: int, word: str) -> None:
        if self.there(name):
            path = self.world.path(name)
            data = path.read_bytes()
            found = [at for old in WORDS for at in _places(data, old.encode())]
            if found:
                at = sorted(found)[place % len(found)]
                path.write_bytes(data[:at] + word.encode() + data[at + len(word) :])
                self.note()

    # --- what memoryd does ---

    @rule()
    def poll(self) -> None:
        before = {row.id for row in self.world.rows()}
        self.world.poll()
        self.require()
        self.check_order([row for row in self.world.rows() if row.id not in before])

    @rule()
    def rest(self) -> None:
        """All is left alone for long: last lines without an end are taken."""
        self.world.poll()
        self.world.later(100)
        self.world.poll()
        self.require(unended=True)

    @rule(some=st.lists(names, max_size=4))
    def hints(self, some: list[str]) -> None:
        self.world.hint(*(self.world.path(name) for name in some))

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @rule(some=st.lists(names, min_size=1, max_size=4))
    def crash_while_scanning(self, some: list[str]) -> None:
        """One batch is with the scanner, the next is being read; neither has been stored."""
        for name in some:
            path = str(self.world.path(name))
            source = next(one for one in self.world.ingest.sources if one.pattern.matches(path))
            with contextlib.suppress(StoppedError):
                self.world.ingest.look(source, path)
                self.world.ingest.pass_on()
        self.world.restart()

    @rule(some=st.lists(names, max_size=4))
    def crash_before_storing(self, some: list[str]) -> None:
        for name in some:
            path = str(self.world.path(name))
            source = next(one for one in self.world.ingest.sources if one.pattern.matches(path))
            with contextlib.suppress(StoppedError):
                self.world.ingest.look(source, path)
        self.world.restart()

    @rule(dies=st.booleans())
    def fail_inside_the_transaction(self, dies: bool) -> None:  # noqa: FBT001
        self.world.ingest.restored = stop
        with contextlib.suppress(StoppedError):
            self.world.poll()
        self.world.ingest.restored = None
        if dies:
            self.world.restart()

    # --- what must hold ---

    def require(self, *, unended: bool = False) -> None:
        self.checked = True
        for name in {*self.streams, *NAMES}:
            if self.there(name) and self.tells_its_format(name):
                self.stream(name).seen |= self.records(name, unended=unended)

    @invariant()
    def stored(self) -> None:
        if self.checked and hasattr(self, "world"):
            self.check()
            self.world.check_spans()

    def check(self) -> None:
        raise NotImplementedError

    def check_order(self, fresh: list[Row]) -> None:
        """What is new in a file has been stored in the file's order, wherever equal records leave no doubt."""
        everywhere = [
            one for name in self.streams if self.there(name) for one in self.records(name, unended=False).elements()
        ]
        for name in self.streams:
            if self.there(name):
                file = records_in(self.world.path(name).read_bytes())
                session = self.world.transcript(name)["session_id"] if file else None
                stored = [(row.record_id, row.text) for row in fresh if row.session_id == session]
                stored = [one if self.shape == "claude" else ("", one[1]) for one in stored]
                once = {one for one in file if everywhere.count(one) == 1 and stored.count(one) == 1}
                assert [one for one in stored if one in once] == [one for one in file if one in once]


def _places(data: bytes, wanted: bytes) -> list[int]:
    places = []
    at = data.find(wanted)
    while at >= 0:
        places.append(at)
        at = data.find(wanted, at + 1)
    return places


class ClaudeMachine(Machine):
    """Records with ids: once each, wherever and however often they turn up."""

    @rule(name=names, lines_again=st.integers(1, 40))
    def replay_history(self, name: str, lines_again: int) -> None:
        if self.there(name):
            data = self.world.path(name).read_bytes()
            whole = data[: data.rfind(b"\n") + 1].splitlines(keepends=True)[:lines_again]
            end = b"" if data.endswith(b"\n") or not data else b"\n"
            self.put(name, end + b"".join(whole))

    @rule(name=names, place=st.integers(0, 30))
    def edit_id(self, name: str, place: int) -> None:
        if self.there(name):
            path = self.world.path(name)
            data = path.read_bytes()
            found = _places(data, b'"uuid":"00000000')
            if found:
                self.number += 1
                at = found[place % len(found)] + len(b'"uuid":"')
                path.write_bytes(data[:at] + b"%08x" % self.number + data[at + 8 :])
                self.note()

    @rule(source=names, to=names)
    def fork(self, source: str, to: str) -> None:
        if self.there(source) and source != to:
            copy_of(self.world.path(source), self.world.path(to))
            self.note()

    @rule(source=names, to=names)
    def move(self, source: str, to: str) -> None:
        if self.there(source):
            self.world.path(to).parent.mkdir(exist_ok=True)
            self.world.path(source).replace(self.world.path(to))
            self.note()

    @rule(name=names, said=st.lists(words, max_size=3), late=words)
    def rotate(self, name: str, said: list[str], late: str) -> None:
        if self.there(name):
            self.poll()
            old = self.world.path(name).rename(self.world.path(name + ".1"))
            self.streams.setdefault(name + ".1", Stream())
            self.put(name, b"".join(self.record(word) + b"\n" for word in said))
            with old.open("ab") as file:
                file.write(b"\n" + self.record(late) + b"\n")
            self.poll()

    def check(self) -> None:
        seen = {one for stream in self.streams.values() for one in stream.seen}
        maybe = {one for stream in self.streams.values() for one in stream.maybe}
        rows = [(row.record_id.split("~")[0], row.text) for row in self.world.rows()]
        counted = Counter(rows)
        assert not {one: count for one, count in counted.items() if count > 1}, "stored twice"
        assert not seen - counted.keys(), "lost"
        assert not counted.keys() - seen - maybe, "invented"


class MessagesMachine(Machine):
    """Records without ids: as many rows as equal lines were ever there at once in one file."""

    shape = "messages"

    @precondition(lambda self: any(self.is_plain(name) for name in NAMES))
    @rule(name=names, to=names)
    def move(self, name: str, to: str) -> None:
        if self.is_plain(name) and not self.there(to):
            self.poll()
            self.world.path(to).parent.mkdir(exist_ok=True)
            self.world.path(name).rename(self.world.path(to))
            if to in self.streams:
                self.past.append(self.streams.pop(to))
            self.streams[to] = self.streams.pop(name)
            self.poll()

    @rule(name=names, said=st.lists(words, max_size=3), late=words)
    def rotate(self, name: str, said: list[str], late: str) -> None:
        old = self.world.path(name + ".1")
        if self.is_plain(name) and not old.exists():
            self.poll()
            self.world.path(name).rename(old)
            self.streams[name + ".1"] = self.streams.pop(name)
            self.make(name)
            self.put(name, b"".join(self.record(word) + b"\n" for word in said))
            with old.open("ab") as file:
                file.write(b"\n" + self.record(late) + b"\n")
            self.poll()

    def is_plain(self, name: str) -> bool:
        """Whether the file can be known again at another place: it still begins with the line it was made with."""
        return self.there(name) and self.world.path(name).read_bytes().startswith(b'{"role":"user","content":"start ')

    def check(self) -> None:
        files = self.world.transcripts()
        by_session: dict[str, Counter[tuple[str, str]]] = {}
        for row in self.world.rows():
            by_session.setdefault(row.session_id, Counter())["", row.text] += 1
        for name, stream in self.streams.items():
            file = files.get(str(self.world.path(name)))
            stream.session = file["session_id"] if file else stream.session
        for stream in [*self.streams.values(), *self.past]:
            stored = by_session.get(stream.session or "", Counter())
            assert not stream.seen - stored, "lost"
            assert not stored - (stream.seen | stream.maybe), "stored twice"
        sessions = {stream.session for stream in [*self.streams.values(), *self.past]}
        assert by_session.keys() <= sessions, "another session was made up"


ClaudeMachine.TestCase.settings = STEPS
MessagesMachine.TestCase.settings = STEPS
TestClaude = pytest.mark.timeout(7200)(ClaudeMachine.TestCase)
TestMessages = pytest.mark.timeout(7200)(MessagesMachine.TestCase)
