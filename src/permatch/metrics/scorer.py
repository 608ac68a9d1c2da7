"""Measures of ranking as scorers of scikit-learn."""

from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import MetadataRequest

from permatch._missing_queries import missing_queries
from permatch._tables import is_table, take_column
from permatch._types import FloatArray
from permatch.metrics.base import Measure
from permatch.metrics.ranking import MeasureLike, find_measure


class RankingScorer(BaseEstimator):
    """Scores an estimator that predicts a score per document; `make_scorer` makes it.

    Parameters
    ----------
    measure : Measure
        What to compute from grades and predicted scores.
    qid : str, optional
        The column of `X` that holds the queries.

    Examples
    --------
    >>> from permatch.metrics import NDCG, RankingScorer, make_scorer
    >>> isinstance(make_scorer(NDCG @ 5), RankingScorer)
    True
    """

    def __init__(self, measure: Measure, qid: str | None = None) -> None:
        self.measure = measure
        self.qid = qid

    def __call__(self, estimator: Any, X: Any, y: Any, qid: Any = None) -> float:
        """Return the mean of the measure over the queries.

        Parameters
        ----------
        estimator : fitted estimator
            Its `predict` gives a score per document.
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents.
        y : array of shape (n,)
            Their grades.
        qid : array of shape (n,), optional
            Their queries; default: the column of `X` that the scorer or the estimator
            names.

        Returns
        -------
        float
            Higher is better.
        """
        if qid is None:
            column = self.qid or getattr(last_step(estimator), "qid", None)
            if column is None or not is_table(X):
                how = f'make_scorer({self.measure}, qid="query")'
                raise missing_queries("a scorer", X, column, with_qid=how)
            qid = take_column(X, column)
        return self.measure(y, predict_scores(estimator, X, qid), qid)

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for query ids where metadata routing is on.

        Returns
        -------
        MetadataRequest
            What scikit-learn's searches read.
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="qid", alias=True)
        return request


def make_scorer(measure: MeasureLike, *, qid: str | None = None) -> RankingScorer:
    """Return a measure as `scoring` of scikit-learn's searches and cross-validation.

    Parameters
    ----------
    measure : Measure, its class or str
        Such as ``NDCG @ 10`` or ``"NDCG(discount=letor)@10"``.
    qid : str, optional
        The column of the DataFrame `X` that holds the queries.  Not needed if the ranker
        names it, or if metadata routing passes `qid`.

    Returns
    -------
    RankingScorer
        A callable of estimator, X, y and perhaps qid.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.model_selection import GroupKFold, cross_val_score
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> lists = pd.DataFrame(rng.normal(size=(80, 2)), columns=["title", "body"])
    >>> grades = np.digitize(lists["title"], [0.0, 1.0])
    >>> lists["query"] = np.repeat(np.arange(10), 8)
    >>> scores = cross_val_score(
    ...     pm.RankMatch(qid="query"),
    ...     lists,
    ...     grades,
    ...     groups=lists["query"],
    ...     cv=GroupKFold(5),
    ...     scoring=make_scorer(pm.metrics.NDCG() @ 5),
    ... )
    >>> len(scores), bool(scores.min() > 0.5)
    (5, True)
    """
    return RankingScorer(find_measure(measure), qid)


def last_step(estimator: Any) -> Any:
    """Return the ranker of a pipeline, and anything else as it is."""
    return estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator


def predict_scores(estimator: Any, X: Any, qid: Any) -> FloatArray:
    """Return the scores of documents, by their queries where the ranker asks for them."""
    takes = signature(last_step(estimator).predict).parameters
    more = {"qid": qid} if "qid" in takes else {}
    return estimator.predict(X, **more)
