"""What rivals that learn in rounds share: fitting, scores after every round, cutting short.

A model is a list of members, one per round: stumps, features, trees or networks.  How many
of them are kept is for validation to choose, so scores after every round come at once.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from permatch._progress import progress_bar
from permatch._types import FloatArray
from permatch._validation import check_count
from permatch.estimators import BaseRanker
from permatch.estimators.inputs import own_queries, query_ids
from permatch.estimators.query_scaler import scale_within_queries
from permatch.objectives.rank_losses import has_grades, no_grades
from permatch.queries import QueryRows, QuerySet, query_rows


@dataclass(eq=False, repr=False, kw_only=True)
class Rival(BaseRanker):
    """A ranker that adds one member to its model per round.

    Subclasses learn in `_learn` and score in `_stages`.

    Parameters
    ----------
    n_rounds : int
        Rounds at most; a rival that has nothing left to learn stops before.
    qid
        As in `permatch.estimators.RankMatch`.
    scaling : {"minmax", "standard"} or None
        How features are scaled within every query, as the published rankers had them.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    members_ : list
        What each round has added.
    n_features_in_, feature_names_
        As in `permatch.estimators.RankMatch`.
    """

    n_rounds: int = 300
    qid: str | None = None
    scaling: str | None = "minmax"
    verbose: bool = False

    @abstractmethod
    def _learn(self, queries: QuerySet) -> Iterator[Any]:
        """Yield a member per round; documents are dense, every query has several grades."""

    @abstractmethod
    def _stages(self, documents: FloatArray, rows: QueryRows) -> Iterator[FloatArray]:
        """Yield the scores of scaled documents, sorted by query, after every round."""

    def _fit(self, queries: QuerySet) -> None:
        limit = check_count(self.n_rounds, "n_rounds", 1)
        # A query of weight 0 has nothing to say, nor has one of a single grade.
        is_telling = has_grades(queries) & (queries.weights > 0)
        if not is_telling.any():
            raise no_grades(queries.n_queries)
        queries = queries.take(np.flatnonzero(is_telling))
        queries = replace(queries, documents=_dense(queries.documents))
        self.members_: list[Any] = []
        title = type(self).__name__
        with progress_bar(title, limit, 0.0, bool(self.verbose)) as show:
            for member in islice(self._learn(queries), limit):
                self.members_.append(member)
                if show is not None:
                    show(len(self.members_))
        self.n_features_in_ = queries.n_features

    def _predict(self, documents: Any) -> FloatArray:
        n_documents = documents.shape[0]
        return self._predict_lists(documents, query_rows(None, [n_documents], n_documents))

    def _predict_lists(self, documents: Any, rows: QueryRows) -> FloatArray:
        *_, last = self._stages(_dense(documents), rows)
        return last

    def predict(self, X: Any, qid: Any = None, group: Any = None) -> FloatArray:
        """Return the score of every document; within a query, higher is better.

        Parameters
        ----------
        X, qid, group
            As in `BaseRanker.predict`; without `scaling` the default is one query.

        Returns
        -------
        ndarray of shape (n,)
            In the order of the rows of `X`.
        """
        *_, last = self.staged_predict(X, qid, group)
        return last

    def staged_predict(
        self, X: Any, qid: Any = None, group: Any = None
    ) -> Iterator[FloatArray]:
        """Yield the scores of `predict` after every round.

        Parameters
        ----------
        X, qid, group
            As in `predict`.

        Yields
        ------
        ndarray of shape (n,)
            With the first member, with the first two, and so on.
        """
        documents = self._check_new(X)
        n_documents = documents.shape[0]
        is_given = own_queries(self, X, qid, group) is not None or group is not None
        if self.scaling is None and not is_given:
            group = [n_documents]
        rows = query_rows(query_ids(self, X, qid, group), group, n_documents)
        documents = rows.gather(_dense(documents))
        if self.scaling is not None:
            documents = scale_within_queries(documents, rows.starts, self.scaling)
        for scores in self._stages(documents, rows):
            yield rows.scatter(scores)

    def keep(self, n_rounds: int) -> None:
        """Forget all rounds but the first ones.

        Parameters
        ----------
        n_rounds : int
            How many are kept, if there are so many.
        """
        self._check_fitted()
        del self.members_[check_count(n_rounds, "n_rounds", 1) :]


def added_up(parts: Iterator[FloatArray], n_documents: int) -> Iterator[FloatArray]:
    """Yield the running sums of the scores of members; without any, scores of 0."""
    total = np.zeros(n_documents)
    is_empty = True
    for part in parts:
        total = total + part
        is_empty = False
        yield total
    if is_empty:
        yield total


def _dense(documents: Any) -> FloatArray:
    if sparse.issparse(documents):
        documents = documents.toarray()
    return np.ascontiguousarray(documents, dtype=np.float64)
