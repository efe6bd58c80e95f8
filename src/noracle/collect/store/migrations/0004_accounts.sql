-- Passwords that can be changed, devices that are known, members who left; long changes of a draft in short transactions.

ALTER TABLE membership ADD COLUMN left_at {real};

-- While a draft is being filled or sealed: when the last step was, and the last item before it began. NULL when nobody is at it.
ALTER TABLE project ADD COLUMN busy {real};
ALTER TABLE project ADD COLUMN busy_from {int};

-- Links that set a new password, once; project_id is that of the manager who made it, NULL for the command line.
CREATE TABLE reset (
    token_hash TEXT PRIMARY KEY, person_id {int} NOT NULL REFERENCES person (id), project_id {int} REFERENCES project (id), expires_at {real} NOT NULL
);
-- Browsers in which a person has signed in: their attempts are counted apart, so that a stranger's do not lock the person out.
CREATE TABLE device (token_hash TEXT PRIMARY KEY, person_id {int} NOT NULL REFERENCES person (id), seen_at {real} NOT NULL);
CREATE INDEX device_person ON device (person_id);
-- Accounts at an OpenID Connect provider.
CREATE TABLE identity (
    issuer TEXT NOT NULL, subject TEXT NOT NULL, person_id {int} NOT NULL REFERENCES person (id), PRIMARY KEY (issuer, subject)
);
-- What the server tells the command line: its address.
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
