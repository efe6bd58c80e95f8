-- Answers and events are appended, never changed; an event is chained once.
CREATE FUNCTION noracle_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME;
END $$;
CREATE FUNCTION noracle_chain_once() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.seq IS NOT NULL OR (NEW.id, NEW.project_id, NEW.at, NEW.actor, NEW.kind, NEW.payload)
        IS DISTINCT FROM (OLD.id, OLD.project_id, OLD.at, OLD.actor, OLD.kind, OLD.payload) THEN
        RAISE EXCEPTION 'rows of event are never changed or deleted';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER answer_append_only BEFORE UPDATE OR DELETE ON answer FOR EACH ROW EXECUTE FUNCTION noracle_append_only();
CREATE TRIGGER answer_no_truncate BEFORE TRUNCATE ON answer FOR EACH STATEMENT EXECUTE FUNCTION noracle_append_only();
CREATE TRIGGER event_append_only BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION noracle_append_only();
CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION noracle_append_only();
CREATE TRIGGER event_chain_once BEFORE UPDATE ON event FOR EACH ROW EXECUTE FUNCTION noracle_chain_once();

-- A float as canonical JSON writes it (times: at least 0.0001 or zero, below 1e15).
CREATE FUNCTION noracle_float(x DOUBLE PRECISION) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN x::text ~ '[.e]' THEN x::text ELSE x::text || '.0' END
$$;

-- The rules are those of hot.py. Errors are SQLSTATE NR and the HTTP status; the message names a sentence there.
-- A caller that read no specification, because the project was not open yet, passes p_seconds = 0 and p_protocol = ''.
-- Locks, always in this order: the project (shared; what is logged elsewhere takes it alone), the person in the project, one question.
CREATE FUNCTION noracle_enter(p_token TEXT, p_project BIGINT, p_now DOUBLE PRECISION, OUT person BIGINT, OUT alias TEXT, OUT state TEXT)
LANGUAGE plpgsql AS $$
DECLARE v_role TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(28271, p_project::integer);
    SELECT p.id, m.role, m.alias, j.state INTO person, v_role, alias, state
    FROM session s JOIN person p ON p.id = s.person_id
    LEFT JOIN project j ON j.id = p_project LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id
    WHERE s.token_hash = p_token AND s.expires_at > p_now AND p.active = 1;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'NR401', MESSAGE = 'session'; END IF;
    IF v_role IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'NR404', MESSAGE = 'project'; END IF;
    IF v_role <> 'annotator' THEN RAISE EXCEPTION USING ERRCODE = 'NR403', MESSAGE = 'role'; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('noracle ' || p_project || ' ' || person, 7));
END $$;

