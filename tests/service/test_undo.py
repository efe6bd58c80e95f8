"""Taking an answer back: on both databases, in the estimate, in the export, and as somebody would
misuse it.
"""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from noracle.collect.archive import read_archive
from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.live import LiveView, live_view
from noracle.collect.live.records import read_project
from noracle.collect.model import HeldQuestion
from noracle.collect.service import access, answers, exports, people, projects
from noracle.collect.store import open_store
from noracle.collect.store.base import Store, Work
from noracle.collect.verify import verify_archive
from tests.service.worlds import START, audit, build
from tests.unit.collect.service_world import SEAL, Ready, Service, spec_of, texts


class Office:
    """An open project through the services, with a clock."""

    def __init__(
        self, store: Store, *, n: int = 30, people: int = 1, seed: bytes = SEAL, **spec: Any
    ) -> None:
        self.service = Service(store)
        self.ready: Ready = self.service.ready(
            spec_of(**{"k": 3, **spec}), texts(n), people_a_pool=people, seed=seed
        )
        self.store, self.project = store, self.ready.project
        self.people = list(self.ready.raters)
        self.now = self.service.now + 100

    def next(self, who: int) -> HeldQuestion:
        token = self.ready.raters[self.people[who]]
        asked = asyncio.run(self.store.next_question(token, self.project, now=self.now))
        assert asked is not None
        return asked

    def answer(self, who: int, value: str = "no", *, want_next: bool = False, **more: Any) -> Any:
        token, asked = self.ready.raters[self.people[who]], self.next(who)
        sent = {"question": asked.question, "key": asked.key, "value": value, "client_ms": None}
        sent |= {"shown_at": self.now, "now": self.now, "want_next": want_next, **more}
        return asyncio.run(self.store.answer(token, self.project, **sent))

    def member(self, who: int) -> access.Member:
        return self.service.member(self.people[who], self.project)

    def undo(self, who: int, answer: int) -> None:
        self.store.write_now(lambda w: answers.undo(w, self.member(who), answer, now=self.now))

    def leave(self, who: int) -> None:
        member = self.member(who)
        self.store.write_now(lambda w: answers.leave(w, member, now=self.now))

    def rows(self, sql: str) -> list[Any]:
        return self.store.read_now(lambda w: w.all(sql, p=self.project))

    def answered(self) -> int:
        return self.store.read_now(lambda w: live_view(w, self.project, now=self.now)).answered

    def log(self) -> None:
        """Something happens, so that the chain knows the time."""
        member = self.service.member(self.ready.owner, self.project)
        self.store.write_now(
            lambda w: projects.note(w, member, "exported", format="csv", now=self.now)
        )

    def archive(self) -> Any:
        def op(work: Work) -> bytes:
            return exports.archive_of(work, self.project).to_bytes()

        return read_archive(io.BytesIO(self.store.read_chained_now(self.project, op)))

    def judged(self) -> list[str]:
        """The verdicts of the table and of the archive, which are the same."""
        table = self.store.read_chained_now(
            self.project, lambda w: exports.judgements(w, self.project)
        )
        archive = self.archive()
        result = verify_archive(archive)
        assert result.passed, result.findings
        assert [j["verdict"] for j in table] == [j["verdict"] for j in archive.judgements]
        return [j["verdict"] for j in table]

    def close(self) -> None:
        self.store.write_now(
            lambda w: projects.close_project(w, self.project, actor="system", now=self.now)
        )


@pytest.fixture
def office(store: Store) -> Callable[..., Office]:
    return lambda **more: Office(store, **more)


def test_an_answer_that_was_taken_back_is_asked_again_and_the_next_one_counts(
    office: Callable[..., Office],
) -> None:
    o = office()
    kept = o.answer(0, "yes", want_next=True)
    after = kept.next
    o.undo(0, kept.answer)
    again = o.next(0)
    assert again.question == kept.question
    assert again.done == 0
    o.undo(0, kept.answer)  # a repeat
    assert o.next(0).key == again.key
    new = o.answer(0, "no", want_next=True)
    assert (new.question, new.revision, new.again) == (kept.question, 1, False)
    assert new.next.question == after.question
    assert new.next.done == 1
    o.answer(0, "unsure")
    o.close()
    assert o.judged() == ["no", "unsure"]
    archive = o.archive()
    assert [a["value"] for a in archive.answers] == ["yes", "no", "unsure"]
    events = [json.loads(e["payload"]) for e in archive.events if e["kind"] == "undone"]
    assert [e["answer"] for e in events] == [kept.answer]
    assert events[0]["returned"] is not None


