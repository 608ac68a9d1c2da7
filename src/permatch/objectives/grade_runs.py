"""Documents sorted by query and decreasing grade, and the runs of equal grade in them."""

from dataclasses import dataclass

import numpy as np

from permatch._types import IntArray


@dataclass(frozen=True, eq=False)
class GradeRuns:
    """Documents sorted by grade."""

    # The documents, query by query, best grade first; equal grades keep their order, (n,).
    order: IntArray
    begins: IntArray  # where in `order` each run of one query and one grade begins
    sizes: IntArray  # documents per run
    counts: IntArray  # runs per query: its number of grades, (q,)


def sort_by_grade(starts: IntArray, grades: IntArray) -> GradeRuns:
    """Return documents by query and decreasing grade, and the runs of equal grade.

    Examples
    --------
    >>> import numpy as np
    >>> runs = sort_by_grade(np.array([0, 3, 5]), np.array([0, 2, 0, 1, 1]))
    >>> runs.order, runs.sizes, runs.counts
    (array([1, 0, 2, 3, 4]), array([1, 2, 2]), array([2, 1]))
    """
    n_queries = len(starts) - 1
    owners = np.repeat(np.arange(n_queries), np.diff(starts))
    order = np.lexsort((-grades, owners))
    is_first = np.ones(len(grades), dtype=bool)
    is_first[1:] = (np.diff(grades[order]) != 0) | (np.diff(owners) != 0)
    begins = np.flatnonzero(is_first)
    sizes = np.diff(np.append(begins, len(grades)))
    return GradeRuns(order, begins, sizes, np.bincount(owners[begins], minlength=n_queries))
