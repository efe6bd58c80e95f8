-- Tables of the collection service. {id} is a growing integer key, {int} a whole number, {real} a float, {blob} bytes of the database in use.
-- Times are seconds since 1970. Personal data stand in person alone; events name people by the alias of their membership.

CREATE TABLE person (
    id {id}, email TEXT UNIQUE, name TEXT, password TEXT, locale TEXT NOT NULL DEFAULT 'en', active {int} NOT NULL DEFAULT 1,
    created_at {real} NOT NULL, forgotten_at {real}
);

CREATE TABLE session (
    token_hash TEXT PRIMARY KEY, person_id {int} NOT NULL REFERENCES person (id), created_at {real} NOT NULL, seen_at {real} NOT NULL,
    expires_at {real} NOT NULL
);
CREATE INDEX session_person ON session (person_id);

CREATE TABLE project (
    id {id}, slug TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'sealed', 'open', 'closed')),
    spec TEXT NOT NULL, seed {blob}, commitment TEXT, root TEXT, n_routes {int} NOT NULL DEFAULT 0,
    created_at {real} NOT NULL, sealed_at {real}, opened_at {real}, closed_at {real},
    last_seq {int} NOT NULL DEFAULT 0, head TEXT NOT NULL DEFAULT ''
);

CREATE TABLE membership (
    project_id {int} NOT NULL REFERENCES project (id), person_id {int} NOT NULL REFERENCES person (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'manager', 'annotator', 'auditor')), alias TEXT NOT NULL, joined_at {real} NOT NULL,
    PRIMARY KEY (project_id, person_id), UNIQUE (project_id, alias)
);
CREATE TABLE pool_member (
    project_id {int} NOT NULL, pool {int} NOT NULL, person_id {int} NOT NULL,
    PRIMARY KEY (project_id, pool, person_id), FOREIGN KEY (project_id, person_id) REFERENCES membership (project_id, person_id)
);
CREATE INDEX pool_of_person ON pool_member (project_id, person_id);

CREATE TABLE invitation (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), role TEXT NOT NULL, pool {int}, token_hash TEXT NOT NULL UNIQUE,
    created_by {int} REFERENCES person (id), created_at {real} NOT NULL, expires_at {real} NOT NULL, used_at {real}, used_by {int}, revoked_at {real}
);

-- chances: the recorded chance of each class of a targeted design, as JSON; else NULL.
CREATE TABLE item (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), name TEXT NOT NULL, content TEXT NOT NULL, sha256 TEXT NOT NULL, options TEXT,
    chances TEXT, UNIQUE (project_id, name)
);
CREATE TABLE image (
    project_id {int} NOT NULL REFERENCES project (id), sha256 TEXT NOT NULL, media TEXT NOT NULL, bytes {blob} NOT NULL,
    PRIMARY KEY (project_id, sha256)
);
-- No query of an annotator reads this table or prediction.
CREATE TABLE gold (item_id {int} PRIMARY KEY REFERENCES item (id), truth {int} NOT NULL);

CREATE TABLE question (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), item_id {int} NOT NULL REFERENCES item (id), place {int} NOT NULL,
    draw {int} NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('main', 'gold', 'panel', 'attention', 'reask')), pool {int} NOT NULL,
    shown TEXT NOT NULL, propensity {real} NOT NULL,
    status {int} NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3)), person_id {int} REFERENCES person (id), lease {int} NOT NULL DEFAULT 0,
    leased_at {real}, lease_until {real}, key TEXT
);
CREATE UNIQUE INDEX question_place ON question (project_id, place, draw);
CREATE INDEX question_open ON question (project_id, pool, place) WHERE status = 0;
CREATE UNIQUE INDEX question_one_lease ON question (project_id, person_id) WHERE status = 1;
CREATE INDEX question_lease ON question (project_id, lease_until) WHERE status = 1;
CREATE INDEX question_item ON question (item_id, person_id);

CREATE TABLE answer (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), question_id {int} NOT NULL REFERENCES question (id), revision {int} NOT NULL,
    person_id {int} NOT NULL REFERENCES person (id), value TEXT NOT NULL, shown_at {real} NOT NULL, received_at {real} NOT NULL,
    client_ms {int}, key TEXT NOT NULL, UNIQUE (question_id, revision)
);
CREATE UNIQUE INDEX answer_key ON answer (project_id, key);
CREATE INDEX answer_project ON answer (project_id, id);

-- seq, prev and hash chain the events of a project in one order.
CREATE TABLE event (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), at {real} NOT NULL, actor TEXT NOT NULL, kind TEXT NOT NULL,
    payload TEXT NOT NULL, seq {int}, prev TEXT, hash TEXT
);
CREATE UNIQUE INDEX event_seq ON event (project_id, seq);
CREATE INDEX event_loose ON event (project_id, id) WHERE seq IS NULL;

CREATE TABLE system (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), name TEXT NOT NULL, sha256 TEXT NOT NULL, uploaded_at {real} NOT NULL,
    UNIQUE (project_id, name)
);
CREATE TABLE prediction (
    system_id {int} NOT NULL REFERENCES system (id), item_id {int} NOT NULL REFERENCES item (id), answer {int}, PRIMARY KEY (system_id, item_id)
);

CREATE TABLE throttle (key TEXT NOT NULL, at {real} NOT NULL);
CREATE INDEX throttle_key ON throttle (key, at);
