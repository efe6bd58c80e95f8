"""Verdicts that are not said, or not right: the worst case of unsure ones, estimated error rates,
and how far a statement stands.

Also plans of labels: the interval that was paid for holds, and is about as wide as planned.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter

import numpy as np

from noracle import (
    AccuracyCounts,
    check_sensitivity,
    estimate_accuracy,
    plan_certificate,
    plan_labels,
    range_unsure,
)
from noracle.counts import Cell, Tally
from noracle.superhuman import certify_superhuman
from tests.guarantees import test_certificate_errors as certificate
from tests.guarantees.matrix.accuracy import RATES
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row, measure
from tests.guarantees.settings import Setting
from tests.guarantees.worlds import noisy, plain, questions

# P(unsure) by what would have been said: yes to the answer, yes to another class, no to the answer,
# no to another class.
UNSURE = {
    "of every kind": (0.3, 0.3, 0.3, 0.3),
    "where yes would be said": (0.9, 0.9, 0.0, 0.0),
    "where the answer is wrong": (0.0, 0.5, 0.9, 0.0),
    "where the answer is right": (0.9, 0.0, 0.0, 0.3),
    "always": (1.0, 1.0, 1.0, 1.0),
}


def _unsure(k: int, n: int, kind: str, worlds: int) -> list[Row]:
    """One uniform question an item; some verdicts are kept back."""
    rows = []
    for a in RATES:
        setting = f"unsure {kind}, K={k} A={a:g} n={n}"
        started, seen, rng = time.perf_counter(), Seen(), seeded(setting)
        said = questions(k, a, n).draw(rng, worlds)
        kept_back = rng.binomial(said, UNSURE[kind])
        both = np.concatenate(
            [
                said - kept_back,
                (kept_back[:, [0]] + kept_back[:, [2]]),
                (kept_back[:, [1]] + kept_back[:, [3]]),
            ],
            axis=1,
        )
        for key, times in Counter(map(tuple, both.tolist())).items():
            tallies = {
                Tally("s", k, "yes", True): key[0],
                Tally("s", k, "yes", False): key[1],
                Tally("s", k, "no", True, n_ruled_out=1, ruled_hit=True): key[2],
                Tally("s", k, "no", False, n_ruled_out=1): key[3],
                Tally("s", k, "unsure", True): key[4],
                Tally("s", k, "unsure", False): key[5],
            }
            place = {Cell("s", k): n}
            found = range_unsure(
                AccuracyCounts(
                    tallies={t: c for t, c in tallies.items() if c}, items=place, answered=place
                )
            )
            shown = found["interval"]
            seen.add(
                shown.low - 1e-12 <= a <= shown.high + 1e-12,
                shown.high - shown.low,
                found.guarantee.kind.label,
                times,
            )
        rows.append(
            row_of(
                seen,
                part="unsure verdicts",
                setting=setting,
                method="range_unsure",
                interval="exact",
                n=n,
                started=started,
            )
        )
    return rows


def _estimated(
    k: int, a: float, false_no: float, false_yes: float, known: int, worlds: int
) -> list[Row]:
    """Error rates are estimated on items whose truth is known; the promise is the sum of the error
    rates.
    """
    world, n = noisy(k, a, 200, false_no, false_yes), 200
    setting = f"wrong verdicts {100 * false_no:g} % no, {100 * false_yes:g} % yes, estimated on {known} each, K={k} A={a:g} n={n}"
    started, seen, rng, nominal = time.perf_counter(), Seen(), seeded(setting), 0.0
    for key in world.draw(rng, worlds).tolist():
        no, yes = (
            estimate_accuracy(
                AccuracyCounts.from_counts(
                    n_classes=2, ordinary=(known, int(rng.binomial(known, rate)))
                )
            )
            for rate in (false_no, false_yes)
        )
        found = estimate_accuracy(
            world.build(tuple(key)), false_no=no, false_yes=yes, method="scores"
        )
        seen.add(
            found.low - 1e-12 <= a <= found.high + 1e-12,
            found.high - found.low,
            found.guarantee.kind.label,
        )
        nominal = found.confidence
    return [
        row_of(
            seen,
            part="wrong verdicts",
            setting=setting,
            method="scores",
            interval="betting",
            n=n,
            started=started,
            nominal=round(nominal, 12),
        )
    ]


def _sensitivity(k: int, n: int, worlds: int) -> list[Row]:
    """ "At least" a hair more than the truth must rarely be supported. The width is how often it
    is.
    """
    rows = []
    for a in RATES[:-1]:
        setting = f"accuracy is at least {a:g} and a hair, K={k} n={n} questions"
        started, seen, world = time.perf_counter(), Seen(), questions(k, a, n)
        for key, times in Counter(map(tuple, world.draw(seeded(setting), worlds).tolist())).items():
            found = check_sensitivity(world.build(key), at_least=a + 1e-6)
            wrong = found.p_value != 0
            seen.add(not wrong, float(wrong), "asymptotic", times)
        rows.append(
            row_of(
                seen,
                part="wrong verdicts",
                setting=setting,
                method="check_sensitivity",
                interval="likelihood ratio",
                n=n,
                started=started,
            )
        )
    return rows


# -----------------------------------------------------------------------------------------------------------------------
# plans


def _planned(k: int, kind: str, half_width: float) -> list[Row]:
    """The exact interval on what the plan bought, at the accuracy that was guessed and at others."""
    rows = []
    for a in (0.02, 0.5, 0.9, 1.0):
        plan = plan_labels(n_classes=k, accuracy=a, half_width=half_width, kind=kind)  # type: ignore[arg-type]
        n_o, n_c = plan.buy.get("ordinary", 0), plan.buy.get("complementary", 0)
        setting = Setting(
            name=f"planned for ±{half_width:g}, {kind}, K={k} A={a:g} n={n_o + n_c}",
            world=plain(k, a, n_o, n_c),
        )
        rows.append(measure(setting, "exact", "ml", part="plans"))
    return rows


def _power(world: certificate.World, power: float, worlds: int) -> list[Row]:
    """Rates as in the pilot: the certificate is given as often as planned."""
    shares = np.array([float(p) for *_, p in world.kinds])
    pilot = world.counts(tuple(np.round(shares * 1000).astype(int).tolist()))
    plan = plan_certificate(pilot, power=power)
    n = plan.buy["items"]
    setting = f"certificate planned for power {power:g}, {world.name}, {n} items"
    started, seen, rng = time.perf_counter(), Seen(), seeded(setting)
    for sample, times in Counter(
        map(tuple, rng.multinomial(n, shares / shares.sum(), size=worlds).tolist())
    ).items():
        found = certify_superhuman(world.counts(sample), trained_on_annotators="no")
        seen.add(found.certified, float(found.certified), "", times)
    return [
        row_of(
            seen,
            part="plans",
            setting=setting,
            method="plan_certificate",
            interval="power",
            n=n,
            started=started,
            nominal=power,
            promise=plan.guarantee.kind.label,
        )
    ]


BETTER = certificate.World(
    name="clearly better",
    kinds=(
        ((0, 0, 1), 0, certificate.F(1, 2)),
        ((0, 0, 0), 0, certificate.F(49, 100)),
        ((0, 0, 0), 1, certificate.F(1, 100)),
    ),
)


def cases() -> list[Case]:
    """Every case of this file."""
    found = []
    for kind, k in itertools.product(UNSURE, (2, 4, 100)):
        found.append(
            Case(
                part="unsure verdicts",
                name=f"{kind}, K={k}",
                measured=lambda worlds, k=k, u=kind: _unsure(k, 12, u, fewer(worlds, 4, 200)),
                quick=(kind, k) == ("where yes would be said", 4),
            )
        )
    for k, a, (no, yes), known in itertools.product(
        (4, 10), (0.02, 0.5, 0.98), ((0.05, 0.1), (0.2, 0.0)), (50,)
    ):
        found.append(
            Case(
                part="wrong verdicts",
                name=f"estimated {k} {a} {no} {yes}",
                measured=lambda worlds, v=(k, a, no, yes, known): _estimated(
                    *v, fewer(worlds, 5, 100)
                ),
            )
        )
    for k, n in itertools.product((4, 10), (10, 200)):
        found.append(
            Case(
                part="wrong verdicts",
                name=f"sensitivity {k} {n}",
                measured=lambda worlds, k=k, n=n: _sensitivity(k, n, fewer(worlds, 4, 200)),
            )
        )
    for k, kind, half in (
        (4, "ordinary", 0.05),
        (10, "complementary", 0.1),
        (4, "complementary", 0.3),
        (4, "cheapest", 0.1),
    ):
        found.append(
            Case(
                part="plans",
                name=f"{k} {kind} {half}",
                measured=lambda worlds, v=(k, kind, half): _planned(*v),
                quick=half == 0.3,
            )
        )
    found += [
        Case(
            part="plans",
            name=f"power {power}",
            measured=lambda worlds, p=power: _power(BETTER, p, fewer(worlds, 2, 200)),
        )
        for power in (0.5, 0.8, 0.95)
    ]
    return found
