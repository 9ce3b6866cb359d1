-- What a host tells of itself: agents, alarms, context usage. Numbers, names and times, never content.
CREATE TABLE fleet_host (
    host text PRIMARY KEY,
    version text NOT NULL,
    state text NOT NULL, -- the state folder: two daemons must not have one name
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    told jsonb NOT NULL DEFAULT '{}'
);

-- The job tables of all hosts. `digest` is of the row as its host has it, so that only changes travel.
CREATE TABLE fleet_run (
    host text NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    agent text NOT NULL,
    actor text NOT NULL,
    trigger text NOT NULL,
    state text NOT NULL,
    scheduled_for text,
    started_at text,
    finished_at text,
    attempt integer NOT NULL,
    tokens_in bigint NOT NULL,
    tokens_out bigint NOT NULL,
    digest bigint NOT NULL,
    PRIMARY KEY (host, id)
);
CREATE INDEX fleet_run_newest ON fleet_run (id DESC);
CREATE INDEX fleet_run_finished ON fleet_run (finished_at); -- for retention
CREATE INDEX fleet_run_open ON fleet_run (host, state) WHERE finished_at IS NULL;

-- What somebody asks a host to do. The body is signed with the fleet's key; the host decides.
CREATE TABLE fleet_request (
    id text PRIMARY KEY,
    host text NOT NULL,
    body text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    answered_at timestamptz,
    outcome text
);
CREATE INDEX fleet_request_waiting ON fleet_request (host, asked_at) WHERE answered_at IS NULL;

-- Which host holds a workspace, and until when, by the clock of this server.
CREATE TABLE fleet_lease (
    workspace text PRIMARY KEY,
    host text NOT NULL,
    agent text NOT NULL,
    until timestamptz NOT NULL
);
