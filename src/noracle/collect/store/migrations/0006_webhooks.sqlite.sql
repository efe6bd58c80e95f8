CREATE TRIGGER event_told AFTER INSERT ON event WHEN NEW.kind IN ('answer', 'undone', 'closed', 'alarm') BEGIN
    INSERT INTO delivery (webhook_id, event_id, at) SELECT id, NEW.id, NEW.at FROM webhook WHERE project_id = NEW.project_id;
END;
