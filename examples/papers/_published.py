"""Figures printed in the paper, in per cent.

Yin, Ishida and Sugiyama, "Towards scalable oversight via partitioned human supervision": Tables 1,
2 and 3 and appendix I. A cell of Tables 1 and 2 is (mean of three seeds, standard deviation across
seeds, mean of the standard deviations within runs).
"""

from __future__ import annotations

from typing import NamedTuple

Triple = tuple[float, float, float]


class Benchmark(NamedTuple):
    """A column of Table 1: number of options, reference accuracy (Ord-Eval) and ordinary labels."""

    name: str
    n_classes: int
    reference: float
    n_ordinary: int


BENCHMARKS = (
    Benchmark("MMLU-Pro", 10, 77.97, 300),
    Benchmark("MedQA-USMLE", 4, 92.66, 300),
    Benchmark("GPQA", 4, 59.52, 120),
    Benchmark("MATH", 5, 44.21, 300),
    Benchmark("MATH (CoT)", 5, 83.89, 300),
)

TABLE_1: dict[str, tuple[Triple, ...]] = {
    "Ord": (
        (78.33, 1.73, 2.38),
        (92.89, 1.35, 1.48),
        (64.17, 1.67, 4.39),
        (47.56, 3.91, 2.88),
        (84.89, 0.77, 2.07),
    ),
    "Comp-n_o": (
        (77.00, 12.49, 7.95),
        (92.67, 1.53, 2.67),
        (59.17, 3.82, 9.42),
        (48.44, 10.78, 7.72),
        (80.44, 2.78, 4.98),
    ),
    "Comp-Var": (
        (75.67, 2.15, 2.51),
        (90.61, 1.43, 1.69),
        (63.67, 5.01, 4.28),
        (41.10, 3.17, 2.93),
        (81.35, 0.29, 2.28),
    ),
    "IVW-0.5": (
        (77.89, 1.58, 1.80),
        (91.61, 1.11, 1.15),
        (65.28, 1.34, 3.33),
        (43.44, 3.95, 2.52),
        (83.56, 1.17, 1.58),
    ),
    "IVW": (
        (77.97, 1.58, 1.79),
        (91.86, 1.11, 1.13),
        (65.14, 1.38, 3.30),
        (44.87, 3.82, 2.37),
        (83.86, 0.83, 1.56),
    ),
    "ML": (
        (77.94, 1.58, 1.79),
        (91.65, 1.08, 1.18),
        (65.11, 1.38, 3.28),
        (44.75, 3.79, 2.36),
        (83.65, 1.04, 1.59),
    ),
}

TABLE_2_COLUMNS = ("EDINET", "EDINET (Extended)", "Medical Abstract")
TABLE_2: dict[str, tuple[Triple, ...]] = {
    "Ord": ((19.35, 5.59, 7.13), (21.67, 2.46, 2.89), (70.38, 0.62, 0.96)),
    "Comp-(K−1)": ((10.75, 8.12, 16.46), (26.60, 3.45, 5.86), (68.79, 0.71, 1.13)),
    "IVW-0.5": ((15.05, 5.18, 8.98), (24.14, 2.26, 3.27), (69.58, 0.57, 0.74)),
    "IVW": ((17.95, 4.88, 6.53), (22.64, 2.27, 2.59), (69.71, 0.56, 0.73)),
    "ML": ((17.93, 4.87, 6.29), (22.61, 2.28, 2.26), (69.70, 0.56, 0.74)),
}

TABLE_3: dict[str, tuple[float, ...]] = {
    "Ord": (0.36, 0.23, 4.65, 3.35, 1.00),
    "Comp-n_o": (0.97, 0.01, 0.35, 4.23, 3.45),
    "Comp-Var": (2.30, 2.05, 4.15, 3.11, 2.54),
    "IVW-0.5": (0.08, 1.05, 5.76, 0.77, 0.33),
    "IVW": (0.00, 0.80, 5.62, 0.66, 0.03),
    "ML": (0.03, 1.01, 5.59, 0.54, 0.24),
}
