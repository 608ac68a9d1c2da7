"""What a ranker minimises: losses over judged lists, built once and solved at any alpha."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.errors import GradeError, InvalidOptionError
from permatch.estimators.convergence import GapPercent, GradientPercent
from permatch.objectives.ranking import LinearRanking, LinearScores, spread_within_queries
from permatch.objectives.whole_list import WholeListLikelihood
from permatch.optimizers import (
    BundleOptimum,
    Optimum,
    minimize,
    minimize_bundle,
    minimize_newton,
)
from permatch.queries import QuerySet

#: What can weigh a query against the others.
QUERY_WEIGHTS = ("observations", "queries", "per_document", "per_relevant")

# More features make the second derivatives dearer than the steps they save.
_MOST_FEATURES_FOR_NEWTON = 1000

OnIteration = Callable[[dict[str, float]], None] | None


@dataclass(frozen=True, eq=False)
class RankingProblem:
    """A loss over training lists.

    Attributes
    ----------
    linear : LinearScores
        From scaled coefficients to document scores.
    loss : loss of document scores
        Smooth and convex here; subclasses know others.
    n_observations : int
        Subsets, pairs or lists the loss is a mean of.
    fitted : dict
        Attributes for the fitted model to have.
    """

    linear: LinearScores
    loss: Any
    n_observations: int
    fitted: dict[str, Any] = field(default_factory=dict)

    percent = GradientPercent

    @property
    def n_features(self) -> int:
        """Length of the coefficient vector."""
        return self.linear.documents.shape[1]

    def solve(
        self,
        alpha: float,
        start: FloatArray | None,
        *,
        tol: float,
        max_iter: int,
        on_iteration: OnIteration = None,
    ) -> Optimum | BundleOptimum:
        """Return the best scaled coefficients at one alpha."""
        return minimize(
            LinearRanking(self.linear, self.loss, alpha).value_and_grad,
            np.zeros(self.n_features) if start is None else start,
            tol=tol,
            max_iter=max_iter,
            on_iteration=on_iteration,
        )


@dataclass(frozen=True, eq=False)
class WholeListProblem(RankingProblem):
    """The likelihood of whole lists, minimised by Newton's method.

    The profile form comes first.  It costs little, its optimum lies close to that of the
    exact form, and its second derivatives serve the exact form too, so that a few of the
    dear evaluations are enough.
    """

    def solve(
        self,
        alpha: float,
        start: FloatArray | None,
        *,
        tol: float,
        max_iter: int,
        on_iteration: OnIteration = None,
    ) -> Optimum:
        """Return the best scaled coefficients at one alpha."""
        loss: WholeListLikelihood = self.loss
        begin = np.zeros(self.n_features) if start is None else start
        first = self._minimize(
            loss.in_form("profile"), alpha, begin, tol, max_iter, on_iteration
        )
        if not (loss.forms == "exact").any() or first.is_interrupted:
            return first
        last = self._minimize(loss, alpha, first.coef, tol, max_iter, on_iteration)
        if not last.n_evaluations:  # interrupted at once
            return replace(
                first, is_converged=False, is_interrupted=True, message=last.message
            )
        later = [_after(row, first.history[-1]) for row in last.history]
        return replace(
            last,
            n_iter=first.n_iter + last.n_iter,
            n_evaluations=first.n_evaluations + last.n_evaluations,
            history=first.history + later,
        )

    def _minimize(
        self,
        loss: WholeListLikelihood,
        alpha: float,
        start: FloatArray,
        tol: float,
        max_iter: int,
        on_iteration: OnIteration,
    ) -> Optimum:
        objective = LinearRanking(self.linear, loss, alpha)
        options: dict[str, Any] = {
            "tol": tol,
            "max_iter": max_iter,
            "on_iteration": on_iteration,
        }
        if self.n_features > _MOST_FEATURES_FOR_NEWTON:
            return minimize(objective.value_and_grad, start, **options)
        documents, scale = self.linear.documents, self.linear.scale

        def hessian(coef: FloatArray) -> FloatArray:
            curved = loss.hessian(self.linear.scores(coef), documents)
            return curved / np.outer(scale, scale) + alpha * np.eye(len(scale))

        return minimize_newton(objective.value_and_grad, hessian, start, **options)


@dataclass(frozen=True, eq=False)
class HingeProblem(RankingProblem):
    """A loss with kinks, minimised by cutting planes."""

    percent = GapPercent

    def solve(
        self,
        alpha: float,
        start: FloatArray | None,
        *,
        tol: float,
        max_iter: int,
        on_iteration: OnIteration = None,
    ) -> BundleOptimum:
        """Return the best scaled coefficients at one alpha, with a certified gap."""
        return minimize_bundle(
            LinearRanking(self.linear, self.loss, 0.0).risk_and_subgradient,
            self.n_features,
            alpha=alpha,
            tol=tol,
            max_iter=max_iter,
            start=start,
            on_iteration=on_iteration,
        )


def _after(row: dict[str, float], last: dict[str, float]) -> dict[str, float]:
    """Return a row of a history whose counts go on where another history ended."""
    counted = ("iteration", "evaluations", "seconds")
    return {name: row[name] + (last[name] if name in counted else 0.0) for name in row}


def linear_scores(queries: QuerySet, *, is_scaled: bool, n_jobs: int) -> LinearScores:
    """Return the map from coefficients to scores, features in units of their spread."""
    scale = np.ones(queries.n_features)
    if is_scaled:
        scale = spread_within_queries(queries.documents, queries.starts, n_jobs)
    return LinearScores(queries.documents, scale, n_jobs)


def weigh_queries(queries: QuerySet, counts: IntArray, query_weight: str) -> FloatArray:
    """Return the total weight of every query, (q,), summing to one.

    Parameters
    ----------
    queries : QuerySet
        The training lists.
    counts : ndarray of shape (q,)
        Observations each query gives; those with none weigh nothing.  Weights of the
        queries themselves multiply what is chosen here.
    query_weight : str
        One of `QUERY_WEIGHTS`.
    """
    if query_weight not in QUERY_WEIGHTS:
        raise InvalidOptionError(
            f"query_weight must be one of {', '.join(map(repr, QUERY_WEIGHTS))}; got "
            f"{query_weight!r}."
        )
    weights = np.asarray(counts, dtype=np.float64)
    if not (weights * queries.weights).any():
        raise GradeError(
            "at least one query with documents of different grades, and a weight above 0, "
            f"is needed; got {queries.n_queries} queries, none of them such. There is "
            "nothing to learn from them."
        )
    if query_weight != "observations":
        weights = (weights > 0).astype(np.float64)
    if query_weight == "per_document":
        weights /= queries.lengths
    elif query_weight == "per_relevant":
        n_relevant = np.bincount(queries.owners, queries.grades > 0, queries.n_queries)
        weights /= np.maximum(n_relevant, 1.0)
    weights = weights * queries.weights
    return weights / weights.sum()
