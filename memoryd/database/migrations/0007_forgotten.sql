CREATE TABLE forgotten_line (
  session_id VARCHAR NOT NULL,
  line_key VARCHAR NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (session_id, line_key),
  FOREIGN KEY(session_id) REFERENCES session (id)
);
