"""Test a certificate again from its inputs alone, with other code than certified it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from noracle.results import Certificate, Kind

Clusters = Sequence[tuple[int, Fraction, int]]
"""Sizes of clusters, sums of Z over them, and how many are alike; an item is one, too."""
_PAIRED = ("betting", "bernstein", "t")
_CLOSE = 1e-8


def log_wealth(clusters: Clusters, mean: float) -> float:
    """Log of Σ_j w_j·Π(1 + θ_j·(sum - size·mean)/(largest size·(mean + 1))) with θ_j = 2^(-j/2) and
    w_j proportional to 1/(j + 3), j = 0…29.
    """
    most = max(m for m, _, _ in clusters)
    gains = [((float(z) - m * mean) / (most * (mean + 1)), n) for m, z, n in clusters]
    total = math.fsum(1 / (j + 3) for j in range(30))
    logs = []
    for j in range(30):
        factors = [(math.sqrt(2.0) ** -j * gain, n) for gain, n in gains]
        log = math.log(1 / (j + 3) / total)
        ruined = any(factor <= -1 for factor, _ in factors)
        logs.append(-math.inf if ruined else log + math.fsum(n * math.log1p(x) for x, n in factors))
    top = max(logs)
    return top if top == -math.inf else top + math.log(math.fsum(math.exp(x - top) for x in logs))


def student_tail(t: float, freedom: float) -> float:
    """P(T <= t) by the incomplete beta function."""
    from noracle.bounds.binomial import betainc

    half = float(betainc(freedom / 2, 0.5, freedom / (freedom + t * t))) / 2
    return half if t <= 0 else 1 - half


def student_p(clusters: Clusters, margin: float) -> float:
    """Student's t with CR2, which with clusters of one is the plain test.

    V = Σ E²/(1 - m/N)/N², E = sum - m·mean, and its degrees of freedom are N²/(Σ m² + Σ_{c≠d}
    (m_c·m_d)²/((N - m_c)·(N - m_d))).
    """
    size = sum(m * n for m, _, n in clusters)
    if sum(n for *_, n in clusters) < 2:
        return 1.0
    mean = sum((z * n for _, z, n in clusters), Fraction()) / size
    squares = ((n * (z - m * mean) ** 2, 1 - Fraction(m, size)) for m, z, n in clusters)
    variance = sum((e / rest for e, rest in squares), Fraction()) / size**2
    if not variance:
        return 1.0
    shares = [(Fraction(m * m, size - m), n) for m, _, n in clusters]
    first, second = (sum((n * x**k for x, n in shares), Fraction()) for k in (1, 2))
    freedom = size**2 / (sum(n * m * m for m, _, n in clusters) + first**2 - second)
    return student_tail((margin - float(mean)) / math.sqrt(variance), float(freedom))


def bernstein_limits(clusters: Clusters) -> Callable[[float], float]:
    """Maurer and Pontil's lower limit for items in a range of width 2, by the log of the tail."""
    n = sum(m for *_, m in clusters)
    if n < 2:
        return lambda _: -math.inf
    mean = sum((z * m for _, z, m in clusters), Fraction()) / n
    squares = sum((z * z * m for _, z, m in clusters), Fraction())
    middle, variance = float(mean), float((squares - n * mean * mean) / (n - 1))

    def limit(log_tail: float) -> float:
        log = math.log(2) - log_tail
        return middle - math.sqrt(2 * variance * log / n) - 14 * log / (3 * n - 3)

    return limit


def paired_p(test: str, clusters: Clusters, margin: float) -> float:
    """P-value of "the mean of Z is at most the margin"."""
    if test == "betting":
        return math.exp(-max(log_wealth(clusters, margin), 0.0))
    if test == "t":
        return student_p(clusters, margin)
    limit = bernstein_limits(clusters)
    if limit(0.0) <= margin:
        return 1.0
    # log of the smallest tail whose limit stays above the margin
    a, b = -1e6, 0.0
    for _ in range(200):
        middle = (a + b) / 2
        a, b = (a, middle) if limit(middle) > margin else (middle, b)
    return math.exp(b)


