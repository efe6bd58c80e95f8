"""How good are two systems when nobody holds the answer key? A tour in two minutes, on simulated
data, offline.

    python examples/quickstart.py

3,000 questions have 10 possible classes. For each, one expert was asked about one class, drawn at
random: "is it this one?". Nine of ten say no.
"""

from __future__ import annotations

from noracle import check_routing, check_yes_rate, compare_systems, estimate_accuracy, plan_labels
from noracle.simulate import simulate_world


def main() -> int:
    """Print cards, from evidence to the next purchase."""
    # A world with a key that we do not look at until the end. In real use:
    # Evidence.from_tables("answers.csv", "judgements.csv").
    world = simulate_world(
        n_items=3000, n_classes=10, systems={"careful": 0.82, "hasty": 0.55}, no_answer=0.05, seed=0
    )
    evidence = world.evidence()

    print("1. Were the questions asked as they should be?\n")
    checks = [check_routing(evidence), check_yes_rate(evidence)]
    for check in checks:
        print(check, end="\n\n")

    print("2. How accurate is each system? An item without an answer counts as wrong.\n")
    estimates = {
        name: estimate_accuracy(evidence, system=name, checks=checks)
        for name in ("careful", "hasty")
    }
    for estimate in estimates.values():
        print(estimate, end="\n\n")

    print("3. Which one is better, on the same labels?\n")
    print(compare_systems(evidence), end="\n\n")

    print("4. What would ± 2 points cost, if a question costs 1?\n")
    value = estimates["careful"].value
    for kind in ("question", "targeted"):
        print(
            plan_labels(
                n_classes=10, accuracy=value, half_width=0.02, kind=kind, costs={kind: 1.0}
            ),
            end="\n\n",
        )

    print("5. The key, which only a simulation has:\n")
    for name, estimate in estimates.items():
        inside = "inside" if estimate.low <= world.accuracy[name] <= estimate.high else "outside"
        print(
            f"   {name}: true accuracy {world.accuracy[name]:.3f}, {inside} [{estimate.low:.3f}, {estimate.high:.3f}]"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
