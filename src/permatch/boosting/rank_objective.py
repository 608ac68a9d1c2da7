"""The likelihood of whole ranked lists as an objective for LightGBM and XGBoost.

For a list whose documents have the scores s_i, let a_i be the level of document i under
``p(a) ~ exp(sum_i v_{a_i} s_i)`` given how many documents have every level, and r_i its
grade.  The objective hands on

    gradient_i = weight ( E v_{a_i} - v_{r_i} ),     hessian_i = weight Var v_{a_i},

the derivatives of minus the log-probability of the grades by the score of one document.
"""

from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import numpy as np

from permatch._shards import HeldShards
from permatch._types import FloatArray
from permatch._validation import MAX_SCORE, check_jobs
from permatch.errors import InvalidQueriesError
from permatch.objectives.rank_losses import ranking_likelihood
from permatch.queries import QuerySet, check_grades, query_rows, weighted_queries

# Data sets prepared at the same time, such as the folds of a cross-validation.
_MOST_PREPARED = 8


class ListLoss:
    """Minus the log-likelihood of judged lists, with a weight each, and its derivatives.

    Parameters
    ----------
    queries : QuerySet
        The lists; their documents are not looked at.
    levels, query_weight, form, n_jobs
        As in `RankMatchObjective`.
    """

    def __init__(
        self, queries: QuerySet, levels: Any, query_weight: str, form: str, n_jobs: int
    ) -> None:
        own = ranking_likelihood(
            HeldShards([queries]),
            "all",
            levels=levels,
            query_weight=query_weight,
            form=form,
            is_single=True,
            n_jobs=n_jobs,
        )
        (self._loss,) = own.shards.map(itemgetter(1))
        # Weights sum to one there; here they are those given, on average over the lists.
        self._total = own.total_weight
        self.fitted = own.fitted
        self.n_observations = own.n_observations
        self.n_documents = queries.n_documents

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss, and the derivatives of the sum by every score alone."""
        loss, slope, curvature = self._loss.derivatives(scores)
        return loss, self._total * slope, self._total * curvature


@dataclass(frozen=True, eq=False)
class RankMatchObjective:
    """The likelihood of whole lists, as an objective for LightGBM and XGBoost.

    An instance is what all of these take; it needs neither to be installed:

    - ``LGBMRanker(objective=RankMatchObjective())``,
    - ``lightgbm.train({"objective": RankMatchObjective(), ...}, data)``,
    - ``xgboost.train(params, data, obj=RankMatchObjective())``, whose data have groups.

    Gradient and second derivative are those of the likelihood itself, documents of equal
    grade and lists that lack a grade included; nothing is sampled.  Lists are prepared
    once for every data set.

    Parameters
    ----------
    levels : "grades", "gains" or sequence of numbers
        Weight of the positions by grade: the grade itself, ``2**grade - 1``, or one number
        per grade from 0, non-decreasing.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        Weight of a list: 1, 1, 1 / its documents, or 1 / its documents of grade 1 or
        higher; on average 1.  The weights of the data multiply it.
    form : {"auto", "exact", "profile"}
        The likelihood itself, or its profile form, an upper bound that is quicker for lists
        of many grades.  "auto" takes the exact form for lists of up to three grades, and
        for those with few documents of the others.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.

    Examples
    --------
    Three documents, of which the second is relevant:

    >>> import numpy as np
    >>> from permatch.boosting import RankMatchObjective
    >>> objective = RankMatchObjective()
    >>> gradient, hessian = objective(np.array([0, 1, 0]), np.zeros(3), None, [3])
    >>> gradient.round(4), hessian.round(4)
    (array([ 0.3333, -0.6667,  0.3333]), array([0.2222, 0.2222, 0.2222]))
    """

    levels: Any = "grades"
    query_weight: str = "observations"
    form: str = "auto"
    n_jobs: int | None = None
    _prepared: list[tuple[list[Any], ListLoss]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    # LightGBM counts these parameters, and passes the groups to four only.
    def __call__(
        self, y_true: Any, y_pred: Any, weight: Any = None, group: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return gradient and second derivative by every score.

        Parameters
        ----------
        y_true : array of shape (n,)
            The grades; with a data set of LightGBM or XGBoost as second argument, the
            scores.
        y_pred : array of shape (n,), lightgbm.Dataset or xgboost.DMatrix
            The scores, or the data set.
        weight : array of shape (n,) or (q,), optional
            The weight of every document, see `RankMatch`, or of every list.
        group : array of shape (q,)
            The number of consecutive documents of every list.

        Returns
        -------
        gradient, hessian : ndarrays of shape (n,)
            First and second derivative.
        """
        if hasattr(y_pred, "get_label"):
            scores, grades, weight, group = _unpack(y_true, y_pred)
        else:
            scores, grades = y_pred, y_true
        loss = self._prepare(grades, weight, group)
        _, gradient, hessian = loss.derivatives(
            _check_predictions(scores, loss.n_documents)
        )
        return gradient, hessian

    def forms(self, y_true: Any, group: Any) -> dict[str, int]:
        """Return how many lists take which form.

        Parameters
        ----------
        y_true : array of shape (n,)
            The grades.
        group : array of shape (q,)
            The number of consecutive documents of every list.

        Returns
        -------
        dict
            The number of lists in the "exact" and the "profile" form, and "skipped"
            because of a single grade.
        """
        return self._prepare(y_true, None, group).fitted["forms_"]

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in vars(self).items() if name != "_prepared"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _prepared=[])

    def __sklearn_clone__(self) -> "RankMatchObjective":
        return replace(self)

    def _prepare(self, *given: Any) -> ListLoss:
        """Return the loss of grades, weights and groups, the same for equal ones."""
        arrays = [None if part is None else np.asarray(part) for part in given]
        prepared = list(self._prepared)
        for k, (known, _) in enumerate(prepared):
            if all(map(_is_same, known, arrays)):
                entry = prepared.pop(k)
                break
        else:
            loss = ListLoss(
                _check_lists(*arrays),
                self.levels,
                self.query_weight,
                self.form,
                check_jobs(self.n_jobs),
            )
            # Copies, as the arrays may be changed between two calls.
            entry = [None if part is None else part.copy() for part in arrays], loss
        vars(self)["_prepared"] = [entry, *prepared][:_MOST_PREPARED]
        return entry[1]


