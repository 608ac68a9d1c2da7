"""Rankers with alpha chosen on held-out queries."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv

from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, check_jobs
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_search import AlphaSearch, Judge
from permatch.estimators.checks import column_names
from permatch.estimators.linear_ranker import LinearRanker, linear_scores
from permatch.estimators.ranker import check_columns, name_features
from permatch.estimators.uncertainty.evidence import search_by_evidence
from permatch.estimators.uncertainty.of_rankings import n_queries
from permatch.metrics import Measure, find_measure
from permatch.queries import QueryRows, QuerySet, check_queries, query_rows

#: From grades, scores and group sizes to a score; higher is better.
Scoring = Callable[[IntArray, FloatArray, IntArray], float]


@dataclass(eq=False, repr=False, kw_only=True)
class RankerSearch(AlphaSearch, LinearRanker):
    """A linear ranker that chooses alpha, then fits with it."""

    scoring: Any = "MeanNDCG@10"
    random_state: int = 0

    def fit(
        self,
        X: Any,
        y: Any,
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
        scoring = check_scoring(self.scoring)
        by_evidence = self._is_by_evidence(validation)
        if not by_evidence:
            self._check_alphas()  # before the data are looked at
        queries = self.scaled(check_queries(X, y, qid, group, sample_weight=sample_weight))
        names = name_features(X, feature_names, queries.n_features)
        fitted = {"feature_names_": names, "columns_": column_names(X)}
        if by_evidence:
            problem: Any = self._problem(queries, check_jobs(self.n_jobs))
            nobs = n_queries(self, problem, queries)
            return search_by_evidence(self, problem, nobs, fitted)
        if validation is None:
            rows = query_rows(qid, group, queries.n_documents)
            splits = [
                (queries.take(train), queries.take(test))
                for train, test in self._splits(queries, rows)
            ]
        else:
            held_out = _check_validation(validation, queries, column_names(X))
            splits = [(queries, self.scaled(held_out))]

        def judge_on(held_out: QuerySet) -> Judge:
            grades, lengths = held_out.grades, held_out.lengths
            return lambda coef: scoring(
                grades, linear_scores(held_out.documents, coef), lengths
            )

        return self._search(
            queries,
            splits,
            judge_on,
            fitted=fitted,
            is_refitted=validation is None,
        )

    def _splits(
        self, queries: QuerySet, rows: QueryRows
    ) -> list[tuple[IntArray, IntArray]]:
        """Return pairs of training and held-out query positions."""
        check_count(self.random_state, "random_state", 0)
        folds = self._shuffled_folds(queries.n_queries, "queries", "(X, y, qid)")
        if folds is not None:
            return folds
        owners = rows.scatter(queries.owners)
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
                    f"{k} has query {queries.ids[shared[0]]} on both sides. Use "
                    "GroupKFold, or a number of folds."
                )
        return [(train, test) for train, test in parts]


def check_scoring(scoring: Any) -> Scoring:
    """Return the function that scores an alpha; higher is better."""
    if isinstance(scoring, str | Measure | type):
        measure = find_measure(scoring)
        return lambda y, s, group: measure(y, s, group=group)
    if not callable(scoring):
        raise InvalidOptionError(
            'scoring must be a measure such as NDCG @ 10, its text, such as "NDCG@10", or '
            f"a callable of grades, scores and query numbers; got {scoring!r}."
        )
    judge: Any = scoring

    def call(grades: IntArray, scores: FloatArray, lengths: IntArray) -> float:
        queries = np.repeat(np.arange(len(lengths)), lengths)
        return float(judge(grades, scores, queries))

    return call


def _check_validation(
    validation: Any, queries: QuerySet, columns: list[str] | None
) -> QuerySet:
    """Return the validation lists, checked like the training lists."""
    if not isinstance(validation, tuple | list) or len(validation) != 3:
        raise InvalidOptionError(
            f"validation must be a tuple (X, y, qid); got {type(validation).__name__}"
            + (f" of {len(validation)}." if isinstance(validation, tuple | list) else ".")
        )
    X, y, qid = validation
    check_columns(X, columns)
    return check_queries(X, y, qid, None, queries.n_features)
