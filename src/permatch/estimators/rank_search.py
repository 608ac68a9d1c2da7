"""Rankers with alpha chosen on held-out queries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._shards import HeldShards, Shards
from permatch._types import FloatArray, IntArray
from permatch._validation import check_jobs
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_search import AlphaSearch
from permatch.estimators.inputs import query_ids
from permatch.estimators.linear_ranker import LinearRanker, linear_scores
from permatch.estimators.splits import split_queries
from permatch.estimators.uncertainty.evidence import search_by_evidence
from permatch.estimators.uncertainty.of_rankings import n_queries
from permatch.metrics import Measure, find_measure
from permatch.metrics.lists import rank_lists
from permatch.queries import QuerySet

#: From held-out queries and coefficients to a score; higher is better.
Scoring = Callable[[Shards, FloatArray], float]


@dataclass(eq=False, repr=False, kw_only=True)
class RankerSearch(AlphaSearch, LinearRanker):
    """A linear ranker that chooses alpha, then fits with it."""

    scoring: Any = "MeanNDCG@10"
    random_state: int = 0

    @one_blas_thread()
    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, ...] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Choose alpha and fit the coefficients.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            As in `BaseRanker.fit`.
        validation : tuple (X, y, qid), (X, y) or (X, y, None, group), optional
            Judged lists to choose alpha on, never trained on; default: split by `cv`.
        feature_names : sequence of str, optional
            As in `BaseRanker.fit`.

        Returns
        -------
        RankerSearch
            Itself.
        """
        judge = check_scoring(self.scoring)
        by_evidence = self._is_by_evidence(validation)
        if not by_evidence:
            self._check_alphas()  # before the data are looked at
        roles = self._roles(X, y, qid, group, sample_weight, feature_names)
        inputs, shards = self._open(X, roles, group)
        fitted = inputs.attributes
        if by_evidence:
            problem: Any = self._problem(shards, check_jobs(self.n_jobs))
            nobs = n_queries(self, problem, shards)
            return search_by_evidence(self, problem, nobs, fitted)
        if validation is None:
            rows = None
            if not is_in_parts(X):
                rows = query_ids(self, X, qid, group), group
            take = partial(shards.derive, QuerySet.take_own)
            found = split_queries(self.cv, self.random_state, shards, rows)
            splits = [(take(train), take(test)) for train, test in found]
        else:
            splits = [(shards, self._open_validation(validation, inputs))]
        return self._search(
            shards,
            splits,
            lambda held_out: lambda coef: judge(held_out, coef),
            fitted=fitted,
            is_held=isinstance(shards, HeldShards),
            is_refitted=validation is None,
        )


def find_scoring(scoring: Any) -> Any:
    """Return a measure, or a callable of grades, scores and query numbers."""
    if isinstance(scoring, str | Measure | type):
        return find_measure(scoring)
    if not callable(scoring):
        raise InvalidOptionError(
            'scoring must be a measure such as NDCG @ 10, its text, such as "NDCG@10", or '
            f"a callable of grades, scores and query numbers; got {scoring!r}."
        )
    return scoring


def check_scoring(scoring: Any) -> Scoring:
    """Return the function that scores coefficients; higher is better."""
    judge = find_scoring(scoring)
    if isinstance(judge, Measure):
        measure = judge

        def mean(held_out: Shards, coef: FloatArray) -> float:
            values = held_out.map(_measure, coef, measure)
            return measure.mean(np.concatenate([own for own in values if own is not None]))

        return mean

    def call(held_out: Shards, coef: FloatArray) -> float:
        found = zip(*held_out.map(_scores, coef), strict=True)
        grades, scores, lengths = map(np.concatenate, found)
        queries = np.repeat(np.arange(len(lengths)), lengths)
        return float(judge(grades, scores, queries))

    return call


def judge_of(scoring: Any, queries: QuerySet) -> Callable[[FloatArray], float]:
    """Return the function that judges the scores of all documents; higher is better."""
    judge, grades, lengths = find_scoring(scoring), queries.grades, queries.lengths
    if isinstance(judge, Measure):
        return lambda scores: judge.mean(
            judge.values(rank_lists(grades, scores, None, lengths))
        )
    return lambda scores: float(judge(grades, scores, queries.owners))


def _scores(queries: QuerySet, coef: FloatArray) -> tuple[IntArray, FloatArray, IntArray]:
    scores = linear_scores(queries.documents, coef)
    return queries.grades, scores, queries.lengths


def _measure(queries: QuerySet, coef: FloatArray, measure: Measure) -> FloatArray | None:
    """Return the values (q, c) of a measure on held-out queries, None if there are none."""
    grades, scores, lengths = _scores(queries, coef)
    if not len(lengths):
        return None
    return measure.values(rank_lists(grades, scores, None, lengths))
