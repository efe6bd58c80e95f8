"""Intervals and confidence sequences as pure functions of counts; nothing here knows of systems or
tables.

binomial.py   one rate: Clopper–Pearson, hypergeometric, deviation bounds, tails as p-values; and
              counts whose success probability is linear in one unknown rate: exact, anytime
parts.py      a sum of rates over parts with known shares, with one error rate for all parts
betting.py    means of bounded scores, valid at every look, or narrower at a fixed number of scores
paired.py     two systems on the same items: sign test, limits of the difference
clusters.py   items that come in clusters: one score per cluster, CR2, test of dependence
"""