def upper_tail(successes: int, n: int, rate: float) -> float:
    """P(Binomial(n, rate) >= successes), summed term by term from the side that is small."""
    if successes <= 0:
        return 1.0
    if rate >= 1 or rate <= 0:
        return float(rate >= 1)
    if successes <= n * rate:
        return 1 - _run_of_terms(n, n - successes + 1, 1 - rate)
    return _run_of_terms(n, successes, rate)


def _run_of_terms(n: int, start: int, rate: float) -> float:
    """Σ_{k >= start} C(n, k) rate^k (1 - rate)^(n - k), where terms fall from ``start`` on."""
    if start > n:
        return 0.0
    choose = math.lgamma(n + 1) - math.lgamma(start + 1) - math.lgamma(n - start + 1)
    log = choose + start * math.log(rate) + (n - start) * math.log1p(-rate)
    term, terms, k = 1.0, [1.0], start
    while k < n and term > 1e-20:
        term *= (n - k) / (k + 1) * rate / (1 - rate)
        terms.append(term)
        k += 1
    return min(1.0, math.exp(log) * math.fsum(terms))


def ceiling_at(name: str, mean: float, k: int | None) -> float:
    """The ceiling at a mean of its statistic; ``free`` as the lowest of its chords."""
    if name == "plurality" or k is None:
        return mean
    if name == "paper-empirical":
        return math.sqrt(mean)
    if k == 1:
        return 1.0
    if name == "paper":
        return math.sqrt((1 + (k - 1) * mean) / k)
    if name == "quadratic":
        return 0.5 / k + math.sqrt(0.25 / k**2 + (k - 1) * mean / k)
    return min((j + (k * (k - 1) * mean - j * (j - 1)) / (2 * j)) / k for j in range(1, k))


def ceiling_tail(
    name: str, mean: float, n: int, k: int | None, labels: int | None, threshold: float
) -> float:
    """P-value of "the ceiling is at least this threshold"."""
    if k == 1:
        return 1.0
    low = 0.0
    tops = range(math.ceil(k / (labels or k)), k + 1) if k is not None else range(0)
    two = len(tops) == 2
    if name == "plurality" and k is not None:
        low = tops[0] / k
    elif two and k is not None:
        low = (k - 2) / k  # all but one agree
    if threshold > 1:
        return 0.0
    # The smallest mean at which the ceiling reaches the threshold.
    if ceiling_at(name, low, k) >= threshold:
        return 1.0
    a, b = low, 1.0
    for _ in range(60):
        middle = (a + b) / 2
        a, b = (a, middle) if ceiling_at(name, middle, k) >= threshold else (middle, b)
    share, expected = (mean - low) / (1 - low), (b - low) / (1 - low)
    if two and expected < 1:
        return upper_tail(n - math.ceil(share * n - 1e-6), n, 1 - expected)
    if two:
        return float(share * n > n - 0.5)
    if share >= expected:
        return 1.0
    if expected >= 1:
        return 0.0
    gap = (1 - share) * math.log((1 - share) / (1 - expected))
    if share > 0:
        gap += share * math.log(share / expected)
    return math.exp(-n * gap)


def non_overlap(hits: int, n: int, tail: Callable[[float], float], margin: float) -> float:
    """2·min over thresholds of the larger tail, by a grid that closes in on the crossing."""
    a, b = 0.0, 1 - margin
    best = 1.0
    for _ in range(12):
        grid = [a + (b - a) * i / 20 for i in range(21)]
        system = [upper_tail(hits, n, c + margin) for c in grid]
        people = [tail(c) for c in grid]
        best = min(best, *(max(s, p) for s, p in zip(system, people, strict=True)))
        first = next((i for i in range(21) if system[i] >= people[i]), 20)
        a, b = grid[max(first - 1, 0)], grid[first]
    return min(1.0, 2 * best)