def _is_same(known: np.ndarray | None, given: np.ndarray | None) -> bool:
    if known is None or given is None:
        return known is given
    return known.dtype == given.dtype and np.array_equal(known, given)


def _unpack(scores: Any, data: Any) -> tuple[Any, Any, Any, Any]:
    """Return scores, grades, weights and groups from what a library passes."""
    weight = data.get_weight()
    if not hasattr(data, "get_uint_info"):  # LightGBM
        return scores, data.get_label(), weight, data.get_group()
    starts = data.get_uint_info("group_ptr").astype(np.int64)
    group = np.diff(starts) if len(starts) else None
    return scores, data.get_label(), weight if len(weight) else None, group


def _check_lists(grades: Any, weight: Any, group: Any) -> QuerySet:
    """Return judged lists without documents."""
    if group is None:
        raise InvalidQueriesError(
            "the number of documents of every list is required; got no group. Pass "
            "group=sizes to LGBMRanker.fit, lightgbm.Dataset or xgboost.DMatrix (or qid= "
            "to the last), with the documents sorted by query."
        )
    n_documents = grades.shape[0] if grades is not None and grades.ndim else 0
    if n_documents == 0:
        raise InvalidQueriesError(
            "the grades of at least one document are required; got none. Pass y, or a data "
            "set with labels."
        )
    checked = check_grades(grades, n_documents)
    rows = query_rows(None, np.asarray(group).astype(np.int64), n_documents)
    if weight is not None and weight.shape == (len(rows.ids),):
        weight = weight[rows.owners]
    return weighted_queries(None, checked, rows, weight)


def _check_predictions(y_pred: Any, n_documents: int) -> FloatArray:
    """Return one finite score per document."""
    scores = np.asarray(y_pred, dtype=np.float64)
    if scores.size != n_documents or scores.ndim not in (1, 2):
        raise InvalidQueriesError(
            f"y_pred must have one score per document, shape ({n_documents},); got shape "
            f"{scores.shape}. Pass the grades of the same documents."
        )
    if not np.abs(scores).max(initial=0.0) < MAX_SCORE:  # false for NaN too
        raise InvalidQueriesError(
            "y_pred must be finite; got NaN or an infinite score. Lower the learning rate, "
            "or add an L2 penalty on leaves."
        )
    return scores.ravel()
