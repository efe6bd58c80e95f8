-- name: project
SELECT * FROM project WHERE id = :project
-- name: project_by_slug
SELECT * FROM project WHERE slug = :slug
-- name: lock_project
UPDATE project SET state = state WHERE id = :project
-- name: add_project
INSERT INTO project (slug, name, spec, created_at) VALUES (:slug, :name, :spec, :now)
ON CONFLICT (slug) DO NOTHING RETURNING id
-- name: set_spec
UPDATE project SET spec = :spec WHERE id = :project
-- name: seal
UPDATE project SET state = 'sealed', seed = :seed, commitment = :commitment, root = :root, n_routes = :n,
sealed_at = :now WHERE id = :project
-- name: open
UPDATE project SET state = 'open', opened_at = :now WHERE id = :project
-- name: close
UPDATE project SET state = 'closed', closed_at = :now WHERE id = :project
-- name: projects_of
SELECT j.slug, j.name, j.state, m.role FROM membership m JOIN project j ON j.id = m.project_id
WHERE m.person_id = :person AND m.left_at IS NULL ORDER BY j.created_at DESC, j.id DESC

-- name: items
SELECT i.id, i.name, i.sha256, i.content, i.options, i.chances, g.truth FROM item i
LEFT JOIN gold g ON g.item_id = i.id WHERE i.project_id = :project ORDER BY i.id
-- name: item_ids
SELECT id, name FROM item WHERE project_id = :project
-- name: count_items
SELECT COUNT(*) AS n FROM item WHERE project_id = :project
-- name: add_item
INSERT INTO item (project_id, name, content, sha256, import_id) VALUES (:project, :name, :content, :sha256, :batch)
-- name: add_gold
INSERT INTO gold (item_id, truth) SELECT id, :truth FROM item WHERE project_id = :project AND name = :name
-- name: gold
SELECT g.item_id, i.name, g.truth FROM gold g JOIN item i ON i.id = g.item_id WHERE i.project_id = :project
-- name: set_content
UPDATE item SET content = :content, sha256 = :sha256 WHERE id = :id
-- name: set_options
UPDATE item SET options = :options WHERE id = :id
-- name: set_chances
UPDATE item SET chances = :chances WHERE id = :id
-- name: images
SELECT sha256 FROM image WHERE project_id = :project
-- name: image
SELECT media, bytes FROM image WHERE project_id = :project AND sha256 = :sha256
-- name: add_image
INSERT INTO image (project_id, sha256, media, bytes) VALUES (:project, :sha256, :media, :bytes)
ON CONFLICT DO NOTHING
-- name: drop_image
DELETE FROM image WHERE project_id = :project AND sha256 = :sha256
-- name: contents_seen
SELECT i.content FROM question q JOIN item i ON i.id = q.item_id
WHERE q.project_id = :project AND q.person_id = :person ORDER BY q.leased_at DESC LIMIT 3

-- name: add_question
INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity)
VALUES (:project, :item, :place, :draw, :kind, :pool, :shown, :propensity)
-- name: routes
SELECT q.place, i.name AS item, q.draw, q.kind, q.pool, q.shown, q.propensity FROM question q
JOIN item i ON i.id = q.item_id WHERE q.project_id = :project AND q.kind <> 'reask' ORDER BY q.place
-- name: question_counts
SELECT pool, status, COUNT(*) AS n FROM question WHERE project_id = :project GROUP BY pool, status
-- name: question_span
SELECT MIN(id) AS first, MAX(id) AS last FROM question WHERE project_id = :project
-- name: propensities
SELECT id, propensity FROM question WHERE project_id = :project
-- name: questions_left
SELECT COUNT(*) AS n FROM question WHERE project_id = :project AND (status = 0 OR (status = 1 AND person_id = :person)) AND pool IN
(SELECT pool FROM pool_member WHERE project_id = :project AND person_id = :person)
-- name: held_by
SELECT id, place, lease, lease_until FROM question
WHERE project_id = :project AND person_id = :person AND status = 1
-- name: reopen
UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = :id

