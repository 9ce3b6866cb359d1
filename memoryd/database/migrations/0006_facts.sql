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

ALTER TABLE session ADD COLUMN facts_look VARCHAR;

CREATE TABLE "grant" (
  id VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  uid INTEGER NOT NULL,
  purpose VARCHAR NOT NULL,
  seconds INTEGER NOT NULL,
  requested_at VARCHAR NOT NULL,
  decided_at VARCHAR,
  expires_at VARCHAR,
  state VARCHAR NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(agent_id) REFERENCES agent (id)
);

CREATE INDEX grant_by_agent ON "grant" (agent_id, state);
