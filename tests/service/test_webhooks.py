"""Webhooks: signed, repeated until somebody takes them, lost by no kill, and never a way into the
server's own network.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra 'collect' is not installed")

from noracle.collect.errors import Conflict, NotFound, Refused
from noracle.collect.service import webhooks
from noracle.collect.service.webhooks import Teller, check_url, is_public, signature_fits
from noracle.collect.store import open_store
from tests.service.web_site import KEY, Site, running, texts


class Receiver:
    """Somebody who is called: answers with the next of its statuses, then 204."""

    def __init__(self, *statuses: int, pause: float = 0.0) -> None:
        self.calls: list[tuple[dict[str, str], bytes, str]] = []
        self.statuses, self.pause = list(statuses), pause
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                named = {key.lower(): value for key, value in self.headers.items()}
                outer.calls.append((named, body, self.path))
                time.sleep(outer.pause)
                self.send_response(outer.statuses.pop(0) if outer.statuses else 204)
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.host}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def called() -> Iterator[Callable[..., Receiver]]:
    made: list[Receiver] = []

    def make(*statuses: int, pause: float = 0.0) -> Receiver:
        made.append(Receiver(*statuses, pause=pause))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@contextlib.contextmanager
def opened(where: Path | str, receiver: Receiver) -> Iterator[tuple[Site, Any, Any]]:
    """An open project that calls the receiver; its owner and a rater."""
    with running(where, webhook_hosts=(receiver.host,), changes_per_minute=100_000) as site:
        owner, rater = site.person("owner"), site.person("rater")
        project = site.project("told", owner, gold_rate=0.2)
        gold = texts(40)
        site.items(project, gold[:30])
        from noracle.collect.model import Item

        site.items(
            project, [Item(name=f"g{k}", content={"text": "g"}, truth=k % 3) for k in range(9)]
        )
        site.step(project, "seal", "open")
        site.join("told", owner, rater, "annotator", 0, 1, 2)
        yield site, site.as_(owner), site.as_(rater)


def answer(rater: Any, n: int = 1, value: str = "no") -> None:
    for _ in range(n):
        asked = rater.api("POST", "/projects/told/next").json()["next"]
        sent = {"question": asked["question"], "key": asked["key"], "value": value}
        reply = rater.api("POST", "/projects/told/answers", {**sent, "shown_at": time.time()})
        assert reply.status == 200


def wait(what: Callable[[], object], seconds: float = 15.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)


@pytest.mark.full
def test_answers_and_closing_are_told_signed_and_blind(
    store_url: str, called: Callable[..., Receiver]
) -> None:
    receiver = called()
    with opened(store_url, receiver) as (site, boss, rater):
        made = boss.api("POST", "/projects/told/webhooks", {"url": receiver.url}).json()
        listed = boss.api("GET", "/projects/told/webhooks").json()["webhooks"]
        assert [(w["id"], w["secret"]) for w in listed] == [(made["id"], made["secret"])]
        answer(rater, 6, "yes")
        wait(lambda: len(receiver.calls) >= 6)
        last = max(json.loads(body)["answer"] for _, body, _ in receiver.calls)
        assert rater.api("POST", f"/projects/told/answers/{last}/undo").status == 200
        wait(lambda: len(receiver.calls) >= 7)
        boss.api("POST", "/projects/told/close")
        wait(lambda: len(receiver.calls) >= 8)
        wait(lambda: site.count("delivery") == 0)
        told = [json.loads(body) for _, body, _ in receiver.calls]
        assert sorted(t["event"] for t in told) == ["answer"] * 6 + ["close", "undo"]
        assert [t["answer"] for t in told if t["event"] == "undo"] == [last]
        assert len({t["id"] for t in told}) == 8
        for headers, body, path in receiver.calls:
            fits, now = headers["x-noracle-signature"], time.time()
            assert path == "/hook?x=1"
            assert headers["host"] == receiver.host
            assert signature_fits(made["secret"], fits, body, now=now)
            assert not signature_fits(made["secret"], fits, body + b" ", now=now)
            assert not signature_fits("0" * 64, fits, body, now=now)
            assert not signature_fits(made["secret"], fits, body, now=now + 1000)
            assert headers["x-noracle-delivery"] == str(json.loads(body)["id"])
        for one in told:
            keys = {"id", "event", "project", "at"}
            assert set(one) == keys | ({"rater", "place", "answer"} if len(one) > 4 else set())
        whole = b"".join(body for _, body, _ in receiver.calls)
        for secret in (b"yes", b"gold", b"main", b"@example", b"The text", b"seed", b"value"):
            assert secret not in whole


@pytest.mark.full
def test_what_nobody_takes_is_sent_again_and_blocks_no_answer(
    tmp_path: Path, called: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_SECONDS", 3.0)
    receiver = called(500, 302, pause=0.2)
    with opened(tmp_path, receiver) as (site, boss, rater):
        assert boss.api("POST", "/projects/told/webhooks", {"url": receiver.url}).status == 201
        start = time.monotonic()
        answer(rater, 10)
        assert time.monotonic() - start < 2, "an answer waits for no webhook"
        wait(lambda: site.count("delivery") == 0, 60)
        ids = [json.loads(body)["id"] for _, body, _ in receiver.calls]
        assert len(set(ids)) == 10
        assert len(ids) >= 12, "the two that were refused came again, with the same id"
        assert all(path == "/hook?x=1" for _, _, path in receiver.calls), "no redirect is followed"


def test_after_a_day_it_gives_up_and_the_fault_is_shown(
    tmp_path: Path, called: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = called(*[500] * 1000)
    with opened(tmp_path, receiver) as (site, boss, rater):
        boss.api("POST", "/projects/told/webhooks", {"url": receiver.url})
        answer(rater)
        wait(lambda: "500" in boss.get("/p/told/setup").text)
        teller = Teller(site.store, KEY, (receiver.host,))
        real, shift = time.time, [0.0]
        monkeypatch.setattr(webhooks.time, "time", lambda: real() + shift[0])
        tries = 0
        while site.count("delivery"):
            shift[0] += 3601
            tries += asyncio.run(teller.once())
            assert tries < 40
        assert tries >= 20


def test_a_killed_server_loses_no_call(tmp_path: Path, called: Callable[..., Receiver]) -> None:
    """The delivery is written with its answer: whoever opens the database next sends it."""
    receiver = called(*[503] * 1000)
    with opened(tmp_path, receiver) as (_, boss, rater):
        boss.api("POST", "/projects/told/webhooks", {"url": receiver.url})
        answer(rater, 5)
        wait(lambda: receiver.calls)
    receiver.statuses.clear()
    store = open_store(f"sqlite:///{tmp_path}/labels.db")
    try:
        store.write_now(lambda w: w.run("UPDATE delivery SET next_at = 0"))
        assert asyncio.run(Teller(store, KEY, (receiver.host,)).once()) == 5
        row = store.read_now(lambda w: w.one("SELECT COUNT(*) AS n FROM delivery"))
        assert row == {"n": 0}
    finally:
        store.close()
    assert len({json.loads(body)["id"] for _, body, _ in receiver.calls[-5:]}) == 5


def test_two_servers_send_each_call_once(store_url: str, called: Callable[..., Receiver]) -> None:
    receiver = called()
    with opened(store_url, receiver) as (site, boss, rater):
        boss.api("POST", "/projects/told/webhooks", {"url": receiver.url})
        answer(rater, 20)

        async def both() -> None:
            tellers = [Teller(site.store, KEY, (receiver.host,)) for _ in range(3)]
            await asyncio.gather(*(t.once() for t in tellers))

        asyncio.run(both())
        wait(lambda: site.count("delivery") == 0)
        assert len(receiver.calls) == 20


def test_an_alarm_is_told_once(store_url: str, called: Callable[..., Receiver]) -> None:
    receiver = called()
    with opened(store_url, receiver) as (site, boss, rater):
        boss.api("POST", "/projects/told/webhooks", {"url": receiver.url})
        answer(rater, 30, "yes")  # all yes: the checks fail
        teller = Teller(site.store, KEY, (receiver.host,))

        def alarms() -> list[Any]:
            told = [json.loads(body) for _, body, _ in receiver.calls]
            return [t for t in told if t["event"] == "alarm"]

        for _ in range(2):
            asyncio.run(teller.watch())
            asyncio.run(Teller(site.store, KEY, ()).watch())
        wait(lambda: len(alarms()) >= 1)
        wait(lambda: site.count("delivery") == 0)
        assert len(alarms()) == 1
        assert alarms()[0]["checks"] == ["gold"]
        assert set(alarms()[0]) == {"id", "event", "project", "at", "checks"}


HOSTILE = [
    "http://example.org/x",
    "ftp://example.org/",
    "https://",
    "https://127.0.0.1/",
    "https://localhost/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[fe80::1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://[2002:7f00:1::]/",
    "https://224.0.0.1/",
    "https://0.0.0.0/",
    "https://100.64.0.1/",
    "https://192.168.1.1:8443/",
    "https://user:pw@example.org/",
    "https://a.localhost/",
    "javascript:x",
    "https://example.org:0x/",
    "https://[::1",
    "gopher://x.org/",
    "https://intranet/",
    "https://240.0.0.1/",
]


@pytest.mark.parametrize(
    "url", [*HOSTILE, "", "https://example.org/" + "x" * 500, "https://e.org/a b"]
)
def test_addresses_that_are_not_ours_to_call_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        check_url(url, ())


def test_public_addresses_and_trusted_hosts_are_taken() -> None:
    assert check_url("https://hooks.example.org/a?b=c", ()) == "https://hooks.example.org/a?b=c"
    assert check_url("http://10.0.0.1:8080/x", ("10.0.0.1:8080",))
    with pytest.raises(Refused):
        check_url("http://10.0.0.1:8081/x", ("10.0.0.1:8080",))
    assert is_public("2606:4700::1111")


def test_a_name_that_stands_for_a_private_address_is_not_called(
    tmp_path: Path, called: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = called()
    with opened(tmp_path, receiver) as (site, boss, rater):
        assert (
            boss.api(
                "POST", "/projects/told/webhooks", {"url": "https://rebind.example.org/x"}
            ).status
            == 201
        )

        async def looked_up(*_: object, **__: object) -> list[Any]:
            port = int(receiver.host.rpartition(":")[2])
            return [(2, 1, 6, "", ("127.0.0.1", port))]

        async def send() -> None:
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up)
            await Teller(site.store, KEY, ()).once()

        answer(rater)
        asyncio.run(send())
        wait(lambda: boss.api("GET", "/projects/told/webhooks").json()["webhooks"][0]["fault"])
        assert receiver.calls == []


def test_managers_add_and_remove_webhooks_of_their_own_project(
    tmp_path: Path, called: Callable[..., Receiver]
) -> None:
    receiver = called()
    with opened(tmp_path, receiver) as (site, boss, rater):
        assert boss.post("/p/told/setup", {"do": "webhook", "url": receiver.url}).status == 303
        assert boss.post("/p/told/setup", {"do": "webhook", "url": receiver.url}).status == 409
        assert (
            boss.post("/p/told/setup", {"do": "webhook", "url": "https://10.0.0.1/"}).status == 422
        )
        assert receiver.url.replace("&", "&amp;") in boss.get("/p/told/setup").text
        stranger = site.person("stranger")
        site.project("other", stranger)
        member = site.store.read_now(
            lambda w: __import__("noracle.collect.service.access", fromlist=["x"]).member_of(
                w, stranger, 2
            )
        )
        with pytest.raises(NotFound):
            site.store.write_now(lambda w: webhooks.remove_webhook(w, member, 1, now=0.0))
        answer(rater)
        assert boss.post("/p/told/setup", {"do": "no-webhook", "id": "1"}).status == 303
        assert (site.count("webhook"), site.count("delivery")) == (0, 0)
        for k in range(10):
            url = f"https://example.org/{k}"
            assert boss.api("POST", "/projects/told/webhooks", {"url": url}).status == 201
        assert boss.api("POST", "/projects/told/webhooks", {"url": "https://e.org/"}).status == 409
        assert Conflict.status == 409
