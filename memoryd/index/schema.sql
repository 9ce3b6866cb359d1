-- key: null if equal to the digest; lacks: 1 if a vector is missing, 0 if there is one, null if none is wanted
CREATE TABLE agent (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, turn_id INTEGER NOT NULL DEFAULT 0,
    turn_mark TEXT NOT NULL DEFAULT '', audit_mark TEXT NOT NULL DEFAULT '', waiting TEXT NOT NULL DEFAULT '[]',
    live INTEGER NOT NULL DEFAULT 0, removed INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL DEFAULT ''
);
CREATE TABLE source (
    id INTEGER PRIMARY KEY, agent INTEGER NOT NULL, path TEXT NOT NULL, tier TEXT NOT NULL, stamp TEXT NOT NULL,
    tags TEXT NOT NULL, UNIQUE (agent, path)
);
CREATE TABLE document (
    id INTEGER PRIMARY KEY, source INTEGER NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL,
    piece INTEGER NOT NULL, digest BLOB NOT NULL, key BLOB, day TEXT, shown TEXT, lacks INTEGER,
    voice INTEGER NOT NULL
);
CREATE INDEX document_place ON document (source, first_line);
