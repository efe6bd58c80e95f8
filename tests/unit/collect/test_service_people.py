"""Who may do what, and what stays of whom."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("argon2", reason="the extra collect is not installed")

from noracle.collect import errors
from noracle.collect.errors import Conflict, Forbidden, NotFound, Refused, SignedOut, Throttled
from noracle.collect.service import access, people, projects
from noracle.collect.service.exports import archive_of
from tests.unit.collect.service_world import NOW, Service, open_service, spec_of, texts


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = open_service(tmp_path)
    yield made
    made.store.close()


def test_every_error_names_its_status() -> None:
    found = {
        c.__name__: c.status
        for c in vars(errors).values()
        if inspect.isclass(c) and issubclass(c, errors.CollectError)
    }
    assert found == {
        "CollectError": 400,
        "SignedOut": 401,
        "Forbidden": 403,
        "NotFound": 404,
        "Conflict": 409,
        "Refused": 422,
        "Later": 400,  # never raised itself
        "Throttled": 429,
        "Damaged": 503,
        "Unavailable": 503,
    }


# ----------------------------------------------------------------------------------------------------------------
# accounts


@pytest.mark.full
def test_password_is_argon2id_and_fits_only_itself() -> None:
    hashed = people.hash_password("correct horse battery")
    assert hashed.startswith("$argon2id$")
    assert people.password_fits(hashed, "correct horse battery")
    assert not people.password_fits(hashed, "correct horse batterz")
    assert not people.password_fits(None, "correct horse battery")
    assert not people.password_fits("", "")
    assert not people.password_fits("not a hash", "correct horse battery")


def test_password_in_another_unicode_form_is_the_same() -> None:
    assert people.password_fits(people.hash_password("schön und lang"), "scho\u0308n und lang")


@pytest.mark.parametrize(
    "password", ["", "short", "123456789", "a" * 50, "abababababab", "x" * 999 + "yz"]
)
def test_weak_or_endless_password_is_refused(password: str) -> None:
    with pytest.raises(Refused):
        people.hash_password(password)


@pytest.mark.parametrize(
    "email",
    [
        "",
        "ann",
        "@example.org",
        "ann@",
        "a@b@c",
        "a b@c.de",
        "a\n@c.de",
        "<a>@c.de",
        "a" * 250 + "@c.de",
        "a\u202e@c.de",
        "a\x00@c.de",
    ],
)
def test_what_is_no_address_is_refused(email: str, service: Service) -> None:
    with pytest.raises(Refused):
        people.normal_email(email)
    assert service.read(lambda w: people.find_person(w, email)) is None


def test_address_is_found_however_it_is_written_and_taken_once(service: Service) -> None:
    person = service.person("ann")
    found = service.read(lambda w: people.find_person(w, "  ANN@Example.ORG "))
    assert found is not None
    assert found["id"] == person
    with pytest.raises(Conflict):
        service.person("Ann")
    with pytest.raises(Refused):
        service.write(
            lambda w: people.add_person(
                w, email="b@example.org", name=" \n", password_hash="h", now=NOW
            )
        )


# ----------------------------------------------------------------------------------------------------------------
# sessions


def test_session_ends_after_12_hours_of_silence_and_after_7_days_in_any_case(
    service: Service,
) -> None:
    token = service.session(service.person("ann"))
    hour = 3600.0

    def who(at: float) -> access.Person | None:
        return service.read(lambda w: access.who(w, token, now=at))

    assert who(NOW + 11.9 * hour) is not None
    assert who(NOW + 12 * hour) is None
    last = NOW
    for step in range(1, 100):
        at = NOW + step * 11 * hour
        found = who(at)
        if found is None:
            break
        assert found.stale
        service.write(lambda w, at=at: access.touch_session(w, token, now=at))  # type: ignore[misc]
        last = at
    assert NOW + 7 * 24 * hour - 11 * hour <= last < NOW + 7 * 24 * hour
    assert who(NOW + 7 * 24 * hour) is None
    service.write(lambda w: access.touch_session(w, token, now=NOW + 8 * 24 * hour))
    assert who(NOW + 8 * 24 * hour) is None


def test_signing_out_ends_one_session_and_a_new_password_all_others(service: Service) -> None:
    ann = service.person("ann")
    one, two, three = (service.session(ann) for _ in range(3))
    service.write(lambda w: people.end_session(w, one))
    assert service.read(lambda w: access.who(w, one, now=NOW)) is None
    service.write(lambda w: people.set_password(w, ann, "other", keep=two))
    assert service.read(lambda w: access.who(w, two, now=NOW)) is not None
    assert service.read(lambda w: access.who(w, three, now=NOW)) is None


def test_tokens_are_stored_hashed(service: Service, tmp_path: Path) -> None:
    owner = service.person("ann")
    project = service.project(owner)
    token = service.write(
        lambda w: people.invite(
            w, service_member(w, owner, project), role="auditor", pool=None, now=NOW
        )
    )
    service.store.backup(tmp_path / "copy.db")
    assert token.encode() not in (tmp_path / "copy.db").read_bytes()


def service_member(work: object, person: int, project: int) -> access.Member:
    found = access.member_of(work, person, project)  # type: ignore[arg-type]
    assert found is not None
    return found


# -------------------------------------------------------------------------------------------------------------------
# roles


def test_membership_is_401_404_403_in_this_order(service: Service) -> None:
    owner, rater, stranger = (service.person(n) for n in ("ann", "bob", "eve"))
    project = service.project(owner)
    service.join(owner, project, rater, pool=1)

    def enter(
        token: str, slug: str = "demo", roles: tuple[access.Role, ...] = access.MANAGERS
    ) -> access.Member:
        return service.read(lambda w: access.member(w, token, slug, roles=roles, now=NOW))

    with pytest.raises(SignedOut):
        enter("nobody")
    with pytest.raises(NotFound) as foreign:
        enter(service.session(stranger))
    with pytest.raises(NotFound) as absent:
        enter(service.session(stranger), "no-such-project")
    assert str(foreign.value) == str(absent.value)
    with pytest.raises(Forbidden):
        enter(service.session(rater))
    mine = enter(service.session(rater), roles=access.ANNOTATORS)
    assert (mine.role, mine.pools, mine.state, mine.spec.n_classes) == (
        "annotator",
        (1,),
        "draft",
        3,
    )
    assert enter(service.session(owner)).role == "owner"


def test_who_may_invite_whom(service: Service) -> None:
    owner = service.person("ann")
    project = service.project(owner)
    members = {"owner": service.member(owner, project)}
    for role in ("manager", "annotator", "auditor"):
        members[role] = service.join(
            owner, project, service.person(role), role=role, pool=0 if role == "annotator" else None
        )  # type: ignore[arg-type]
    allowed = set()
    for inviter, role in itertools.product(members, members):
        try:
            pool = 0 if role == "annotator" else None
            service.write(
                lambda w, i=inviter, r=role, p=pool: people.invite(
                    w, members[i], role=r, pool=p, now=NOW
                )
            )  # type: ignore[misc]
            allowed.add((inviter, role))
        except Forbidden:
            pass
    assert allowed == {
        *itertools.product(["owner"], members),
        *itertools.product(["manager"], ["manager", "annotator", "auditor"]),
    }


def test_auditor_sees_aliases_but_no_names(service: Service) -> None:
    owner = service.person("ann")
    project = service.project(owner)
    auditor = service.join(owner, project, service.person("carl"), role="auditor")
    rater = service.join(owner, project, service.person("bob"), pool=2)
    seen = service.read(lambda w: people.people_of(w, auditor))
    assert {row["alias"] for row in seen} == {
        service.member(owner, project).alias,
        auditor.alias,
        rater.alias,
    }
    assert {(row["name"], row["email"]) for row in seen} == {(None, None)}
    full = service.read(lambda w: people.people_of(w, service_member(w, owner, project)))
    assert {row["email"] for row in full} == {
        "ann@example.org",
        "bob@example.org",
        "carl@example.org",
    }
    assert [row["pools"] for row in full if row["role"] == "annotator"] == [(2,)]
    for op in (people.people_of, lambda w, m: people.invitations_of(w, m, now=NOW)):
        with pytest.raises(Forbidden):
            service.read(lambda w, op=op: op(w, rater))  # type: ignore[misc]


def test_aliases_tell_nothing_about_the_person(service: Service) -> None:
    owner = service.person("ann")
    project = service.project(owner)
    aliases = [
        service.join(owner, project, service.person(f"bob{i}"), pool=i % 3).alias for i in range(12)
    ]
    assert len(set(aliases)) == 12
    assert all(alias.startswith("rater-") and "bob" not in alias for alias in aliases)


# -------------------------------------------------------------------------------------------------------------
# invitations


def test_invitation_works_once(service: Service) -> None:
    owner, bob, eve = (service.person(n) for n in ("ann", "bob", "eve"))
    project = service.project(owner)
    token = access.token_hash(
        service.write(
            lambda w: people.invite(
                w, service_member(w, owner, project), role="annotator", pool=2, now=NOW
            )
        )
    )
    peeked = service.read(lambda w: people.peek_invitation(w, token, now=NOW))
    assert (peeked.slug, peeked.role, peeked.pool) == ("demo", "annotator", 2)
    joined = service.write(lambda w: people.accept_invitation(w, token, person=bob, now=NOW))
    assert (joined.role, joined.pools) == ("annotator", (2,))
    for person in (bob, eve):
        with pytest.raises(NotFound):
            service.write(lambda w, p=person: people.accept_invitation(w, token, person=p, now=NOW))  # type: ignore[misc]
    with pytest.raises(NotFound):
        service.read(lambda w: people.peek_invitation(w, token, now=NOW))


def test_invitation_expires_and_can_be_withdrawn(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner)
    boss = service.member(owner, project)
    late = access.token_hash(
        service.write(lambda w: people.invite(w, boss, role="auditor", pool=None, days=2, now=NOW))
    )
    with pytest.raises(NotFound):
        service.write(lambda w: people.accept_invitation(w, late, person=bob, now=NOW + 2 * 86400))
    gone = access.token_hash(
        service.write(lambda w: people.invite(w, boss, role="auditor", pool=None, now=NOW))
    )
    listed = service.read(lambda w: people.invitations_of(w, boss, now=NOW))
    service.write(lambda w: people.revoke_invitation(w, boss, listed[-1]["id"], now=NOW))
    with pytest.raises(NotFound):
        service.write(lambda w: people.accept_invitation(w, gone, person=bob, now=NOW))
    other = service.project(owner, "other")
    with pytest.raises(NotFound):
        service.write(
            lambda w: people.revoke_invitation(
                w, service_member(w, owner, other), listed[0]["id"], now=NOW
            )
        )


@pytest.mark.parametrize(
    ("role", "pool"),
    [("annotator", None), ("annotator", 3), ("annotator", -1), ("annotator", True), ("auditor", 0)],
)
def test_invitation_names_a_pool_just_for_annotators(
    service: Service, role: access.Role, pool: int | None
) -> None:
    owner = service.person("ann")
    boss = service.member(owner, service.project(owner))
    with pytest.raises(Refused):
        service.write(lambda w: people.invite(w, boss, role=role, pool=pool, now=NOW))


def test_annotator_collects_classes_but_no_second_role(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner)
    first = service.join(owner, project, bob, pool=0)
    second = service.join(owner, project, bob, pool=2)
    assert (second.alias, second.pools) == (first.alias, (0, 2))
    with pytest.raises(Conflict):
        service.join(owner, project, bob, pool=2)
    with pytest.raises(Conflict):
        service.join(owner, project, bob, role="auditor")
    with pytest.raises(Conflict):
        service.join(owner, project, owner, pool=1)


def test_failed_joining_leaves_the_invitation_unused(service: Service) -> None:
    owner, eve = service.person("ann"), service.person("eve")
    project = service.project(owner)
    token = access.token_hash(
        service.write(
            lambda w: people.invite(
                w, service_member(w, owner, project), role="annotator", pool=1, now=NOW
            )
        )
    )
    with pytest.raises(Conflict):
        service.write(lambda w: people.accept_invitation(w, token, person=owner, now=NOW))
    assert service.write(
        lambda w: people.accept_invitation(w, token, person=eve, now=NOW)
    ).pools == (1,)


def test_one_place_a_person_in_the_ordinary_protocol(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner, spec=spec_of("ordinary", draws=2))
    service.join(owner, project, bob, pool=0)
    with pytest.raises(Conflict):
        service.join(owner, project, bob, pool=1)


def test_everybody_pool_needs_no_number(service: Service) -> None:
    owner, bob = service.person("ann"), service.person("bob")
    project = service.project(owner, spec=spec_of("judge-all"))
    assert service.join(owner, project, bob).pools == (0,)


# ----------------------------------------------------------------------------------------------------------------
# throttle


def test_throttle_counts_in_a_sliding_window_and_by_key(service: Service) -> None:
    def attempt(key: str, at: float) -> None:
        service.write(lambda w: access.allow(w, key, limit=3, seconds=60, now=at))

    for i in range(3):
        attempt("a", NOW + i)
    with pytest.raises(Throttled) as caught:
        attempt("a", NOW + 10)
    assert caught.value.wait == pytest.approx(50)
    attempt("b", NOW + 10)
    attempt("a", NOW + 60.5)
    with pytest.raises(Throttled):
        attempt("a", NOW + 60.6)


def test_throttle_keeps_no_address(service: Service) -> None:
    service.write(
        lambda w: access.allow(w, "sign-in|ann@example.org", limit=3, seconds=60, now=NOW)
    )
    assert "ann" not in service.read(lambda w: w.one("SELECT key FROM throttle"))["key"]
    service.now = NOW + 2 * 86400
    service.session(service.person("bob"))
    assert service.read(lambda w: w.one("SELECT COUNT(*) AS n FROM throttle"))["n"] == 0


# ------------------------------------------------------------------------------------------------------------------
# forget


def test_forgotten_person_is_gone_and_the_archive_still_verifies(service: Service) -> None:
    from noracle.collect.verify import verify_archive

    ready = service.ready(spec_of(reasks=1), texts(60), seed=bytes(range(32)))
    service.work(ready, lambda _, shown: "yes" if shown == (0,) else "no", most=5)
    victim, token = next(iter(ready.raters.items()))
    email = service.read(lambda w: w.one("SELECT email FROM person WHERE id = :p", p=victim))[
        "email"
    ]
    alias = service.member(victim, ready.project).alias
    asyncio.run(service.store.next_question(token, ready.project, now=service.now))
    held = "SELECT COUNT(*) AS n FROM question WHERE person_id = :p AND status = 1"
    assert service.read(lambda w: w.one(held, p=victim))["n"] == 1
    assert service.write(lambda w: people.forget(w, email.upper(), now=service.now)) == 1
    row = service.read(lambda w: w.one("SELECT * FROM person WHERE id = :p", p=victim))
    assert (row["email"], row["name"], row["password"], row["active"]) == (None, None, None, 0)
    assert row["forgotten_at"] == service.now
    assert service.read(lambda w: access.who(w, token, now=service.now)) is None
    assert service.read(lambda w: people.find_person(w, email)) is None
    assert service.read(lambda w: w.one(held, p=victim))["n"] == 0
    with pytest.raises(NotFound):
        service.write(lambda w: people.forget(w, email, now=service.now))
    rest = dataclasses.replace(ready, raters={p: t for p, t in ready.raters.items() if p != victim})
    service.work(rest, lambda _, shown: "no")
    for close in (False, True):
        if close:
            service.write(
                lambda w: projects.close_project(
                    w, ready.project, actor="system", now=service.now + 1
                )
            )
        archive = service.read(lambda w: archive_of(w, ready.project))
        check = verify_archive(archive)
        assert check.passed, check.findings
        assert any(record["rater"] == alias for record in archive.answers)
        assert email.encode() not in archive.to_bytes()
    assert service.person(email.partition("@")[0]) != victim


def test_nothing_of_a_forgotten_person_is_left_in_the_file(tmp_path: Path) -> None:
    service = open_service(tmp_path)
    service.person("quetzalcoatl")
    service.person("huitzilopochtli")
    service.write(lambda w: people.forget(w, "quetzalcoatl@example.org", now=NOW))
    service.store.backup(tmp_path / "copy.db")
    service.store.close()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert [name for name, data in files.items() if b"uetzalcoatl" in data] == []
    assert [name for name, data in files.items() if b"uitzilopochtli" in data], (
        "what was not erased is found"
    )
