"""Intervals and confidence sequences as pure functions of counts; nothing here knows of systems or
tables.

binomial.py        Clopper–Pearson, and the hypergeometric for draws without replacement
concentration.py   Hoeffding, empirical Bernstein, Bernstein with a variance that depends on the mean
linear.py          binomial counts whose success probability is linear in one unknown rate: likelihood, exact, anytime
parts.py           a sum of rates over parts with known shares, with one error rate for all parts
tails.py           p-values: exact binomial and Chernoff tails
betting.py         means of bounded scores, valid at every look, or narrower at a fixed number of scores
paired.py          two systems on the same items: sign test, limits of the difference
clusters.py        items that come in clusters: one score per cluster, CR2, test of dependence
"""
