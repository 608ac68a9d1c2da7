"""Every matching of a small problem, one by one: the slow truth that tests compare with."""

import itertools

import numpy as np


def all_matchings(scores, unmatched_left, unmatched_right):
    """Return all matchings (count, n) of positive weight, -1 for unmatched, and scores."""
    n, k = scores.shape
    found, totals = [], []
    for choice in itertools.product(range(-1, k), repeat=n):
        partners = [j for j in choice if j >= 0]
        if len(set(partners)) < len(partners):
            continue
        terms = [unmatched_left[i] if j < 0 else scores[i, j] for i, j in enumerate(choice)]
        terms += [unmatched_right[j] for j in range(k) if j not in partners]
        total = float(np.sum(terms))
        if total > -np.inf:
            found.append(choice)
            totals.append(total)
    return np.array(found, dtype=np.intp).reshape(len(found), n), np.array(totals)


def random_problem(rng, largest=4, spread=2.0, is_feasible=True):
    """Return scores and unmatched scores of a small problem, some of them -inf."""
    while True:
        n, k = rng.integers(0, largest + 1, 2)
        scores = spread * rng.normal(size=(n, k))
        scores[rng.random((n, k)) < rng.choice([0.0, 0.3, 0.6])] = -np.inf
        sides = [
            np.where(rng.random(size) < rng.choice([0.0, 0.5, 1.0]), -np.inf, own)
            for size, own in ((n, spread * rng.normal(size=n)), (k, rng.normal(size=k)))
        ]
        if not is_feasible or len(all_matchings(scores, *sides)[0]):
            return scores, *sides
