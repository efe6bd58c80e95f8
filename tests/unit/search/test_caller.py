"""The one way to a model: no call is paid twice, none goes past a cap, none is lost."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from noracle.errors import ArgumentError
from noracle.search.backends import ScriptedModel
from noracle.search.budget import Budget, CallPrices
from noracle.search.caller import Cache, Caller
from noracle.search.model import BudgetReached, Completion, Message, ModelError, Request, Usage


def ask(replicate: int = 0, text: str = "Which?") -> Request:
    return Request(messages=(Message("user", text),), replicate=replicate)


def all_of(caller: Caller, requests: list[Request]) -> list[Completion | BaseException]:
    async def work() -> list[Completion | BaseException]:
        async with caller:
            return await asyncio.gather(
                *(caller.call(request) for request in requests), return_exceptions=True
            )

    return asyncio.run(work())


class Counting:
    """A model that counts what it was asked, and how many at a time."""

    name = "counting"

    def __init__(
        self,
        *,
        delay: float = 0.0,
        usage: Usage | None = None,
        fail: Callable[[Request, int], ModelError | None] | None = None,
    ) -> None:
        self.delay, self.usage, self.fail = delay, usage or Usage(10, 5), fail
        self.asked: list[Request] = []
        self.now = self.most = 0

    async def complete(self, request: Request) -> Completion:
        self.asked.append(request)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.delay)
            error = self.fail(request, len(self.asked)) if self.fail else None
            if error is not None:
                raise error
            return Completion(text=f"reply {request.replicate}", usage=self.usage)
        finally:
            self.now -= 1

    async def close(self) -> None:
        pass


def test_a_reply_in_a_store_is_not_paid_again(tmp_path: Path) -> None:
    model = Counting()
    with Cache.open(tmp_path / "run.sqlite") as run, Cache.open(tmp_path / "user.sqlite") as user:
        first = Caller(model, stores=(run, user))
        (paid,) = all_of(first, [ask()])
        (again,) = all_of(Caller(model, stores=(run, user)), [ask()])
    assert isinstance(paid, Completion)
    assert isinstance(again, Completion)
    assert (paid.cached, again.cached, len(model.asked)) == (False, True, 1)
    assert (paid.text, paid.usage) == (again.text, again.usage)


def test_a_later_store_fills_the_earlier_ones_and_is_not_counted_as_paid(tmp_path: Path) -> None:
    model = Counting()
    with Cache.open(tmp_path / "run.sqlite") as run, Cache.open(tmp_path / "user.sqlite") as user:
        all_of(Caller(model, stores=(user,)), [ask()])
        caller = Caller(model, stores=(run, user))
        all_of(caller, [ask()])
        assert len(run) == 1
        assert run.paid() == (0, Usage())
        assert user.paid() == (1, Usage(10, 5))
    assert (caller.ledger.calls, caller.ledger.cached) == (0, 1)


def test_a_reply_is_committed_to_every_store_before_it_is_given(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "run.sqlite") as run, Cache.open(tmp_path / "user.sqlite") as user:
        caller = Caller(Counting(), stores=(run, user))

        async def work() -> None:
            await caller.call(ask())
            for name in ("run", "user"):
                with Cache.open(tmp_path / f"{name}.sqlite") as other:
                    assert other.get(ask().digest("counting")) is not None

        asyncio.run(work())


def test_identical_requests_at_one_time_are_one_call() -> None:
    model = Counting(delay=0.02)
    caller = Caller(model)
    replies = all_of(caller, [ask()] * 10 + [ask(1)])
    assert len(model.asked) == 2
    assert [r.cached for r in replies if isinstance(r, Completion)] == [False] + [True] * 9 + [
        False
    ]
    assert (caller.ledger.calls, caller.ledger.cached, caller.ledger.usage) == (2, 9, Usage(20, 10))


def test_identical_requests_fail_together_and_the_next_one_tries_anew() -> None:
    model = Counting(delay=0.01, fail=lambda request, n: ModelError("no") if n == 1 else None)
    caller = Caller(model)
    assert all(isinstance(reply, ModelError) for reply in all_of(caller, [ask()] * 3))
    assert caller.ledger.failed == 1
    assert isinstance(all_of(caller, [ask()])[0], Completion)


def test_failed_calls_are_not_stored(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "run.sqlite") as run:
        caller = Caller(Counting(fail=lambda request, n: ModelError("no")), stores=(run,))
        all_of(caller, [ask()])
        assert len(run) == 0
    assert (caller.ledger.calls, caller.ledger.failed, caller.ledger.usage) == (0, 1, Usage())


def test_the_queue_holds_the_concurrency() -> None:
    model = Counting(delay=0.005)
    all_of(Caller(model, concurrency=4), [ask(i) for i in range(40)])
    assert model.most == 4


def test_tries_wait_longer_and_longer_with_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await real(0)

    model = Counting(fail=lambda request, n: ModelError("later", transient=True))
    caller = Caller(model, retries=4, backoff=1.0)
    monkeypatch.setattr("noracle.search.caller.asyncio.sleep", sleep)
    assert isinstance(all_of(caller, [ask()])[0], ModelError)
    waits = [wait for wait in waits if wait]
    assert len(waits) == 4
    for wait, full in zip(waits, (1, 2, 4, 8), strict=True):
        assert full / 2 <= wait <= full
    assert (caller.ledger.failed, caller.ledger.retried, len(model.asked)) == (1, 4, 5)


def test_an_error_that_stays_is_not_tried_again() -> None:
    model = Counting(fail=lambda request, n: ModelError("never"))
    all_of(Caller(model), [ask()])
    assert len(model.asked) == 1


def test_a_fault_in_the_backend_is_not_hidden() -> None:
    def script(request: Request) -> str:
        raise KeyError("a fault of ours")

    caller = Caller(ScriptedModel(script), budget=Budget(calls=5))
    (error,) = all_of(caller, [ask()])
    assert isinstance(error, KeyError)
    assert caller.budget.used["calls"] == 0


# Caps


def test_the_cap_on_calls_is_never_passed() -> None:
    model = Counting(delay=0.001)
    caller = Caller(model, budget=Budget(calls=25), concurrency=8)
    replies = all_of(caller, [ask(i) for i in range(100)])
    assert len(model.asked) == caller.ledger.calls == 25
    assert sum(isinstance(reply, BudgetReached) for reply in replies) == 75


@pytest.mark.parametrize("concurrency", [1, 8])
def test_tokens_and_cost_pass_a_cap_by_no_more_than_the_calls_in_flight(concurrency: int) -> None:
    for budget in (Budget(tokens=300), Budget(cost=300 * 2 / 1e6)):
        model = Counting(delay=0.001)  # 15 tokens a call
        caller = Caller(model, budget=budget, prices=CallPrices(2.0, 2.0), concurrency=concurrency)
        replies = all_of(caller, [ask(i) for i in range(200)])
        assert 300 <= 15 * caller.ledger.calls <= 300 + 15 * (concurrency - 1)
        assert any(isinstance(reply, BudgetReached) for reply in replies)


def test_seconds_stop_the_run() -> None:
    model = Counting(delay=0.02)
    begun = time.monotonic()
    caller = Caller(model, budget=Budget(seconds=0.2), concurrency=2)
    all_of(caller, [ask(i) for i in range(1000)])
    assert time.monotonic() - begun < 2
    assert 1 <= caller.ledger.calls <= 22


def test_cached_replies_cost_nothing_of_a_cap(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "run.sqlite") as run:
        all_of(Caller(Counting(), stores=(run,)), [ask(i) for i in range(5)])
        caller = Caller(Counting(), stores=(run,), budget=Budget(calls=1))
        replies = all_of(caller, [ask(i) for i in range(6)])
    assert all(isinstance(reply, Completion) for reply in replies)


def test_a_shared_budget_holds_for_both_callers() -> None:
    budget = Budget(calls=10)
    one, two = Counting(), Counting()
    first, second = Caller(one, budget=budget), Caller(two, budget=budget)

    async def work() -> None:
        await asyncio.gather(
            *(c.call(ask(i)) for i in range(20) for c in (first, second)), return_exceptions=True
        )

    asyncio.run(work())
    assert len(one.asked) + len(two.asked) == 10


def test_totals_equal_the_sum_over_the_calls() -> None:
    def script(request: Request) -> Completion:
        return Completion(text="x", usage=Usage(request.replicate + 1, 2 * request.replicate + 1))

    caller = Caller(
        ScriptedModel(script, name="m"), prices=CallPrices(0.1, 0.7), budget=Budget(cost=10.0)
    )
    replies = [
        reply
        for reply in all_of(caller, [ask(i) for i in range(100)])
        if isinstance(reply, Completion)
    ]
    total = sum((reply.usage for reply in replies), Usage())
    assert caller.ledger.usage == total
    assert caller.ledger.cost == (0.1 * total.input_tokens + 0.7 * total.output_tokens) / 1e6
    assert caller.budget.used["cost"] == pytest.approx(caller.ledger.cost, rel=1e-12)
    assert caller.budget.used["tokens"] == total.input_tokens + total.output_tokens


def test_a_cap_on_cost_needs_a_price() -> None:
    with pytest.raises(ArgumentError, match="no price is known for 'counting'"):
        Caller(Counting(), budget=Budget(cost=1.0))
    caller = Caller(Counting())
    all_of(caller, [ask()])
    assert math.isnan(caller.ledger.cost)
    assert caller.ledger.reason == "no price is known for 'counting'"


def test_tries_that_timed_out_count_as_calls() -> None:
    model = Counting(delay=5)
    caller = Caller(model, timeout=0.02, retries=10, backoff=0.001, budget=Budget(calls=3))
    (error,) = all_of(caller, [ask()])
    assert isinstance(error, BudgetReached)
    assert len(model.asked) == 3


def test_a_run_that_goes_on_counts_what_it_paid_before(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "run.sqlite") as run:
        all_of(Caller(Counting(), stores=(run,)), [ask(i) for i in range(7)])
        caller = Caller(Counting(), stores=(run,), budget=Budget(calls=10))
        caller.count_past(run)
        replies = all_of(caller, [ask(i) for i in range(20)])
    assert sum(isinstance(reply, Completion) for reply in replies) == 10
    assert (caller.ledger.calls, caller.ledger.usage) == (10, Usage(100, 50))


# Leaving early


def test_what_nobody_waits_for_is_not_sent() -> None:
    model = Counting(delay=0.02)
    caller = Caller(model, concurrency=2)

    async def work() -> None:
        waiting = [asyncio.create_task(caller.call(ask(i))) for i in range(50)]
        await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await caller.close()

    asyncio.run(work())
    assert len(model.asked) == 2


def test_what_was_sent_is_kept_though_nobody_waits(tmp_path: Path) -> None:
    with Cache.open(tmp_path / "run.sqlite") as run:
        caller = Caller(Counting(delay=0.02), stores=(run,))

        async def work() -> None:
            task = asyncio.create_task(caller.call(ask()))
            await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await caller.close()

        asyncio.run(work())
        assert len(run) == 1


def test_one_who_leaves_takes_the_reply_from_nobody() -> None:
    caller = Caller(Counting(delay=0.02))

    async def work() -> Completion:
        first, second = (
            asyncio.create_task(caller.call(ask())),
            asyncio.create_task(caller.call(ask())),
        )
        await asyncio.sleep(0.005)
        first.cancel()
        return await second

    assert asyncio.run(work()).text == "reply 0"


def test_a_request_that_was_given_up_can_be_asked_again() -> None:
    caller = Caller(Counting(delay=0.01), concurrency=1)

    async def work() -> Completion:
        busy = asyncio.create_task(caller.call(ask(1)))
        gone = asyncio.create_task(caller.call(ask(2)))
        await asyncio.sleep(0.002)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        again = await caller.call(ask(2))
        await busy
        return again

    assert asyncio.run(work()).text == "reply 2"


def test_a_group_that_meets_a_cap_ends_clean() -> None:
    model = Counting(delay=0.001)
    caller = Caller(model, budget=Budget(calls=5), concurrency=2)

    async def work() -> None:
        async with caller, asyncio.TaskGroup() as group:
            for i in range(100):
                group.create_task(caller.call(ask(i)))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(work())
    assert caught.group_contains(BudgetReached)
    assert len(model.asked) == 5


def test_close_does_not_wait_for_ever() -> None:
    caller = Caller(Counting(delay=60))

    async def work() -> float:
        task = asyncio.create_task(caller.call(ask()))
        await asyncio.sleep(0.005)
        task.cancel()
        begun = time.monotonic()
        await caller.close(grace=0.05)
        return time.monotonic() - begun

    assert asyncio.run(work()) < 1


def test_a_pause_does_not_outlast_the_cap_on_seconds() -> None:
    model = Counting(fail=lambda request, n: ModelError("later", transient=True, after=100.0))
    caller = Caller(model, budget=Budget(seconds=0.1))
    begun = time.monotonic()
    (error,) = all_of(caller, [ask()])
    assert isinstance(error, BudgetReached)
    assert time.monotonic() - begun < 2


# Words


def test_the_log_has_every_call_and_no_text(tmp_path: Path) -> None:
    lines: list[Mapping[str, object]] = []
    with Cache.open(tmp_path / "run.sqlite") as run:
        caller = Caller(
            Counting(fail=lambda r, n: ModelError("no") if r.replicate == 2 else None),
            stores=(run,),
            log=lines.append,
        )
        all_of(caller, [ask(1, "a private item"), ask(2, "a private item")])
        all_of(caller, [ask(1, "a private item")])
    assert [line["outcome"] for line in lines] == ["stop", "failed", "cached"]
    assert "private" not in json.dumps(lines)


@pytest.mark.parametrize(
    ("option", "value"),
    [("concurrency", 0), ("retries", -1), ("timeout", 0), ("timeout", math.nan)],
)
def test_senseless_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=option):
        Caller(Counting(), **{option: value})


CHILD = """
import asyncio, sys
from noracle.search.backends import ScriptedModel
from noracle.search.caller import Cache
from noracle.search.caller import Caller
from noracle.search.model import Message, Request

