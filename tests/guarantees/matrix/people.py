"""What people's ratings promise: ceilings, certificates that are rarely false, agreement.

The width of a ceiling is how far its limit lies above the bound of the population, that of a
certificate how often it was given.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from noracle.counts.ratings import RatingCounts
from noracle.superhuman import agreement as coefficients
from noracle.superhuman import certify_superhuman, estimate_agreement, estimate_ceiling
from noracle.superhuman.difference import bound_at
from tests.guarantees import test_ceiling_coverage as ceiling
from tests.guarantees import test_certificate_errors as certificate
from tests.guarantees.matrix.record import Case, Seen, fewer, row_of, seeded
from tests.guarantees.measure import Row

VOTES = ("plurality", "free", "quadratic", "paper")


# ------------------------------------------------------------------------------------------------------------------
# ceilings


def _ceiling(world: ceiling.World, n: int, worlds: int) -> list[Row]:
    rows = []
    drawn = Counter(
        map(
            tuple,
            seeded(world.name, n)
            .multinomial(n, np.array(world.shares) / sum(world.shares), size=worlds)
            .tolist(),
        )
    )
    for method in VOTES:
        started, seen, truth = time.perf_counter(), Seen(), world.truth(method)
        for n_items, times in drawn.items():
            found = estimate_ceiling(world.counts(n_items), method=method)  # type: ignore[arg-type]
            seen.add(
                found.high >= truth - 1e-12, found.high - truth, found.guarantee.kind.label, times
            )
        setting = f"votes, {world.name}, {n} items"
        rows.append(
            row_of(
                seen,
                part="ceilings",
                setting=setting,
                method=method,
                interval="betting",
                n=n,
                started=started,
            )
        )
    return rows


def _looked_at(world: ceiling.World, worlds: int) -> list[Row]:
    """One growing sample, looked at again and again; one look below the truth is a miss."""
    rows, looks, shares = [], (1, 2, 5, 20, 80), np.array(world.shares) / sum(world.shares)
    for method in ("plurality", "paper"):
        started, seen, truth, rng = (
            time.perf_counter(),
            Seen(),
            world.truth(method),
            seeded("looks", world.name),
        )
        for _ in range(worlds):
            stream = rng.choice(len(shares), size=looks[-1], p=shares)
            tallies = [
                tuple(np.bincount(stream[:n], minlength=len(shares)).tolist()) for n in looks
            ]
            found = [estimate_ceiling(world.counts(t), method=method) for t in tallies]  # type: ignore[arg-type]
            seen.add(
                all(f.high >= truth - 1e-12 for f in found),
                found[-1].high - truth,
                found[-1].guarantee.kind.label,
            )
        setting = f"votes, {world.name}, looked at {len(looks)} times"
        rows.append(
            row_of(
                seen,
                part="ceilings",
                setting=setting,
                method=method,
                interval="betting",
                n=looks[-1],
                started=started,
            )
        )
    return rows


def _pairwise(raters: ceiling.Raters, n: int, worlds: int) -> list[Row]:
    started, seen, rng = time.perf_counter(), Seen(), seeded(raters.name, n)
    for _ in range(worlds):
        counts = RatingCounts.from_arrays(raters.draw(rng, n), labels=raters.labels, pairs=True)
        found = estimate_ceiling(counts, method="pairwise")
        seen.add(
            found.high >= raters.truth - 1e-12,
            found.high - raters.truth,
            found.guarantee.kind.label,
        )
    setting = f"raters, {raters.name}, {n} items"
    return [
        row_of(
            seen,
            part="ceilings",
            setting=setting,
            method="pairwise",
            interval="exact",
            n=n,
            started=started,
        )
    ]


def _ceilings() -> Iterator[Case]:
    names = [w for w in vars(ceiling).values() if isinstance(w, ceiling.World)]
    for world in names:
        for n in (1, 2, 5, 60, 400):
            yield Case(
                part="ceilings",
                name=f"votes, {world.name}, {n}",
                quick=(world.name, n) == ("mixed numbers", 5),
                measured=lambda worlds, w=world, n=n: _ceiling(
                    w, n, fewer(worlds, 4 if n > 5 and len(w.shares) > 4 else 1, 200)
                ),
            )
    for world in (ceiling.PAIR, ceiling.MIXED, ceiling.RARE):
        yield Case(
            part="ceilings",
            name=f"looks, {world.name}",
            measured=lambda worlds, w=world: _looked_at(w, fewer(worlds, 4, 100)),
        )
    for raters in ceiling.RATERS:
        for n in (1, 2, 5, 60, 400):
            yield Case(
                part="ceilings",
                name=f"raters, {raters.name}, {n}",
                quick=(raters.name, n) == ("three", 5),
                measured=lambda worlds, r=raters, n=n: _pairwise(r, n, fewer(worlds, 2, 200)),
            )


# --------------------------------------------------------------------------------------------------------------
# certificates


def _certificate(world: certificate.World, n: int, worlds: int) -> list[Row]:
    """The claim is false by a hair: the mean of Z is the margin."""
    rows = []
    for test, ties in (*certificate.TESTS, ("t", "share")):
        if ties == "random" and test != "binomial" and not world.has_ties:
            continue
        started, seen, rng = time.perf_counter(), Seen(), seeded(world.name, n, test, ties)
        number = fewer(worlds, 4, 200) if ties == "random" else worlds
        drawn = Counter(
            map(
                tuple, rng.multinomial(n, [float(p) for *_, p in world.kinds], size=number).tolist()
            )
        )
        for sample, times in drawn.items():
            counts = world.counts(sample)
            for _ in range(times if ties == "random" else 1):
                found = certify_superhuman(
                    counts,
                    test=test,
                    ties=ties,
                    margin=float(world.margin),
                    trained_on_annotators="no",
                    seed=int(rng.integers(2**31)),  # type: ignore[arg-type]
                )
                wrong = found.attained >= 0.95
                seen.add(
                    not wrong,
                    float(wrong),
                    found.guarantee.kind.label,
                    1 if ties == "random" else times,
                )
        setting = f"at the margin, {world.name}, {n} items"
        rows.append(
            row_of(
                seen,
                part="certificates",
                setting=setting,
                method=f"{test}, ties {ties}",
                interval=test,
                n=n,
                started=started,
            )
        )
    return rows


def _own_boundary(name: str, test: str, n: int, worlds: int) -> list[Row]:
    """Match rate equal to a looser ceiling itself; the published scores promise twice the error."""
    k, agree = 5, 0.5
    v = agree + (1 - agree) * 12 / 20
    rate = bound_at(name, v, k)  # type: ignore[arg-type]
    started, seen, rng, promised = time.perf_counter(), Seen(), seeded(name, test, n), 0.0
    for _ in range(worlds):
        ratings = np.zeros((n, k), dtype=int)
        ratings[rng.random(n) >= agree, 4] = 1
        answers = np.where(rng.random(n) < rate, 0, 2)
        counts = RatingCounts.from_arrays(ratings, labels=3, answers={"agent": answers})
        found = certify_superhuman(
            counts, test=test, ceiling=name, confidence=0.8, trained_on_annotators="no"
        )  # type: ignore[arg-type]
        seen.add(not found.certified, float(found.certified), found.guarantee.kind.label)
        promised = found.guarantee.error_rate
    setting = f"at the {name} ceiling, {n} items"
    return [
        row_of(
            seen,
            part="certificates",
            setting=setting,
            method=test,
            interval=test,
            n=n,
            started=started,
            nominal=round(1 - promised, 12),
        )
    ]


def _stream(world: certificate.World, worlds: int) -> list[Row]:
    started, seen, looks = time.perf_counter(), Seen(), 150
    wrong = certificate.ever_certified(world, worlds, looks, 0.9, seed=3)
    seen.worlds, seen.held, seen.width = worlds, worlds - wrong, float(wrong)
    setting = f"at the margin, {world.name}, looked at after each of {looks} items"
    return [
        row_of(
            seen,
            part="certificates",
            setting=setting,
            method="stream",
            interval="betting",
            n=looks,
            started=started,
            nominal=0.9,
            promise="finite-sample",
        )
    ]


def _certificates() -> Iterator[Case]:
    for world in certificate.WORLDS:
        for n in (1, 2, 10, 100, 1000):
            yield Case(
                part="certificates",
                name=f"{world.name}, {n}",
                quick=(world.name, n) == ("K=3, rare losses", 10),
                measured=lambda worlds, w=world, n=n: _certificate(
                    w, n, fewer(worlds, 2 if n > 10 else 1, 200)
                ),
            )
        yield Case(
            part="certificates",
            name=f"{world.name}, stream",
            measured=lambda worlds, w=world: _stream(w, fewer(worlds, 4, 100)),
        )
    for name, test in (
        ("free", "binomial"),
        ("quadratic", "binomial"),
        ("paper", "binomial"),
        ("paper", "paper-hms"),
        ("paper", "paper-oms"),
    ):
        for n in (20, 500):
            yield Case(
                part="certificates",
                name=f"{name} {test} {n}",
                measured=lambda worlds, c=name, t=test, n=n: _own_boundary(
                    c, t, n, fewer(worlds, 5, 100)
                ),
            )


# -----------------------------------------------------------------------------------------------------------------
# agreement


def _population(world: ceiling.World, statistic: str) -> float:
    """The coefficient of a population with these shares."""
    many = world.counts(
        tuple(np.round(np.array(world.shares) / sum(world.shares) * 10**7).astype(int).tolist())
    )
    if statistic == "krippendorff":
        return float(coefficients.krippendorff(many.votes, many.n_items, values=None).estimate)
    return float(
        {"pairwise": coefficients.pairwise, "fleiss": coefficients.fleiss}[statistic](
            many.votes, many.n_items
        ).estimate
    )


def _agreement(world: ceiling.World, n: int, worlds: int) -> list[Row]:
    rows = []
    rng = seeded("agreement", world.name, n)
    drawn = Counter(
        map(
            tuple,
            rng.multinomial(n, np.array(world.shares) / sum(world.shares), size=worlds).tolist(),
        )
    )
    for statistic in ("pairwise", "fleiss", "krippendorff"):
        truth = _population(world, statistic)
        if np.isnan(truth):
            continue
        started, seen = time.perf_counter(), Seen()
        for n_items, times in drawn.items():
            found = estimate_agreement(world.counts(n_items), statistic=statistic, n_boot=400)  # type: ignore[arg-type]
            undefined = np.isnan(found.value)  # said to be undefined: no interval, and no miss
            held = undefined or found.low - 1e-9 <= truth <= found.high + 1e-9
            seen.add(
                held,
                2.0 if undefined else found.high - found.low,
                found.guarantee.kind.label,
                times,
            )
        setting = f"agreement, {world.name}, {n} items"
        rows.append(
            row_of(
                seen,
                part="agreement",
                setting=setting,
                method=statistic,
                interval="bootstrap",
                n=n,
                started=started,
            )
        )
    return rows


def _cohen(accuracies: tuple[float, ...], labels: int, n: int, worlds: int) -> list[Row]:
    """Raters who guess one label or another with fixed shares and otherwise agree: kappa of the
    population is known from its table.
    """
    share, p = 0.7, np.array(accuracies)
    truth = np.array([share, *([(1 - share) / (labels - 1)] * (labels - 1))])
    tables = []
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            says = [
                a * np.eye(labels) + (1 - a) * (1 - np.eye(labels)) / (labels - 1)
                for a in (p[i], p[j])
            ]
            tables.append(np.einsum("y,ya,yb->ab", truth, *says))
    kappa = float(np.mean(coefficients.kappas(np.stack(tables))))
    started, seen, rng = time.perf_counter(), Seen(), seeded("cohen", accuracies, labels, n)
    for _ in range(worlds):
        key = rng.choice(labels, size=n, p=truth)
        wrong = (key[:, None] + rng.integers(1, labels, (n, len(p)))) % labels
        said = np.where(rng.random(wrong.shape) < p, key[:, None], wrong)
        found = estimate_agreement(
            RatingCounts.from_arrays(
                said, labels=labels, raters=[f"r{i}" for i in range(len(p))], pairs=True
            ),
            statistic="cohen",
            n_boot=400,
        )
        undefined = np.isnan(found.value)
        held = undefined or found.low - 1e-9 <= kappa <= found.high + 1e-9
        seen.add(held, 2.0 if undefined else found.high - found.low, found.guarantee.kind.label)
    setting = (
        f"{len(p)} raters, A={'/'.join(f'{a:g}' for a in accuracies)}, {labels} labels, {n} items"
    )
    return [
        row_of(
            seen,
            part="agreement",
            setting=setting,
            method="cohen",
            interval="bootstrap",
            n=n,
            started=started,
        )
    ]


def _agreements() -> Iterator[Case]:
    for world in (
        ceiling.PAIR,
        ceiling.NEAR_ONE,
        ceiling.NEVER,
        ceiling.TWENTY,
        ceiling.MIXED,
        ceiling.ADAPTIVE,
    ):
        for n in (2, 10, 100, 400):
            yield Case(
                part="agreement",
                name=f"{world.name}, {n}",
                quick=(world.name, n) == ("two votes", 10),
                measured=lambda worlds, w=world, n=n: _agreement(w, n, fewer(worlds, 4, 200)),
            )
    for accuracies, labels in (((0.9, 0.7), 2), ((0.98, 0.98), 4), ((0.9, 0.8, 0.7), 2)):
        for n in (10, 100):
            yield Case(
                part="agreement",
                name=f"cohen {accuracies} {labels} {n}",
                measured=lambda worlds, a=accuracies, m=labels, n=n: _cohen(
                    a, m, n, fewer(worlds, 4, 200)
                ),
            )


def cases() -> list[Case]:
    """Every case of this file."""
    return [case for make in (_ceilings, _certificates, _agreements) for case in make()]
