"""Rankers with alpha chosen on queries held out."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, check_cv

from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count
from permatch.errors import InvalidOptionError
from permatch.estimators.alpha_path import AlphaPath, Tried, walk
from permatch.estimators.base import check_feature_names
from permatch.estimators.convergence import (
    check_alphas,
    warn_of_path,
    warn_unless_converged,
)
from permatch.estimators.rank_problem import RankingProblem
from permatch.estimators.ranker import (
    BaseRanker,
    check_columns,
    column_names,
    name_features,
)
from permatch.metrics import Measure, find_measure
from permatch.objectives.ranking import LinearScores
from permatch.queries import QueryRows, QuerySet, check_queries, query_rows

#: From grades, scores and group sizes to a figure; more is better.
Scoring = Callable[[IntArray, FloatArray, IntArray], float]


class RankerFold:
    """Queries to train on, queries held out, and where the path has got to."""

    def __init__(
        self,
        problem: RankingProblem,
        held_out: QuerySet,
        scoring: Scoring,
        *,
        tol: float,
        max_iter: int,
    ) -> None:
        self.problem = problem
        self.last: Any = None
        self._held_out = held_out
        self._linear = LinearScores(held_out.documents, problem.linear.scale)
        self._scoring = scoring
        self._options = {"tol": tol, "max_iter": max_iter}

    @property
    def has_coef(self) -> bool:
        """Whether there are coefficients to keep."""
        return self.last is not None

    def advance(self, alpha: float) -> Tried:
        """Fit at the next alpha, beginning where the last fit ended."""
        start = None if self.last is None else self.last.coef
        optimum = self.problem.solve(alpha, start, **self._options)
        self.last = optimum
        if optimum.is_interrupted:
            raise KeyboardInterrupt
        held_out = self._held_out
        scores = self._linear.scores(optimum.coef)
        score = self._scoring(held_out.grades, scores, held_out.lengths)
        if np.isnan(score):
            raise InvalidOptionError(
                f"scoring must give a number for every alpha; got NaN at alpha={alpha:g}."
            )
        return Tried(float(score), optimum.coef / self.problem.linear.scale, optimum)


class AlphaSearch(BaseRanker):
    """Chooses alpha, then learns at it.

    Subclasses are rankers with `alphas`, `cv`, `scoring` and `random_state` in place of
    `alpha`.
    """

    alphas: Any
    cv: Any
    scoring: Any
    random_state: int
    alpha_: float
    best_score_: float
    cv_results_: dict[str, Any]
    coef_path_: FloatArray

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
        """Choose alpha and learn the coefficients.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            One row of features per document.
        y : array of shape (n,)
            Grades: whole numbers, 0 and up, best highest.
        qid : array of shape (n,), optional
            The query of every document.
        group : array of shape (q,), optional
            Instead of `qid`: how many consecutive rows each query has.
        sample_weight : array of shape (n,), optional
            The weight of every document's query in training, the same for all documents
            of a query.
        validation : tuple (X, y, qid), optional
            Judged lists that choose alpha and never train; without it `cv` splits the
            others.
        feature_names : sequence of str, optional
            A name for every feature, kept with the model; by default the columns of a
            DataFrame.

        Returns
        -------
        AlphaSearch
            Itself.
        """
        alphas = check_alphas(
            self._default_alphas() if self.alphas is None else self.alphas
        )
        if alphas[-1] == 0.0 and not self._is_zero_allowed:
            raise InvalidOptionError("every one of alphas must be above 0; got 0.")
        scoring = check_scoring(self.scoring)
        tol, max_iter, n_jobs = self._check_options()
        names = name_features(X, feature_names)
        queries = self.scaled(check_queries(X, y, qid, group, sample_weight=sample_weight))
        names = check_feature_names(names, queries.n_features)
        if validation is None:
            rows = query_rows(qid, group, queries.n_documents)
            splits = [
                (queries.take(train), queries.take(test))
                for train, test in self._splits(queries, rows)
            ]
        else:
            held_out = _check_validation(validation, queries, column_names(X))
            splits = [(queries, self.scaled(held_out))]
        folds = [
            RankerFold(
                self._problem(train, n_jobs), test, scoring, tol=tol, max_iter=max_iter
            )
            for train, test in splits
        ]
        title = type(self).__name__
        with progress_bar(title, len(alphas) * len(folds), 0.0, bool(self.verbose)) as show:
            path = walk(folds, alphas, show)
        best = self._keep(path, folds, queries)
        self.feature_names_, self.columns_ = names, column_names(X)
        if path.is_interrupted:
            self.is_converged_ = False
            warnings.warn(
                f"the fit of {title} was interrupted after {len(path.rows)} of "
                f"{len(alphas)} alphas; the best of these is kept, with the coefficients "
                "of the first split. Fit again for the others.",
                ConvergenceWarning,
                stacklevel=2,
            )
            return self
        warn_of_path(path.n_open(), path.scores().size, alphas, self.alpha_, title)
        optimum: Any = path.rows[best][0].optimum
        if validation is None:
            problem = self._problem(queries, n_jobs)
            # The mean over the folds is a good place to begin.
            start = self.coef_path_[best].mean(axis=0) * problem.linear.scale
            optimum = problem.solve(self.alpha_, start, tol=tol, max_iter=max_iter)
            self._adopt(queries, problem, optimum)
        warn_unless_converged(optimum, title, tol)
        return self

    def _default_alphas(self) -> FloatArray:
        """Return the alphas tried unless others are given."""
        raise NotImplementedError

    def _keep(self, path: AlphaPath, folds: list[RankerFold], queries: QuerySet) -> int:
        """Set the fitted attributes, choose alpha, and return its place on the path."""
        self.cv_results_ = path.results(len(folds))
        shape = (len(path.rows), len(folds), queries.n_features)
        self.coef_path_ = path.coefs().reshape(shape)
        if not path.rows:  # interrupted within the first alpha
            self.alpha_, self.best_score_ = path.alphas[0], np.nan
            self._adopt(queries, folds[0].problem, folds[0].last)
            return 0
        best = path.best(is_more_better=True)
        self.alpha_ = path.alphas[best]
        self.best_score_ = float(self.cv_results_["mean_score"][best])
        self._adopt(queries, folds[0].problem, path.rows[best][0].optimum)
        return best

    def _splits(
        self, queries: QuerySet, rows: QueryRows
    ) -> Iterable[tuple[IntArray, IntArray]]:
        """Return pairs of query positions: to train on, and held out."""
        n_queries = queries.n_queries
        if isinstance(self.cv, int | np.integer) and not isinstance(self.cv, bool):
            n_folds = check_count(self.cv, "cv", 2)
            if n_folds > n_queries:
                raise InvalidOptionError(
                    f"cv must be at most the number of queries, {n_queries}; got "
                    f"{n_folds}. Give a smaller cv, or validation=(X, y, qid)."
                )
            shuffled = KFold(n_folds, shuffle=True, random_state=self._check_seed())
            return list(shuffled.split(range(n_queries)))
        owners = rows.scatter(queries.owners)
        try:
            splitter: Any = check_cv(self.cv)
            with warnings.catch_warnings():
                # Of one that splits queries, more is said below.
                warnings.filterwarnings("ignore", "The groups parameter is ignored")
                found = list(splitter.split(np.zeros((len(owners), 1)), None, owners))
            parts = [[np.unique(owners[side]) for side in split] for split in found]
        except (TypeError, ValueError, IndexError) as err:
            raise InvalidOptionError(
                "cv must be a number of folds, a splitter of scikit-learn that keeps "
                "groups together, or an iterable of (train, test) arrays of row numbers; "
                f"got {self.cv!r} ({err})."
            ) from err
        if not parts or not all(len(train) and len(test) for train, test in parts):
            raise InvalidOptionError(
                "cv must give at least one split, each with queries to train on and "
                f"queries held out; got {len(parts)} splits, with "
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
    """Return the figure that chooses alpha; more is better."""
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
