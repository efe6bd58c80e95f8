-- Systems that came after the first answer, commitments to answers that are revealed later, and steps of the clock.
ALTER TABLE system ADD COLUMN late {int} NOT NULL DEFAULT 0;
ALTER TABLE system ADD COLUMN commitment TEXT;
ALTER TABLE system ADD COLUMN salt TEXT;
CREATE TABLE committed (
    project_id {int} NOT NULL REFERENCES project (id), name TEXT NOT NULL, commitment TEXT NOT NULL, committed_at {real} NOT NULL,
    PRIMARY KEY (project_id, name)
);
CREATE INDEX event_closed ON event (project_id) WHERE kind = 'closed';
CREATE INDEX event_stepped ON event (project_id, seq) WHERE kind = 'clock-stepped';

-- What the chain says of the systems that are there already.
UPDATE system SET late = 1 WHERE EXISTS (
    SELECT 1 FROM event e WHERE e.project_id = system.project_id AND e.kind = 'system-added' AND e.at = system.uploaded_at
    AND e.payload LIKE '%"' || system.sha256 || '"%'
    AND EXISTS (SELECT 1 FROM event a WHERE a.project_id = e.project_id AND a.kind = 'answer' AND a.id < e.id));
