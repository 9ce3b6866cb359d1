CREATE TABLE agent (
  id VARCHAR NOT NULL,
  workspace VARCHAR NOT NULL,
  enabled BOOLEAN NOT NULL,
  paused BOOLEAN NOT NULL,
  seen_at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE alarm (
  id INTEGER NOT NULL,
  kind VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  since VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  cleared_at VARCHAR,
  told VARCHAR,
  PRIMARY KEY (id)
);

CREATE UNIQUE INDEX alarm_open ON alarm (kind, agent_id, subject) WHERE cleared_at IS NULL;

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

CREATE INDEX audit_by_agent ON audit (agent_id);

CREATE INDEX audit_by_memory ON audit (agent_id, memory_id, id);

CREATE INDEX audit_by_run ON audit (run_id) WHERE run_id IS NOT NULL;

CREATE UNIQUE INDEX audit_order ON audit (agent_id, prev_hash);

CREATE TABLE bad_span (
  id INTEGER NOT NULL,
  transcript_id INTEGER NOT NULL,
  first_byte INTEGER NOT NULL,
  last_byte INTEGER NOT NULL,
  sha256 VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  seen_at VARCHAR NOT NULL,
  PRIMARY KEY (id)
);

CREATE UNIQUE INDEX bad_span_identity ON bad_span (transcript_id, sha256, first_byte);

CREATE TABLE changed_row (
  seq INTEGER NOT NULL,
  name VARCHAR NOT NULL,
  pk VARCHAR NOT NULL,
  PRIMARY KEY (seq)
);

CREATE TABLE content (
  sha256 VARCHAR NOT NULL,
  text VARCHAR,
  PRIMARY KEY (sha256)
);

CREATE TABLE daemon (
  id INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  owner VARCHAR NOT NULL,
  version VARCHAR NOT NULL,
  started_at VARCHAR NOT NULL,
  watching VARCHAR NOT NULL,
  watching_note VARCHAR,
  PRIMARY KEY (id)
);

CREATE TABLE forgotten_text (
  session_id VARCHAR NOT NULL,
  text_key VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (session_id, text_key)
);

CREATE INDEX forgotten_by_agent ON forgotten_text (agent_id);

CREATE TABLE intent (
  run_id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  made_at VARCHAR NOT NULL,
  "plan" VARCHAR NOT NULL,
  PRIMARY KEY (run_id)
);

CREATE TABLE reader (
  endpoint VARCHAR NOT NULL,
  model VARCHAR NOT NULL,
  version VARCHAR NOT NULL,
  true_right INTEGER NOT NULL,
  true_asked INTEGER NOT NULL,
  false_right INTEGER NOT NULL,
  false_asked INTEGER NOT NULL,
  tested_at VARCHAR NOT NULL,
  PRIMARY KEY (endpoint, model, version)
);

CREATE TABLE spend (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  endpoint VARCHAR NOT NULL,
  day VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  reserved INTEGER NOT NULL,
  tokens_in INTEGER,
  tokens_out INTEGER,
  how VARCHAR NOT NULL,
  PRIMARY KEY (id)
);

CREATE INDEX spend_by_day ON spend (day);

CREATE INDEX spend_by_run ON spend (run_id);

CREATE TABLE vault_size (
  id INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  compressed INTEGER NOT NULL,
  PRIMARY KEY (id)
);

CREATE TABLE core_file (
  agent_id VARCHAR NOT NULL,
  sha256 VARCHAR NOT NULL,
  agreed_at VARCHAR NOT NULL,
  PRIMARY KEY (agent_id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE TABLE grant (
  id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  uid INTEGER NOT NULL,
  purpose VARCHAR NOT NULL,
  seconds INTEGER NOT NULL,
  requested_at VARCHAR NOT NULL,
  decided_at VARCHAR,
  expires_at VARCHAR,
  state VARCHAR NOT NULL,
  person VARCHAR DEFAULT '' NOT NULL,
  scope VARCHAR DEFAULT '' NOT NULL,
  reported_at VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE INDEX grant_by_agent ON grant (agent_id, state);

CREATE TABLE job_mode (
  agent_id VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  mode VARCHAR NOT NULL,
  since VARCHAR NOT NULL,
  why VARCHAR NOT NULL,
  PRIMARY KEY (agent_id, kind),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE TABLE job_run (
  id VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  session_id VARCHAR,
  actor VARCHAR NOT NULL,
  "trigger" VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  "key" VARCHAR,
  slot VARCHAR,
  options VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  scheduled_for VARCHAR NOT NULL,
  started_at VARCHAR,
  heartbeat_at VARCHAR,
  finished_at VARCHAR,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  owner VARCHAR,
  cancel_requested BOOLEAN NOT NULL,
  input_hash VARCHAR,
  why VARCHAR,
  error VARCHAR,
  tokens_in INTEGER NOT NULL,
  tokens_out INTEGER NOT NULL,
  receipt VARCHAR NOT NULL,
  reply VARCHAR,
  refused VARCHAR,
  claims VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE UNIQUE INDEX job_run_key ON job_run ("key") WHERE state IN ('queued', 'running', 'interrupted', 'blocked');

CREATE UNIQUE INDEX job_run_one_per_agent ON job_run (agent_id) WHERE state = 'running';

CREATE INDEX job_run_recent ON job_run (agent_id, kind, finished_at);

CREATE UNIQUE INDEX job_run_slot ON job_run (slot) WHERE slot IS NOT NULL;

CREATE INDEX job_run_waiting ON job_run (state, scheduled_for);

CREATE TABLE memory (
  id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  content VARCHAR NOT NULL,
  content_hash VARCHAR NOT NULL,
  created_at VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  salt VARCHAR DEFAULT '' NOT NULL,
  category VARCHAR,
  confidence FLOAT,
  importance FLOAT,
  tags VARCHAR NOT NULL,
  constitutional BOOLEAN NOT NULL,
  origin_at VARCHAR,
  deleted_at VARCHAR,
  derived_from VARCHAR NOT NULL,
  sources VARCHAR NOT NULL,
  heading VARCHAR,
  position INTEGER,
  ended_as VARCHAR,
  successors VARCHAR DEFAULT '[]' NOT NULL,
  note VARCHAR,
  lost INTEGER,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE INDEX memory_by_agent ON memory (agent_id, kind, deleted_at);

CREATE INDEX memory_by_text ON memory (agent_id, kind, content_hash) WHERE deleted_at IS NULL;

CREATE TABLE profile_section (
  agent_id VARCHAR NOT NULL,
  section VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  sources VARCHAR NOT NULL,
  run_id VARCHAR,
  salt VARCHAR NOT NULL,
  PRIMARY KEY (agent_id, section),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE TABLE session (
  id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  native_id VARCHAR NOT NULL,
  parent_id VARCHAR,
  format VARCHAR NOT NULL,
  folder VARCHAR,
  state VARCHAR NOT NULL,
  seen_at VARCHAR NOT NULL,
  started_at VARCHAR,
  last_turn_at VARCHAR NOT NULL,
  ended_at VARCHAR,
  turns INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  model VARCHAR,
  gauge VARCHAR NOT NULL,
  counted_tokens INTEGER,
  counted_seq INTEGER NOT NULL,
  slept_at VARCHAR,
  facts_look VARCHAR,
  branch VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE INDEX session_active ON session (last_turn_at) WHERE state = 'active';

CREATE INDEX session_by_agent ON session (agent_id, last_turn_at);

CREATE TABLE verdict (
  agent_id VARCHAR NOT NULL,
  "key" VARCHAR NOT NULL,
  verdict VARCHAR NOT NULL,
  read_at VARCHAR NOT NULL,
  PRIMARY KEY (agent_id, "key"),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE TABLE session_summary (
  session_id VARCHAR NOT NULL,
  summary VARCHAR NOT NULL,
  messages VARCHAR NOT NULL,
  updated_at VARCHAR NOT NULL,
  run_id VARCHAR,
  earlier VARCHAR,
  told VARCHAR,
  PRIMARY KEY (session_id),
  FOREIGN KEY(session_id) REFERENCES session (id)
);

CREATE TABLE transcript (
  id INTEGER NOT NULL,
  agent_id VARCHAR NOT NULL,
  session_id VARCHAR,
  path VARCHAR NOT NULL,
  format VARCHAR,
  device INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  ctime_ns INTEGER NOT NULL,
  head_length INTEGER NOT NULL,
  head_sha256 VARCHAR NOT NULL,
  "offset" INTEGER NOT NULL,
  marker_sha256 VARCHAR NOT NULL,
  prefix_sha256 VARCHAR NOT NULL,
  generation INTEGER NOT NULL,
  fate VARCHAR NOT NULL,
  fate_at VARCHAR NOT NULL,
  skipped VARCHAR NOT NULL,
  note VARCHAR,
  records INTEGER DEFAULT '0' NOT NULL,
  version VARCHAR,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id),
  FOREIGN KEY(session_id) REFERENCES session (id)
);

CREATE INDEX transcript_by_session ON transcript (session_id);

CREATE INDEX transcript_inode ON transcript (device, inode);

CREATE INDEX transcript_path ON transcript (agent_id, path);

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

CREATE UNIQUE INDEX turn_identity ON turn (agent_id, record_key, part);

CREATE UNIQUE INDEX turn_in_session ON turn (session_id, seq);

CREATE INDEX turn_withheld ON turn (withheld, session_id) WHERE withheld IS NOT NULL;

CREATE TABLE watermark (
  session_id VARCHAR NOT NULL,
  consumer VARCHAR NOT NULL,
  seq INTEGER NOT NULL,
  moved_at VARCHAR NOT NULL,
  run_id VARCHAR,
  PRIMARY KEY (session_id, consumer),
  FOREIGN KEY(session_id) REFERENCES session (id)
);

CREATE INDEX watermark_by_run ON watermark (run_id) WHERE run_id IS NOT NULL;

CREATE TRIGGER agent_inserted AFTER INSERT ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(NEW."id")); END;

CREATE TRIGGER agent_updated AFTER UPDATE ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(NEW."id")); END;

CREATE TRIGGER agent_deleted AFTER DELETE ON "agent" BEGIN INSERT INTO changed_row (name, pk) VALUES ('agent', json_array(OLD."id")); END;

CREATE TRIGGER memory_inserted AFTER INSERT ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(NEW."id")); END;

CREATE TRIGGER memory_updated AFTER UPDATE ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(NEW."id")); END;

CREATE TRIGGER memory_deleted AFTER DELETE ON "memory" BEGIN INSERT INTO changed_row (name, pk) VALUES ('memory', json_array(OLD."id")); END;

CREATE TRIGGER audit_inserted AFTER INSERT ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(NEW."id")); END;

CREATE TRIGGER audit_updated AFTER UPDATE ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(NEW."id")); END;

CREATE TRIGGER audit_deleted AFTER DELETE ON "audit" BEGIN INSERT INTO changed_row (name, pk) VALUES ('audit', json_array(OLD."id")); END;

CREATE TRIGGER content_inserted AFTER INSERT ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(NEW."sha256")); END;

CREATE TRIGGER content_updated AFTER UPDATE ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(NEW."sha256")); END;

CREATE TRIGGER content_deleted AFTER DELETE ON "content" BEGIN INSERT INTO changed_row (name, pk) VALUES ('content', json_array(OLD."sha256")); END;

CREATE TRIGGER profile_section_inserted AFTER INSERT ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(NEW."agent_id", NEW."section")); END;

