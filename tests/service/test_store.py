"""The transactions of every click keep the rules of the protocol, on both databases."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from noracle.collect.errors import CollectError, Conflict, Forbidden, NotFound, Refused, SignedOut
from noracle.collect.model import Answered, HeldQuestion, ProjectSpec
from noracle.collect.store import open_store
from noracle.collect.store import sqlite as hot
from noracle.collect.store.base import Store
from noracle.errors import ArgumentError
from tests.service.worlds import START, World, audit, build, some_value, token


class Desk:
    """A world with its store, and calls that wait."""

    def __init__(self, store: Store, world: World) -> None:
        self.store, self.world = store, world

    def next(self, person: int, now: float = START) -> HeldQuestion | None:
        return asyncio.run(
            self.store.next_question(self.world.token(person), self.world.project, now=now)
        )

    def must(self, person: int, now: float = START) -> HeldQuestion:
        found = self.next(person, now)
        assert found is not None
        return found

    def answer(
        self,
        person: int,
        asked: HeldQuestion,
        value: str = "no",
        now: float = START + 1,
        **change: Any,
    ) -> Answered:
        values: dict[str, Any] = {
            "question": asked.question,
            "key": asked.key,
            "value": value,
            "shown_at": START,
            "client_ms": 900,
            "now": now,
            "want_next": False,
            **change,
        }
        return asyncio.run(
            self.store.answer(self.world.token(person), self.world.project, **values)
        )

    def amend(
        self, person: int, answer: int, value: str, key: str = "amend", now: float = START + 2
    ) -> Answered:
        return asyncio.run(
            self.store.amend(
                self.world.token(person),
                self.world.project,
                answer=answer,
                key=key,
                value=value,
                now=now,
            )
        )

    def rows(self, sql: str, **values: object) -> list[Any]:
        return self.store.read_now(lambda work: work.all(sql, p=self.world.project, **values))

    def set(self, sql: str, **values: object) -> None:
        self.store.write_now(lambda work: work.run(sql, p=self.world.project, **values))


@pytest.fixture
def desk(store: Store) -> Callable[..., Desk]:
    return lambda **options: Desk(store, build(store, **options))


def places(desk: Desk, asked: HeldQuestion) -> int:
    return int(
        desk.rows("SELECT place FROM question WHERE id = :q AND project_id = :p", q=asked.question)[
            0
        ]["place"]
    )


# --------------------------------------------------------------------------------------------------------------------
# asking


def test_a_question_holds_what_its_person_may_see(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    assert asked.shown == (0,)
    assert asked.content["text"].startswith("Text")
    assert (asked.options, asked.lease, asked.done, asked.lease_until) == (None, 1, 0, START + 900)
    assert len(asked.key) >= 20


def test_options_of_an_item_come_with_the_question(desk: Callable[..., Desk]) -> None:
    d = desk()
    d.set("UPDATE item SET options = '[2,0,1,3]' WHERE project_id = :p")
    assert d.must(0).options == (2, 0, 1, 3)


def test_asking_again_gives_the_same_question_under_the_same_key(desk: Callable[..., Desk]) -> None:
    d = desk()
    first = d.must(1)
    assert d.must(1, START + 100) == first
    assert len(d.rows("SELECT id FROM question WHERE project_id = :p AND status = 1")) == 1


def test_order_is_by_place_inside_the_pool(desk: Callable[..., Desk]) -> None:
    d = desk(n_items=24, n_people=5)
    mine = sorted(place for place, (_, pool, _) in d.world.routes.items() if pool == 0)
    seen = []
    for person in (0, 4, 0, 4, 4):  # both belong to pool 0
        asked = d.must(person)
        seen.append(places(d, asked))
        d.answer(person, asked)
    assert seen == mine[: len(seen)]


def test_a_person_of_several_pools_gets_the_lowest_place_of_all(desk: Callable[..., Desk]) -> None:
    d = desk(n_items=24, pools=[(0, 2), (1,), (3,)])
    mine = sorted(place for place, (_, pool, _) in d.world.routes.items() if pool in (0, 2))
    seen = []
    for _ in mine:
        asked = d.must(0)
        seen.append(places(d, asked))
        d.answer(0, asked)
    assert seen == mine
    assert d.next(0) is None


def test_a_person_without_a_pool_is_asked_nothing(desk: Callable[..., Desk]) -> None:
    assert desk(pools=[()]).next(0) is None


@pytest.mark.parametrize("protocol", ["partitioned", "judge-all", "pick-wrong", "ordinary"])
def test_nobody_gets_two_questions_about_one_item(desk: Callable[..., Desk], protocol: str) -> None:
    pools = {"partitioned": [(0, 1, 2, 3)], "ordinary": [(0, 1, 2)]}.get(protocol, [(0,)])
    d = desk(protocol=protocol, draws=3, n_items=8, pools=pools)
    items = []
    while (asked := d.next(0)) is not None:
        items.append(asked.item)
        d.answer(0, asked, some_value(d.world.spec, asked, random.Random(1)))
    assert len(items) == len(set(items)) == 8
    audit(d.store, d.world)


def test_two_people_never_hold_the_same_question(desk: Callable[..., Desk]) -> None:
    d = desk(n_items=40, n_people=16)
    world = d.world

    async def all_at_once() -> list[HeldQuestion | None]:
        return await asyncio.gather(
            *(
                d.store.next_question(world.token(i % 16), world.project, now=START)
                for i in range(64)
            )
        )

    held = asyncio.run(all_at_once())
    by_person = [{a.question for a in held[i::16] if a is not None} for i in range(16)]
    assert all(len(questions) <= 1 for questions in by_person)
    all_held = [q for questions in by_person for q in questions]
    assert len(all_held) == len(set(all_held)) >= 12


# -------------------------------------------------------------------------------------------------------------------
# expiry


def test_a_lease_that_ran_out_goes_back_to_its_place(desk: Callable[..., Desk]) -> None:
    d = desk(n_people=8)
    late = d.must(0)
    other = d.must(4, START + 901)  # the same pool
    assert other.question == late.question
    assert (other.lease, other.key == late.key) == (2, False)
    events = d.rows("SELECT * FROM event WHERE project_id = :p AND kind = 'lease-expired'")
    assert len(events) == 1
    assert events[0]["actor"] == "a-0"
    expected = {
        "lease": 1,
        "place": places(d, late),
        "question": late.question,
        "until": START + 900,
    }
    assert json.loads(events[0]["payload"]) == expected
    with pytest.raises(Conflict, match="not yours now"):
        d.answer(0, late, now=START + 902)
    audit(d.store, d.world)


def test_who_let_a_lease_run_out_may_be_asked_the_same_again_under_a_new_key(
    desk: Callable[..., Desk],
) -> None:
    d = desk()
    late = d.must(0)
    again = d.must(0, START + 901)
    assert (again.question, again.lease) == (late.question, 2)
    with pytest.raises(Conflict):
        d.answer(0, late, now=START + 902)
    assert d.answer(0, again, now=START + 902).revision == 0


def test_an_answer_after_the_lease_counts_while_nobody_else_took_the_question(
    desk: Callable[..., Desk],
) -> None:
    d = desk()
    assert d.answer(0, d.must(0), now=START + 5000).revision == 0


def test_letting_a_lease_run_out_does_not_open_another_question_about_the_item(
    desk: Callable[..., Desk],
) -> None:
    d = desk(protocol="judge-all", draws=3, n_items=1, pools=[(0,), (0,)])
    first = d.must(0)
    assert d.must(1, START + 901).question == first.question
    assert d.next(0, START + 902) is None


def test_leases_of_another_project_stay(store: Store) -> None:
    one, two = Desk(store, build(store, seed=1)), Desk(store, build(store, seed=2))
    held = one.must(0)
    two.must(0, START + 901)
    assert one.rows(
        "SELECT status FROM question WHERE project_id = :p AND id = :q", q=held.question
    ) == [{"status": 1}]


def lowest(desk: Desk, person: int) -> int | None:
    """By a search through everything: the lowest place that is open for the person."""
    me = desk.world.people[person]
    questions = desk.rows("SELECT * FROM question WHERE project_id = :p")
    known = {q["item_id"] for q in questions if q["person_id"] == me}
    barred = {
        (h["item_id"], h["question_id"])
        for h in desk.rows("SELECT * FROM held WHERE :p > 0 AND person_id = :me", me=me)
    }
    pools = {
        r["pool"]
        for r in desk.rows(
            "SELECT pool FROM pool_member WHERE project_id = :p AND person_id = :me", me=me
        )
    }
    return min(
        (
            q["place"]
            for q in questions
            if q["status"] == 0
            and q["pool"] in pools
            and q["item_id"] not in known
            and not any(item == q["item_id"] and question != q["id"] for item, question in barred)
        ),
        default=None,
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_next_question_is_the_lowest_that_is_allowed_whatever_happened(
    store: Store, seed: int
) -> None:
    """Also after leases ran out, questions were put again, a person joined a pool, and another
    process wrote.
    """
    pools = [(0, 1), (0,), (0, 1, 2), (2, 3)] if seed else [(0,)] * 4
    d = Desk(
        store,
        build(
            store,
            protocol="partitioned" if seed else "judge-all",
            draws=2,
            n_items=25,
            pools=pools,
            reasks=1,
            seed=seed,
        ),
    )
    rng, now = random.Random(seed), START
    for turn in range(90):
        person = rng.randrange(4)
        now += 1
        if rng.random() < 0.1:
            now += 1000
            d.next(rng.randrange(4), now)
        if turn == 40:
            d.set("INSERT INTO pool_member VALUES (:p, 3, :me)", me=d.world.people[0])
        held = d.rows(
            "SELECT place FROM question WHERE project_id = :p AND status = 1 AND person_id = :me",
            me=d.world.people[person],
        )
        expected = held[0]["place"] if held else lowest(d, person)
        asked = d.next(person, now)
        assert (None if asked is None else places(d, asked)) == expected
        if asked is not None and rng.random() < 0.7:
            value = "unsure" if rng.random() < 0.4 else "no"
            d.answer(person, asked, value if seed else f"{value}|{value}", now=now)


# ----------------------------------------------------------------------------------------------------------------
# answering


def test_an_answer_is_kept_with_its_event(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(2, START + 0.25)
    done = d.answer(2, asked, "yes", now=START + 3.5, shown_at=START + 1.25)
    assert (done.question, done.revision, done.again, done.next) == (asked.question, 0, False, None)
    row = d.rows("SELECT * FROM answer WHERE project_id = :p")[0]
    assert (row["id"], row["value"], row["client_ms"], row["shown_at"], row["received_at"]) == (
        done.answer,
        "yes",
        900,
        START + 1.25,
        START + 3.5,
    )
    event = d.rows("SELECT * FROM event WHERE project_id = :p AND kind = 'answer'")[0]
    assert event["actor"] == "a-2"
    expected = {
        "answer": done.answer,
        "place": places(d, asked),
        "question": asked.question,
        "received_at": START + 3.5,
        "revision": 0,
        "shown_at": START + 1.25,
        "value": "yes",
    }
    assert json.loads(event["payload"]) == expected


def test_an_answer_brings_the_next_question(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    done = d.answer(0, asked, want_next=True)
    assert done.next is not None
    assert done.next.question != asked.question
    assert done.next.done == 1
    assert d.must(0) == done.next


def test_the_time_of_showing_stays_between_lease_and_answer(desk: Callable[..., Desk]) -> None:
    d = desk()
    d.answer(0, d.must(0), shown_at=5.0, now=START + 1)
    d.answer(1, d.must(1), shown_at=START + 99, now=START + 1)
    assert [
        r["shown_at"]
        for r in d.rows("SELECT shown_at FROM answer WHERE project_id = :p ORDER BY id")
    ] == [START, START + 1]


def test_a_repeated_key_gives_the_same_answer_again(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    first = d.answer(0, asked, "yes")
    d.must(0)
    again = d.answer(0, asked, "yes", now=START + 50)
    assert (again.answer, again.again, first.again) == (first.answer, True, False)
    assert len(d.rows("SELECT id FROM answer WHERE project_id = :p")) == 1
    with_next = d.answer(0, asked, "yes", want_next=True)
    assert with_next.next == d.must(0)


def test_a_repeated_key_is_answered_after_the_project_was_closed(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    first = d.answer(0, asked)
    d.set("UPDATE project SET state = 'closed' WHERE id = :p")
    again = d.answer(0, asked, want_next=True)
    assert (again.answer, again.again, again.next) == (first.answer, True, None)


def test_a_repeated_key_with_another_value_is_a_conflict(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    d.answer(0, asked, "yes")
    with pytest.raises(Conflict, match="first one counts"):
        d.answer(0, asked, "no")
    assert d.rows("SELECT value FROM answer WHERE project_id = :p") == [{"value": "yes"}]


def test_many_answers_at_once_with_one_key_are_one_answer(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked, world = d.must(0), d.world

    async def send() -> list[Any]:
        return await asyncio.gather(
            *(
                d.store.answer(
                    world.token(0),
                    world.project,
                    question=asked.question,
                    key=asked.key,
                    value=value,
                    shown_at=START,
                    client_ms=None,
                    now=START,
                    want_next=False,
                )
                for value in ["yes"] * 10 + ["no"] * 5
            ),
            return_exceptions=True,
        )

    got = asyncio.run(send())
    kept = [g for g in got if isinstance(g, Answered)]
    assert len({g.answer for g in kept}) == 1
    assert sum(not g.again for g in kept) == 1
    assert all(isinstance(g, Answered | Conflict) for g in got)
    audit(d.store, d.world)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"question": 10**6}, NotFound),
        ({"question": 0}, NotFound),
        ({"question": 2**70}, NotFound),
        ({"key": "a key of my own"}, Conflict),
        ({"key": ""}, Refused),
        ({"key": "k" * 101}, Refused),
        ({"key": "nul\0"}, Refused),
        ({"key": "\ud800"}, Refused),
        ({"value": "perhaps"}, Refused),
        ({"value": ""}, Refused),
        ({"value": "yes\0"}, Refused),
        ({"value": "\ud800"}, Refused),
        ({"value": "yes|no"}, Refused),
        ({"value": "y" * 20_000}, Refused),
        ({"shown_at": float("nan")}, Refused),
        ({"shown_at": float("-inf")}, Refused),
        ({"client_ms": -1}, Refused),
        ({"client_ms": 2**70}, Refused),
    ],
)
def test_what_is_no_answer_is_refused_and_leaves_nothing(
    desk: Callable[..., Desk], change: dict[str, Any], error: type[CollectError]
) -> None:
    d = desk()
    asked = d.must(0)
    with pytest.raises(error):
        d.answer(0, asked, **{"value": "yes", **change})
    assert d.rows("SELECT id FROM answer WHERE project_id = :p") == []
    assert d.must(0) == asked


def test_a_question_of_another_person_is_a_conflict(desk: Callable[..., Desk]) -> None:
    d = desk(n_people=8)
    asked = d.must(0)
    for person in (1, 4):
        with pytest.raises(Conflict):
            d.answer(person, asked)


def test_a_question_that_nobody_holds_is_a_conflict(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    free = d.rows("SELECT id FROM question WHERE project_id = :p AND status = 0")[0]["id"]
    with pytest.raises(Conflict):
        d.answer(0, asked, question=free)


def test_a_question_of_another_project_is_not_found(store: Store) -> None:
    one, two = Desk(store, build(store)), Desk(store, build(store))
    asked = two.must(0)
    with pytest.raises(NotFound):
        one.answer(0, asked)


# -----------------------------------------------------------------------------------------------------------------
# who may


def test_without_a_session_nothing_is_answered(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    calls = [lambda: d.next(0), lambda: d.answer(0, asked), lambda: d.amend(0, 1, "no")]
    for change in (
        "UPDATE session SET expires_at = 1 WHERE :p > 0",
        "UPDATE person SET active = 0 WHERE :p > 0",
        "DELETE FROM session WHERE :p > 0",
    ):
        d.set(change)
        for call in calls:
            with pytest.raises(SignedOut):
                call()
        d.set(f"UPDATE session SET expires_at = {START + 1e8} WHERE :p > 0")
        d.set("UPDATE person SET active = 1 WHERE :p > 0")


def test_a_foreign_project_is_not_found(store: Store) -> None:
    one, two = Desk(store, build(store)), Desk(store, build(store))
    stranger = token(two.world.people[0])
    asked = one.must(0)
    for project in (one.world.project, 10**6):
        with pytest.raises(NotFound):
            asyncio.run(store.next_question(stranger, project, now=START))
        form = {
            "question": asked.question,
            "key": asked.key,
            "value": "no",
            "shown_at": START,
            "client_ms": None,
            "now": START,
        }
        with pytest.raises(NotFound):
            asyncio.run(store.answer(stranger, project, **form, want_next=True))
        with pytest.raises(NotFound):
            asyncio.run(store.amend(stranger, project, answer=1, key="k", value="no", now=START))


@pytest.mark.parametrize("role", ["owner", "manager", "auditor"])
def test_only_annotators_are_asked(desk: Callable[..., Desk], role: str) -> None:
    d = desk()
    d.set("UPDATE membership SET role = :role WHERE project_id = :p", role=role)
    with pytest.raises(Forbidden):
        d.next(0)


@pytest.mark.parametrize("state", ["draft", "sealed", "closed"])
def test_a_project_that_is_not_open_is_a_conflict(desk: Callable[..., Desk], state: str) -> None:
    d = desk()
    asked = d.must(0)
    done = d.answer(1, d.must(1))
    d.set("UPDATE project SET state = :s WHERE id = :p", s=state)
    for call in (
        lambda: d.next(0),
        lambda: d.answer(0, asked),
        lambda: d.amend(1, done.answer, "yes"),
    ):
        with pytest.raises(Conflict, match="not open"):
            call()


# ----------------------------------------------------------------------------------------------------------
# unsure, amend


def test_unsure_goes_to_another_person_of_the_pool_as_often_as_the_specification_says(
    desk: Callable[..., Desk],
) -> None:
    d = desk(n_people=16, reasks=2)
    asked = d.must(0)
    d.answer(0, asked, "unsure")
    follow = d.must(0)
    assert follow.item != asked.item
    assert d.must(12).item != asked.item, "asked again before the answer was final"
    second = d.must(4, now=START + 61)
    assert (second.item, second.shown) == (asked.item, asked.shown)
    d.answer(4, second, "unsure", now=START + 61)
    third = d.must(8, now=START + 122)
    assert third.item == asked.item
    d.answer(8, third, "unsure", now=START + 122)
    assert d.must(0, now=START + 183).item != asked.item
    rows = d.rows(
        "SELECT place, draw, kind, pool, propensity FROM question WHERE project_id = :p AND item_id = :i ORDER BY draw",
        i=asked.item,
    )
    assert [(r["draw"], r["kind"]) for r in rows] == [(0, "main"), (1000, "reask"), (2000, "reask")]
    assert len({(r["place"], r["pool"], r["propensity"]) for r in rows}) == 1
    audit(d.store, d.world)


@pytest.mark.parametrize("kind", ["gold", "panel", "attention"])
def test_only_main_questions_are_put_again(desk: Callable[..., Desk], kind: str) -> None:
    d = desk(kinds=(kind,), reasks=3)
    d.answer(0, d.must(0), "unsure")
    assert d.rows("SELECT id FROM question WHERE project_id = :p AND kind = 'reask'") == []


def test_judge_all_is_put_again_only_if_nothing_was_decided(desk: Callable[..., Desk]) -> None:
    d = desk(protocol="judge-all", reasks=1, pools=[(0,)])
    d.answer(0, d.must(0), "unsure|no")
    assert d.rows("SELECT id FROM question WHERE project_id = :p AND kind = 'reask'") == []
    d.answer(0, d.must(0), "unsure|unsure")
    assert len(d.rows("SELECT id FROM question WHERE project_id = :p AND kind = 'reask'")) == 1


def test_amendments_are_appended_and_the_first_answer_stays(desk: Callable[..., Desk]) -> None:
    d = desk()
    asked = d.must(0)
    first = d.answer(0, asked, "yes")
    d.must(0)
    one = d.amend(0, first.answer, "no", "k1")
    two = d.amend(0, one.answer, "unsure", "k2")
    assert [(a.revision, a.again, a.question) for a in (one, two)] == [
        (1, False, asked.question),
        (2, False, asked.question),
    ]
    assert [
        r["value"]
        for r in d.rows("SELECT value FROM answer WHERE project_id = :p ORDER BY revision")
    ] == ["yes", "no", "unsure"]
    again = d.amend(0, first.answer, "no", "k1")
    assert (again.answer, again.again) == (one.answer, True)
    with pytest.raises(Conflict):
        d.amend(0, first.answer, "yes", "k1")
    assert d.must(0).done == 1
    assert audit(d.store, d.world)["amended"] == 2


def test_only_the_last_answer_of_the_person_can_be_amended(desk: Callable[..., Desk]) -> None:
    d = desk(n_people=8)
    first = d.answer(0, d.must(0))
    second = d.answer(0, d.must(0))
    d.answer(4, d.must(4))
    with pytest.raises(Conflict, match="last answer"):
        d.amend(0, first.answer, "yes")
    with pytest.raises(NotFound):
        d.amend(4, second.answer, "yes")
    with pytest.raises(Refused):
        d.amend(0, second.answer, "perhaps")
    assert d.amend(0, second.answer, "yes").revision == 1


# -------------------------------------------------------------------------------------------------------------------
# values


@pytest.mark.parametrize("trap", [False, True])
@pytest.mark.parametrize("protocol", ["partitioned", "judge-all", "pick-wrong", "ordinary"])
def test_both_databases_take_the_same_values(store: Store, protocol: str, trap: bool) -> None:
    spec = ProjectSpec.from_dict(
        {"protocol": protocol, "classes": [str(k) for k in range(12)], "shown": 2, "trap": trap}
    )
    shown = {"partitioned": (7,), "ordinary": tuple(range(12))}.get(protocol, (11, 2))
    values = [
        "yes",
        "no",
        "unsure",
        "none",
        "11",
        "2",
        "02",
        "1",
        "12",
        "-2",
        " 2",
        "2.0",
        "yes|no",
        "unsure|unsure",
        "yes|no|no",
    ]
    values += ["yes|", "|", "", "2|11", "YES"]
    fits = [hot.fits(spec, shown, value) for value in values]
    assert any(fits)
    assert not all(fits)
    if store.url.startswith("postgresql"):
        sql = "SELECT noracle_fits(:protocol, :trap, :shown, :value) AS ok"
        given = {"protocol": protocol, "trap": trap, "shown": json.dumps(shown)}
        there = store.read_now(
            lambda w: [(w.one(sql, value=value, **given) or {})["ok"] for value in values]
        )
        assert there == fits


# ----------------------------------------------------------------------------------------------------------------
# append-only


CHANGES = (
    "UPDATE answer SET value = 'yes'",
    "DELETE FROM answer",
    "UPDATE event SET payload = '{}'",
    "DELETE FROM event",
)


@pytest.mark.parametrize("sql", [*CHANGES, "UPDATE event SET seq = 7"])
def test_answers_and_events_cannot_be_changed(desk: Callable[..., Desk], sql: str) -> None:
    d = desk()
    d.answer(0, d.must(0))
    d.store.chain(d.world.project)
    with pytest.raises(Exception, match="never"):
        d.store.write_now(lambda work: work.run(sql))
    audit(d.store, d.world)


def test_an_operation_that_fails_leaves_nothing_and_harms_nobody(desk: Callable[..., Desk]) -> None:
    d = desk()

    def fails(work: Any) -> None:
        work.log(d.world.project, "look", {}, actor="system", at=START)
        work.run("UPDATE project SET name = 'changed' WHERE id = :p", p=d.world.project)
        raise Conflict("no")

    async def some() -> list[Any]:
        jobs = [
            d.store.write(fails),
            d.store.next_question(d.world.token(0), d.world.project, now=START),
            d.store.write(fails),
        ]
        return await asyncio.gather(*jobs, return_exceptions=True)

    got = asyncio.run(some())
    assert [type(g) for g in got] == [Conflict, HeldQuestion, Conflict]
    assert d.rows("SELECT name FROM project WHERE id = :p") == [{"name": "A project"}]
    assert audit(d.store, d.world)["look"] == 0


def test_portable_statements_give_the_same_rows(store: Store) -> None:
    build(store, n_items=3)

    def ask(work: Any) -> list[Any]:
        return [
            work.one("SELECT COUNT(*) AS n, SUM(place) AS s, AVG(propensity) AS m FROM question"),
            work.one("SELECT :a AS a, ':a' AS b, '5%' AS c WHERE :none IS NULL", a="x", none=None),
            work.one("SELECT seed FROM project"),
            work.one("SELECT 1 AS x WHERE 1 = 0"),
            work.all("SELECT place FROM question WHERE place > :p ORDER BY place", p=0),
        ]

    count, words, *others = store.read_now(ask)
    assert count == {"n": 3, "s": 3, "m": 0.25}
    assert words == {"a": "x", "b": ":a", "c": "5%"}
    assert others == [{"seed": None}, None, [{"place": 1}, {"place": 2}]]
    store.write_now(lambda work: work.run("UPDATE project SET seed = :s", s=b"\x00\xff"))
    assert store.read_now(lambda work: work.one("SELECT seed FROM project")) == {
        "seed": b"\x00\xff"
    }
    assert (
        store.write_now(lambda work: work.run("UPDATE question SET status = 3 WHERE place < 2"))
        == 2
    )


def test_reading_cannot_write(store: Store) -> None:
    with pytest.raises(Exception, match=r"readonly|read-only"):
        store.read_now(lambda work: work.run("DELETE FROM throttle"))


def test_a_closed_store_says_so(store_url: str) -> None:
    store = open_store(store_url)
    store.close()
    store.close()
    for call in (store.read_now, store.write_now):
        with pytest.raises(ArgumentError, match="closed"):
            call(lambda work: None)
