"""Check a proof about accuracies and grades in whole numbers: python check_proof.py PROOF.json"""

import json
import sys
from fractions import Fraction
from pathlib import Path

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def check(proof):
    sketch = proof["sketch"]
    S, n = (
        [[LETTERS.find(c) for c in p] for p in sketch["patterns"]],
        sketch["n"],
    )  # groups of items with equal answers; -1 is no answer
    N, R, G = range(len(sketch["classifiers"])), range(len(sketch["labels"])), range(len(n))
    can = [set(R) if a is None else set(a) for a in sketch["allowed"] or [None] * len(n)]
    rows = []  # (coefficient by group and label, right side, the classifier and label that must occur for the row to count)
    for s in proof["spec"]["statements"]:
        p, q = Fraction(s["above"]).as_integer_ratio()
        for i in (i for i in N if s["of"] in (None, sketch["classifiers"][i])):
            total = sum(n[g] for g in G if S[g][i] >= 0)
            least = (p * total - (not s["strict"])) // q + 1 if total else 0
            at = s.get("at")  # scores at least this, and below: the grade counts the same side
            if s["kind"] == "grade" and at is None:
                rows.append(([[int(a[i] == k) for k in R] for a in S], least, None))
            cuts = R[1:] if s["kind"] == "grade" and at is not None else ()
            rows += [
                ([[int(a[i] >= 0 and (a[i] >= t) == (k >= t)) for k in R] for a in S], least, None)
                for t in cuts
                if at in ("each", sketch["labels"][t])
            ]
            for r in (
                r for r in R if s["kind"] == "accuracy" and s["on"] in (None, sketch["labels"][r])
            ):
                C = [[(k == r) * (q * (a[i] == r) - p * (a[i] >= 0)) for k in R] for a in S]
                rows.append((C, int(s["strict"]), (i, r)))
    for label, (low, high) in proof["spec"]["prevalence"].items():
        rows += [
            ([[sign * (name == label) for name in sketch["labels"]] for _ in G], b, None)
            for sign, b in ((1, low), (-1, -high))
        ]

    def impossible(node, rows, can, sure):  # no true labels among ``can`` keep all rows
        if node["kind"] == "cases":  # a count is at most k, or more than k: both must be impossible
            (kind, *at), k = node["form"], node["at"]
            said = {
                "prevalence": lambda _: True,
                "answered": lambda a: a[at[0]] >= 0,
                "correct": lambda a: a[at[0]] == at[1],
            }
            C = [
                [
                    int(r == at[-1] and (g == at[0] if kind == "cell" else said[kind](S[g])))
                    for r in R
                ]
                for g in G
            ]
            left = [{r for r in can[g] if k > 0 or not C[g][r]} for g in G]
            more = sure | ({tuple(at)} if kind == "answered" and k >= 0 else set())
            below = impossible(
                node["below"], [*rows, ([[-c for c in row] for row in C], -k, None)], left, sure
            )
            return (
                k == int(k)
                and below
                and impossible(node["above"], [*rows, (C, k + 1, None)], can, more)
            )
        for (
            r
        ) in R:  # i surely answered an item of label r: one is known, or more have r than i missed
            low = max(
                (
                    b
                    for C, b, u in rows
                    if u is None and all(row == [int(k == r) for k in R] for row in C)
                ),
                default=0,
            )
            missed = {i: sum(n[g] for g in G if S[g][i] < 0 and r in can[g]) for i in N}
            sure = sure | {
                (i, r)
                for i in N
                if low > missed[i] or any(can[g] == {r} and S[g][i] >= 0 for g in G)
            }
        W = [(*rows[k], w) for k, w in dict(node["weights"]).items()]
        needed = sum(w * b for _, b, u, w in W if u is None or u in sure)
        if (
            g := node["group"]
        ) is not None:  # each group has an item of some label, which brings more rows into force
            needed += min(
                sum(
                    w * b
                    for _, b, u, w in W
                    if u and u not in sure and u[1] == r and S[g][u[0]] >= 0
                )
                for r in can[g] or R
            )
        largest = sum(
            n[g] * max(sum(w * C[g][r] for C, _, _, w in W) for r in can[g] or R) for g in G
        )
        return not all(can) or (largest < needed and all(w >= 0 for *_, w in W))

    if proof["status"] == "alarm":
        return impossible(proof["certificate"], rows, can, set())
    X = [
        [n[g] * (r == k) for r in R] for g, k in enumerate(proof["witness"]["label"])
    ]  # items by group and true label
    for g, r, m in proof["witness"]["others"]:
        X[g][r], X[g][proof["witness"]["label"][g]] = m, X[g][proof["witness"]["label"][g]] - m
    occurs = {(i, r): any(X[g][r] and S[g][i] >= 0 for g in G) for i in N for r in R}
    kept = (
        sum(C[g][r] * X[g][r] for g in G for r in R) >= b or (u and not occurs[u])
        for C, b, u in rows
    )
    return all(
        sum(X[g]) == n[g]
        and all(X[g][r] in range(n[g] + 1) and (not X[g][r] or r in can[g]) for r in R)
        for g in G
    ) and all(kept)


if __name__ == "__main__":
    print(
        "proved"
        if check(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
        else sys.exit("not proved")
    )