CREATE TRIGGER profile_section_updated AFTER UPDATE ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(NEW."agent_id", NEW."section")); END;

CREATE TRIGGER profile_section_deleted AFTER DELETE ON "profile_section" BEGIN INSERT INTO changed_row (name, pk) VALUES ('profile_section', json_array(OLD."agent_id", OLD."section")); END;

CREATE TRIGGER grant_inserted AFTER INSERT ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(NEW."id")); END;

CREATE TRIGGER grant_updated AFTER UPDATE ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(NEW."id")); END;

CREATE TRIGGER grant_deleted AFTER DELETE ON "grant" BEGIN INSERT INTO changed_row (name, pk) VALUES ('grant', json_array(OLD."id")); END;

CREATE TRIGGER core_file_inserted AFTER INSERT ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(NEW."agent_id")); END;

CREATE TRIGGER core_file_updated AFTER UPDATE ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(NEW."agent_id")); END;

CREATE TRIGGER core_file_deleted AFTER DELETE ON "core_file" BEGIN INSERT INTO changed_row (name, pk) VALUES ('core_file', json_array(OLD."agent_id")); END;

CREATE TRIGGER job_mode_inserted AFTER INSERT ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(NEW."agent_id", NEW."kind")); END;

CREATE TRIGGER job_mode_updated AFTER UPDATE ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(NEW."agent_id", NEW."kind")); END;