def test_an_answer_counts_when_it_is_final(office: Callable[..., Office]) -> None:
    """Enumerated: by the next answer, by leaving, by 60 seconds, by closing; not before."""
    o = office()
    o.answer(0, "yes")
    o.log()
    assert (o.answered(), o.judged()) == (0, [])
    o.now += 1
    o.answer(0, "no")
    o.log()
    assert (o.answered(), o.judged()) == (1, ["yes"])
    o.now += 1
    o.leave(0)
    assert (o.answered(), o.judged()) == (2, ["yes", "no"])
    o.answer(1, "no")
    o.now += 59.5
    o.log()
    assert (o.answered(), o.judged()) == (2, ["yes", "no"])
    o.now += 0.5
    o.log()
    assert (o.answered(), o.judged()) == (3, ["yes", "no", "no"])
    o.answer(2, "unsure")
    o.log()
    assert (o.answered(), o.judged()) == (3, ["yes", "no", "no"])
    o.close()
    assert (o.answered(), o.judged()) == (4, ["yes", "no", "no", "unsure"])


def test_nothing_that_is_final_is_taken_back(office: Callable[..., Office]) -> None:
    o = office()
    first = o.answer(0, "yes")
    second = o.answer(0, "no")
    with pytest.raises(Conflict, match="final"):
        o.undo(0, first.answer)
    with pytest.raises(Conflict):
        o.undo(1, second.answer)  # another person's
    with pytest.raises(Conflict):
        o.undo(0, 10**6)
    o.now += 60
    with pytest.raises(Conflict):
        o.undo(0, second.answer)
    third = o.answer(0, "no")
    o.leave(0)
    o.leave(0)
    with pytest.raises(Conflict):
        o.undo(0, third.answer)
    fourth = o.answer(0, "no")
    token = o.ready.raters[o.people[0]]
    sent = {"answer": fourth.answer, "key": "k", "value": "yes", "now": o.now}
    asyncio.run(o.store.amend(token, o.project, **sent))
    with pytest.raises(Conflict):
        o.undo(0, fourth.answer)  # what was amended is final
    fifth = o.answer(0, "no")
    o.undo(0, fifth.answer)
    with pytest.raises(Conflict):
        o.undo(0, fourth.answer)  # one step back, not two
    o.answer(0, "no")
    with pytest.raises(Conflict):
        o.undo(0, fifth.answer)
    sixth = o.answer(0, "yes")
    o.close()
    with pytest.raises(Conflict, match="open"):
        o.undo(0, sixth.answer)
    assert o.rows("SELECT COUNT(*) AS n FROM settled WHERE project_id = :p")[0]["n"] == 2
    assert o.judged() == ["yes", "no", "no", "no", "no", "yes"]


def test_an_amendment_after_an_undo_still_does_not_count(office: Callable[..., Office]) -> None:
    o = office()
    kept = o.answer(0, "yes")
    o.undo(0, kept.answer)
    new = o.answer(0, "no")
    token = o.ready.raters[o.people[0]]
    sent = {"answer": new.answer, "key": "k", "value": "yes", "now": o.now}
    amended = asyncio.run(o.store.amend(token, o.project, **sent))
    assert amended.revision == 2
    with pytest.raises(Conflict):
        o.undo(0, new.answer)
    o.close()
    assert o.judged() == ["no"]


def test_an_old_form_is_harmless_after_an_undo(office: Callable[..., Office]) -> None:
    """The form of the answer that was taken back, sent again, changes nothing."""
    o = office()
    asked = o.next(0)
    kept = o.answer(0, "yes")
    o.undo(0, kept.answer)
    again = o.answer(0, "yes", key=asked.key)
    assert (again.answer, again.again) == (kept.answer, True)
    assert o.next(0).question == kept.question
    with pytest.raises(Conflict):
        o.answer(0, "no", key=asked.key)
    o.answer(0, "no")
    o.close()
    assert o.judged() == ["no"]