-- name: final_answers
SELECT a.id AS answer, a.value, a.shown_at, a.received_at, a.revision, q.id AS question, q.draw, q.kind, q.place, q.shown,
q.propensity, i.name AS item, m.alias AS rater FROM answer a JOIN question q ON q.id = a.question_id
JOIN item i ON i.id = q.item_id JOIN membership m ON m.project_id = a.project_id AND m.person_id = a.person_id
WHERE a.project_id = :project AND {final} ORDER BY a.id
-- name: all_answers
SELECT a.id AS answer, a.question_id AS question, q.place, q.draw, a.revision, m.alias AS rater, a.value, a.shown_at,
a.received_at, CASE WHEN {final} THEN 1 ELSE 0 END AS counts FROM answer a JOIN question q ON q.id = a.question_id
JOIN membership m ON m.project_id = a.project_id AND m.person_id = a.person_id
WHERE a.project_id = :project ORDER BY a.id
-- name: last_answer
SELECT f.id AS answer, l.value, q.id AS question, q.shown, i.content, i.options FROM answer f
JOIN question q ON q.id = f.question_id JOIN item i ON i.id = q.item_id
JOIN answer l ON l.question_id = f.question_id
AND l.revision = (SELECT MAX(r.revision) FROM answer r WHERE r.question_id = q.id)
WHERE f.project_id = :project AND f.person_id = :person AND f.revision = f.undone
AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = f.id AND s.undone = 1) ORDER BY f.id DESC LIMIT 1
-- name: answers_given
SELECT COUNT(*) AS n, COUNT(CASE WHEN a.received_at >= :day THEN 1 END) AS today FROM answer a
WHERE a.project_id = :project AND a.person_id = :person AND a.revision = a.undone
AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id AND s.undone = 1)

-- What counts is an answer that was given (revision = undone, so no amendment), was not taken back, and is final: the same
-- person's next answer, their leaving, or :recent (60 s) has passed. :recent is the end of time where the project is closed.
-- name: final
(a.revision = a.undone AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id AND s.undone = 1)
AND (a.received_at <= :recent OR EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id)
OR EXISTS (SELECT 1 FROM answer n WHERE n.project_id = a.project_id AND n.person_id = a.person_id AND n.id > a.id)))
-- name: last_event
SELECT at FROM event WHERE project_id = :project ORDER BY seq DESC LIMIT 1
-- name: latest
SELECT a.id, a.question_id, a.value, a.received_at, CASE WHEN a.revision = a.undone THEN 1 ELSE 0 END AS given,
s.undone, q.item_id, q.place, q.lease, q.status, q.person_id, r.id AS reask, r.lease AS reask_lease
FROM answer a JOIN question q ON q.id = a.question_id LEFT JOIN settled s ON s.answer_id = a.id
LEFT JOIN question r ON r.project_id = q.project_id AND r.place = q.place AND r.draw = q.draw + 1000
WHERE a.project_id = :project AND a.person_id = :person ORDER BY a.id DESC LIMIT 1
-- name: settle
INSERT INTO settled (answer_id, project_id, person_id, at, undone) VALUES (:answer, :project, :person, :now, :undone)
-- name: drop_question
DELETE FROM question WHERE id = :id
-- name: hold_item
INSERT INTO held (item_id, person_id, question_id) SELECT item_id, :person, id FROM question WHERE id = :id
ON CONFLICT DO NOTHING
-- name: lease_again
UPDATE question SET status = 1, person_id = :person, leased_at = :now, lease_until = :until, key = :key WHERE id = :id
-- name: asked_of
SELECT place FROM question WHERE id = :question AND project_id = :project AND person_id = :person
-- name: add_comment
INSERT INTO comment (project_id, question_id, person_id, at, broken, text)
VALUES (:project, :question, :person, :now, :broken, :text) RETURNING id
-- name: comments
SELECT c.id AS comment, i.name AS item, q.place, m.alias AS rater, c.at, c.broken, c.text FROM comment c
JOIN question q ON q.id = c.question_id JOIN item i ON i.id = q.item_id
JOIN membership m ON m.project_id = c.project_id AND m.person_id = c.person_id
WHERE c.project_id = :project ORDER BY c.id

