-- Answers that were taken back, and comments on items.

-- undone: how many answers to the question had been taken back before this one. The answers that were given have revision = undone; the others
-- amend one.
ALTER TABLE answer ADD COLUMN undone {int} NOT NULL DEFAULT 0;
DROP INDEX answer_first;
CREATE INDEX answer_person ON answer (project_id, person_id, id, revision, undone);

-- An answer is settled before its time: taken back (undone = 1), or made final by leaving (0).
CREATE TABLE settled (
    answer_id {int} PRIMARY KEY REFERENCES answer (id), project_id {int} NOT NULL REFERENCES project (id),
    person_id {int} NOT NULL REFERENCES person (id), at {real} NOT NULL, undone {int} NOT NULL
);
CREATE INDEX settled_undone ON settled (project_id, person_id) WHERE undone = 1;

-- What people say about an item; never in an estimate, an event or an export.
CREATE TABLE comment (
    id {id}, project_id {int} NOT NULL REFERENCES project (id), question_id {int} NOT NULL REFERENCES question (id),
    person_id {int} NOT NULL REFERENCES person (id), at {real} NOT NULL, broken {int} NOT NULL, text TEXT NOT NULL
);
CREATE INDEX comment_project ON comment (project_id, id);
