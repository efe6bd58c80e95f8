"""Calls to other services when something happens: an answer, its undoing, the close of
a project, an alarm.

The trigger ``event_told`` puts a delivery down in the transaction of its event, so that none is
lost. It is sent until somebody takes it (any 2xx), with growing pauses, for a day: at least once,
always with the same id. Nothing waits for it. The body is JSON without texts, verdicts or people:

    id, event (answer, undo, close, alarm), project, at; rater (an alias), place, answer; checks (alarm)

``X-Noracle-Signature: t=SECONDS,v1=HEX`` has the HMAC-SHA256 of ``SECONDS.BODY`` under the secret of
the webhook. Addresses are https and public, unless the server was told to trust a host; what a name
stands for is looked up at every call, and nothing is redirected.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import re
import socket
import time
import urllib.parse
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from noracle.collect.errors import CollectError, Conflict, NotFound, Refused
from noracle.collect.service.access import Member
from noracle.collect.store.base import SQL, Row, Store, Work
from noracle.files import canonical

if TYPE_CHECKING:
    import httpx

EVENTS = {"answer": "answer", "undone": "undo", "closed": "close", "alarm": "alarm"}
_DAY, _SECONDS, _PAUSE, _WATCH = 86400.0, 10.0, 1.0, 30.0
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_log = logging.getLogger("noracle.collect")


def check_url(url: object, trusted: Collection[str]) -> str:
    """Refuse an address that is not ours to call."""
    rule = "url must be an https address of at most 500 plain characters, without a password"
    text = url if isinstance(url, str) else ""
    try:
        parts = urllib.parse.urlsplit(text)
        named, port = bool(parts.hostname) and not parts.username, parts.port
    except ValueError:
        named, port, parts = False, None, urllib.parse.urlsplit("")
    known = port != 0 and _trusted(parts, trusted)
    plain = len(text) <= 500 and re.fullmatch(r"[!-~]+", text) is not None
    fits = parts.scheme == "https" or (parts.scheme == "http" and known)
    Refused.unless(plain and named and fits, f"{rule}.")
    try:
        public = known or is_public(str(parts.hostname))
    except ValueError:  # a name: looked up at each call
        public = "." in str(parts.hostname) and not str(parts.hostname).endswith(".localhost")
    rule = "url must be a public address, or one that the server was told to trust."
    Refused.unless(public, rule)
    return text


def _trusted(parts: urllib.parse.SplitResult, trusted: Collection[str]) -> bool:
    return parts.netloc.lower() in trusted or str(parts.hostname) in trusted


def is_public(address: str) -> bool:
    """Whether an IP address is one of the open network.

    >>> [is_public(ip) for ip in ("8.8.8.8", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1")]
    [True, False, False, False]
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped
        if inner is not None:
            return is_public(str(inner))
        if ip.sixtofour or ip.teredo or ip in _NAT64:
            return False
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def webhooks_of(work: Work, project: int) -> list[Row]:
    """``id, url, at, fault`` (why the last call failed) of the webhooks of a project."""
    return work.all(SQL.webhooks, project=project)


def add_webhook(work: Work, member: Member, url: str, *, now: float) -> Row:
    """Call an address that :func:`check_url` took."""
    project = member.project
    few = len(webhooks_of(work, project)) < 10
    Conflict.unless(few, "A project has at most 10 webhooks; take one away first.")
    row = work.one(SQL.add_webhook, project=project, url=url, now=now)
    number = int(Conflict.given(row, "url must be new; the project calls it already.")["id"])
    work.log(project, "webhook-added", {"webhook": number}, actor=member.alias, at=now)
    return {"id": number, "url": url, "at": now, "fault": ""}


def remove_webhook(work: Work, member: Member, number: int, *, now: float) -> None:
    """Take a webhook away, and what waits for it."""
    work.run(SQL.drop_deliveries, id=number, project=member.project)
    gone = work.run(SQL.drop_webhook, id=number, project=member.project)
    NotFound.unless(gone == 1, "There is no such webhook in this project.")
    work.log(member.project, "webhook-removed", {"webhook": number}, actor=member.alias, at=now)


def secret_of(key: bytes, webhook: Row) -> str:
    """The secret of a webhook; it follows from the server's key and stands in no table."""
    what = f"webhook|{webhook['id']}|{webhook['url']}|{float(webhook['at'])!r}"
    return hmac.new(key, what.encode(), "sha256").hexdigest()


def sign(secret: str, body: bytes, *, at: int) -> str:
    """The value of ``X-Noracle-Signature``."""
    made = hmac.new(secret.encode(), f"{at}.".encode() + body, "sha256").hexdigest()
    return f"t={at},v1={made}"


def signature_fits(secret: str, header: str, body: bytes, *, now: float, late: float = 300) -> bool:
    """For who is called: whether a body came from us, not longer ago than ``late`` seconds.

    >>> signature_fits("s", sign("s", b"{}", at=100), b"{}", now=130.0)
    True
    """
    found = re.fullmatch(r"t=(\d{1,12}),v1=[0-9a-f]{64}", header)
    if found is None or abs(now - int(found[1])) > late:
        return False
    return hmac.compare_digest(sign(secret, body, at=int(found[1])), header)


class Teller:
    """Sends what waits, from one server process; several share the work."""

    def __init__(self, store: Store, key: bytes, trusted: Collection[str]) -> None:
        self._store, self._key, self._trusted = store, key, trusted
        self._seen: dict[int, int] = {}
        self._watched = 0.0

    async def run(self) -> None:
        """Until the task is cancelled; a fault of ours or of the database is logged, not the end."""
        while True:
            try:
                if time.monotonic() - self._watched > _WATCH:
                    self._watched = time.monotonic()
                    await self.watch()
                more = await self.once()
            except CollectError as error:  # the database is away: it comes back
                more = 0
                _log.info("webhooks wait: %s", error)
            except Exception:  # noqa: BLE001
                more = 0
                _log.exception("webhooks wait: what was tried failed")
            await asyncio.sleep(0 if more else _PAUSE)

    async def once(self) -> int:
        """Send what is due now; returns how many were tried."""
        now = time.time()
        due = await self._store.read(lambda work: work.all(SQL.due, now=now))
        if not due:
            return 0

        def take(work: Work) -> list[Row]:
            """Whoever moves the time of the next try sends; another process finds it moved."""
            taken = []
            for row in due:
                later = now + min(3600.0, _SECONDS * 2.0 ** min(int(row["tries"]), 20))
                same = {key: row[key] for key in ("id", "next_at")}
                taken += [row] if work.run(SQL.take_delivery, later=later, **same) else []
            return taken

        groups: dict[int, list[Row]] = {}
        for row in await self._store.write(take):
            groups.setdefault(int(row["webhook_id"]), []).append(row)
        sent = await asyncio.gather(*(self._send_all(rows, now) for rows in groups.values()))
        faults = [pair for pairs in sent for pair in pairs]

        def note(work: Work) -> None:
            for row, fault in faults:
                if not fault or now - float(row["at"]) > _DAY:
                    work.run(SQL.drop_delivery, id=row["id"])
                work.run(SQL.set_fault, id=row["webhook_id"], fault=fault)

        await self._store.write(note)
        return len(faults)

    async def _send_all(self, rows: list[Row], now: float) -> list[tuple[Row, str]]:
        """One after the other to one address, until one fails or it takes too long."""
        import httpx

        until, fault, faults = time.monotonic() + _SECONDS, "", []
        async with httpx.AsyncClient(timeout=_SECONDS, trust_env=False) as http:
            for row in rows:
                fault = fault or await self._send(http, row, now)
                faults.append((row, fault))
                fault = fault or ("" if time.monotonic() < until else "too slow")
        return faults

    async def _send(self, http: httpx.AsyncClient, row: Row, now: float) -> str:
        """Why nobody took it; empty if somebody did."""
        told, kind = json.loads(row["payload"]), EVENTS[row["kind"]]
        # Numbers of deliveries come again in SQLite; those of events do not.
        name = f"{row['webhook_id']}-{row['event_id']}"
        body = {"id": name, "event": kind, "project": row["slug"], "at": row["happened"]}
        if kind in ("answer", "undo"):
            body |= {"rater": row["actor"], "place": told["place"], "answer": told["answer"]}
        body |= {"checks": told["checks"]} if kind == "alarm" else {}
        data = canonical(body).encode()
        secret = secret_of(self._key, {**row, "id": row["webhook_id"], "at": row["made"]})
        headers = {"x-noracle-signature": sign(secret, data, at=int(now))}
        headers |= {"x-noracle-delivery": name, "content-type": "application/json"}
        try:
            status = await asyncio.wait_for(self._post(http, row["url"], data, headers), _SECONDS)
        except Exception as error:  # noqa: BLE001 (whatever the other side does is its fault)
            return f"{type(error).__name__}: {str(error)[:200]}"
        return "" if 200 <= status < 300 else f"the answer was {status}"

    async def _post(self, http: Any, url: str, data: bytes, headers: dict[str, str]) -> int:
        """The status of the reply; its body is not read."""
        address = http.build_request("POST", check_url(url, self._trusted)).url
        trusted = _trusted(urllib.parse.urlsplit(url), self._trusted)
        port = address.port or (443 if address.scheme == "https" else 80)
        look_up = asyncio.get_running_loop().getaddrinfo
        found = await look_up(address.host, port, type=socket.SOCK_STREAM)
        hosts = [str(each[4][0]) for each in found]
        fine = trusted or all(map(is_public, hosts))
        Refused.unless(fine, "the name must stand for public addresses alone; it does not.")
        headers |= {"host": address.netloc.decode()}
        # To the address that was checked: the name may stand for another a moment later.
        where, name = address.copy_with(host=hosts[0]), {"sni_hostname": address.host}
        options: Any = {"content": data, "headers": headers, "extensions": name}
        async with http.stream("POST", where, follow_redirects=False, **options) as reply:
            return int(reply.status_code)

    async def watch(self) -> None:
        """Log an alarm for each check that newly fails in projects with webhooks."""
        from noracle.collect.live import live_view

        for row in await self._store.read(lambda work: work.all(SQL.watched)):
            project, n = int(row["id"]), int(row["answers"])
            if self._seen.get(project) == n:
                continue
            now = time.time()
            view = await self._store.read(lambda w, p=project, t=now: live_view(w, p, now=t))  # type: ignore[misc]
            if view.alarms:
                alarms = sorted(view.alarms)
                await self._store.write(lambda w, p=project, a=alarms, t=now: _alarm(w, p, a, t))  # type: ignore[misc]
            self._seen[project] = n


def _alarm(work: Work, project: int, checks: list[str], now: float) -> None:
    last = work.one(SQL.last_alarm, project=project)
    known = [] if last is None else json.loads(last["payload"])["checks"]
    if set(checks) - set(known):
        payload = {"checks": sorted({*checks, *known})}
        work.log(project, "alarm", payload, actor="system", at=now)
