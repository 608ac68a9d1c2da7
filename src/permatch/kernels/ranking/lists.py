"""Measures of ranked lists that go down a list document by document.

A reader stops at document i with probability ``stops[i]``.  With documents of equal score
in random order, the chance to pass i random ones of a tie of n is the mean product
``passes[i]`` of i of the factors ``1 - stops``, which takes in one document at a time:

    passes[i] <- ((m - i) passes[i] + i (1 - stop_m) passes[i - 1]) / m,   m = 1 .. n
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def expected_stops(stops, starts, ties, cut, out):
    """Fill `out` with the mean of 1 / position of where the reader of a list stops.

    The rows of list k are ``starts[k]:starts[k + 1]``, those of a tie lie between two
    entries of `ties`; a reader who reaches position `cut` without stopping counts as 0.
    """
    tie = 0
    passes = np.empty(1)
    for k in range(len(starts) - 1):
        total = 0.0
        reaches = 1.0
        while ties[tie] < starts[k + 1]:
            begin, end = ties[tie], ties[tie + 1]
            tie += 1
            rank = begin - starts[k]
            if rank >= cut or reaches == 0.0:
                continue
            if end - begin == 1:
                total += reaches * stops[begin] / (rank + 1)
                reaches *= 1.0 - stops[begin]
                continue
            top = min(end - begin, cut - rank)
            if len(passes) <= top:
                passes = np.empty(top + 1)
            _mean_products(stops[begin:end], top, passes)
            for i in range(top):
                total += reaches * (passes[i] - passes[i + 1]) / (rank + i + 1)
            reaches *= passes[top]  # beyond `cut` if not the whole tie
        out[k] = total


@njit(cache=True, nogil=True)
def _mean_products(stops, top, passes):
    """Fill ``passes[: top + 1]``."""
    passes[0] = 1.0
    passes[1 : top + 1] = 0.0
    for m in range(1, len(stops) + 1):
        factor = 1.0 - stops[m - 1]
        for i in range(min(m, top), 0, -1):
            passes[i] = ((m - i) * passes[i] + i * factor * passes[i - 1]) / m


@njit(cache=True, nogil=True)
def kendall_tau_b(grades, starts, ties, n_grades, out):
    """Fill `out` with tau-b between order and grade, NaN for lists of one grade.

    Pairs of a higher and a lower score are counted from the bottom of a list up, with the
    number of documents below by grade.
    """
    below = np.empty(n_grades, np.int64)
    tie = len(ties) - 1
    for k in range(len(starts) - 2, -1, -1):
        below[:] = 0
        surplus = 0  # pairs in the right order less those in the wrong one
        n_tied = 0.0
        while ties[tie] > starts[k]:
            begin, end = ties[tie - 1], ties[tie]
            tie -= 1
            n_tied += 0.5 * (end - begin) * (end - begin - 1)
            for row in range(begin, end):
                for grade in range(n_grades):
                    if grade < grades[row]:
                        surplus += below[grade]
                    elif grade > grades[row]:
                        surplus -= below[grade]
            for row in range(begin, end):
                below[grades[row]] += 1
        length = starts[k + 1] - starts[k]
        n_pairs = 0.5 * length * (length - 1)
        n_alike = 0.0
        for grade in range(n_grades):
            n_alike += 0.5 * below[grade] * (below[grade] - 1)
        if n_alike == n_pairs:
            out[k] = np.nan
        elif n_tied == n_pairs:
            out[k] = 0.0
        else:
            tau = surplus / np.sqrt((n_pairs - n_tied) * (n_pairs - n_alike))
            out[k] = min(1.0, max(-1.0, tau))
