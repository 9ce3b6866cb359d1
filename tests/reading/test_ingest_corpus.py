"""Real transcripts, from the folder that MEMORYD_TRANSCRIPTS names: however they arrive, the turns are the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from ingest_world import World

FOLDER = Path(os.environ.get("MEMORYD_TRANSCRIPTS", "/nonexistent"))
FILES = sorted(path for path in FOLDER.rglob("*.jsonl") if "growth" not in path.parent.name)
GROWTHS = sorted(path for path in FOLDER.rglob("growth*") if path.is_dir())

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="MEMORYD_TRANSCRIPTS names no folder of transcripts")


def turns(world: World) -> list[tuple[object, ...]]:
    wanted = "session_id, seq, record_id, part, role, origin, kind, text, at, usage, first_byte, last_byte, sha256"
    rows = world.query(f"SELECT {wanted} FROM turn ORDER BY session_id, seq")  # noqa: S608
    return [tuple(row.values()) for row in rows]


def whole(folder: Path, name: Path, data: bytes) -> list[tuple[object, ...]]:
    with World(folder) as world:
        world.write(str(name), data)
        world.poll()
        world.later(3600)
        world.poll()
        world.check_spans()
        return turns(world)


def world_in(path: Path, name: str) -> Path:
    path = path / name
    path.mkdir()
    return path


@pytest.mark.parametrize("path", FILES, ids=[path.name[-40:] for path in FILES])
def test_pieces_with_restarts_between_give_what_the_whole_gives(tmp_path, path):
    data, name = path.read_bytes(), path.relative_to(FOLDER)
    expected = whole(world_in(tmp_path, "whole"), name, data)
    chance = random.Random(path.name)
    with World(world_in(tmp_path, "pieces")) as world:
        world.write(str(name), b"")
        at = 0
        while at < len(data):
            cut = min(len(data), at + chance.randint(1, max(2, len(data) // 6)))
            world.append(str(name), data[at:cut])
            at = cut
            if chance.random() < 0.7:
                world.poll()
            if chance.random() < 0.5:
                world.restart()
        world.poll()
        world.later(3600)
        world.poll()
        assert turns(world) == expected
        assert len({(row[2], row[3]) for row in expected}) == len(expected)


@pytest.mark.parametrize("folder", GROWTHS, ids=[path.name[-20:] for path in GROWTHS])
@pytest.mark.parametrize("by_rename", [False, True])
def test_growth_snapshots_give_what_the_last_one_gives(tmp_path, folder, by_rename):
    snapshots = sorted(folder.glob("*.jsonl"))
    name = Path("session.jsonl")
    expected = whole(world_in(tmp_path, "whole"), name, snapshots[-1].read_bytes())
    with World(world_in(tmp_path, "growth")) as world:
        for snapshot in snapshots:
            if by_rename:
                world.write("session.tmp", snapshot.read_bytes()).replace(world.path(str(name)))
            else:
                world.write(str(name), snapshot.read_bytes())
            world.poll()
        world.later(3600)
        world.poll()
        assert [row[:3] for row in turns(world)] == [row[:3] for row in expected]
        assert len({row[2:4] for row in turns(world)}) == len(expected)
