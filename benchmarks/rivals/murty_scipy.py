"""The k best perfect matchings by repeated assignment solves: rival of `permatch.k_best`.

Murty's algorithm as one would write it on top of SciPy: the solution just taken from the
heap splits the rest of its subspace into one child per free row, and every child is solved
from scratch by `scipy.optimize.linear_sum_assignment`.  Written with some care, so that the
comparison is fair:

- the free part of the matrix is put in matching order once per solution, so child t is the
  trailing block ``[t:, t:]`` with its corner forbidden: blocks shrink, nothing is copied;
- the row with forbidden edges stays first, so only one child ever sees them;
- children that cannot reach the k best any more are dropped at once.

References
----------
K. G. Murty, "An algorithm for ranking all the assignments in order of increasing cost",
Operations Research 16 (1968).
"""

import heapq

import numpy as np
from scipy.optimize import linear_sum_assignment


def k_best(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return matchings (n, m) and scores (n,), best first; n < k when no more exist."""
    m = len(scores)
    cost = -np.asarray(scores, dtype=np.float64)
    try:
        _, matching = linear_sum_assignment(cost)
    except ValueError:
        return np.empty((0, m), np.intp), np.empty(0)
    every = np.arange(m)
    n_pushed = 1
    # (cost, age, matching, number of fixed rows, columns forbidden to the first free row)
    heap = [(cost[every, matching].sum(), 0, matching, 0, ())]
    kept = [-np.inf] * (k - 1) + [-heap[0][0]]  # k lowest costs so far, negated: a max-heap
    heapq.heapify(kept)
    matchings, totals = [], []
    while heap and len(matchings) < k:
        total, _, matching, n_fixed, forbidden = heapq.heappop(heap)
        matchings.append(matching)
        totals.append(-total)
        if len(matchings) == k:
            break
        block = cost[n_fixed:, matching[n_fixed:]]
        at = np.empty(m, np.intp)
        at[matching] = every - n_fixed
        if forbidden:
            block[0, at[list(forbidden)]] = np.inf
        for t in range(m - n_fixed - 1):
            fixed = n_fixed + t
            corner = block[t, t]
            block[t, t] = np.inf
            try:
                _, cols = linear_sum_assignment(block[t:, t:])
            except ValueError:
                block[t, t] = corner
                continue
            child = matching.copy()
            child[fixed:] = matching[fixed + cols]
            child_cost = cost[every, child].sum()
            block[t, t] = corner
            if child_cost < -kept[0]:
                heapq.heappushpop(kept, -child_cost)
                taken = (matching[fixed],) if t else (*forbidden, matching[fixed])
                heapq.heappush(heap, (child_cost, n_pushed, child, fixed, taken))
                n_pushed += 1
    return np.array(matchings), np.array(totals)
