"""The step to smaller turns: every turn stays, is found by its id, and its id reads as before."""

import zlib

import pytest

from memoryd.database import packing, parts, query, schema, sqlite, texts, turns

HASH = "sha256:" + "5e" * 32
IDS = (
    HASH,
    f"{HASH}~0123456789ab",
    "sha256:" + "5E" * 32,
    "sha256:short",
    "8d6c7b1e-0f5a-4d5c-9f0e-0a1b2c3d4e5f",
    "8d6",
)
OLDER = (
    "INSERT INTO turn (agent_id, session_id, seq, transcript_id, generation, record_id, part, role, origin, kind, text,"
    " message_id, usage, model, sidechain, first_byte, last_byte, sha256, withheld, text_crc)"
    " VALUES ('a', 's', ?, 1, 1, ?, 0, 'user', 'user', 'message', ?, ?, 7, 'm', 0, 3, 9, x'00', ?, ?)"
)


@pytest.fixture
def engine(tmp_path):
    made = sqlite.connect(tmp_path / "memoryd.db")
    with sqlite.begin_write(made) as connection:
        for statement in (one for step in parts.read_migrations() if step.number < 16 for one in step.statements):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("PRAGMA user_version = 15")
        connection.exec_driver_sql("INSERT INTO agent VALUES ('a', '/w', 1, 0, '2026')")
        connection.exec_driver_sql(
            "INSERT INTO session (id, agent_id, native_id, format, state, seen_at, last_turn_at, turns, last_seq,"
            " gauge, counted_seq) VALUES ('s', 'a', 's', 'pi', 'active', '2026', '2026', 6, 6, '{}', 0)"
        )
        for seq, name in enumerate(IDS, 1):
            text = f"text {seq}"
            stored = zlib.compress(text.encode()) if seq == 2 else text
            withheld = "forgotten" if seq == 3 else None
            query.run(connection, OLDER, seq, name, stored, name, withheld, zlib.crc32(text.encode()))
        connection.exec_driver_sql("UPDATE turn SET id = 40 WHERE seq = 4")  # a number that is not the place
    return made


def test_turns_keep_their_ids_texts_numbers_and_sums(engine):
    columns = (
        "SELECT id, session_id, seq, record_id, part, kind, text, usage, last_byte, sha256, withheld, text_crc"
        " FROM turn ORDER BY id"
    )
    with sqlite.begin_read(engine) as connection:
        before = query.fetch_rows(connection, columns)
        sums = query.fetch_rows(connection, "SELECT turns, bytes, compressed FROM vault_size")
    assert schema.migrate(engine) == parts.read_migrations()[-1].number
    with sqlite.begin_write(engine) as connection:
        assert query.fetch_rows(connection, columns) == before
        assert query.fetch_rows(connection, "SELECT turns, bytes, compressed FROM vault_size") == sums == [(6, 44, 1)]
        kinds = query.fetch_column(connection, "SELECT typeof(record_key) FROM turn ORDER BY seq")
        assert kinds == ["blob", "text", "text", "text", "text", "text"]
        query.run(connection, "UPDATE turn SET text = '' WHERE seq = 1")  # the sums are kept on
        assert query.fetch_rows(connection, "SELECT turns, bytes FROM vault_size") == [(5, 38)]


def test_a_turn_whose_session_is_lost_is_no_obstacle(engine):
    raw = engine.raw_connection()
    raw.execute("PRAGMA foreign_keys = OFF")
    raw.execute("UPDATE turn SET session_id = 'gone' WHERE seq = 6")
    raw.commit()
    raw.execute("PRAGMA foreign_keys = ON")
    raw.close()
    schema.migrate(engine)
    with sqlite.begin_read(engine) as connection:
        assert query.fetch_column(connection, "SELECT seq FROM turn WHERE session_id = 'gone'") == [6]


def test_turns_are_found_by_their_ids(engine):
    schema.migrate(engine)
    with sqlite.begin_write(engine) as connection:
        assert {name for name, _ in turns.SeenRecords(connection, "a", IDS).rows} == set(IDS)
        assert [one.record_id for one in turns.versions_of(connection, "a", HASH, 0)] == [HASH, IDS[1]]
        assert [turns.seq_of_record(connection, "s", name) for name in IDS] == [1, 2, 3, 4, 5, 6]
        turns.confirm_spans(connection, [(10, 20, 2, b"\1", "a", HASH, 0)])
        assert query.fetch_rows(connection, "SELECT seq, last_byte FROM turn WHERE generation = 2") == [(1, 20)]
        assert turns.retract_record(connection, "a", "s", HASH) == 2  # with what was changed under its id
        assert turns.resume_record(connection, "a", HASH) == 2


@pytest.mark.parametrize("name", ["sha256:" + "0a" * 32, "call of nobody"])
def test_an_id_is_replaced_where_it_may_not_be_kept(engine, name):
    schema.migrate(engine)
    (row,) = [one for one in texts.read_rows(engine, "turn", [1]) if one["record_id"] == HASH]
    with sqlite.begin_write(engine) as connection:
        assert texts.change(connection, "turn", row, {"record_id": name}, "2026")
        assert query.fetch_column(connection, "SELECT record_id FROM turn WHERE id = 1") == [name]
        assert turns.SeenRecords(connection, "a", [HASH, name]).rows.keys() == {(name, 0)}


def test_an_id_that_is_a_hash_takes_its_bytes():
    assert packing.pack_id(HASH) == b"\x5e" * 32
    assert [packing.pack_id(name) for name in IDS[1:]] == list(IDS[1:])
