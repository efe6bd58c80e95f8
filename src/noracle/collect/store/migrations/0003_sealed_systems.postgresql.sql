-- An event is chained once; then its time may grow to that of the event before it.
CREATE OR REPLACE FUNCTION noracle_chain_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq IS NOT NULL OR NEW.at < OLD.at OR (NEW.id, NEW.project_id, NEW.actor, NEW.kind, NEW.payload)
        IS DISTINCT FROM (OLD.id, OLD.project_id, OLD.actor, OLD.kind, OLD.payload) THEN
        RAISE EXCEPTION 'rows of event are never changed or deleted';
    END IF;
    RETURN NEW;
END $$;