CREATE FUNCTION noracle_return_late(p_project BIGINT, p_now DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE q RECORD;
BEGIN
    FOR q IN
        SELECT o.id, o.item_id, o.person_id, o.place, o.lease, o.lease_until, m.alias FROM question o
        JOIN membership m ON m.project_id = o.project_id AND m.person_id = o.person_id
        WHERE o.project_id = p_project AND o.status = 1 AND o.lease_until <= p_now
        ORDER BY o.lease_until, o.id FOR NO KEY UPDATE OF o SKIP LOCKED
    LOOP
        UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = q.id;
        INSERT INTO held (item_id, person_id, question_id) VALUES (q.item_id, q.person_id, q.id) ON CONFLICT DO NOTHING;
        INSERT INTO event (project_id, at, actor, kind, payload) VALUES (
            p_project, p_now, q.alias, 'lease-expired',
            format('{"lease":%s,"place":%s,"question":%s,"until":%s}', q.lease, q.place, q.id, noracle_float(q.lease_until)));
    END LOOP;
END $$;

-- The open question with the lowest place among the person's pools, locked; NULL if there is none.
CREATE FUNCTION noracle_pick(p_project BIGINT, p_person BIGINT) RETURNS BIGINT LANGUAGE plpgsql AS $$
DECLARE v_id BIGINT; v_found BIGINT; v_pools BIGINT[]; v_taken BIGINT[] := '{}';
BEGIN
    SELECT array_agg(pool) INTO v_pools FROM pool_member WHERE project_id = p_project AND person_id = p_person;
    IF v_pools IS NULL THEN RETURN NULL; END IF;
    IF cardinality(v_pools) = 1 THEN
        SELECT o.id INTO v_id FROM question o WHERE o.project_id = p_project AND o.pool = v_pools[1] AND o.status = 0
        AND NOT EXISTS (SELECT 1 FROM question d WHERE d.item_id = o.item_id AND d.person_id = p_person)
        AND NOT EXISTS (SELECT 1 FROM held h WHERE h.item_id = o.item_id AND h.person_id = p_person AND h.question_id <> o.id)
        ORDER BY o.place LIMIT 1 FOR NO KEY UPDATE OF o SKIP LOCKED;
        RETURN v_id;
    END IF;
    LOOP
        SELECT c.id INTO v_id FROM unnest(v_pools) AS m (pool) CROSS JOIN LATERAL (
            SELECT o.id, o.place FROM question o WHERE o.project_id = p_project AND o.pool = m.pool AND o.status = 0
            AND o.id <> ALL (v_taken)
            AND NOT EXISTS (SELECT 1 FROM question d WHERE d.item_id = o.item_id AND d.person_id = p_person)
            AND NOT EXISTS (SELECT 1 FROM held h WHERE h.item_id = o.item_id AND h.person_id = p_person AND h.question_id <> o.id)
            ORDER BY o.place LIMIT 1) c
        ORDER BY c.place LIMIT 1;
        IF v_id IS NULL THEN RETURN NULL; END IF;
        SELECT id INTO v_found FROM question WHERE id = v_id AND status = 0 FOR NO KEY UPDATE SKIP LOCKED;
        IF v_found IS NOT NULL THEN RETURN v_found; END IF;
        v_taken := v_taken || v_id;
    END LOOP;
END $$;

CREATE FUNCTION noracle_serve(p_project BIGINT, p_person BIGINT, p_now DOUBLE PRECISION, p_seconds DOUBLE PRECISION, p_new_key TEXT)
RETURNS TABLE (o_question BIGINT, o_item BIGINT, o_shown TEXT, o_lease BIGINT, o_content TEXT, o_options TEXT, o_until DOUBLE PRECISION,
    o_key TEXT, o_done BIGINT)
LANGUAGE plpgsql AS $$
DECLARE v_id BIGINT; v_done BIGINT;
BEGIN
    PERFORM noracle_return_late(p_project, p_now);
    SELECT q.id INTO v_id FROM question q WHERE q.project_id = p_project AND q.person_id = p_person AND q.status = 1
    FOR NO KEY UPDATE;  -- so that nobody returns it between this line and the last
    IF v_id IS NULL THEN
        v_id := noracle_pick(p_project, p_person);
        IF v_id IS NULL THEN RETURN; END IF;
        UPDATE question SET status = 1, person_id = p_person, lease = lease + 1, leased_at = p_now, lease_until = p_now + p_seconds,
            key = p_new_key WHERE id = v_id;
    END IF;
    SELECT COUNT(*) INTO v_done FROM answer a WHERE a.project_id = p_project AND a.person_id = p_person AND a.revision = 0;
    RETURN QUERY SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.lease_until, q.key, v_done
    FROM question q JOIN item i ON i.id = q.item_id WHERE q.id = v_id;
END $$;

CREATE FUNCTION noracle_next(p_token TEXT, p_project BIGINT, p_now DOUBLE PRECISION, p_seconds DOUBLE PRECISION, p_new_key TEXT)
RETURNS TABLE (o_question BIGINT, o_item BIGINT, o_shown TEXT, o_lease BIGINT, o_content TEXT, o_options TEXT, o_until DOUBLE PRECISION,
    o_key TEXT, o_done BIGINT)
LANGUAGE plpgsql AS $$
DECLARE g RECORD;
BEGIN
    g := noracle_enter(p_token, p_project, p_now);
    IF g.state <> 'open' OR p_seconds <= 0 THEN RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'state'; END IF;
    RETURN QUERY SELECT * FROM noracle_serve(p_project, g.person, p_now, p_seconds, p_new_key);
END $$;

CREATE FUNCTION noracle_fits(p_protocol TEXT, p_trap BOOLEAN, p_shown TEXT, p_value TEXT) RETURNS BOOLEAN LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_protocol
        WHEN 'partitioned' THEN p_value IN ('yes', 'no', 'unsure')
        WHEN 'judge-all' THEN COALESCE(array_length(string_to_array(p_value, '|'), 1), 0) = jsonb_array_length(p_shown::jsonb)
            AND string_to_array(p_value, '|') <@ ARRAY['yes', 'no', 'unsure']
        ELSE p_value = 'unsure' OR p_value IN (SELECT jsonb_array_elements_text(p_shown::jsonb))
            OR (p_protocol = 'pick-wrong' AND p_trap AND p_value = 'none') END
$$;

CREATE FUNCTION noracle_log_answer(p_project BIGINT, p_alias TEXT, p_kind TEXT, p_answer BIGINT, p_question BIGINT, p_place BIGINT,
    p_revision BIGINT, p_value TEXT, p_shown_at DOUBLE PRECISION, p_now DOUBLE PRECISION)
RETURNS VOID LANGUAGE sql AS $$
    INSERT INTO event (project_id, at, actor, kind, payload) VALUES (p_project, p_now, p_alias, p_kind,
        format('{"answer":%s,"place":%s,"question":%s,"received_at":%s,"revision":%s,"shown_at":%s,"value":%s}', p_answer, p_place, p_question,
            noracle_float(p_now), p_revision, noracle_float(p_shown_at), to_json(p_value)::text))
$$;

CREATE FUNCTION noracle_answer(p_token TEXT, p_project BIGINT, p_question BIGINT, p_key TEXT, p_value TEXT, p_shown_at DOUBLE PRECISION,
    p_client_ms BIGINT, p_now DOUBLE PRECISION, p_next BOOLEAN, p_protocol TEXT, p_trap BOOLEAN, p_reasks BIGINT, p_seconds DOUBLE PRECISION,
    p_new_key TEXT)
RETURNS TABLE (o_answer BIGINT, o_revision BIGINT, o_again BOOLEAN, o_question BIGINT, o_item BIGINT, o_shown TEXT, o_lease BIGINT,
    o_content TEXT, o_options TEXT, o_until DOUBLE PRECISION, o_key TEXT, o_done BIGINT)
LANGUAGE plpgsql AS $$
DECLARE g RECORD; b RECORD; q RECORD; v_shown_at DOUBLE PRECISION;
BEGIN
    g := noracle_enter(p_token, p_project, p_now);
    SELECT a.id, a.question_id, a.revision, a.person_id, a.value INTO b FROM answer a WHERE a.project_id = p_project AND a.key = p_key;
    IF FOUND THEN
        IF b.person_id <> g.person OR b.value <> p_value OR b.question_id <> p_question THEN
            RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'key';
        END IF;
        o_answer := b.id; o_revision := b.revision; o_again := TRUE;
    ELSE
        IF g.state <> 'open' OR p_seconds <= 0 THEN RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'state'; END IF;
        SELECT * INTO q FROM question o WHERE o.id = p_question AND o.project_id = p_project FOR NO KEY UPDATE;
        IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'NR404', MESSAGE = 'question'; END IF;
        IF q.status <> 1 OR q.person_id <> g.person OR q.key <> p_key THEN
            RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'lease';
        END IF;
        IF NOT noracle_fits(p_protocol, p_trap, q.shown, p_value) THEN
            RAISE EXCEPTION USING ERRCODE = 'NR422', MESSAGE = 'value';
        END IF;
        v_shown_at := LEAST(GREATEST(p_shown_at, q.leased_at), p_now);
        INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key)
        VALUES (p_project, p_question, 0, g.person, p_value, v_shown_at, p_now, p_client_ms, p_key) RETURNING id INTO o_answer;
        UPDATE question SET status = 2 WHERE id = p_question;
        IF p_value ~ '^unsure(\|unsure)*$' AND q.kind IN ('main', 'reask') AND q.draw / 1000 < p_reasks THEN
            INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity)
            VALUES (p_project, q.item_id, q.place, q.draw + 1000, 'reask', q.pool, q.shown, q.propensity);
        END IF;
        PERFORM noracle_log_answer(p_project, g.alias, 'answer', o_answer, p_question, q.place, 0, p_value, v_shown_at, p_now);
        o_revision := 0; o_again := FALSE;
    END IF;
    IF p_next AND g.state = 'open' AND p_seconds > 0 THEN
        SELECT n.o_question, n.o_item, n.o_shown, n.o_lease, n.o_content, n.o_options, n.o_until, n.o_key, n.o_done
        INTO o_question, o_item, o_shown, o_lease, o_content, o_options, o_until, o_key, o_done
        FROM noracle_serve(p_project, g.person, p_now, p_seconds, p_new_key) n;
    END IF;
    RETURN NEXT;
