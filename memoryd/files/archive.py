"""Write and read a backup: a gzipped tar of regular files.

Its first member is a manifest with the sha256 of the others.

    manifest.json     {"format": 1, "files": {"memoryd.db": {"bytes": …, "sha256": "…"}, …}, …}
    memoryd.db        …

A backup that is read is not trusted. Only members that the manifest and the reader both name are unpacked. Each becomes
a new regular file in the target folder, with the size in the manifest. Nothing is used before all hashes match.
"""

import hashlib
import io
import json
import os
import secrets
import tarfile
import zlib
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from memoryd.errors import StateError
from memoryd.files.durable import sync_folder
from memoryd.files.open_folder import follow_folder
from memoryd.files.regular import as_state_error, open_regular

FORMAT = 1
MANIFEST = "manifest.json"
_MAX_MANIFEST = 1024 * 1024
_CHUNK = 1024 * 1024
_HINT = "take another backup; nothing was changed"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(path: Path, files: Mapping[str, Path], about: Mapping[str, Any]) -> dict[str, Any]:
    """Pack files under plain names into a new archive (0600), completely or not at all; return its manifest.

    `about` has more values for the manifest.

    Raises:
        StateError: the archive exists already, or cannot be written.
    """
    with as_state_error("cannot be written", path):
        try:
            os.close(os.open(path, _NEW, 0o600))  # reserve the name, so that no other file is replaced
        except FileExistsError:
            raise StateError("is there already", str(path), "give another name; backups are not overwritten") from None
        temp = path.with_name(f".memoryd-backup-{secrets.token_hex(8)}.tmp")
        try:
            manifest = _pack(temp, files, about)
            temp.replace(path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            temp.unlink(missing_ok=True)
        with follow_folder(path.parent) as folder:
            sync_folder(folder)
    return manifest


def _pack(temp: Path, files: Mapping[str, Path], about: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, dict[str, Any]] = {
        name: {"bytes": file.stat().st_size, "sha256": _digest(file)} for name, file in files.items()
    }
    manifest = {"format": FORMAT, **about, "files": described}
    with os.fdopen(os.open(temp, _NEW, 0o600), "wb") as raw:
        with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
            text = json.dumps(manifest, indent=1).encode()
            tar.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
            for name, file in files.items():
                with file.open("rb") as source:
                    tar.addfile(_member(name, described[name]["bytes"]), source)
        raw.flush()
        os.fsync(raw.fileno())
    return manifest


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    return member


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(path: Path, folder: Path, known: Collection[str]) -> dict[str, Any]:
    """Unpack an archive into an empty folder, check all hashes, and return the manifest.

    Members whose names are not in `known` are refused.

    Raises:
        StateError: it is damaged, is no backup of memoryd, or has unknown members.
    """
    with as_state_error("cannot be read", path):
        with follow_folder(path.parent) as place:
            raw = os.fdopen(open_regular(place / path.name, shared=True), "rb")
        try:
            with raw, tarfile.open(fileobj=raw, mode="r|gz") as tar:
                return _unpack(tar, path, folder, known)
        except (tarfile.TarError, EOFError, zlib.error, UnicodeError) as error:
            raise StateError("is damaged or no backup of memoryd", str(path), _HINT) from error


def _unpack(tar: tarfile.TarFile, path: Path, folder: Path, known: Collection[str]) -> dict[str, Any]:
    manifest: dict[str, Any] | None = None
    found: dict[str, str] = {}
    for member in tar:
        source = tar.extractfile(member) if member.isreg() else None
        if source is None:
            raise StateError(f"holds {member.name[:80]!r}, which is not a file", str(path), _HINT)
        if manifest is None:
            manifest = _manifest(member.name, source.read(_MAX_MANIFEST + 1), path)
            continue
        if member.name not in known or member.name not in manifest["files"] or member.name in found:
            raise StateError(f"holds {member.name[:80]!r}, which no backup of memoryd does", str(path), _HINT)
        if member.size != manifest["files"][member.name]["bytes"]:
            raise StateError(f"{member.name} is not as long as the manifest says", str(path), _HINT)
        found[member.name] = _extract(source, path, folder / member.name)
    if manifest is None or found != {name: told["sha256"] for name, told in manifest["files"].items()}:
        raise StateError("is not what its manifest says: it was cut, changed or damaged", str(path), _HINT)
    return manifest


def _manifest(name: str, text: bytes, path: Path) -> dict[str, Any]:
    with suppress(ValueError, TypeError, KeyError, AttributeError):
        manifest = json.loads(text) if name == MANIFEST and len(text) <= _MAX_MANIFEST else {}
        if manifest["format"] == FORMAT and all(
            isinstance(told["bytes"], int) and isinstance(told["sha256"], str) for told in manifest["files"].values()
        ):
            return dict(manifest)
    raise StateError("is not a backup of memoryd, or is one of a newer version", str(path), _HINT)


def _extract(source: IO[bytes], path: Path, target: Path) -> str:
    seen = hashlib.sha256()
    with as_state_error("cannot be written", target), os.fdopen(os.open(target, _NEW, 0o600), "wb") as file:
        while chunk := _read(source, path):
            seen.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return seen.hexdigest()


def _read(source: IO[bytes], path: Path) -> bytes:
    with as_state_error("cannot be read", path):
        return source.read(_CHUNK)
