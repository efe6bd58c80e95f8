CREATE TRIGGER settled_append_only BEFORE UPDATE OR DELETE ON settled FOR EACH ROW EXECUTE FUNCTION noracle_append_only();
CREATE TRIGGER settled_no_truncate BEFORE TRUNCATE ON settled FOR EACH STATEMENT EXECUTE FUNCTION noracle_append_only();

-- A question that is to be asked again waits, leased to nobody, until the answer that asks for it cannot be taken back (60 s).
CREATE OR REPLACE FUNCTION noracle_return_late(p_project BIGINT, p_now DOUBLE PRECISION) RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE q RECORD;
BEGIN
    FOR q IN
        SELECT o.id, o.item_id, o.person_id, o.place, o.lease, o.leased_at, o.lease_until, m.alias FROM question o
        LEFT JOIN membership m ON m.project_id = o.project_id AND m.person_id = o.person_id
        WHERE o.project_id = p_project AND o.status = 1 AND (o.lease_until <= p_now OR o.leased_at > p_now + 5)
        ORDER BY o.lease_until, o.id FOR NO KEY UPDATE OF o SKIP LOCKED
    LOOP
        IF q.lease_until > p_now THEN  -- it was given before the clock stepped back
            UPDATE question SET leased_at = p_now, lease_until = p_now + q.lease_until - q.leased_at WHERE id = q.id;
            CONTINUE;
        END IF;
        UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = q.id;
        CONTINUE WHEN q.alias IS NULL;
        INSERT INTO held (item_id, person_id, question_id) VALUES (q.item_id, q.person_id, q.id) ON CONFLICT DO NOTHING;
        INSERT INTO event (project_id, at, actor, kind, payload) VALUES (
            p_project, p_now, q.alias, 'lease-expired',
            format('{"lease":%s,"place":%s,"question":%s,"until":%s}', q.lease, q.place, q.id, noracle_float(q.lease_until)));
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION noracle_serve(p_project BIGINT, p_person BIGINT, p_now DOUBLE PRECISION, p_seconds DOUBLE PRECISION, p_new_key TEXT)
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
    v_done := (SELECT COUNT(*) FROM answer a WHERE a.project_id = p_project AND a.person_id = p_person AND a.revision = a.undone)
        - (SELECT COUNT(*) FROM settled s WHERE s.project_id = p_project AND s.person_id = p_person AND s.undone = 1);
    RETURN QUERY SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.lease_until, q.key, v_done
    FROM question q JOIN item i ON i.id = q.item_id WHERE q.id = v_id;
END $$;

CREATE OR REPLACE FUNCTION noracle_answer(p_token TEXT, p_project BIGINT, p_question BIGINT, p_key TEXT, p_value TEXT, p_shown_at DOUBLE PRECISION,
    p_client_ms BIGINT, p_now DOUBLE PRECISION, p_next BOOLEAN, p_protocol TEXT, p_trap BOOLEAN, p_reasks BIGINT, p_seconds DOUBLE PRECISION,
    p_new_key TEXT)
RETURNS TABLE (o_answer BIGINT, o_revision BIGINT, o_again BOOLEAN, o_question BIGINT, o_item BIGINT, o_shown TEXT, o_lease BIGINT,
    o_content TEXT, o_options TEXT, o_until DOUBLE PRECISION, o_key TEXT, o_done BIGINT)
LANGUAGE plpgsql AS $$
DECLARE g RECORD; b RECORD; q RECORD; v_shown_at DOUBLE PRECISION; v_undone BIGINT;
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
        SELECT COUNT(*) INTO v_undone FROM answer a WHERE a.question_id = p_question;
        INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key, undone)
        VALUES (p_project, p_question, v_undone, g.person, p_value, v_shown_at, p_now, p_client_ms, p_key, v_undone) RETURNING id INTO o_answer;
        UPDATE question SET status = 2 WHERE id = p_question;
        IF p_value ~ '^unsure(\|unsure)*$' AND q.kind IN ('main', 'reask') AND q.draw / 1000 < p_reasks THEN
            INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity, status, lease_until)
            VALUES (p_project, q.item_id, q.place, q.draw + 1000, 'reask', q.pool, q.shown, q.propensity, 1, p_now + 60);
        END IF;
        PERFORM noracle_log_answer(p_project, g.alias, 'answer', o_answer, p_question, q.place, v_undone, p_value, v_shown_at, p_now);
        o_revision := v_undone; o_again := FALSE;
    END IF;
    IF p_next AND g.state = 'open' AND p_seconds > 0 THEN
        SELECT n.o_question, n.o_item, n.o_shown, n.o_lease, n.o_content, n.o_options, n.o_until, n.o_key, n.o_done
        INTO o_question, o_item, o_shown, o_lease, o_content, o_options, o_until, o_key, o_done
        FROM noracle_serve(p_project, g.person, p_now, p_seconds, p_new_key) n;
    END IF;
    RETURN NEXT;
END $$;

CREATE OR REPLACE FUNCTION noracle_amend(p_token TEXT, p_project BIGINT, p_answer BIGINT, p_key TEXT, p_value TEXT, p_now DOUBLE PRECISION,
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
    SELECT a.question_id, a.shown_at, a.undone, q.place, q.shown,
        (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = a.question_id) AS revision
    INTO l FROM answer a JOIN question q ON q.id = a.question_id
    WHERE a.project_id = p_project AND a.person_id = g.person AND a.revision = a.undone
    AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id AND s.undone = 1) ORDER BY a.id DESC LIMIT 1;
    IF l.question_id IS DISTINCT FROM v_mine THEN RAISE EXCEPTION USING ERRCODE = 'NR409', MESSAGE = 'last'; END IF;
    IF NOT noracle_fits(p_protocol, p_trap, l.shown, p_value) THEN RAISE EXCEPTION USING ERRCODE = 'NR422', MESSAGE = 'value'; END IF;
    o_question := v_mine; o_revision := l.revision + 1; o_again := FALSE;
    INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key, undone)
    VALUES (p_project, v_mine, o_revision, g.person, p_value, l.shown_at, p_now, NULL, p_key, l.undone) RETURNING id INTO o_answer;
    PERFORM noracle_log_answer(p_project, g.alias, 'amended', o_answer, v_mine, l.place, o_revision, p_value, l.shown_at, p_now);
    RETURN NEXT;
END $$;
