"""What a query has, and what it weighs: kinds of documents, pairs, observations."""

from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import GradeError
from permatch.queries import QuerySet

#: Choices of the weights of queries.
QUERY_WEIGHTS = ("observations", "queries", "per_document", "per_relevant")


def weigh_queries(
    queries: QuerySet, counts: Any, query_weight: str = "observations"
) -> FloatArray:
    """Return the weight of every query, (q,), which is to be divided by the sum of all.

    `counts` (q,) are the observations per query; queries without any get weight 0.  The
    weights of the queries multiply those chosen by `query_weight`.
    """
    weights = np.asarray(counts, dtype=np.float64)
    if query_weight != "observations":
        weights = (weights > 0).astype(np.float64)
    if query_weight == "per_document":
        weights /= queries.lengths
    elif query_weight == "per_relevant":
        n_relevant = np.bincount(queries.owners, queries.grades > 0, queries.n_queries)
        weights /= np.maximum(n_relevant, 1.0)
    return weights * queries.weights


def no_grades(n_queries: int) -> GradeError:
    """Return the error of queries none of which says anything."""
    return GradeError(
        "at least one query needs documents of different grades and a weight above 0; "
        f"none of the {n_queries} queries has both. Check the grades, query ids and "
        "weights."
    )


def count_kinds(queries: QuerySet, kinds: IntArray) -> IntArray:
    """Return how many documents of every kind every query has, (q, number of kinds)."""
    n_kinds = int(kinds.max(initial=0)) + 1
    cells = queries.owners * n_kinds + kinds
    counts = np.bincount(cells, minlength=queries.n_queries * n_kinds)
    return counts.reshape(queries.n_queries, n_kinds)


def has_grades(queries: QuerySet, kinds: IntArray | None = None) -> BoolArray:
    """Return whether documents of a query differ in grade, or in another kind, (q,)."""
    kinds = queries.grades if kinds is None else kinds
    return (count_kinds(queries, kinds) > 0).sum(axis=1) > 1


def count_pairs(queries: QuerySet) -> IntArray:
    """Return how many pairs of documents of different grade every query has, (q,)."""
    same = (count_kinds(queries, queries.grades) ** 2).sum(axis=1)
    return (queries.lengths**2 - same) // 2
