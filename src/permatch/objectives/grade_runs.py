"""Documents sorted by query and decreasing grade, and the runs of equal grade in them."""

from dataclasses import dataclass

import numpy as np

from permatch._types import IntArray


@dataclass(frozen=True, eq=False)
class GradeRuns:
    """Documents sorted by grade.

    Attributes
    ----------
    order : ndarray of shape (n,)
        The documents, query by query, best grade first; equal grades keep their order.
    begins : ndarray of shape (n_runs,)
        Where in `order` each run of documents of one query and one grade begins.
    sizes : ndarray of shape (n_runs,)
        Documents per run.
    counts : ndarray of shape (q,)
        Runs per query: its number of grades.
    """

    order: IntArray
    begins: IntArray
    sizes: IntArray
    counts: IntArray


def sort_by_grade(starts: IntArray, grades: IntArray) -> GradeRuns:
    """Return documents by query and decreasing grade.

    Parameters
    ----------
    starts : ndarray of shape (q + 1,)
        Query k has the documents ``starts[k]:starts[k + 1]``.
    grades : ndarray of shape (n,)
        The grade of every document.

    Returns
    -------
    GradeRuns
        Their order, and the runs of equal grade.

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
