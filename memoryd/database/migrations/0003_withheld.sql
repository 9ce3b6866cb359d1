ALTER TABLE turn ADD COLUMN withheld VARCHAR;

CREATE INDEX turn_withheld ON turn (withheld) WHERE withheld IS NOT NULL;
