"""Tables 1 to 4 and 6 and Figure 3 of "Humanly certifying superhuman classifiers", re-created: what
must come out.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import _superhuman_assumptions as assumptions
import _superhuman_data as data
import _superhuman_figure as figure
import _superhuman_models as models
import numpy as np
import pytest
import superhuman

from noracle.simulate import simulate_task
from noracle.simulate.annotators import draw_ratings
from noracle.superhuman import certify_superhuman, estimate_agreement

ROOT = Path(__file__).parents[2]
TINY = {"strong": 24, "weak": 6}


@functools.cache
def rated(kind: str, n_items: int = 150) -> data.Rated:
    return data.generated(kind, n_items=n_items, seed=1, pictures=TINY)


@pytest.fixture
def real(data_folder: Path) -> dict[str, data.Rated]:
    found = {"cifar": data.cifar10n(), "snli": data.snli()}
    if None in found.values():
        pytest.skip("NORACLE_DATA lacks cifar10_train.npz or snli_dev_annotators.parquet")
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.slow
def test_script_runs_offline_and_says_what_is_left_out(no_data: None, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples/papers/superhuman.py"),
        "--fast",
        "--out",
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    text = (tmp_path / "superhuman.md").read_text(encoding="utf-8")
    for heading in (
        "Table 1a",
        "Table 1b",
        "Table 2",
        "Table 3",
        "Table 4",
        "Table 6",
        "Figure 3",
        "Certificates",
    ):
        assert f"\n## {heading}" in text
    assert text.count("is left out: NORACLE_DATA does not name a folder with") == 3
    assert ET.parse(tmp_path / "figure3.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "figure3.png").stat().st_size > 10_000


# -------------------------------------------------------------------------------------------------------------------
# published figures


@pytest.mark.parametrize(
    ("who", "hms", "oms", "exact"),
    [
        ("Devlin et al. (2019)", None, -0.273021, (0.64, 0.67)),
        ("Wang et al. (2020)", 0.4730, 0.620776, (0.9999, 1.0)),
        ("Radford et al. (2018)", 0.8482, 0.926682, (0.969, 0.971)),
        ("Zhang et al. (2020)", 0.9997, 0.999996, (0.99999, 1.0)),
    ],
)
def test_table_3_of_xu_2023(
    who: str, hms: float | None, oms: float, exact: tuple[float, float]
) -> None:
    benchmark, match_rate, *_ = data.TABLE3[who]
    found = superhuman.scores_of(benchmark, match_rate)
    assert found.hms < 0 if hms is None else found.hms == pytest.approx(hms, abs=5e-5)
    assert found.oms == pytest.approx(oms, abs=1e-6)
    assert exact[0] <= found.exact <= exact[1]
    assert found.rounded <= found.exact


def test_table_3_falls_with_the_bound_that_is_proved() -> None:
    found = {
        who: superhuman.scores_of(b, rate).oms_paper for who, (b, rate, *_) in data.TABLE3.items()
    }
    assert list(found.values()) == pytest.approx([-1, -0.180, -1, 0.672], abs=1e-3)


@pytest.mark.parametrize("name", data.TABLE2)
def test_theoretical_bound_of_table_2_is_within_rounding(name: str) -> None:
    b = data.TABLE2[name]
    low, high = (
        superhuman.bounds_from((b.empirical + d) ** 2, b.n_raters)["paper"] for d in (-5e-4, 5e-4)
    )
    assert low - 5e-4 <= b.paper <= high + 5e-4
    ours = superhuman.bounds_from(b.empirical**2, b.n_raters)
    assert ours["free"] < ours["quadratic"] < ours["paper"]


def test_free_bound_of_published_agreement() -> None:
    assert superhuman.bounds_from(0.939**2, 3)["free"] == pytest.approx(0.9409, abs=5e-5)
    assert superhuman.bounds_from(0.879**2, 5)["free"] == pytest.approx(0.8863, abs=5e-5)


def test_example_of_appendix_b_has_040_where_030_is_printed() -> None:
    found = superhuman.table4(superhuman.Page("t"))
    assert found["P(b wrong, given a wrong)"] == pytest.approx(0.40, abs=1e-12)
    assert found["P(b right)"] == pytest.approx(0.74, abs=1e-12)
    assert found["P(a wrong, given b wrong)"] == pytest.approx(0.462, abs=5e-4)


# ---------------------------------------------------------------------------------------------------------------------------
# real ratings


def test_ceilings_of_snli(real: dict[str, data.Rated]) -> None:
    found = superhuman.ceilings(real["snli"])
    assert len(real["snli"].ratings) == 1286
    for method, value in (("paper-empirical", 0.8797), ("paper", 0.9050), ("quadratic", 0.8932)):
        assert found[method][0] == pytest.approx(value, abs=1e-4), method


def test_ceilings_of_cifar_10n(real: dict[str, data.Rated]) -> None:
    found = superhuman.ceilings(real["cifar"])
    for method, value in (
        ("plurality", 0.8476),
        ("pairwise", 0.8458),
        ("quadratic", 0.8771),
        ("paper", 0.9002),
    ):
        assert found[method][0] == pytest.approx(value, abs=1e-4), method
        assert found[method][1] > real["cifar"].mean_accuracy
    assert real["cifar"].mean_accuracy == pytest.approx(0.8233, abs=1e-4)
    assert superhuman.order_of_bounds([real["cifar"]]) == []


def test_assumptions_hold_for_the_annotators_of_cifar_10n(real: dict[str, data.Rated]) -> None:
    found = assumptions.together(real["cifar"])
    assert found.given_right > found.right
    assert assumptions.verdict(real["cifar"], None) == "supported"
    third = data.third_person(real["cifar"])
    assert (
        assumptions.where_wrong(third, "third rating").right
        > assumptions.where_wrong(third, "third rating").repeats
    )
    assert assumptions.verdict(third, "third rating") == "supported"


# ---------------------------------------------------------------------------------------------------------------------
# generated tasks


@pytest.mark.parametrize("kind", data.TASKS)
def test_simulated_raters_meet_tables_1_and_6_together(kind: str) -> None:
    task = simulate_task(kind, n_items=8000, seed=3)  # type: ignore[arg-type]
    model, printed = data.rater_model(kind), data.TASKS[kind]
    ratings = draw_ratings(
        task,
        raters=model.raters(data.N_RATERS),
        correlation=model.correlation,
        shared=model.shared,
        seed=3,
    )
    many = data.Rated(name=kind, labels=task.options, ratings=ratings, key=task.codes, answers={})
    found = assumptions.together(many)
    assert found.right == pytest.approx(printed.right, abs=0.006)
    assert found.given_right == pytest.approx(printed.given_right, abs=0.006)
    counts = many.counts(pairs=True)
    kappas = {
        s: estimate_agreement(counts, statistic=s, n_boot=100).value
        for s in ("cohen", "fleiss", "krippendorff")
    }  # type: ignore[arg-type]
    assert kappas["fleiss"] == pytest.approx(printed.fleiss, abs=0.015)
    assert kappas["cohen"] == pytest.approx(printed.cohen, abs=0.015)
    # Complete nominal ratings: alpha is kappa up to one over the number of ratings, unlike the
    # paper's.
    assert kappas["krippendorff"] - kappas["fleiss"] == pytest.approx(
        (1 - kappas["fleiss"]) / ratings.size, abs=1e-12
    )
    assert abs(printed.krippendorff - printed.fleiss) > 2 * (1 - printed.fleiss) / 1000


@pytest.mark.full
@pytest.mark.parametrize("kind", data.TASKS)
def test_bounds_are_in_order_on_generated_tasks(kind: str) -> None:
    assert superhuman.order_of_bounds([rated(kind)]) == []


@pytest.mark.full
@pytest.mark.parametrize("kind", data.TASKS)
def test_columns_of_table_1b_are_those_of_the_check_without_ties(kind: str) -> None:
    whole = rated(kind)
    ranked = np.sort(whole.votes, axis=1)
    clear = ranked[:, -1] > ranked[:, -2]
    kept = data.Rated(
        name=whole.name,
        labels=whole.labels,
        ratings=whole.ratings[clear],
        key=whole.key[clear],  # type: ignore[index]
        answers={s: a[clear] for s, a in whole.answers.items()},
    )
    for system in kept.answers:
        ours = assumptions.where_wrong(kept, system)
        check = assumptions.check_assumptions(
            kept.ratings, kept.key, system=system, answers=kept.answers
        )
        assert ours.n_items == check.counts["vote_wrong"]
        if ours.n_items:
            assert ours.right == pytest.approx(check.parts[0]["right"], abs=1e-12)
            assert ours.repeats == pytest.approx(check.parts[0]["same_as_vote"], abs=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("kind", data.TASKS)
def test_figure_ends_at_what_the_package_says_of_all_raters(kind: str) -> None:
    whole = rated(kind)
    points = figure.figure_points(whole, subsets=3, seed=0)
    assert [p.raters for p in points] == list(range(1, data.N_RATERS + 1))
    assert points[0].ceilings["plurality"] == 1.0
    for system in whole.answers:
        certificate = certify_superhuman(whole.counts(), system=system, trained_on_annotators="no")
        assert points[-1].matches[system] == pytest.approx(
            certificate.diagnostics["match_rate"], abs=1e-12
        )
        assert points[-1].ceilings["plurality"] == pytest.approx(
            certificate.diagnostics["ceiling"], abs=1e-12
        )
    falling = [p.ceilings["plurality"] for p in points]
    assert all(a >= b - 1e-12 for a, b in itertools.pairwise(falling))


def test_raters_needed_counts_from_where_it_stays_above() -> None:
    def points(*above: bool) -> list[figure.Point]:
        return [
            figure.Point(k, {"u": 0.5}, {"s": 0.6 if a else 0.4})
            for k, a in enumerate(above, start=1)
        ]

    assert figure.raters_needed(points(False, True, False, True, True), "s", "u") == 4
    assert figure.raters_needed(points(True, True), "s", "u") == 1
    assert figure.raters_needed(points(True, False), "s", "u") is None


# ------------------------------------------------------------------------------------------------------------------------
# trained systems


@pytest.mark.parametrize("kind", data.TASKS)
def test_regions_and_marks_account_for_every_object(kind: str) -> None:
    task = simulate_task(kind, n_items=5, seed=2)  # type: ignore[arg-type]
    for place in range(len(task)):
        found = models.regions(task.image(place))
        marked = models.marked_counts(task, place, found)
        assert marked.sum() == task.counts[place].sum()
        if kind == "colour":
            assert [marked[found.colour == c].sum() for c in range(3)] == task.counts[
                place
            ].tolist()
        else:
            assert marked.sum(axis=0).tolist() == task.counts[place].tolist()


@pytest.mark.full
def test_systems_learn_even_from_few_pictures() -> None:
    colours = rated("colour")
    assert colours.accuracy("strong") > 0.75
    assert rated("shape").accuracy("strong") > 0.35  # a guess has 0.2


@pytest.mark.slow
@pytest.mark.parametrize("kind", data.TASKS)
def test_systems_of_512_and_128_pictures_are_strong_and_weak_and_certified(kind: str) -> None:
    whole = data.generated(kind, n_items=1000, seed=2)
    assert whole.accuracy("strong") > whole.accuracy("weak") > whole.mean_accuracy
    for system in whole.answers:
        certificate = certify_superhuman(whole.counts(), system=system, trained_on_annotators="no")
        assert certificate.diagnostics["match_rate"] <= whole.accuracy(
            system
        )  # Theorem 3 on these items
        if system == "strong":
            assert certificate.certified
            assert certificate.low <= whole.accuracy(system) - whole.mean_accuracy
