-- An event is chained once; then its time may grow to that of the event before it.
CREATE OR REPLACE FUNCTION noracle_chain_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq IS NOT NULL OR NEW.at < OLD.at OR (NEW.id, NEW.project_id, NEW.actor, NEW.kind, NEW.payload)
        IS DISTINCT FROM (OLD.id, OLD.project_id, OLD.actor, OLD.kind, OLD.payload) THEN
        RAISE EXCEPTION 'rows of event are never changed or deleted';
    END IF;
    RETURN NEW;
END $$;

-- A lease from the future is one from before a clock that stepped back: it begins again.
CREATE OR REPLACE FUNCTION noracle_return_late(p_project BIGINT, p_now DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE q RECORD;
BEGIN
    FOR q IN
        SELECT o.id, o.item_id, o.person_id, o.place, o.lease, o.leased_at, o.lease_until, m.alias FROM question o
        JOIN membership m ON m.project_id = o.project_id AND m.person_id = o.person_id
        WHERE o.project_id = p_project AND o.status = 1 AND (o.lease_until <= p_now OR o.leased_at > p_now + 5)
        ORDER BY o.lease_until, o.id FOR NO KEY UPDATE OF o SKIP LOCKED
    LOOP
        IF q.lease_until > p_now THEN
            UPDATE question SET leased_at = p_now, lease_until = p_now + q.lease_until - q.leased_at WHERE id = q.id;
            CONTINUE;
        END IF;
        UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = q.id;
        INSERT INTO held (item_id, person_id, question_id) VALUES (q.item_id, q.person_id, q.id) ON CONFLICT DO NOTHING;
        INSERT INTO event (project_id, at, actor, kind, payload) VALUES (
            p_project, p_now, q.alias, 'lease-expired',
            format('{"lease":%s,"place":%s,"question":%s,"until":%s}', q.lease, q.place, q.id, noracle_float(q.lease_until)));
    END LOOP;
END $$;
