"""Check a proof about preferences in whole numbers, with Python alone: python
check_preference_proof.py PROOF.json

The file says how often each judge put one system above another in groups of units (items, or parts
of them; or the whole table), and what share of these verdicts must agree with an order of each unit.
"""

import json
import sys
from fractions import Fraction
from math import ceil, floor
from pathlib import Path


def must(holds):
    if not holds:
        raise ValueError("this is no proof about preferences")


def needs(proof):
    """(judge, the least number of its verdicts that must agree), one for each judge of a claim."""
    sketch = proof["sketch"]
    total = dict.fromkeys(range(len(sketch["raters"])), 0)
    for n, group in zip(sketch["n"], sketch["verdicts"], strict=True):
        for judge, _, _, number in group:
            total[judge] += n * number
    found = []
    for s in proof["spec"]["statements"]:
        must(s["kind"] == "agreement")
        for judge, name in enumerate(sketch["raters"]):
            if s["of"] in (None, name):
                share = Fraction(s["above"]) * total[judge]
                least = floor(share) + 1 if s["strict"] else ceil(share)
                found.append((judge, least if total[judge] else 0))
    return found


def impossible(node, bounds, needed, sketch):
    """No orders keep all needs, where x[g, a, b], the units of group g with a above b, is in bounds."""
    if node["kind"] == "cases":  # x is at most k, or at least k + 1: both must be impossible
        (g, a, b), k = node["pair"], node["at"]
        must(a < b and k == int(k))
        low, high = bounds.get((g, a, b), (0, sketch["n"][g]))
        below = {**bounds, (g, a, b): (low, min(high, k))}
        above = {**bounds, (g, a, b): (max(low, k + 1), high)}
        return impossible(node["below"], below, needed, sketch) and impossible(
            node["above"], above, needed, sketch
        )
    if any(low > high for low, high in bounds.values()):
        return True
    # If all needs held, so would their sum with these weights.
    must(all(w == int(w) and w >= 0 for *_, w in [*node["weights"], *node["cycles"]]))
    weight = dict.fromkeys(range(len(sketch["raters"])), 0)
    at_least = 0
    for k, w in node["weights"]:
        judge, least = needed[k]
        weight[judge] += w
        at_least += w * least
    gain = {}  # what a unit of group g adds to the sum by a above b
    for g, group in enumerate(sketch["verdicts"]):
        for judge, better, worse, number in group:
            must(better != worse and number > 0)
            gain[g, better, worse] = gain.get((g, better, worse), 0) + weight[judge] * number
    most = 0
    for g, a, b, c, w in node["cycles"]:  # an order has at most two of a > b, b > c, c > a
        must(len({a, b, c}) == 3)
        for pair in ((a, b), (b, c), (c, a)):
            gain[g, *pair] = gain.get((g, *pair), 0) - w
        most += 2 * w * sketch["n"][g]
    for g, a, b in {(g, min(pair), max(pair)) for g, *pair in gain}:
        n = sketch["n"][g]
        first, second = gain.get((g, a, b), 0), gain.get((g, b, a), 0)
        most += max(first * x + second * (n - x) for x in bounds.get((g, a, b), (0, n)))
    return most < at_least


def possible(orders, needed, sketch):
    """These orders (best first, and how many units have each) keep all needs."""
    agree = dict.fromkeys(range(len(sketch["raters"])), 0)
    for found, n, size, group in zip(
        orders, sketch["n"], sketch["size"], sketch["verdicts"], strict=True
    ):
        must(sum(k for _, k in found) == n and all(k > 0 for _, k in found))
        for order, k in found:
            must(sorted(order) == list(range(size)))
            for judge, better, worse, number in group:
                agree[judge] += k * number * (order.index(better) < order.index(worse))
    return all(agree[judge] >= least for judge, least in needed)


def check(proof):
    sketch, needed = proof["sketch"], needs(proof)
    if proof["status"] == "alarm":
        return impossible(proof["certificate"], {}, needed, sketch)
    return proof["status"] == "consistent" and possible(proof["witness"]["orders"], needed, sketch)


if __name__ == "__main__":
    print(
        "proved"
        if check(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
        else sys.exit("not proved")
    )
