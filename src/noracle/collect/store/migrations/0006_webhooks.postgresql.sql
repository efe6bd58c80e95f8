CREATE FUNCTION noracle_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO delivery (webhook_id, event_id, at) SELECT id, NEW.id, NEW.at FROM webhook WHERE project_id = NEW.project_id;
    RETURN NULL;
END $$;
CREATE TRIGGER event_told AFTER INSERT ON event FOR EACH ROW WHEN (NEW.kind IN ('answer', 'undone', 'closed', 'alarm')) EXECUTE FUNCTION noracle_tell();
