-- Imports that can be undone, files that wait for a look at their columns, and calls to other services.
CREATE TABLE item_import (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), items {int} NOT NULL, gold {int} NOT NULL, at {real} NOT NULL
);
ALTER TABLE item ADD COLUMN import_id {int};
CREATE INDEX item_of_import ON item (import_id);
CREATE TABLE upload (
    project_id {int} NOT NULL REFERENCES project (id), person_id {int} NOT NULL REFERENCES person (id), name TEXT NOT NULL, bytes {blob} NOT NULL,
    at {real} NOT NULL, PRIMARY KEY (project_id, person_id)
);
-- A delivery waits until somebody took it; the trigger puts it down with its event, so that none is lost.
CREATE TABLE webhook (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), url TEXT NOT NULL, at {real} NOT NULL, fault TEXT NOT NULL DEFAULT '',
    UNIQUE (project_id, url)
);
CREATE TABLE delivery (
    id {id}, webhook_id {int} NOT NULL REFERENCES webhook (id), event_id {int} NOT NULL REFERENCES event (id), tries {int} NOT NULL DEFAULT 0,
    at {real} NOT NULL, next_at {real} NOT NULL DEFAULT 0
);
CREATE INDEX delivery_due ON delivery (next_at);