def published_score(split: str, match_rate: float, ceiling: float, n: int, margin: float) -> float:
    """The published score: half of the margin (hms), or the best threshold of a grid (oms)."""
    top = match_rate - margin
    if top <= ceiling:
        return -1.0

    def score(upper: float, lower: float) -> float:
        return 1.0 - sum(math.exp(-2.0 * n * max(t, 0.0) ** 2) for t in (upper, lower))

    if split == "paper-hms":
        half = (top - ceiling) / 2
        return score(half, top - math.sqrt(half + ceiling * ceiling))
    a, b, best = ceiling, top, -1.0
    for _ in range(12):
        grid = [a + (b - a) * i / 400 for i in range(401)]
        scores = [score((c - ceiling) * (c + ceiling), top - c) for c in grid]
        at = max(range(401), key=scores.__getitem__)
        best = max(best, scores[at])
        a, b = grid[max(at - 1, 0)], grid[min(at + 1, 400)]
    return best


def verify_certificate(certificate: Certificate) -> bool:
    """Whether every number and the verdict of a certificate follow from its inputs.

    Sums are exact fractions; betting wealth is multiplied up factor by factor; binomial tails are
    summed term by term; random ties are drawn again from their seed. A certificate that was changed
    anywhere in its numbers, or whose inputs are not possible, is refused.

    Examples
    --------
    >>> import dataclasses
    >>> from noracle.counts.ratings import RatingCounts
    >>> from noracle.superhuman.certify import certify_superhuman
    >>> counts = RatingCounts.from_arrays([[0, 0, 1]] * 100, labels=2, answers={"agent": [0] * 100})
    >>> certificate = certify_superhuman(counts, trained_on_annotators="no")
    >>> verify_certificate(certificate), verify_certificate(dataclasses.replace(certificate, low=0.3))
    (True, False)
    """
    try:
        if certificate.test == "panel":
            return _panel_holds(certificate)
        return _Again(certificate).holds()
    except (KeyError, TypeError, ValueError, ArithmeticError, IndexError, AttributeError):
        return False


def _panel_holds(said: Certificate) -> bool:
    """Whether bound and verdict of a panel follow from its counts, in whole numbers."""
    items, size, n, wrong = (
        int(said.inputs[name]) for name in ("items", "unanimous", "labelled", "wrong")
    )
    at_most, error = float(said.inputs["at_most"]), 1 - float(said.inputs["confidence"])
    if not (0 <= wrong <= n <= size <= items and 0 < at_most < 1 and 0 < error < 1):
        return False

    def tail(most: int) -> float:
        """P(X <= wrong) with so many wrong ones among the unanimous."""
        ways = (math.comb(most, x) * math.comb(size - most, n - x) for x in range(wrong + 1))
        return float(Fraction(sum(ways), math.comb(size, n)))

    a, b = wrong, size - (n - wrong)  # the largest number that is not refuted
    while a < b:
        middle = (a + b + 1) // 2
        a, b = (middle, b) if tail(middle) > error else (a, middle - 1)
    bound, allowed = a / items, math.floor(at_most * items + 1e-9)
    attained = 1.0 if allowed + 1 > size - (n - wrong) else 0.0
    if not attained and n and allowed + 1 >= wrong:
        attained = 1 - tail(allowed + 1)
    value = 1 - wrong * size / (n * items) if n else math.nan if size else 1.0
    same = ((said.value, value), (said.low, 1 - bound), (said.attained, attained))
    told = all(abs(x - y) < _CLOSE or (math.isnan(x) and math.isnan(y)) for x, y in same)
    fits = abs(said.margin - (1 - at_most)) < _CLOSE and 1 - said.confidence == error
    return told and fits and said.certified == (bound <= at_most + 1e-12)


