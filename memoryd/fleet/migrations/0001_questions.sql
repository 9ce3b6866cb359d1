-- A question of a host. The body and the reply are sealed if the fleet has a key. It is deleted when its host has the reply.
CREATE TABLE fleet_question (
    id text PRIMARY KEY,
    host text NOT NULL,
    body text NOT NULL,
    reply text,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    replied_at timestamptz
);
CREATE INDEX fleet_question_asked_at ON fleet_question (asked_at);

-- One call of a model: reserved before it, settled after it. A killed worker's reservation stays counted.
CREATE TABLE fleet_spend (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    day date NOT NULL,
    agent text NOT NULL,
    model text NOT NULL,
    at timestamptz NOT NULL,
    reserved bigint NOT NULL,
    tokens_in bigint,
    tokens_out bigint
);
CREATE INDEX fleet_spend_rate ON fleet_spend (model, at);
CREATE INDEX fleet_spend_at ON fleet_spend (at);

-- The tokens of a day: of each agent, and under '' of all. Kept beside the rows above, so that nothing is summed.
CREATE TABLE fleet_day (
    day date NOT NULL,
    agent text NOT NULL,
    tokens bigint NOT NULL,
    PRIMARY KEY (day, agent)
);

-- The circuit breaker of each model; its row is also the lock under which the model's rate is counted.
CREATE TABLE fleet_model (
    model text PRIMARY KEY,
    circuit jsonb NOT NULL
);
