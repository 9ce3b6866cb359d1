"""List the NOW files of a workspace with their sessions, and find names for new ones."""

from collections.abc import Callable
from contextlib import suppress
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
    """Hold a NOW file as it was read, with its session."""

    name: str
    data: bytes
    document: NowDocument

    @property
    def header(self) -> NowHeader:
        """Return the header, with missing values taken from the file name."""
        stem = self.name.removesuffix(".md")
        found = self.document.header or NowHeader("", None)
        began = found.timestamp_start or now.read_name(stem)[0]
        return replace(found, session_id=found.session_id or stem, timestamp_start=began)

    @property
    def path(self) -> str:
        """Return the path relative to the workspace."""
        return f"{FOLDER}/{self.name}"

    @property
    def began(self) -> datetime | None:
        """Return when the session began; None if neither header nor name says so."""
        at = self.header.timestamp_start
        return moment_of(at) if at else None

    @property
    def end(self) -> str | None:
        """Return when the session ended; None if it has not ended or the header does not say so."""
        return self.header.timestamp_end

    @property
    def is_open(self) -> bool:
        """Return True if entries may be appended; a file without a header belongs to another writer."""
        return self.document.header is not None and self.document.header.timestamp_end is None

    @property
    def is_private(self) -> bool:
        """Return True if the file must not be read, sent or indexed."""
        return is_private(self.name, self.data)

    @property
    def is_capture(self) -> bool:
        """Return True if memoryd wrote the file from a transcript."""
        return self.header.memory_type == now_file.CAPTURE

    @property
    def order(self) -> tuple[datetime, str, int]:
        """Return the key that sorts sessions from the oldest to the newest."""
        stem = self.name.removesuffix(".md")
        return self.began or _EARLIEST, stem[: len("NOW-YYYY-MM-DDTHH-MM")], now.read_name(stem)[1]

    def is_due(self, settings: Settings, at: datetime, share: float = 1.0) -> bool:
        """Return True if the file has reached this share of the largest number of lines or of the largest age."""
        limits = settings.sessions
        is_old = self.began is not None and at - self.began >= share * limits.now_max_age
        return is_old or self.data.count(b"\n") >= share * limits.now_max_lines


def list_files(workspace: Path) -> list[NowSession]:
    """Return the NOW files of a workspace, oldest first; empty if there is no folder."""
    with regular.as_state_error("cannot be read", workspace):
        try:
            with open_folder(workspace) as top, top.folder(".continuum") as outer, outer.folder("memory") as place:
                return read_files(place)
        except FileNotFoundError:
            return []


def read_files(folder: OpenFolder) -> list[NowSession]:
    """Return the NOW files of an open folder, oldest first."""
    found = []
    for name in folder.names():
        if now_file.is_now_path(PurePosixPath(name)):
            with suppress(StateError):  # a link or an unreadable file is not a session
                if (data := regular.read(folder / name)) is not None:
                    found.append(NowSession(name, data, now.parse(data)))
    return sorted(found, key=lambda one: one.order)


def find_free_name(began: datetime, is_taken: Callable[[str], bool]) -> str:
    """Return an unused name for a new file, with a number if the plain name is taken."""
    names = (f"NOW-{began.astimezone(UTC):%Y-%m-%dT%H-%M}{'' if one == 1 else f'-{one}'}.md" for one in count(1))
    return next(name for name in names if not is_taken(name))