def test_a_question_is_put_again_only_after_its_unsure_is_final(
    office: Callable[..., Office],
) -> None:
    o = office(k=2, n=1, reasks=1, people=2, draws=2)
    kept = o.answer(0, "unsure")
    other = next(i for i in range(4) if o.member(i).pools == o.member(0).pools and i != 0)
    token = o.ready.raters[o.people[other]]
    ask = lambda: asyncio.run(o.store.next_question(token, o.project, now=o.now))  # noqa: E731
    assert ask() is None
    o.undo(0, kept.answer)
    assert o.rows("SELECT id FROM question WHERE project_id = :p AND kind = 'reask'") == []
    o.answer(0, "yes")
    o.now += 100
    assert ask() is None
    o.close()
    assert o.judged() == ["yes"]


def test_a_question_that_was_put_again_to_somebody_is_not_taken_back(
    office: Callable[..., Office],
) -> None:
    """Two servers whose clocks differ: one has asked again already, the other would still undo."""
    o = office(k=2, n=1, reasks=1, people=2, draws=2)
    kept = o.answer(0, "unsure")
    other = next(i for i in range(4) if o.member(i).pools == o.member(0).pools and i != 0)
    o.now += 60
    assert o.next(other).item
    o.now -= 3
    with pytest.raises(Conflict):
        o.undo(0, kept.answer)
    o.answer(other, "no")
    o.close()
    assert o.judged() == ["unsure", "no"]


def test_somebody_else_may_answer_what_was_taken_back_and_left(
    office: Callable[..., Office],
) -> None:
    o = office(k=2, n=6, people=2, lease_seconds=30)
    kept = o.answer(0, "yes", want_next=True)
    o.undo(0, kept.answer)
    o.now += 31
    other = next(i for i in range(4) if o.member(i).pools == o.member(0).pools and i != 0)
    new = o.answer(other, "no")
    assert (new.question, new.revision) == (kept.question, 1)
    o.answer(0, "no")
    o.close()
    assert o.judged() == ["no", "no"]
    people = o.rows("SELECT person_id FROM question WHERE project_id = :p AND status = 2")
    assert len({row["person_id"] for row in people}) == 2


def test_random_work_with_undos_leaves_everything_as_it_must_be(store: Store) -> None:
    """Eight people answer, take back, leave and pause at random; what counts is what they meant."""
    o = Office(store, n=80, people=3, reasks=1, draws=2)
    rng = random.Random(4)
    meant: dict[int, str] = {}
    for _ in range(250):
        who = rng.randrange(len(o.people))
        o.now += rng.choice((0.5, 2, 2, 30))
        token = o.ready.raters[o.people[who]]
        asked = asyncio.run(o.store.next_question(token, o.project, now=o.now))
        if asked is None:
            continue
        value = rng.choice(("yes", "no", "no", "unsure"))
        kept = o.answer(who, value, want_next=rng.random() < 0.7)
        meant[kept.question] = value
        dice = rng.random()
        if dice < 0.3:
            o.now += rng.choice((1, 20, 70))
            try:
                o.undo(who, kept.answer)
                del meant[kept.question]
            except Conflict:
                pass
        elif dice < 0.4:
            o.leave(who)
    rows = o.rows("SELECT COUNT(*) AS n FROM settled WHERE project_id = :p AND undone = 1")
    assert rows[0]["n"] > 20
    o.log()
    o.judged()
    o.close()
    said = o.judged()
    table = store.read_chained_now(o.project, lambda w: exports.judgements(w, o.project))
    assert len(said) == len(meant)
    assert {j["question"]: j["verdict"] for j in table} == meant
    live = store.read_now(lambda w: read_project(w, o.project, now=o.now))
    assert int(live.rows.done.sum()) == len({j["item"] + str(j["class"]) for j in table})


def test_nobody_picks_a_class_by_undoing(office: Callable[..., Office]) -> None:
    """The question that goes back on an undo bars its person from the item's other questions."""
    o = office(k=3, n=4, draws=3)
    # one person in all pools would be asked about an item once
    kept = o.answer(0, "yes", want_next=True)
    o.undo(0, kept.answer)
    held = o.rows("SELECT item_id, person_id FROM held")
    assert [(h["item_id"], h["person_id"]) for h in held] == [(kept.next.item, o.people[0])]


