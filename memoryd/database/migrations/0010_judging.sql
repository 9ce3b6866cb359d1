ALTER TABLE job_run ADD COLUMN claims VARCHAR;
ALTER TABLE memory ADD COLUMN note VARCHAR;
ALTER TABLE memory ADD COLUMN lost INTEGER;
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
CREATE TABLE verdict (
    agent_id VARCHAR NOT NULL,
    "key" VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    read_at VARCHAR NOT NULL,
    PRIMARY KEY (agent_id, "key"),
    FOREIGN KEY(agent_id) REFERENCES agent (id)
);