-- name: systems
SELECT id, name, sha256, uploaded_at, late, commitment, salt FROM system WHERE project_id = :project ORDER BY id
-- name: add_system
INSERT INTO system (project_id, name, sha256, uploaded_at, commitment, salt)
VALUES (:project, :name, :sha256, :now, :commitment, :salt) ON CONFLICT DO NOTHING RETURNING id
-- name: place_system
UPDATE system SET uploaded_at = :at, sha256 = :sha256, late = CASE WHEN commitment IS NULL
AND EXISTS (SELECT 1 FROM answer WHERE project_id = :project) THEN 1 ELSE 0 END WHERE id = :system
-- name: any_answer
SELECT id FROM answer WHERE project_id = :project LIMIT 1
-- name: committed
SELECT name, commitment, committed_at FROM committed WHERE project_id = :project ORDER BY committed_at, name
-- name: commit_system
INSERT INTO committed (project_id, name, commitment, committed_at) VALUES (:project, :name, :commitment, :at)
ON CONFLICT DO NOTHING RETURNING name
-- name: last_step
SELECT at, payload FROM event WHERE project_id = :project AND kind = 'clock-stepped' AND seq IS NOT NULL
ORDER BY seq DESC LIMIT 1
-- name: closed_head
SELECT hash FROM event WHERE project_id = :project AND kind = 'closed'
-- name: add_prediction
INSERT INTO prediction (system_id, item_id, answer) VALUES (:system, :item, :answer)
-- name: predictions
SELECT s.name AS system, i.name AS item, p.answer FROM prediction p JOIN system s ON s.id = p.system_id
JOIN item i ON i.id = p.item_id WHERE s.project_id = :project AND (:every = 1 OR EXISTS
(SELECT 1 FROM question q WHERE q.item_id = i.id AND q.kind = 'main')) ORDER BY s.id, i.id

-- name: events
SELECT seq, at, actor, kind, payload, prev, hash FROM event WHERE project_id = :project AND seq IS NOT NULL ORDER BY seq
-- name: event_kinds
SELECT kind, COUNT(*) AS n FROM event WHERE project_id = :project GROUP BY kind ORDER BY kind

