ALTER TABLE memory ADD COLUMN ended_as VARCHAR;

ALTER TABLE memory ADD COLUMN successors VARCHAR NOT NULL DEFAULT '[]';

ALTER TABLE memory ADD COLUMN salt VARCHAR NOT NULL DEFAULT '';

CREATE INDEX memory_by_text ON memory (agent_id, kind, content_hash) WHERE deleted_at IS NULL;

CREATE TABLE audit (
  id INTEGER NOT NULL,
  at VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  actor VARCHAR NOT NULL,
  run_id VARCHAR,
  operation VARCHAR NOT NULL,
  memory_id VARCHAR NOT NULL,
  "before" VARCHAR,
  "after" VARCHAR,
  prev_hash VARCHAR NOT NULL,
  hash VARCHAR NOT NULL,
  PRIMARY KEY (id)
);

CREATE UNIQUE INDEX audit_order ON audit (agent_id, prev_hash);

CREATE INDEX audit_by_agent ON audit (agent_id);

CREATE INDEX audit_by_memory ON audit (agent_id, memory_id, id);

CREATE INDEX audit_by_run ON audit (run_id) WHERE run_id IS NOT NULL;

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TABLE content (
  sha256 VARCHAR NOT NULL,
  text VARCHAR,
  PRIMARY KEY (sha256)
);

CREATE TABLE core_file (
  agent_id VARCHAR NOT NULL,
  sha256 VARCHAR NOT NULL,
  agreed_at VARCHAR NOT NULL,
  PRIMARY KEY (agent_id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);