def script(request):
    with open(sys.argv[2], "a") as paid:   # what a server would bill
        paid.write(f"{request.replicate}\\n")
    return f"reply {request.replicate}"

async def main():
    async with Caller(ScriptedModel(script, delay=0.001), stores=(Cache.open(sys.argv[1]),), concurrency=4) as caller:
        async def one(i):
            reply = await caller.call(Request(messages=(Message("user", "?"),), replicate=i))
            with open(sys.argv[3], "a") as given:
                given.write(f"{i}\\n")
        await asyncio.gather(*(one(i) for i in range(400)))

asyncio.run(main())
"""


@pytest.mark.full
@pytest.mark.thin(2)
@pytest.mark.skipif(os.name != "posix", reason="these signals are a matter of POSIX")
@pytest.mark.parametrize(("how", "lost"), [("SIGKILL", 4), ("SIGINT", 0)])
def test_a_killed_run_loses_no_reply_that_was_given_and_pays_none_again(
    tmp_path: Path, how: str, lost: int
) -> None:
    import noracle

    store, paid, given = tmp_path / "run.sqlite", tmp_path / "paid", tmp_path / "given"
    environment = {**os.environ, "PYTHONPATH": str(Path(noracle.__file__).parents[1])}
    command = [sys.executable, "-c", CHILD, str(store), str(paid), str(given)]
    kills = 4
    for kill in range(kills):
        child = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        had = len(paid.read_text().split()) if paid.exists() else 0
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and child.poll() is None:
            if paid.exists() and len(paid.read_text().split()) >= had + 20 + 7 * kill:
                break
            time.sleep(0.001)
        child.send_signal(getattr(signal, how))
        child.wait(timeout=30)
        with Cache.open(store) as cache:
            stored = {reply.text for _, _, reply in cache.rows()}
        shown = [line for line in given.read_text().split("\n")[:-1] if line]
        assert {f"reply {i}" for i in shown} <= stored
    assert subprocess.run(command, env=environment, check=False, timeout=60).returncode == 0
    bills = paid.read_text().split()
    assert {int(i) for i in bills} == set(range(400))
    assert (
        len(bills) <= 400 + lost * kills
    )  # at kill -9 at most the calls in flight; at Ctrl-C none
    with Cache.open(store) as cache:
        assert len(cache) == 400


@pytest.mark.parametrize("seed", range(12))
def test_accounts_hold_in_random_worlds(seed: int, tmp_path: Path) -> None:
    """Random delays, failures, repeated requests, people who leave, and caps: every account still
    agrees.
    """
    rng = np.random.default_rng(seed)
    concurrency, cap, n = int(rng.integers(1, 9)), int(rng.integers(5, 120)), 150
    fate = {i: rng.random(3) for i in range(n)}
    billed: list[tuple[int, Usage]] = []

    class Wild(Counting):
        async def complete(self, request: Request) -> Completion:
            delay, error, _ = fate[request.replicate]
            self.asked.append(request)
            await asyncio.sleep(0.002 * delay)
            if error < 0.2:
                raise ModelError("down", transient=error < 0.15 and self.asked.count(request) < 3)
            usage = Usage(1 + request.replicate, int(100 * delay) + 1)
            billed.append((request.replicate, usage))
            return Completion(text=f"reply {request.replicate}", usage=usage)

    tokens = bool(seed % 2)
    budget = Budget(tokens=40 * cap) if tokens else Budget(calls=cap)
    requests = [ask(int(i)) for i in rng.integers(0, n, 300)]
    with Cache.open(tmp_path / "run.sqlite") as run:
        caller = Caller(
            Wild(), stores=(run,), budget=budget, concurrency=concurrency, backoff=0.001
        )

        async def work() -> list[Completion | BaseException]:
            async with caller:
                tasks = [asyncio.create_task(caller.call(request)) for request in requests]
                await asyncio.sleep(0.005)
                for task, request in zip(tasks, requests, strict=True):
                    if fate[request.replicate][2] < 0.1:
                        task.cancel()
                return await asyncio.gather(*tasks, return_exceptions=True)

        replies = asyncio.run(work())
        total = sum((usage for _, usage in billed), Usage())
        assert len({i for i, _ in billed}) == len(billed) == caller.ledger.calls == len(run)
        assert caller.ledger.usage == total == run.paid()[1]
        used = budget.used
        assert used["tokens"] == total.input_tokens + total.output_tokens
        assert used["calls"] == caller.ledger.calls  # nothing is left reserved
        if tokens:
            over = used["tokens"] - 40 * cap
            assert over < sum(
                sorted((u.input_tokens + u.output_tokens for _, u in billed), reverse=True)[
                    :concurrency
                ]
            )
        else:
            assert len(billed) <= cap
        for request, reply in zip(requests, replies, strict=True):
            assert isinstance(
                reply, Completion | ModelError | BudgetReached | asyncio.CancelledError
            )
            if isinstance(reply, Completion):
                assert reply.text == f"reply {request.replicate}"


@pytest.mark.full
@pytest.mark.slow
def test_a_thousand_scripted_calls_a_second_with_caches_on(tmp_path: Path) -> None:
    """Processor time, which other work on the machine does not stretch."""
    model = ScriptedModel(lambda request: "ANSWER: A")
    text = "a text of the length of an abstract " * 35
    with Cache.open(tmp_path / "run.sqlite") as run, Cache.open(tmp_path / "user.sqlite") as user:
        caller = Caller(model, stores=(run, user), budget=Budget(calls=10_000), concurrency=32)
        begun = time.process_time()
        all_of(caller, [ask(i, text) for i in range(4000)])
        assert 4000 / (time.process_time() - begun) >= 1000
    assert caller.ledger.calls == 4000


def test_every_reply_has_the_room_that_was_asked_for() -> None:
    seen: list[int] = []

    def script(request: Request) -> str:
        seen.append(request.max_tokens)
        return "fine"

    caller = Caller(ScriptedModel(script), reply_tokens=4000)
    asked = [Request(messages=(Message("user", "?"),), max_tokens=n) for n in (16, 1024, 9000)]
    for request in asked:
        asyncio.run(caller.call(request))
    assert seen == [4000, 4000, 9000]
    with pytest.raises(ArgumentError, match="reply_tokens must be at least 1"):
        Caller(ScriptedModel(script), reply_tokens=0)