class _Again:
    """One certificate, read from its inputs."""

    def __init__(self, certificate: Certificate) -> None:
        self.said = certificate
        inputs = self.inputs = certificate.inputs
        self.test, self.margin = inputs["test"], float(inputs["margin"])
        self.error = 1 - float(inputs["confidence"])
        self.clusters: list[tuple[int, Fraction, int]] = []
        if inputs["kind"] == "published":
            self._read_figures(inputs)
        else:
            self._read_rows(inputs)

    def _read_figures(self, inputs: Mapping[str, Any]) -> None:
        half = 0.0 if inputs["digits"] is None else 0.5 * 10.0 ** -inputs["digits"]
        self.rows: list[tuple[int, ...]] = []
        self.n, self.n_pairs = int(inputs["n_items"]), int(inputs["agreement_items"])
        self.k: int | None = int(inputs["n_raters"])
        self.labels: int | None = inputs["n_classes"]
        self.agreement = min(1.0, inputs["agreement"] + half)
        rate = max(0.0, inputs["match_rate"] - half)
        self.hits: int = math.floor(rate * self.n) if half else round(rate * self.n)
        self.match_rate = Fraction(self.hits, self.n) if self.test == "exact" else Fraction(rate)
        self.without = 0
        _require(0 <= self.hits <= self.n and self.k >= 1)
        _require(self.n > 0 and 0 <= inputs["agreement"] <= 1)

    def _read_rows(self, inputs: Mapping[str, Any]) -> None:
        self.rows = [tuple(row) for row in inputs["rows"]]
        _require(all(type(v) is int for row in self.rows for v in row))
        _require(all(h in (0, 1) and n > 0 for h, *_, n in self.rows))
        _require(all(t >= 1 <= a and t * a <= k for _, t, a, k, _ in self.rows))
        if inputs["ties"] == "random":
            drawn = [tuple(row) for row in inputs["drawn"]]
            _require(drawn == _drawn_again(self.rows, inputs["seed"]))
            self.rows = drawn
        shared = inputs["ties"] == "share"
        if "clusters" in inputs:
            _require(shared and self.test in ("betting", "t"))
            self._read_clusters(inputs["clusters"])
        self.n = self.n_pairs = sum(row[4] for row in self.rows)
        votes = {row[3] for row in self.rows}
        self.k = votes.pop() if len(votes) == 1 else None
        hits = [(Fraction(h, t if shared else 1), n) for h, t, _, _, n in self.rows]
        tops = [(Fraction(a, k), n) for _, _, a, k, n in self.rows]
        pairs = zip(hits, tops, strict=True)
        self.clusters = self.clusters or [(1, hit - top, n) for (hit, n), (top, _) in pairs]
        self.match_rate, self.share = (
            sum((x * n for x, n in of), Fraction()) / max(self.n, 1) for of in (hits, tops)
        )
        self.hits = math.floor(self.match_rate * self.n)
        self.labels = inputs.get("n_labels")
        self.without = inputs["without_answer"]
        _require(0 <= self.without <= sum(n for h, _, _, _, n in self.rows if not h))
        self.agreement = 1.0
        if "agreeing_pairs" in inputs:
            _require(self.k is not None and self.k > 1)
            most = self.n * int(self.k or 0) * (int(self.k or 0) - 1)
            least = sum(n * a * (a - 1) for _, _, a, _, n in self.rows)
            agreeing = inputs["agreeing_pairs"]
            _require(type(agreeing) is int and least <= agreeing <= most)
            self.agreement = agreeing / most

    def _read_clusters(self, clusters: Sequence[Any]) -> None:
        """Size, sum of Z and number of each kind of cluster; together they must be the rows."""
        together: dict[tuple[int, ...], int] = {}
        for rows, times in clusters:
            _require(type(times) is int and times > 0 and bool(rows))
            for *kind, n in rows:
                _require(type(n) is int and n > 0)
                together[tuple(kind)] = together.get(tuple(kind), 0) + n * times
            sums = (n * (Fraction(h, t) - Fraction(a, k)) for h, t, a, k, n in rows)
            self.clusters.append((sum(row[4] for row in rows), sum(sums, Fraction()), times))
        _require(sorted((*kind, n) for kind, n in together.items()) == sorted(self.rows))

    @property
    def ceiling(self) -> float:
        name = self.inputs.get("ceiling", "plurality")
        at_plurality = name == "plurality"
        return float(self.share) if at_plurality else ceiling_at(name, self.agreement, self.k)

    def _tail(self, n: int) -> Callable[[float], float]:
        name = self.inputs["ceiling"]
        mean = float(self.share) if name == "plurality" else self.agreement
        return lambda c: ceiling_tail(name, mean, n, self.k, self.labels, c)

    def p_value(self, times: float = 1.0) -> float:
        """The p-value at the margin, if there were so many times as many items."""
        if self.test in _PAIRED:
            clusters = [(m, z, round(n * times)) for m, z, n in self.clusters]
            return paired_p(self.test, clusters, self.margin)
        n = sum(round(row[4] * times) for row in self.rows) if self.rows else round(self.n * times)
        if self.test in ("binomial", "exact"):
            hits = round(self.hits * times)
            if times != 1 and self.rows:
                hits = sum(round(row[4] * times) for row in self.rows if row[0])
            if hits / n - self.ceiling <= self.margin:
                return 1.0
            tail = self._tail(n if self.rows else round(self.n_pairs * times))
            return non_overlap(hits, n, tail, self.margin)
        return min(1.0, 1 - self._score(self._rate(times), n, self.margin))

    def _score(self, rate: float, n: int, margin: float) -> float:
        return published_score(self.test, rate, self.ceiling, n, margin)

    def _rate(self, times: float) -> float:
        if times == 1 or not self.rows:
            return float(self.match_rate)
        shared = self.inputs["ties"] == "share"
        counted = [(h / (t if shared else 1), round(n * times)) for h, t, _, _, n in self.rows]
        return math.fsum(c * n for c, n in counted) / sum(n for _, n in counted)

    def low_fits(self, low: float) -> bool:
        """Whether ``low`` is the lower limit: rejected just below it, not just above."""
        if self.test == "bernstein":
            return _close(low, max(-1.0, bernstein_limits(self.clusters)(math.log(self.error))))
        if self.test == "t":
            p = student_p(self.clusters, low)
            return p >= self.error - _CLOSE if low == -1.0 else _close(p, self.error)
        if self.test in ("binomial", "exact"):
            return _close(low, max(-1.0, self._tail_limit()))

        def rejected(mean: float) -> bool:
            if self.test == "betting":
                return mean <= -1 or paired_p("betting", self.clusters, mean) <= self.error
            return self._score(float(self.match_rate), self.n, mean) >= 1 - self.error

        return (low == -1.0 or rejected(low - 1e-7)) and not rejected(low + 1e-7)

    def _tail_limit(self) -> float:
        tail, half = self._tail(self.n_pairs), self.error / 2
        system = _last(lambda c: upper_tail(self.hits, self.n, c) <= half) if self.hits else 0.0
        people = 1.0 if tail(1.0) > half else _last(lambda c: tail(c) > half)
        return system - people

    def holds(self) -> bool:
        said, n = self.said, self.n
        _require(said.margin == self.margin and said.test == self.test)
        _require(said.confidence == self.inputs["confidence"])
        _require(0 <= self.margin < 1 and 0 < self.error < 1)
        plain = json.dumps({k: v for k, v in self.inputs.items() if k != "digest"}, sort_keys=True)
        _require(self.inputs["digest"] == hashlib.sha256(plain.encode()).hexdigest())
        if not n:
            refused = not said.certified and bool(said.reasons)
            return refused and math.isnan(said.value) and said.attained == 0.0
        value, p = float(self.match_rate) - self.ceiling, self.p_value()
        proved = value > self.margin and p <= self.error * (1 + _CLOSE)
        most = max((row[3] for row in self.rows), default=self.k or 1)
        heuristic = self.inputs.get("ceiling") == "paper-empirical"
        vacuous = most == 1 or (bool(self.rows) and most == 2 and not heuristic)
        doubled = 2 if self.test.startswith("paper") else 1
        allowed = proved and not vacuous and not self._weak() and self._statement_allows()
        numbers = (
            (said.value, value),
            (said.attained, max(0.0, 1 - p) if value > self.margin else 0.0),
            (said.diagnostics["p_value"], p),
            (said.diagnostics["match_rate"], float(self.match_rate)),
            (said.diagnostics["ceiling"], self.ceiling),
            (said.guarantee.error_rate, min(1.0, doubled * self.error)),
        )
        return (
            all(_close(a, b) for a, b in numbers)
            and self.low_fits(said.low)
            and said.certified == allowed
            and bool(said.reasons) != allowed
            and self._details_fit(value, p)
            and self._promise_fits()
        )

    @property
    def _fitted(self) -> bool:
        """Whether the aggregate was fitted on these items."""
        return self.inputs.get("aggregate") not in (None, "plurality", "majority")

    def _weak(self) -> bool:
        """Whether nothing is promised: the ceiling is no bound, or items depend on each other."""
        ignored = bool(self.inputs.get("clusters_ignored"))
        return self._fitted or ignored or self.inputs.get("ceiling") == "paper-empirical"

    def _statement_allows(self) -> bool:
        check, trained = self.inputs["check"], self.inputs["trained_on_annotators"]
        if check and not check["passed"]:
            return False
        if trained != "yes":
            return bool(trained == "no")
        strong = bool(check) and (check["confidence"] or 0.0) >= 1 - self.error - 1e-9
        return strong and bool(check["supported"])

    def _details_fit(self, value: float, p: float) -> bool:
        said = self.said
        needed = None if not value > self.margin or p <= self.error else self._needed()
        if said.diagnostics["needed_items"] != needed:
            return False
        if "score" in said.diagnostics:
            score = self._score(float(self.match_rate), self.n, self.margin)
            if not _close(said.diagnostics["score"], score):
                return False
        told = said.diagnostics
        if not self.rows:
            two = self.test == "exact" and (self.k == 2 or (self.k == 3 and self.labels == 2))
            return dict(said.counts) == {"items": self.n} and told["exact_binomial"] == two
        numbers = {
            "tied_share": sum(row[4] for row in self.rows if row[1] > 1) / self.n,
            "single_share": sum(row[4] for row in self.rows if row[3] == 1) / self.n,
        }
        ceilings = {"plurality": float(self.share)}
        if "agreeing_pairs" in self.inputs:
            names = ("free", "quadratic", "paper")
            ceilings |= {name: ceiling_at(name, self.agreement, self.k) for name in names}
        counts = {
            "items": self.n,
            "ratings": sum(row[3] * row[4] for row in self.rows),
            "without_answer": self.without,
            "unused": self.inputs["unused"],
        }
        return (
            dict(said.counts) == counts
            and set(told["ceilings"]) == set(ceilings)
            and all(_close(told["ceilings"][name], at) for name, at in ceilings.items())
            and all(_close(told[name], at) for name, at in numbers.items())
        )

    def _needed(self) -> int | None:
        low, high = 1.0, 2.0
        while self.p_value(high) > self.error:
            low, high = high, 2 * high
            if self.n * high > 10**9:
                return None
        while high / low > 1.01:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.p_value(middle) > self.error else (low, middle)
        return math.ceil(self.n * high)

    def _promise_fits(self) -> bool:
        promise, check = self.said.guarantee, self.inputs["check"]
        failed = any(a.status == "failed" for a in promise.assumptions)
        weak = self._weak() or failed
        kind = Kind.ASYMPTOTIC if self.test == "t" else Kind.FINITE_SAMPLE
        anytime = self.test == "betting" and self.inputs["ties"] == "share" and not weak
        refuted = bool(check) and not check["passed"]
        ignored = bool(self.inputs.get("clusters_ignored"))
        return (
            promise.kind == (Kind.HEURISTIC if weak else kind)
            and promise.anytime == anytime
            and failed == (refuted or self._fitted or ignored)
        )


def _drawn_again(rows: list[tuple[int, ...]], seed: int) -> list[tuple[int, ...]]:
    """The rows after ties were drawn from the seed, in the order of the rows."""
    from numpy.random import default_rng

    rng = default_rng(seed)
    found: dict[tuple[int, ...], int] = {}
    for hit, tied, top, votes, n in rows:
        kept = 0 if not hit else n if tied == 1 else int(rng.binomial(n, 1 / tied))
        found[0, tied, top, votes] = found.get((0, tied, top, votes), 0) + n - kept
        found[1, tied, top, votes] = found.get((1, tied, top, votes), 0) + kept
    return [(*key, n) for key, n in sorted(found.items()) if n]


def _last(holds: Callable[[float], bool]) -> float:
    """The largest number in [0, 1] up to which a condition holds."""
    a, b = 0.0, 1.0
    for _ in range(60):
        middle = (a + b) / 2
        a, b = (middle, b) if holds(middle) else (a, middle)
    return a


def _close(first: float, second: float) -> bool:
    return abs(first - second) <= _CLOSE * max(1.0, abs(second))


def _require(fine: bool) -> None:
    if not fine:
        raise ValueError("inputs are not possible")
