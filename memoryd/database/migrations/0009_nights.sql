CREATE TABLE job_mode (
    agent_id VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    mode VARCHAR NOT NULL,
    since VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    PRIMARY KEY (agent_id, kind),
    FOREIGN KEY(agent_id) REFERENCES agent (id)
);
ALTER TABLE alarm ADD COLUMN told VARCHAR;
