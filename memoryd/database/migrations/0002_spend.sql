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

DROP INDEX job_run_key;

CREATE UNIQUE INDEX job_run_key ON job_run ("key") WHERE state IN ('queued', 'running', 'interrupted', 'blocked');
