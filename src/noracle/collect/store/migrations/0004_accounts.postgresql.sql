-- As before, but who left a project is no member of it.
CREATE OR REPLACE FUNCTION noracle_enter(p_token TEXT, p_project BIGINT, p_now DOUBLE PRECISION, OUT person BIGINT, OUT alias TEXT, OUT state TEXT)
LANGUAGE plpgsql AS $$
DECLARE v_role TEXT;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(28271, p_project::integer);
    SELECT p.id, m.role, m.alias, j.state INTO person, v_role, alias, state
    FROM session s JOIN person p ON p.id = s.person_id
    LEFT JOIN project j ON j.id = p_project LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id AND m.left_at IS NULL
    WHERE s.token_hash = p_token AND s.expires_at > p_now AND p.active = 1;
    IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'NR401', MESSAGE = 'session'; END IF;
    IF v_role IS NULL THEN RAISE EXCEPTION USING ERRCODE = 'NR404', MESSAGE = 'project'; END IF;
    IF v_role <> 'annotator' THEN RAISE EXCEPTION USING ERRCODE = 'NR403', MESSAGE = 'role'; END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('noracle ' || p_project || ' ' || person, 7));
END $$;
