"""Rankers with alpha chosen on held-out queries."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv

from permatch._shards import HeldShards, Shards, light
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, check_jobs
from permatch.distributed import Opened, is_in_parts, open_queries
from permatch.errors import InvalidOptionError, InvalidQueriesError
from permatch.estimators.alpha_search import AlphaSearch
from permatch.estimators.linear_ranker import LinearRanker, linear_scores
from permatch.estimators.ranker import check_columns
from permatch.estimators.uncertainty.evidence import search_by_evidence
from permatch.estimators.uncertainty.of_rankings import n_queries
from permatch.metrics import Measure, find_measure
from permatch.metrics.lists import rank_lists
from permatch.queries import QuerySet, check_queries, query_rows

#: From held-out queries and coefficients to a score; higher is better.
Scoring = Callable[[Shards, FloatArray], float]


@dataclass(eq=False, repr=False, kw_only=True)
class RankerSearch(AlphaSearch, LinearRanker):
    """A linear ranker that chooses alpha, then fits with it."""

    scoring: Any = "MeanNDCG@10"
    random_state: int = 0

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
        validation : tuple (X, y, qid), optional
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
        opened = open_queries(
            X,
            y,
            qid,
            group,
            sample_weight=sample_weight,
            feature_names=feature_names,
            prepare=self._prepare(),
        )
        names, columns = self._name(X, feature_names, opened)
        shards = opened.shards
        fitted = {"feature_names_": names, "columns_": columns}
        if by_evidence:
            problem: Any = self._problem(shards, check_jobs(self.n_jobs))
            nobs = n_queries(self, problem, shards)
            return search_by_evidence(self, problem, nobs, fitted)
        if validation is None:
            rows = None if is_in_parts(X) else (qid, group)
            take = partial(shards.derive, QuerySet.take_own)
            splits = [
                (take(train), take(test)) for train, test in self._splits(shards, rows)
            ]
        else:
            splits = [(shards, self._open_validation(validation, opened, columns))]
        return self._search(
            shards,
            splits,
            lambda held_out: lambda coef: judge(held_out, coef),
            fitted=fitted,
            is_refitted=validation is None,
        )

    def _open_validation(
        self, validation: Any, opened: Opened, columns: list[str] | None
    ) -> Shards:
        """Return the validation lists, checked like the training lists."""
        if not isinstance(validation, tuple | list) or len(validation) != 3:
            raise InvalidOptionError(
                f"validation must be a tuple (X, y, qid); got {type(validation).__name__}"
                + (
                    f" of {len(validation)}."
                    if isinstance(validation, tuple | list)
                    else "."
                )
            )
        X, y, qid = validation
        prepare = self._prepare()
        if not is_in_parts(X):
            check_columns(X, columns)
            queries = check_queries(X, y, qid, None, opened.n_features)
            return HeldShards([queries if prepare is None else prepare(queries)])
        held_out = open_queries(X, y, qid, feature_names=columns, prepare=prepare)
        if held_out.n_features != opened.n_features:
            raise InvalidQueriesError(
                f"validation must have the {opened.n_features} features of the training "
                f"data; got {held_out.n_features}."
            )
        return held_out.shards

    def _splits(
        self, shards: Shards, given: tuple[Any, Any] | None
    ) -> list[tuple[IntArray, IntArray]]:
        """Return pairs of training and held-out query numbers.

        `given` are the qid and group of data in memory, which may be in any order.
        """
        check_count(self.random_state, "random_state", 0)
        lengths, ids = map(np.concatenate, zip(*shards.map(_outline), strict=True))
        folds = self._shuffled_folds(len(lengths), "queries", "(X, y, qid)")
        if folds is not None:
            return folds
        owners = np.repeat(np.arange(len(lengths)), lengths)
        if given is not None:
            owners = query_rows(*given, len(owners)).scatter(owners)
        try:
            splitter: Any = check_cv(self.cv)
            with warnings.catch_warnings():
                # A splitter that splits queries is refused below.
                warnings.filterwarnings("ignore", "The groups parameter is ignored")
                found = list(splitter.split(np.zeros((len(owners), 1)), None, owners))
            parts = [[np.unique(owners[side]) for side in split] for split in found]
        except (TypeError, ValueError, IndexError) as err:
            raise InvalidOptionError(
                "cv must be a number of folds, a scikit-learn splitter that keeps "
                "groups together, or an iterable of (train, test) arrays of row numbers; "
                f"got {self.cv!r} ({err})."
            ) from err
        if not parts or not all(len(train) and len(test) for train, test in parts):
            raise InvalidOptionError(
                "cv must give at least one split, each with training and held-out "
                f"queries; got {len(parts)} splits, with "
                f"{[(len(train), len(test)) for train, test in parts]} queries."
            )
        for k, (train, test) in enumerate(parts):
            shared = np.intersect1d(train, test)
            if len(shared):
                raise InvalidOptionError(
                    "cv must keep the documents of a query together; split "
                    f"{k} has query {ids[shared[0]]} on both sides. Use "
                    "GroupKFold, or a number of folds."
                )
        return [(train, test) for train, test in parts]


@light
def _outline(queries: QuerySet) -> tuple[IntArray, np.ndarray]:
    return queries.lengths, queries.ids


def check_scoring(scoring: Any) -> Scoring:
    """Return the function that scores coefficients; higher is better."""
    if isinstance(scoring, str | Measure | type):
        measure = find_measure(scoring)

        def mean(held_out: Shards, coef: FloatArray) -> float:
            values = held_out.map(_measure, coef, measure)
            return measure.mean(np.concatenate([own for own in values if own is not None]))

        return mean
    if not callable(scoring):
        raise InvalidOptionError(
            'scoring must be a measure such as NDCG @ 10, its text, such as "NDCG@10", or '
            f"a callable of grades, scores and query numbers; got {scoring!r}."
        )
    judge: Any = scoring

    def call(held_out: Shards, coef: FloatArray) -> float:
        found = zip(*held_out.map(_scores, coef), strict=True)
        grades, scores, lengths = map(np.concatenate, found)
        queries = np.repeat(np.arange(len(lengths)), lengths)
        return float(judge(grades, scores, queries))

    return call


def _scores(queries: QuerySet, coef: FloatArray) -> tuple[IntArray, FloatArray, IntArray]:
    scores = linear_scores(queries.documents, coef)
    return queries.grades, scores, queries.lengths


def _measure(queries: QuerySet, coef: FloatArray, measure: Measure) -> FloatArray | None:
    """Return the values (q, c) of a measure on held-out queries, None if there are none."""
    grades, scores, lengths = _scores(queries, coef)
    if not len(lengths):
        return None
    return measure.values(rank_lists(grades, scores, None, lengths))