def test_settled_rows_are_never_changed(office: Callable[..., Office]) -> None:
    o = office()
    kept = o.answer(0, "yes")
    o.undo(0, kept.answer)
    for sql in ("DELETE FROM settled", "UPDATE settled SET undone = 0"):
        with pytest.raises(Exception, match="never"):
            o.store.write_now(lambda w, sql=sql: w.run(sql))


def test_rows_that_were_tampered_with_are_found(office: Callable[..., Office]) -> None:
    """Somebody with the database adds or removes what was settled: the events do not agree."""
    o = office()
    kept = o.answer(0, "yes")
    o.undo(0, kept.answer)
    new = o.answer(0, "no")
    o.answer(0, "no")
    o.close()
    assert o.judged() == ["no", "no"]
    insert = "INSERT INTO settled (answer_id, project_id, person_id, at, undone) VALUES (:a, :p, :q, 1, 1)"
    o.store.write_now(lambda w: w.run(insert, a=new.answer, p=o.project, q=o.people[0]))
    result = verify_archive(o.archive())
    assert not result.passed
    assert any("judgements" in line for line in result.findings)


def test_comments_are_kept_for_managers_and_stay_out_of_everything_else(
    office: Callable[..., Office],
) -> None:
    o = office()
    asked, me = o.next(0), o.member(0)

    def say(text: str, *, broken: bool = False, question: int = asked.question) -> int:
        return o.store.write_now(
            lambda w: answers.add_comment(w, me, question, text=text, broken=broken, now=o.now)
        )

    say("The patient Erika M. is named in it.")
    say("", broken=True)
    with pytest.raises(Refused):
        say("")
    with pytest.raises(Refused):
        say("x" * 2001)
    with pytest.raises(NotFound):
        say("not mine", question=o.next(1).question)
    found = o.store.read_now(lambda w: answers.comments_of(w, o.project))
    assert [(c["text"], c["broken"]) for c in found] == [
        ("The patient Erika M. is named in it.", False),
        ("", True),
    ]
    assert {c["rater"] for c in found} == {me.alias}
    o.answer(0, "unsure")
    o.close()
    data = o.archive().to_bytes()
    assert b"Erika" not in data
    events = [e["payload"] for e in o.archive().events if e["kind"] == "commented"]
    assert len(events) == 2
    assert "Erika" not in "".join(events)
    assert o.judged() == ["unsure"]
    with pytest.raises(Conflict):
        say("late")


def test_forgetting_erases_what_somebody_wrote_and_their_address(
    office: Callable[..., Office],
) -> None:
    """The mark that an item is broken stays, and so do the words of others."""
    o = office()
    who = "SELECT email FROM person WHERE id = :p"
    email = o.store.read_now(lambda w: w.one(who, p=o.people[0]))["email"]  # type: ignore[index]
    said = [(0, "I know her. Dr. Erika M."), (1, f"Ask {email.upper()}!"), (1, "Blurred.")]
    for person, text in said:
        asked, me = o.next(person).question, o.member(person)
        about: Any = {"text": text, "broken": person == 0, "now": o.now}
        o.store.write_now(lambda w, a=asked, m=me, b=about: answers.add_comment(w, m, a, **b))
    o.store.write_now(lambda w: people.forget(w, email, now=o.now))
    found = o.store.read_now(lambda w: answers.comments_of(w, o.project))
    assert [(c["text"], c["broken"]) for c in found] == [
        ("", True),
        ("", False),
        ("Blurred.", False),
    ]
    assert verify_archive(o.archive()).passed


def test_the_hot_path_and_undo_leave_the_tables_whole(store: Store) -> None:
    world = build(store, n_items=20, n_people=4)
    for who in range(4):
        token = world.token(who)
        asked = asyncio.run(store.next_question(token, world.project, now=START))
        assert asked is not None
        sent = {"question": asked.question, "key": asked.key, "value": "no", "client_ms": None}
        kept = asyncio.run(
            store.answer(
                token, world.project, shown_at=START, now=START + 1, want_next=True, **sent
            )
        )
        member = store.read_now(
            lambda w, p=world.people[who]: access.member_of(w, p, world.project)
        )
        assert member is not None
        store.write_now(lambda w, m=member, k=kept: answers.undo(w, m, k.answer, now=START + 2))
    found = audit(store, world)
    assert (found["undone"], found["answers"]) == (4, 0)


