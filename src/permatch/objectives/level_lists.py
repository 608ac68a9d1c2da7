"""The levels of every query, laid out for the kernels of whole lists."""

from dataclasses import dataclass

import numpy as np

from permatch._types import FloatArray
from permatch.kernels.intrinsics import WIDTH


@dataclass(frozen=True, eq=False)
class LevelLists:
    """The levels of every query and of every document.

    Attributes
    ----------
    places : ndarray of shape (n,)
        The level of every document, as a position among those of its query.
    level_starts : ndarray of shape (q + 1,)
        Query k has the levels ``level_starts[k]:level_starts[k + 1]``: the commonest first,
        then by rising counts.
    values : ndarray of shape (number of levels,)
        Their values.
    counts : ndarray of shape (number of levels,)
        Number of documents per level, at least 1.
    marginal_starts : ndarray of shape (q + 1,)
        Where the table of levels by documents of each query begins in one array.
    """

    places: np.ndarray
    level_starts: np.ndarray
    values: FloatArray
    counts: np.ndarray
    marginal_starts: np.ndarray


def sort_levels(starts: np.ndarray, grades: np.ndarray, levels: np.ndarray) -> LevelLists:
    """List the levels of every query.

    Parameters
    ----------
    starts : ndarray of shape (q + 1,)
        First document of every query, and the number of documents at the end.
    grades : ndarray of shape (n,)
        Grade of every document.
    levels : ndarray of shape (number of grades,)
        Value of every grade.

    Returns
    -------
    LevelLists
        The lists; ties among counts are broken by value.
    """
    # Grades of equal value are one level: which of them a document has says nothing.
    values, merged = np.unique(np.asarray(levels, dtype=np.float64), return_inverse=True)
    level_of = merged[grades]
    n_levels, n_queries = len(values), len(starts) - 1
    owners = np.repeat(np.arange(n_queries), np.diff(starts))
    counts = np.bincount(owners * n_levels + level_of, minlength=n_queries * n_levels)
    counts = counts.reshape(n_queries, n_levels)
    key = np.where(counts > 0, counts, counts.max(initial=0) + 1)  # absent levels last
    order = np.argsort(key, axis=1, kind="stable")
    n_present = (counts > 0).sum(axis=1)
    places = np.empty((n_queries, n_levels), dtype=np.int64)
    np.put_along_axis(places, order, np.arange(1, n_levels + 1)[None, :], axis=1)
    queries = np.nonzero(n_present)[0]
    places[queries, order[queries, n_present[queries] - 1]] = 0
    level_starts = np.concatenate([[0], np.cumsum(n_present)]).astype(np.int64)
    at_query, at_level = np.nonzero(counts)
    targets = level_starts[at_query] + places[at_query, at_level]
    listed_values, listed_counts = np.empty(len(targets)), np.empty(len(targets), np.int64)
    listed_values[targets] = values[at_level]
    listed_counts[targets] = counts[at_query, at_level]
    sizes = n_present * padded_lengths(np.diff(starts))
    return LevelLists(
        places=places[owners, level_of],
        level_starts=level_starts,
        values=listed_values,
        counts=listed_counts,
        marginal_starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
    )


def padded_lengths(lengths: np.ndarray) -> np.ndarray:
    """Return the lengths of rows of the kernels' tables."""
    return -(-lengths // WIDTH) * WIDTH