END $$;

CREATE FUNCTION noracle_amend(p_token TEXT, p_project BIGINT, p_answer BIGINT, p_key TEXT, p_value TEXT, p_now DOUBLE PRECISION,
    p_protocol TEXT, p_trap BOOLEAN)
RETURNS TABLE (o_answer BIGINT, o_question BIGINT, o_revision BIGINT, o_again BOOLEAN) LANGUAGE plpgsql AS $$
DECLARE g RECORD; b RECORD; l RECORD; v_mine BIGINT;
BEGIN
    g := noracle_enter(p_token, p_project, p_now);
    SELECT a.question_id INTO v_mine FROM answer a WHERE a.id = p_answer AND a.project_id = p_project AND a.person_id = g.person;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'NR404', MESSAGE = 'question'; END IF;
    SELECT a.id, a.question_id, a.revision, a.person_id, a.value INTO b FROM answer a WHERE a.project_id = p_project AND a.key = p_key;
    IF FOUND THEN
        IF b.person_id <> g.person OR b.value <> p_value OR b.question_id <> v_mine THEN
            RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'key';
        END IF;
        o_answer := b.id; o_question := v_mine; o_revision := b.revision; o_again := TRUE;
        RETURN NEXT; RETURN;
    END IF;
    IF g.state <> 'open' OR p_protocol = '' THEN RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'state'; END IF;
    SELECT a.question_id, a.shown_at, q.place, q.shown,
        (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = a.question_id) AS revision
    INTO l FROM answer a JOIN question q ON q.id = a.question_id
    WHERE a.project_id = p_project AND a.person_id = g.person AND a.revision = 0 ORDER BY a.id DESC LIMIT 1;
    IF l.question_id <> v_mine THEN RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'last'; END IF;
    IF NOT noracle_fits(p_protocol, p_trap, l.shown, p_value) THEN RAISE EXCEPTION USING ERRCODE = 'NR422', MESSAGE = 'value'; END IF;
    o_question := v_mine; o_revision := l.revision + 1; o_again := FALSE;
    INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key)
    VALUES (p_project, v_mine, o_revision, g.person, p_value, l.shown_at, p_now, NULL, p_key) RETURNING id INTO o_answer;
    PERFORM noracle_log_answer(p_project, g.alias, 'amended', o_answer, v_mine, l.place, o_revision, p_value, l.shown_at, p_now);
    RETURN NEXT;
END $$;
