CREATE TABLE forgotten_text (
  session_id VARCHAR NOT NULL,
  text_key VARCHAR NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (session_id, text_key),
  FOREIGN KEY(session_id) REFERENCES session (id)
);
