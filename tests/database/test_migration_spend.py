"""The step from the first schema: what was there stays."""

from memoryd.database import parts, schema, sqlite


def test_a_database_of_the_first_schema_is_brought_up_to_date(tmp_path):
    first = parts.read_migrations()[0]
    engine = sqlite.connect(tmp_path / "old.db")
    with sqlite.begin_write(engine) as connection:
        for statement in first.statements:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql("PRAGMA user_version = 1")
        connection.exec_driver_sql("INSERT INTO agent VALUES ('a', '/w', 1, 0, 'now')")
        connection.exec_driver_sql(
            'INSERT INTO job_run (id, kind, agent_id, actor, "trigger", state, "key", options, created_at,'
            " scheduled_for, attempt, fence, cancel_requested, tokens_in, tokens_out, receipt)"
            " VALUES ('r', 'sleep', 'a', 'memoryd', 'manual', 'queued', 'k', '{}', 'x', 'x', 0, 0, 0, 0, 0, '{}')"
        )
    assert schema.migrate(engine) == len(parts.read_migrations())
    with sqlite.begin_read(engine) as connection:
        assert connection.exec_driver_sql("SELECT id FROM job_run").scalar_one() == "r"
        assert connection.exec_driver_sql("SELECT count(*) FROM spend").scalar_one() == 0
