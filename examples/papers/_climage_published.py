"""Figures printed in "CLImage: human-annotated datasets for complementary-label learning" (Wang,
Mai, Ye, Lin and Lin), in per cent.
"""

from __future__ import annotations

ALGORITHMS = (
    "FWD-U",
    "FWD-R",
    "URE-GA-U",
    "URE-GA-R",
    "SCL-NL",
    "SCL-EXP",
    "L-W",
    "L-UW",
    "PC-sigmoid",
    "ROB-MAE",
)
COLUMNS = (
    "uniform-CIFAR10",
    "uniform-CIFAR20",
    "uniform-MIN10",
    "uniform-MIN20",
    "CLCIFAR10",
    "CLCIFAR20",
    "CLMIN10",
    "CLMIN20",
)

# Table 1: mean test accuracy of four trials, by column, in the order of ALGORITHMS.
TABLE_1: dict[str, tuple[float, ...]] = {
    "uniform-CIFAR10": (64.19, 61.32, 50.24, 50.73, 63.76, 63.29, 54.32, 57.52, 37.78, 59.38),
    "uniform-CIFAR20": (21.54, 21.50, 16.67, 17.57, 21.37, 21.57, 19.59, 20.71, 14.48, 18.17),
    "uniform-MIN10": (36.30, 35.70, 35.70, 33.65, 37.05, 36.55, 33.80, 35.10, 29.10, 31.50),
    "uniform-MIN20": (12.57, 14.85, 11.65, 9.78, 13.00, 12.95, 12.70, 12.12, 10.72, 6.35),
    "CLCIFAR10": (34.83, 38.13, 34.72, 30.23, 34.77, 35.18, 32.99, 34.69, 32.15, 20.23),
    "CLCIFAR20": (8.03, 20.27, 10.49, 6.17, 8.02, 7.70, 7.71, 8.15, 12.11, 5.40),
    "CLMIN10": (23.85, 30.15, 22.90, 13.25, 21.80, 24.80, 23.80, 22.40, 23.15, 14.15),
    "CLMIN20": (6.33, 10.60, 5.75, 6.50, 6.17, 5.58, 6.40, 6.35, 6.90, 5.38),
}
SPREAD_CIFAR10 = (
    0.57,
    0.90,
    1.11,
    1.83,
    0.09,
    1.02,
    0.41,
    0.59,
    0.80,
    0.63,
)  # standard deviation of the four trials, uniform-CIFAR10
SUPERVISED, SPREAD_SUPERVISED = 82.80, 0.28  # "standard supervision" on CIFAR-10

# Table 2: accuracy with labels drawn again from the counted matrix, less accuracy with the people's
# labels (ROB-MAE is not in it).
TABLE_2: dict[str, tuple[float, ...]] = {
    "CLCIFAR10-iid": (-1.10, -0.36, -3.03, 0.74, -0.67, -1.97, -2.50, -3.53, -2.03),
    "CLCIFAR20-iid": (-0.64, -3.53, -0.37, 1.79, -0.28, -0.39, -0.50, -0.82, -2.24),
}

# Table 3, column CLCIFAR10: test accuracy with the learning rate chosen by URE, by SCEL, and by
# accuracy on true labels.
TABLE_3: dict[str, tuple[float, float, float]] = {
    "FWD-U": (33.13, 31.86, 34.83),
    "FWD-R": (33.70, 35.64, 38.13),
    "URE-GA-U": (30.45, 33.21, 34.72),
    "URE-GA-R": (27.39, 28.32, 30.23),
    "SCL-NL": (33.55, 33.70, 34.77),
    "SCL-EXP": (31.30, 33.47, 35.18),
    "L-W": (27.49, 30.32, 32.99),
    "L-UW": (28.90, 29.78, 34.69),
    "PC-sigmoid": (24.83, 31.48, 32.15),
    "ROB-MAE": (18.80, 18.75, 20.23),
}

NOISE = {
    "CLCIFAR10": 3.93,
    "CLCIFAR20": 2.80,
    "CLMIN10": 5.19,
    "CLMIN20": 3.21,
}  # share of labels that rule out the true class
