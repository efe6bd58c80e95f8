"""Who is asked what: uniform, balanced, reproducible, and nothing tells gold from other questions."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

from noracle.collect.chain import content_hash, routes_root
from noracle.collect.model import Item, SealedRoute
from noracle.collect.protocols import balanced_sets, commitment, draw_routes, seal
from noracle.errors import ArgumentError
from tests.unit.collect.archives import SEED, items_of, spec_of


def seed_of(i: int) -> bytes:
    return i.to_bytes(32, "big")


def by_item(routes: list[SealedRoute]) -> dict[str, list[SealedRoute]]:
    found: dict[str, list[SealedRoute]] = defaultdict(list)
    for route in routes:
        found[route.item].append(route)
    return found


# -------------------------------------------------------------------------------------------------------------
# partitioned


@pytest.mark.parametrize("draws", [1, 2, 4])
def test_each_item_is_put_to_different_classes(draws: int) -> None:
    routes, options = draw_routes(spec_of(draws=draws), items_of(50), SEED)
    assert not options
    assert [route.place for route in routes] == list(range(50 * draws))
    for asked in by_item(routes).values():
        assert len({route.pool for route in asked}) == draws
        assert sorted(route.draw for route in asked) == list(range(draws))
    assert all(
        r.shown == (r.pool,) and r.kind == "main" and r.propensity == draws / 4 for r in routes
    )


@pytest.mark.full
def test_routes_over_500_sealed_projects_are_uniform() -> None:
    """χ² of the classes, of (class, third of the order), and of the first item's place: each
    p-value is uniform over projects.
    """
    spec, items = spec_of(n_classes=5), items_of(200)
    p_class, p_order, firsts = [], [], []
    for i in range(500):
        routes, _ = draw_routes(spec, items, seed_of(i))
        table = np.zeros((5, 4))
        for route in routes:
            table[route.pool, route.place // 50] += 1
        p_class.append(stats.chisquare(table.sum(axis=1)).pvalue)
        p_order.append(
            stats.chi2.sf(((table - 10) ** 2 / 10).sum(), 16)
        )  # each quarter has 50 places
        firsts.append(next(route.place for route in routes if route.item == "item-0"))
    for values in (p_class, p_order, [(f + 0.5) / 200 for f in firsts]):
        assert stats.kstest(values, "uniform").pvalue > 0.01


def test_a_routing_that_favours_a_class_would_be_found() -> None:
    """The test above can fail: with 12 % more for one class the p-values are no longer uniform."""
    rng = np.random.default_rng(1)
    chances = np.array([1.12, 0.97, 0.97, 0.97, 0.97]) / 5
    values = [stats.chisquare(rng.multinomial(200, chances)).pvalue for _ in range(500)]
    assert stats.kstest(values, "uniform").pvalue < 0.01


def test_the_order_of_the_items_changes_nothing() -> None:
    spec, items = (
        spec_of(gold_rate=0.2, panel_items=3, shuffle_options=True),
        items_of(30, n_gold=5, options=True),
    )
    assert draw_routes(spec, items, SEED) == draw_routes(spec, items[::-1], SEED)
    assert draw_routes(spec, items, SEED) != draw_routes(spec, items, seed_of(1))


@pytest.mark.full
def test_targeted_routes_record_their_chance_and_keep_to_it() -> None:
    chances = [0.7, 0.1, 0.15, 0.05]
    items = items_of(8000)
    routes, _ = draw_routes(
        spec_of(), items, SEED, propensities={item.name: chances for item in items}
    )
    counts = Counter(route.pool for route in routes)
    assert stats.chisquare([counts[k] for k in range(4)], [8000 * c for c in chances]).pvalue > 1e-4
    assert all(abs(route.propensity - chances[route.pool]) < 1e-12 for route in routes)
    assert abs(np.mean([1 / route.propensity for route in routes]) - 4) < 0.2


@pytest.mark.parametrize(
    "chances",
    [
        [0.5, 0.5, 0, 0],
        [0.5, 0.5],
        [0.5, 0.5, 0.5, 0.5],
        [float("nan")] * 4,
        [1.2, -0.1, -0.05, -0.05],
    ],
)
def test_chances_that_leave_a_class_out_are_refused(chances: list[float]) -> None:
    items = items_of(3)
    with pytest.raises(ArgumentError, match="propensities must be 4 chances"):
        draw_routes(spec_of(), items, SEED, propensities={item.name: chances for item in items})
    with pytest.raises(ArgumentError, match="propensities must name every item"):
        draw_routes(spec_of(), items, SEED, propensities={})
    with pytest.raises(ArgumentError, match="propensities must be left out"):
        draw_routes(spec_of(draws=2), items, SEED, propensities={})


# ------------------------------------------------------------------------------------------------------------
# gold and panel


def test_gold_has_a_yes_share_of_one_in_k_and_every_pair_once() -> None:
    """n = 100 gold questions, K = 4: exactly 25 with the right answer yes, for each seed."""
    spec, items = spec_of(gold_rate=0.2), items_of(400, n_gold=60)
    truth = {item.name: item.truth for item in items}
    for i in range(40):
        routes, _ = draw_routes(spec, items, seed_of(i))
        gold = [route for route in routes if route.kind == "gold"]
        assert len(gold) == 100
        assert sum(route.pool == truth[route.item] for route in gold) == 25
        assert len({(route.item, route.pool) for route in gold}) == 100
        assert all(route.propensity == 100 / 240 for route in gold)
        assert {route.item for route in routes if route.kind == "main"} == {
            item.name for item in items if item.truth is None
        }


def test_the_yes_share_of_gold_is_rounded_at_random_with_the_right_mean() -> None:
    """n = 2 gold questions, K = 4: one or no yes, half of the time each."""
    spec, items = spec_of(gold_rate=0.5), items_of(2, n_gold=3)
    truth = {item.name: item.truth for item in items}
    yes = []
    for i in range(1500):
        gold = [route for route in draw_routes(spec, items, seed_of(i))[0] if route.kind == "gold"]
        assert len(gold) == 2
        yes.append(sum(route.pool == truth[route.item] for route in gold))
    assert {*yes} == {0, 1}
    assert stats.binomtest(sum(yes), 1500, 0.5).pvalue > 1e-4


def test_each_gold_pair_has_the_chance_that_is_recorded() -> None:
    spec, items = spec_of(gold_rate=0.3, n_classes=3), items_of(16, n_gold=4, n_classes=3)
    n, runs = 7, 3000
    pairs: Counter[tuple[str, int]] = Counter()
    for i in range(runs):
        gold = [route for route in draw_routes(spec, items, seed_of(i))[0] if route.kind == "gold"]
        assert len(gold) == n
        pairs.update((route.item, route.pool) for route in gold)
    chance = n / 12
    assert len(pairs) == 12
    assert all(stats.binomtest(count, runs, chance).pvalue > 1e-4 for count in pairs.values())
    assert gold[0].propensity == chance


def test_gold_stands_anywhere_and_is_asked_of_every_class() -> None:
    spec, items = spec_of(gold_rate=0.1), items_of(900, n_gold=100)
    places, pools = [], Counter[int]()
    for i in range(30):
        gold = [route for route in draw_routes(spec, items, seed_of(i))[0] if route.kind == "gold"]
        places += [(route.place + 0.5) / 1000 for route in gold]
        pools.update(route.pool for route in gold)
    assert stats.kstest(places, "uniform").pvalue > 1e-3
    assert stats.chisquare(list(pools.values())).pvalue > 1e-3


def test_few_gold_items_are_asked_about_every_class_once_at_most() -> None:
    routes, _ = draw_routes(spec_of(gold_rate=0.5), items_of(100, n_gold=2), SEED)
    gold = sorted((route.item, route.pool) for route in routes if route.kind == "gold")
    assert gold == [(f"gold-{i}", k) for i in range(2) for k in range(4)]


def test_attention_items_are_asked_like_gold() -> None:
    routes, _ = draw_routes(spec_of(gold_rate=0.3), items_of(40, n_gold=5, n_attention=5), SEED)
    kinds = Counter(route.kind for route in routes)
    assert kinds["main"] == 40
    assert kinds["gold"] + kinds["attention"] == 17
    assert all(
        (route.kind == "attention") == route.item.startswith("attention") for route in routes
    )


def test_panel_items_are_put_to_all_classes_and_have_no_main_question() -> None:
    routes, _ = draw_routes(spec_of(draws=2, panel_items=5), items_of(30), SEED)
    panel = by_item([route for route in routes if route.kind == "panel"])
    assert len(panel) == 5
    assert all(sorted(route.pool for route in asked) == [0, 1, 2, 3] for asked in panel.values())
    assert {route.item for route in routes if route.kind == "main"}.isdisjoint(panel)
    assert all(route.propensity == 1 for asked in panel.values() for route in asked)
    chosen = Counter(
        r.item
        for i in range(300)
        for r in draw_routes(spec_of(panel_items=5), items_of(30), seed_of(i))[0]
        if r.kind == "panel"
    )
    assert len(chosen) == 30
    assert stats.chisquare([count / 4 for count in chosen.values()]).pvalue > 1e-4


# -------------------------------------------------------------------------------------------
# judge-all, pick-wrong, ordinary


@pytest.mark.parametrize("protocol", ["judge-all", "pick-wrong"])
def test_each_annotator_sees_classes_of_their_own(protocol: Any) -> None:
    spec = spec_of(protocol, 6, shown=4, draws=3)
    routes, _ = draw_routes(spec, items_of(500), SEED)
    assert all(len({*r.shown}) == 4 and r.pool == 0 and r.propensity == 4 / 6 for r in routes)
    sets = Counter(frozenset(route.shown) for route in routes)
    assert len(sets) == 15
    assert stats.chisquare(list(sets.values())).pvalue > 1e-4
    first = Counter(route.shown[0] for route in routes)
    assert stats.chisquare(list(first.values())).pvalue > 1e-4
    same = sum(len({frozenset(r.shown) for r in asked}) == 1 for asked in by_item(routes).values())
    assert same < 20  # 500/225 expected: the sets of three annotators are independent


def test_other_protocols_ask_whole_gold_items() -> None:
    spec = spec_of("judge-all", 6, shown=3, draws=2, gold_rate=0.2)
    routes, _ = draw_routes(spec, items_of(40, n_gold=30, n_classes=6), SEED)
    gold = by_item([route for route in routes if route.kind == "gold"])
    assert len(gold) == 10
    assert all(len(asked) == 2 for asked in gold.values())


@pytest.mark.parametrize(
    ("places", "size", "n"),
    [(3, 2, 100), (5, 2, 1003), (7, 3, 35), (7, 3, 1000), (6, 1, 20), (4, 4, 9), (5, 3, 13)],
)
def test_every_two_places_share_nearly_equally_many_items(places: int, size: int, n: int) -> None:
    sets = balanced_sets(places, size, n)
    assert len(sets) == n
    assert all(len({*s}) == size for s in sets)
    alone = Counter(a for s in sets for a in s)
    pairs = Counter(p for s in sets for p in itertools.combinations(s, 2))
    assert max(alone.values()) - min(alone.values()) <= (1 if size <= 2 else 2)
    if size > 1:
        counts = [pairs[p] for p in itertools.combinations(range(places), 2)]
        assert max(counts) - min(counts) <= (1 if size == 2 else 2)


def test_many_places_are_balanced_one_by_one() -> None:
    sets = balanced_sets(40, 3, 5000)
    pairs = Counter(p for s in sets for p in itertools.combinations(s, 2))
    counts = [pairs[p] for p in itertools.combinations(range(40), 2)]
    assert np.mean(counts) == 5000 * 3 / 780
    assert max(counts) - min(counts) <= 4


def test_ordinary_items_go_to_different_places_at_random() -> None:
    spec = spec_of("ordinary", 3, annotators=5, draws=2)
    routes, _ = draw_routes(spec, items_of(200, n_classes=3), SEED)
    asked = by_item(routes)
    assert all(len({route.pool for route in r}) == 2 for r in asked.values())
    assert all(route.shown == (0, 1, 2) and route.propensity == 1 for route in routes)
    pairs = Counter(tuple(sorted(route.pool for route in r)) for r in asked.values())
    assert {*pairs.values()} == {20}
    first = Counter(
        tuple(
            sorted(
                r.pool
                for r in draw_routes(spec, items_of(7, n_classes=3), seed_of(i))[0]
                if r.item == "item-3"
            )
        )
        for i in range(1000)
    )
    assert stats.chisquare(list(first.values())).pvalue > 1e-4
    assert len(first) == 10


# -------------------------------------------------------------------------------------------------------------------
# options


def test_options_are_shuffled_where_the_class_is_the_position() -> None:
    items = [*items_of(30, options=True), Item(name="plain", content={"text": "no options"})]
    _, options = draw_routes(spec_of(shuffle_options=True), items, SEED)
    assert {*options} == {item.name for item in items} - {"plain"}
    assert all(sorted(order) == [0, 1, 2, 3] for order in options.values())
    assert len({*options.values()}) > 8
    assert not draw_routes(spec_of(), items, SEED)[1]


# --------------------------------------------------------------------------------------------------------------------
# rules


@pytest.mark.parametrize(
    ("spec", "items", "message"),
    [
        (spec_of(), [], "items must be more"),
        (spec_of(), [*items_of(2), *items_of(1)], "different names; got 'item-0'"),
        (spec_of(gold_rate=0.1), items_of(5), "gold_rate must be above 0"),
        (spec_of(), items_of(5, n_gold=1), "gold_rate must be above 0"),
        (
            spec_of(gold_rate=0.1),
            [*items_of(5), Item(name="x", content={}, truth=4)],
            r"truth must be in \[0, 4\)",
        ),
        (spec_of(panel_items=5), items_of(5), "items must be more than gold and panel items, 5"),
        (
            spec_of(),
            [Item(name="x", content={"options": ["a", "b"]})],
            "options must be as many as classes, 4",
        ),
        (
            spec_of(),
            [Item(name="x", content={"attention": True})],
            "attention item must have a truth",
        ),
        (spec_of("ordinary", annotators=2000), items_of(3), "annotators must be at most 1000"),
    ],
)
def test_what_cannot_be_sealed_is_refused(spec: Any, items: list[Item], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        draw_routes(spec, items, SEED)


def test_sealing_publishes_what_binds_it() -> None:
    spec, items = spec_of(gold_rate=0.2, shuffle_options=True), items_of(20, n_gold=4, options=True)
    sealed = seal(spec, items, seed=SEED)
    assert sealed.payload["commitment"] == sealed.commitment == commitment(SEED)
    assert (
        sealed.payload["root"]
        == sealed.root
        == routes_root(sealed.routes, {i.name: content_hash(i.content) for i in items})
    )
    assert (sealed.routes, sealed.options) == draw_routes(spec, items, SEED)
    other = [
        Item(name=i.name, content=i.content, truth=None if i.truth is None else (i.truth + 1) % 4)
        for i in items
    ]
    changed = seal(spec, other, seed=SEED).payload
    assert changed["hidden"] != sealed.payload["hidden"]
    assert (
        changed["items"] == sealed.payload["items"]
    )  # the truth does not show before the seed is known
    assert seal(spec, items).seed != seal(spec, items).seed
