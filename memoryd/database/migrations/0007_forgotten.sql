CREATE TABLE forgotten_text (
  session_id VARCHAR NOT NULL,
  text_key VARCHAR NOT NULL,
  agent_id VARCHAR NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (session_id, text_key)
);

CREATE INDEX forgotten_by_agent ON forgotten_text (agent_id);
