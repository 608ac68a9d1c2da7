"""Learning how many documents of every grade a list has, from scored lists in shards.

Some lists are enough, at most a thousand: they are taken evenly from all, and their scores
and grades brought to one place.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from permatch._shards import Shards, light
from permatch._types import FloatArray, IntArray
from permatch.errors import GradeError
from permatch.inference.ranking.grade_law import GradeLaw
from permatch.objectives.grade_counts import CountLikelihood, GradedLists
from permatch.optimizers import minimize
from permatch.queries import QuerySet

#: From checked, scaled documents (n, d) to scores (n,); stands pickling.
Score = Callable[[Any], FloatArray]

# The most lists and, about, documents that are learned from.
_MOST_LISTS, _MOST_DOCUMENTS = 1_000, 50_000
_TOLERANCE, _MOST_STEPS = 1e-4, 200


def learn_counts(
    shards: Shards,
    score: Score,
    grades: IntArray,
    levels: FloatArray,
    *,
    has_slope: bool,
    n_jobs: int,
) -> GradeLaw | None:
    """Return the law of grades learned from judged lists; None if nothing can be.

    That is where documents of a query differ in weight: what is clicked says which
    documents are relevant, not how many.  `grades` are those the law knows, with the
    position weights `levels`.
    """
    n_queries, n_documents, is_weighted = zip(*shards.map(_count), strict=True)
    if any(is_weighted):
        return None
    lists = _sample(shards, score, sum(n_queries), sum(n_documents))
    codes = np.searchsorted(grades, lists.codes)
    is_known = grades[np.minimum(codes, len(grades) - 1)] == lists.codes
    if not is_known.all():
        raise GradeError(
            f"grades must be those of the training lists, {_words(grades)}; got "
            f"{lists.codes[np.argmin(is_known)]}, of which nothing is known. Fit again "
            "with lists that have it."
        )
    own = GradedLists(lists.scores, codes, lists.starts, lists.weights)
    if not len(own.weights):
        raise GradeError(
            "at least one list of weight above 0 is required; got none. Check the weights."
        )
    objective = CountLikelihood(own, grades, levels, has_slope=has_slope, n_jobs=n_jobs)
    found = minimize(
        objective.value_and_grad,
        objective.start,
        bounds=objective.bounds,
        tol=_TOLERANCE,
        max_iter=_MOST_STEPS,
    )
    return objective.law(found.coef)


def _sample(shards: Shards, score: Score, n_queries: int, n_documents: int) -> GradedLists:
    """Return lists taken evenly from all, with their grades instead of codes."""
    most = min(_MOST_LISTS, int(_MOST_DOCUMENTS / max(1.0, n_documents / n_queries)) + 1)
    n_taken = min(n_queries, most)
    numbers = (np.arange(n_taken) + 0.5) * n_queries / n_taken
    parts = shards.map(_score_some, score, numbers.astype(np.intp))
    scores, grades, lengths, weights = map(np.concatenate, zip(*parts, strict=True))
    is_used = np.repeat(weights > 0.0, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[weights > 0.0])])
    return GradedLists(scores[is_used], grades[is_used], starts, weights[weights > 0.0])


def _queries_of(shard: Any) -> QuerySet:
    """Return the queries of a shard, which may have a loss beside them."""
    return shard[0] if isinstance(shard, tuple) else shard


@light
def _count(shard: Any) -> tuple[int, int, bool]:
    queries = _queries_of(shard)
    has_weights = queries.document_weights is not None
    return queries.n_queries, queries.n_documents, has_weights


def _score_some(shard: Any, score: Score, numbers: IntArray) -> tuple[np.ndarray, ...]:
    """Return scores, grades, lengths and weights of the lists of some numbers."""
    taken = _queries_of(shard).take_own(numbers)
    scores = score(taken.documents) if taken.n_documents else np.zeros(0)
    return scores, taken.grades, taken.lengths, taken.weights


def _words(grades: IntArray) -> str:
    return ", ".join(map(str, grades.tolist()))
