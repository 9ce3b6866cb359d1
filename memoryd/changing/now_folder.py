"""List the NOW files of a workspace with their sessions, and name new ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path, PurePosixPath

from memoryd.clock import moment_of
from memoryd.config import Settings
from memoryd.errors import StateError
from memoryd.files import regular
from memoryd.files.open_folder import OpenFolder, open_folder
from memoryd.text.private import is_private
from memoryd.tiers import now
from memoryd.tiers.archive import FOLDER
from memoryd.tiers.now import NowDocument, NowHeader
from memoryd.transcripts import now_file

_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NowSession:
    """Hold a session and its NOW file as it was read."""

    name: str
    data: bytes
    document: NowDocument

    @property
    def header(self) -> NowHeader:
        """Return the header; for a file without one, the values that its name gives."""
        stem = self.name.removesuffix(".md")
        found = self.document.header or NowHeader("", None)
        began = found.timestamp_start or now.read_name(stem)[0]
        return replace(found, session_id=found.session_id or stem, timestamp_start=began)

    @property
    def path(self) -> str:
        """Return the path in the workspace."""
        return f"{FOLDER}/{self.name}"

    @property
    def began(self) -> datetime | None:
        """Return when it began, if the header says so."""
        at = self.header.timestamp_start
        return moment_of(at) if at else None

    @property
    def end(self) -> str | None:
        """Return when it ended, if the header says so."""
        return self.header.timestamp_end

    @property
    def is_open(self) -> bool:
        """Return True if entries may be appended; a file without a header belongs to its writer."""
        return self.document.header is not None and self.document.header.timestamp_end is None

    @property
    def is_private(self) -> bool:
        """Return True if nobody may read, send or index it."""
        return is_private(self.name, self.data)

    @property
    def is_capture(self) -> bool:
        """Return True if memoryd wrote it from the transcript of a session."""
        return self.header.memory_type == now_file.CAPTURE

    @property
    def order(self) -> tuple[datetime, str, int]:
        """Return the key that sorts sessions from the oldest to the newest."""
        stem = self.name.removesuffix(".md")
        return self.began or _EARLIEST, stem[: len("NOW-YYYY-MM-DDTHH-MM")], now.read_name(stem)[1]

    def is_due(self, settings: Settings, at: datetime, share: float = 1.0) -> bool:
        """Return True if its lines or its age reach this share of the limit for a new file."""
        limits = settings.sessions
        is_old = self.began is not None and at - self.began >= share * limits.now_max_age
        return is_old or self.data.count(b"\n") >= share * limits.now_max_lines


def list_files(workspace: Path) -> list[NowSession]:
    """Return the NOW files, from the oldest to the newest; the folder is not created."""
    with regular.as_state_error("cannot be read", workspace):
        try:
            with open_folder(workspace) as top, top.folder(".continuum") as outer, outer.folder("memory") as place:
                return read_files(place)
        except FileNotFoundError:
            return []


def read_files(folder: OpenFolder) -> list[NowSession]:
    """Return the NOW files of an open folder, from the oldest to the newest."""
    found = []
    for name in folder.names():
        if now_file.is_now_path(PurePosixPath(name)):
            try:
                data = regular.read(folder / name)
            except StateError:  # a link, or a file that nobody may read: not a session
                continue
            if data is not None:
                found.append(NowSession(name, data, now.parse(data)))
    return sorted(found, key=lambda one: one.order)


def find_free_name(began: datetime, is_taken: Callable[[str], bool]) -> str:
    """Return the name of a new file; it has a number only if the plain name is taken."""
    names = (f"NOW-{began.astimezone(UTC):%Y-%m-%dT%H-%M}{'' if one == 1 else f'-{one}'}.md" for one in count(1))
    return next(name for name in names if not is_taken(name))