-- name: who
SELECT p.id, p.name, p.email, p.locale, s.seen_at FROM session s JOIN person p ON p.id = s.person_id
WHERE s.token_hash = :token AND s.expires_at > :now AND p.active = 1
-- name: session_start
SELECT created_at FROM session WHERE token_hash = :token AND expires_at > :now
-- name: touch_session
UPDATE session SET seen_at = :now, expires_at = :ends WHERE token_hash = :token
-- name: add_session
INSERT INTO session (token_hash, person_id, created_at, seen_at, expires_at)
VALUES (:token, :person, :now, :now, :ends)
-- name: drop_other_sessions
DELETE FROM session WHERE person_id = :person AND token_hash <> :keep
-- name: member_by_session
SELECT p.id AS person, m.role, m.alias, j.id AS project, j.slug, j.state, j.spec FROM session s
JOIN person p ON p.id = s.person_id LEFT JOIN project j ON j.slug = :slug
LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id AND m.left_at IS NULL
WHERE s.token_hash = :token AND s.expires_at > :now AND p.active = 1
-- name: member
SELECT m.person_id AS person, m.role, m.alias, j.id AS project, j.slug, j.state, j.spec FROM membership m
JOIN project j ON j.id = m.project_id WHERE m.person_id = :person AND m.project_id = :project AND m.left_at IS NULL
-- name: pools_of
SELECT pool FROM pool_member WHERE project_id = :project AND person_id = :person ORDER BY pool
-- name: pools_with_people
SELECT pool, COUNT(*) AS n FROM pool_member WHERE project_id = :project GROUP BY pool
-- name: pools_invited
SELECT DISTINCT pool FROM invitation
WHERE project_id = :project AND pool IS NOT NULL AND used_at IS NULL AND revoked_at IS NULL
-- name: pool_members
SELECT person_id, pool FROM pool_member WHERE project_id = :project ORDER BY pool
-- name: join_pool
INSERT INTO pool_member (project_id, pool, person_id) VALUES (:project, :pool, :person)
-- name: join
INSERT INTO membership (project_id, person_id, role, alias, joined_at)
VALUES (:project, :person, :role, :alias, :now) ON CONFLICT DO NOTHING RETURNING alias
-- name: memberships
SELECT project_id, alias FROM membership WHERE person_id = :person ORDER BY project_id
-- name: people
SELECT m.person_id, m.alias, m.role, m.joined_at, m.left_at, p.name, p.email, p.forgotten_at, (SELECT COUNT(*) FROM answer a
WHERE a.project_id = m.project_id AND a.person_id = m.person_id AND a.revision = a.undone
AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id AND s.undone = 1)) AS done
FROM membership m JOIN person p ON p.id = m.person_id WHERE m.project_id = :project ORDER BY m.joined_at, m.alias
-- name: find_person
SELECT id, email, name, password, locale, active FROM person WHERE email = :email AND active = 1
-- name: add_person
INSERT INTO person (email, name, password, locale, active, created_at)
VALUES (:email, :name, :password, :locale, 1, :now) ON CONFLICT (email) DO NOTHING RETURNING id
-- name: set_password
UPDATE person SET password = :password WHERE id = :person
-- name: set_locale
UPDATE person SET locale = :locale WHERE id = :person
-- name: forget_person
UPDATE person SET email = NULL, name = NULL, password = NULL, locale = 'en', active = 0, forgotten_at = :now
WHERE id = :person
-- name: forget_comments
UPDATE comment SET text = '' WHERE person_id = :person OR REPLACE(LOWER(text), :email, '') <> LOWER(text)
-- name: invitation
SELECT i.id, i.project_id AS project, j.slug, j.name, i.role, i.pool, i.expires_at, j.spec FROM invitation i
JOIN project j ON j.id = i.project_id
WHERE i.token_hash = :token AND i.used_at IS NULL AND i.revoked_at IS NULL AND i.expires_at > :now
-- name: invitations
SELECT id, role, pool, created_at, expires_at FROM invitation
WHERE project_id = :project AND used_at IS NULL AND revoked_at IS NULL AND expires_at > :now ORDER BY id
-- name: invite
INSERT INTO invitation (project_id, role, pool, token_hash, created_by, created_at, expires_at)
VALUES (:project, :role, :pool, :token, :person, :now, :ends) RETURNING id
-- name: use_invitation
UPDATE invitation SET used_at = :now, used_by = :person
WHERE token_hash = :token AND used_at IS NULL AND revoked_at IS NULL AND expires_at > :now
-- name: revoke_invitation
UPDATE invitation SET revoked_at = :now
WHERE id = :id AND project_id = :project AND used_at IS NULL AND revoked_at IS NULL
-- name: revoke_all_of
UPDATE invitation SET revoked_at = :now WHERE created_by = :person AND used_at IS NULL AND revoked_at IS NULL

-- Accounts, and long changes of a draft (migration 4).

