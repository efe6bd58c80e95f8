-- Answers and events are appended, never changed.
CREATE TRIGGER answer_no_update BEFORE UPDATE ON answer BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER answer_no_delete BEFORE DELETE ON answer BEGIN SELECT RAISE(ABORT, 'answers are never deleted'); END;
CREATE TRIGGER event_no_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