CREATE TRIGGER job_mode_deleted AFTER DELETE ON "job_mode" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_mode', json_array(OLD."agent_id", OLD."kind")); END;

CREATE TRIGGER job_run_inserted AFTER INSERT ON "job_run" WHEN (NEW.finished_at IS NOT NULL OR NEW.state = 'proposed') BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(NEW."id")); END;

CREATE TRIGGER job_run_updated AFTER UPDATE ON "job_run" WHEN (NEW.finished_at IS NOT NULL OR NEW.state = 'proposed') BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(NEW."id")); END;

CREATE TRIGGER job_run_deleted AFTER DELETE ON "job_run" BEGIN INSERT INTO changed_row (name, pk) VALUES ('job_run', json_array(OLD."id")); END;

CREATE TRIGGER audit_stays BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

INSERT INTO vault_size SELECT 1, count(*), coalesce(sum(octet_length(text)), 0), coalesce(sum(typeof(text) = 'blob'), 0) FROM turn WHERE octet_length(text) > 0;

CREATE TRIGGER turn_text_added AFTER INSERT ON turn WHEN octet_length(NEW.text) > 0 BEGIN UPDATE vault_size SET turns = turns + 1, bytes = bytes + octet_length(NEW.text), compressed = compressed + (typeof(NEW.text) = 'blob'); END;

CREATE TRIGGER turn_text_changed AFTER UPDATE OF text ON turn BEGIN UPDATE vault_size SET turns = turns + (octet_length(NEW.text) > 0) - (octet_length(OLD.text) > 0), bytes = bytes + octet_length(NEW.text) - octet_length(OLD.text), compressed = compressed + (typeof(NEW.text) = 'blob') - (typeof(OLD.text) = 'blob'); END;
