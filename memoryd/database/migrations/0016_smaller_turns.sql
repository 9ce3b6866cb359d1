PRAGMA defer_foreign_keys = ON;
DROP TRIGGER turn_text_added;
DROP TRIGGER turn_text_changed;
ALTER TABLE turn RENAME TO older_turn;
DROP INDEX turn_identity;
DROP INDEX turn_in_session;
DROP INDEX turn_withheld;
CREATE TABLE turn (
  id INTEGER NOT NULL,
  agent_id VARCHAR NOT NULL,
  session_id VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  transcript_id INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  record_key VARCHAR NOT NULL,
  part INTEGER NOT NULL,
  role VARCHAR NOT NULL,
  origin VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  at VARCHAR,
  tokens INTEGER,
  usage INTEGER,
  sidechain BOOLEAN NOT NULL,
  tool_call_id VARCHAR,
  tool_name VARCHAR,
  first_byte INTEGER NOT NULL,
  last_byte INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  withheld VARCHAR,
  text_crc INTEGER,
  record_id VARCHAR GENERATED ALWAYS AS (CASE typeof(record_key) WHEN 'blob' THEN 'sha256:' || lower(hex(record_key)) ELSE record_key END) VIRTUAL,
  PRIMARY KEY (id),
  FOREIGN KEY(session_id) REFERENCES session (id)
);
INSERT INTO turn SELECT id, agent_id, session_id, seq, transcript_id, generation, CASE WHEN length(record_id) = 71 AND record_id GLOB 'sha256:*' AND substr(record_id, 8) NOT GLOB '*[^0-9a-f]*' THEN unhex(substr(record_id, 8)) ELSE record_id END, part, role, origin, kind, text, at, tokens, usage, sidechain, tool_call_id, tool_name, first_byte, last_byte, sha256, withheld, text_crc FROM older_turn ORDER BY id;
DROP TABLE older_turn;
CREATE UNIQUE INDEX turn_identity ON turn (agent_id, record_key, part);
CREATE UNIQUE INDEX turn_in_session ON turn (session_id, seq);
CREATE INDEX turn_withheld ON turn (withheld, session_id) WHERE withheld IS NOT NULL;
CREATE TRIGGER turn_text_added AFTER INSERT ON turn WHEN octet_length(NEW.text) > 0 BEGIN UPDATE vault_size SET turns = turns + 1, bytes = bytes + octet_length(NEW.text), compressed = compressed + (typeof(NEW.text) = 'blob'); END;
CREATE TRIGGER turn_text_changed AFTER UPDATE OF text ON turn BEGIN UPDATE vault_size SET turns = turns + (octet_length(NEW.text) > 0) - (octet_length(OLD.text) > 0), bytes = bytes + octet_length(NEW.text) - octet_length(OLD.text), compressed = compressed + (typeof(NEW.text) = 'blob') - (typeof(OLD.text) = 'blob'); END;