@pytest.mark.full
def test_undo_does_not_move_the_law_of_the_estimate(tmp_path: Path) -> None:
    """Seeded worlds in which fingers slip: with undo, the estimate is that of a twin where none
    slipped, and the interval covers.
    """
    rng, hits, runs = np.random.default_rng(11), 0, 10
    for run in range(runs):
        truth = {f"i{j:04}": int(k) for j, k in enumerate(rng.integers(3, size=40))}
        wrong = rng.random(40) < 0.3
        shifted = zip(truth.items(), wrong, strict=True)
        said: dict[str, int | None] = {name: (k + int(w)) % 3 for (name, k), w in shifted}
        seed, slips = rng.bytes(32), rng.random(40) < 0.25
        views = []
        for slipping in (True, False):
            path = f"sqlite:///{tmp_path}/{run}-{slipping}.db?synchronous=off"
            store = open_store(path, unsafe=True)
            try:
                views.append(_labelled(store, seed, truth, said, slips & slipping))
            finally:
                store.close()
        slipped, steady = views
        assert slipped.systems[0].estimate.value == steady.systems[0].estimate.value
        assert slipped.systems == steady.systems
        estimate = slipped.systems[0].estimate
        hits += estimate.low <= 1 - wrong.mean() <= estimate.high
    assert hits >= runs - 1


def _labelled(store: Store, seed: bytes, truth: dict[str, int], said: Any, slips: Any) -> LiveView:
    """Everybody answers everything as they mean it, the slips only after an undo."""
    o = Office(store, n=len(truth), seed=seed)
    store.write_now(
        lambda w: projects.add_system(w, o.project, "s", said, actor="system", now=o.now)
    )
    for who in range(3):
        token = o.ready.raters[o.people[who]]
        while asked := asyncio.run(store.next_question(token, o.project, now=o.now)):
            number = int(str(asked.content["text"]).rsplit(" ", 1)[1])
            meant = "yes" if truth[f"i{number:04}"] == asked.shown[0] else "no"
            if slips[number]:
                kept = o.answer(who, {"yes": "no", "no": "yes"}[meant])
                o.undo(who, kept.answer)
            o.answer(who, meant)
            o.now += 1
    o.close()
    assert slips.sum() == sum(e["kind"] == "undone" for e in o.archive().events)
    return store.read_now(lambda w: live_view(w, o.project, now=o.now))


def test_answers_and_undos_that_race_leave_one_truth(store: Store) -> None:
    """Everybody answers and takes back in several tabs at once; how often they can is chance."""
    world = build(store, n_items=60, n_people=8, draws=2, reasks=1)
    members = [
        store.read_now(lambda w, p=person: access.member_of(w, p, world.project))
        for person in world.people
    ]

    async def tab(who: int, seed: int) -> None:
        rng, token, member = random.Random(seed), world.token(who), members[who]
        assert member is not None
        for k in range(12):
            now = START + 2 * k
            asked = await store.next_question(token, world.project, now=now)
            if asked is None:
                return
            sent = {"question": asked.question, "key": asked.key, "client_ms": None, "now": now}
            value = rng.choice(("yes", "no", "unsure"))
            try:
                kept = await store.answer(
                    token, world.project, value=value, shown_at=now, want_next=True, **sent
                )
                if rng.random() < 0.5:
                    await store.write(
                        lambda w, k=kept, n=now: answers.undo(w, member, k.answer, now=n + 1)
                    )
                elif rng.random() < 0.3:
                    await store.write(lambda w, n=now: answers.leave(w, member, now=n + 1))
            except Conflict:
                pass

    async def everybody() -> None:
        tabs = [(who, 3 * who + t) for who in range(8) for t in range(3)]
        await asyncio.gather(*(tab(who, seed) for who, seed in tabs))

    asyncio.run(everybody())
    found = audit(store, world)
    assert found["answers"] > 10


def test_a_clock_that_steps_back_does_not_break_the_proof(office: Callable[..., Office]) -> None:
    """By a little: the undo holds and verifies. By an hour: the answer is final."""
    o = office()
    kept = o.answer(0, "yes")
    o.now -= 20
    o.undo(0, kept.answer)
    new = o.answer(0, "no")
    o.now -= 3600
    with pytest.raises(Conflict):
        o.undo(0, new.answer)
    o.now += 4000
    o.close()
    assert o.judged() == ["no"]