-- name: busy
UPDATE project SET busy = :now, busy_from = COALESCE(busy_from, (SELECT COALESCE(MAX(id), 0) FROM item WHERE project_id = :project))
WHERE id = :project AND state = 'draft' AND COALESCE(busy, 0) = :before
-- name: idle
UPDATE project SET busy = NULL, busy_from = NULL WHERE id = :project
-- name: some_questions
DELETE FROM question WHERE id IN (SELECT id FROM question WHERE project_id = :project LIMIT :n)
-- name: some_draws
UPDATE item SET options = NULL, chances = NULL WHERE id IN (SELECT id FROM item
WHERE project_id = :project AND (options IS NOT NULL OR chances IS NOT NULL) LIMIT :n)
-- name: some_predictions
DELETE FROM prediction WHERE item_id IN (SELECT p.item_id FROM prediction p JOIN system s ON s.id = p.system_id
WHERE s.project_id = :project LIMIT :n)
-- name: some_gold
DELETE FROM gold WHERE item_id IN (SELECT g.item_id FROM gold g JOIN item i ON i.id = g.item_id JOIN project j ON j.id = i.project_id
WHERE j.id = :project AND i.id > j.busy_from LIMIT :n)
-- name: some_items
DELETE FROM item WHERE id IN (SELECT i.id FROM item i JOIN project j ON j.id = i.project_id
WHERE j.id = :project AND i.id > j.busy_from LIMIT :n)
-- name: member_by_alias
SELECT m.person_id AS person, m.role, m.alias, m.left_at FROM membership m JOIN person p ON p.id = m.person_id
WHERE m.project_id = :project AND p.active = 1 AND (m.alias = :who OR p.email = :who)
-- name: roles_of
SELECT t.project_id AS project, t.role, a.role AS mine FROM membership t
LEFT JOIN membership a ON a.project_id = t.project_id AND a.person_id = :actor AND a.left_at IS NULL
WHERE t.person_id = :person AND t.left_at IS NULL
-- name: revoke_by
UPDATE invitation SET revoked_at = :now
WHERE project_id = :project AND created_by = :person AND used_at IS NULL AND revoked_at IS NULL
-- name: owners
SELECT COUNT(*) AS n FROM membership m JOIN person p ON p.id = m.person_id
WHERE m.project_id = :project AND m.role = 'owner' AND m.left_at IS NULL AND p.active = 1
-- name: leave
UPDATE membership SET left_at = :now WHERE project_id = :project AND person_id = :person
-- name: rejoin
UPDATE membership SET left_at = NULL WHERE project_id = :project AND person_id = :person AND role = :role
AND left_at IS NOT NULL RETURNING alias
-- name: leave_pools
DELETE FROM pool_member WHERE project_id = :project AND person_id = :person
-- name: add_reset
INSERT INTO reset (token_hash, person_id, project_id, expires_at) VALUES (:token, :person, :project, :ends)
-- name: reset
SELECT r.person_id AS person, r.project_id AS project, p.email, m.alias FROM reset r JOIN person p ON p.id = r.person_id
LEFT JOIN membership m ON m.project_id = r.project_id AND m.person_id = r.person_id
WHERE r.token_hash = :token AND r.expires_at > :now AND p.active = 1
-- name: password_of
SELECT password FROM person WHERE id = :person AND active = 1
-- name: device
SELECT 1 AS known FROM device d JOIN person p ON p.id = d.person_id WHERE d.token_hash = :token AND p.email = :email
-- name: add_device
INSERT INTO device (token_hash, person_id, seen_at) VALUES (:token, :person, :now)
ON CONFLICT (token_hash) DO UPDATE SET seen_at = :now
-- name: drop_devices
DELETE FROM device WHERE person_id = :person AND token_hash NOT IN
(SELECT token_hash FROM device WHERE person_id = :person ORDER BY seen_at DESC LIMIT :keep)
-- name: identity
SELECT p.id, p.email, p.name FROM identity i JOIN person p ON p.id = i.person_id
WHERE i.issuer = :issuer AND i.subject = :subject AND p.active = 1
-- name: add_identity
INSERT INTO identity (issuer, subject, person_id) VALUES (:issuer, :subject, :person)
-- name: tried
INSERT INTO throttle (key, at) VALUES (:key, :now)
-- name: tries
SELECT COUNT(*) AS n, MIN(at) AS first, MAX(at) AS last FROM throttle WHERE key = :key AND at > :old
-- name: setting
SELECT value FROM setting WHERE name = :name
-- name: set_setting
INSERT INTO setting (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value
-- name: some_imports
DELETE FROM item_import WHERE project_id = :project AND items = 0

-- Imports, files that wait, and webhooks.

-- name: expired_by
SELECT actor, COUNT(*) AS n FROM event WHERE project_id = :project AND kind = 'lease-expired' GROUP BY actor
-- name: imports
SELECT id, items, gold, at FROM item_import WHERE project_id = :project ORDER BY id
-- name: add_import
INSERT INTO item_import (project_id, items, gold, at) VALUES (:project, 0, 0, :now) RETURNING id
-- name: count_import
UPDATE item_import SET items = :items, gold = :gold WHERE id = :batch
-- name: drop_import
DELETE FROM item_import WHERE id = :batch AND project_id = :project
-- name: drop_gold_of
DELETE FROM gold WHERE item_id IN (SELECT id FROM item WHERE import_id = :batch)
-- name: contents
SELECT content FROM item WHERE project_id = :project
-- name: keep_upload
INSERT INTO upload (project_id, person_id, name, bytes, at) VALUES (:project, :person, :name, :bytes, :now)
-- name: upload
SELECT name, bytes FROM upload WHERE project_id = :project AND person_id = :person
-- name: drop_uploads
DELETE FROM upload WHERE (project_id = :project AND person_id = :person) OR at < :old
-- name: webhooks
SELECT id, url, at, fault FROM webhook WHERE project_id = :project ORDER BY id
-- name: add_webhook
INSERT INTO webhook (project_id, url, at) VALUES (:project, :url, :now) ON CONFLICT DO NOTHING RETURNING id
-- name: drop_webhook
DELETE FROM webhook WHERE id = :id AND project_id = :project
-- name: drop_deliveries
DELETE FROM delivery WHERE webhook_id = :id AND webhook_id IN (SELECT id FROM webhook WHERE project_id = :project)
-- name: due
SELECT d.id, d.webhook_id, d.event_id, d.tries, d.at, d.next_at, w.url, w.at AS made, j.slug, e.kind, e.actor, e.at AS happened, e.payload
FROM delivery d JOIN webhook w ON w.id = d.webhook_id JOIN event e ON e.id = d.event_id
JOIN project j ON j.id = w.project_id WHERE d.next_at <= :now ORDER BY d.next_at, d.id LIMIT 50
-- name: take_delivery
UPDATE delivery SET tries = tries + 1, next_at = :later WHERE id = :id AND next_at = :next_at
-- name: drop_delivery
DELETE FROM delivery WHERE id = :id
-- name: set_fault
UPDATE webhook SET fault = :fault WHERE id = :id AND fault <> :fault
-- name: watched
SELECT j.id, COUNT(*) AS n, (SELECT COUNT(*) FROM answer a WHERE a.project_id = j.id) AS answers
FROM project j JOIN webhook w ON w.project_id = j.id WHERE j.state IN ('open', 'closed') GROUP BY j.id
-- name: last_alarm
SELECT payload FROM event WHERE project_id = :project AND kind = 'alarm' ORDER BY id DESC LIMIT 1

-- PostgreSQL alone: values by their place where psycopg puts them, and by name.

-- name: pg_lock
SELECT pg_advisory_xact_lock(%s, %s::integer)
-- name: pg_snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY
-- name: pg_event
INSERT INTO event (project_id, at, actor, kind, payload) VALUES (%s, %s, %s, %s, %s)
-- name: pg_loose
SELECT id, at, actor, kind, payload FROM event WHERE project_id = %s AND seq IS NULL ORDER BY id LIMIT %s
-- name: pg_link
UPDATE event SET at = l.at, seq = l.seq, prev = l.prev, hash = l.hash
FROM unnest(%s::bigint[], %s::float8[], %s::bigint[], %s::text[], %s::text[]) AS l (id, at, seq, prev, hash) WHERE event.id = l.id
-- name: pg_head
SELECT p.last_seq, p.head, COALESCE(e.at, 0) FROM project p LEFT JOIN event e ON e.project_id = p.id AND e.seq = p.last_seq
WHERE p.id = %s FOR NO KEY UPDATE OF p
-- The latest time of a project, and the earliest clock of what is not chained yet.
-- name: pg_latest
SELECT COALESCE(GREATEST(e.at, l.high), 0) AS at, COALESCE(l.low, 1e15) AS low FROM project p
LEFT JOIN event e ON e.project_id = p.id AND e.seq = p.last_seq CROSS JOIN LATERAL (
    SELECT MAX(at) AS high, MIN(CASE kind WHEN 'clock-stepped' THEN (payload::jsonb->>'to')::float8 ELSE at END) AS low
    FROM event WHERE project_id = p.id AND seq IS NULL) l WHERE p.id = :project
-- name: pg_tables
SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'
-- name: pg_columns
SELECT column_name FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = :table
ORDER BY ordinal_position

-- The transactions of every click, for SQLite: values by their place. PostgreSQL has the same rules
-- in migrations/0002_guards.postgresql.sql and 0005_undo.postgresql.sql.

-- name: hot_gate
SELECT p.id, m.role, m.alias, j.state, j.spec FROM session s JOIN person p ON p.id = s.person_id
LEFT JOIN project j ON j.id = ?3
LEFT JOIN membership m ON m.project_id = j.id AND m.person_id = p.id AND m.left_at IS NULL
WHERE s.token_hash = ?1 AND s.expires_at > ?2 AND p.active = 1
-- name: hot_held
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.lease_until, q.key FROM question q
JOIN item i ON i.id = q.item_id WHERE q.project_id = ?1 AND q.person_id = ?2 AND q.status = 1
-- name: hot_pick
SELECT q.id, q.item_id, q.shown, q.lease, i.content, i.options, q.place FROM pool_member m
JOIN question q ON q.id = (
    SELECT o.id FROM question o WHERE o.project_id = m.project_id AND o.pool = m.pool AND o.status = 0 AND o.place >= ?3
    AND NOT EXISTS (SELECT 1 FROM question d WHERE d.item_id = o.item_id AND d.person_id = m.person_id)
    AND NOT EXISTS (SELECT 1 FROM held h WHERE h.item_id = o.item_id AND h.person_id = m.person_id AND h.question_id <> o.id)
    ORDER BY o.place LIMIT 1)
JOIN item i ON i.id = q.item_id
WHERE m.project_id = ?1 AND m.person_id = ?2 ORDER BY q.place LIMIT 1
-- name: hot_late
SELECT q.id, q.item_id, q.person_id, q.place, q.lease, q.leased_at, q.lease_until, m.alias FROM question q
LEFT JOIN membership m ON m.project_id = q.project_id AND m.person_id = q.person_id
WHERE q.project_id = ?1 AND q.status = 1 AND (q.lease_until <= ?2 OR q.leased_at > ?2 + 5) ORDER BY q.lease_until, q.id
-- name: hot_again
UPDATE question SET leased_at = ?2, lease_until = ?3 WHERE id = ?1
-- name: hot_lease
UPDATE question SET status = 1, person_id = ?2, lease = ?3, leased_at = ?4, lease_until = ?5, key = ?6 WHERE id = ?1
-- name: hot_return
UPDATE question SET status = 0, person_id = NULL, leased_at = NULL, lease_until = NULL, key = NULL WHERE id = ?1
-- name: hot_hold
INSERT INTO held (item_id, person_id, question_id) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
-- name: hot_done
SELECT (SELECT COUNT(*) FROM answer WHERE project_id = ?1 AND person_id = ?2 AND revision = undone)
- (SELECT COUNT(*) FROM settled WHERE project_id = ?1 AND person_id = ?2 AND undone = 1)
-- name: hot_by_key
SELECT id, question_id, revision, person_id, value FROM answer WHERE project_id = ?1 AND key = ?2
-- name: hot_question
SELECT item_id, place, draw, kind, pool, shown, propensity, status, person_id, key, leased_at,
(SELECT COUNT(*) FROM answer WHERE question_id = ?1) FROM question WHERE id = ?1 AND project_id = ?2
-- name: hot_answer
INSERT INTO answer (project_id, question_id, revision, person_id, value, shown_at, received_at, client_ms, key, undone)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id
-- name: hot_answered
UPDATE question SET status = 2 WHERE id = ?1
-- name: hot_reask
INSERT INTO question (project_id, item_id, place, draw, kind, pool, shown, propensity, status, lease_until)
VALUES (?1, ?2, ?3, ?4, 'reask', ?5, ?6, ?7, 1, ?8)
-- name: hot_mine
SELECT question_id FROM answer WHERE id = ?1 AND project_id = ?2 AND person_id = ?3
-- name: hot_last
SELECT a.question_id, a.shown_at, q.place, q.shown,
(SELECT MAX(r.revision) FROM answer r WHERE r.question_id = a.question_id), a.undone
FROM answer a JOIN question q ON q.id = a.question_id
WHERE a.project_id = ?1 AND a.person_id = ?2 AND a.revision = a.undone
AND NOT EXISTS (SELECT 1 FROM settled s WHERE s.answer_id = a.id AND s.undone = 1) ORDER BY a.id DESC LIMIT 1
-- name: hot_event
INSERT INTO event (project_id, at, actor, kind, payload, seq, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
-- name: hot_chain
SELECT p.last_seq, p.head, COALESCE(e.at, 0.0) FROM project p
LEFT JOIN event e ON e.project_id = p.id AND e.seq = p.last_seq WHERE p.id = ?1
-- name: hot_head
UPDATE project SET last_seq = ?2, head = ?3 WHERE id = ?1
