"""The negative log-posterior of labelled matchings and its gradient.

    value(coef)    = alpha/2 |coef|^2 + sum_n weight_n ( log_partition_n - <coef, phi_n> )
    gradient(coef) = alpha coef + sum_n weight_n sum_ij ( marginals_n - matching_n )_ij x_ij

with phi_n the summed features of the labelled edges of graph n, x_ij its edge features, and
weights that sum to one.  Both are exact where the engine is; the objective is convex.  An
engine that draws gets the same seed at every `coef`, and what its standard errors do to the
gradient is told with it.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import MAX_SCORE
from permatch.errors import PrecisionError
from permatch.inference import AbstractEngine
from permatch.inference.effort import with_own_seed
from permatch.objectives.noise import gradient_variances
from permatch.objectives.stacks import FeatureStack


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at one point.

    Attributes
    ----------
    value : float
        The objective.
    grad : ndarray of shape (d,)
        Its gradient.
    grad_errors : ndarray of shape (d,)
        Standard errors of the gradient: 0 where inference is exact, NaN where an engine
        says nothing of its errors.
    is_exact : bool
        Whether all inference was exact.
    """

    value: float
    grad: FloatArray
    grad_errors: FloatArray
    is_exact: bool


class MatchingLikelihood:
    """Value and gradient of the regularised negative log-likelihood.

    Parameters
    ----------
    stacks : list of FeatureStack
        The training graphs, sorted by size.
    matchings : sequence of ndarray
        The labelled matching of every graph, in the order of the graphs.
    weights : ndarray of shape (n,)
        Weight of every graph; sums to one.
    alpha : float
        Strength of the quadratic penalty.
    engine : engine object
        Computes log-partitions and marginals.
    n_jobs : int
        Threads.
    """

    def __init__(
        self,
        stacks: list[FeatureStack],
        matchings: Sequence[IntArray],
        weights: FloatArray,
        alpha: float,
        engine: AbstractEngine,
        n_jobs: int = 1,
    ) -> None:
        self.stacks = stacks
        self.alpha = alpha
        self.engine = engine
        self.n_jobs = n_jobs
        self._weights = [weights[stack.members] for stack in stacks]
        # The labelled edges enter through their weighted sum of features alone.
        self._observed = np.zeros(stacks[0].features.shape[3])
        for stack, weight in zip(stacks, self._weights, strict=True):
            rows = np.arange(stack.size)
            for g, member in enumerate(stack.members):
                edges = stack.features[g, rows, matchings[member]]
                self._observed += weight[g] * edges.sum(axis=0)

    def with_engine(self, engine: AbstractEngine) -> Self:
        """Return the same objective, computed by another engine."""
        other = copy.copy(self)
        other.engine = engine
        return other

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient at `coef`."""
        found = self.evaluate(coef)
        return found.value, found.grad

    def evaluate(self, coef: FloatArray) -> Evaluation:
        """Return the objective and its gradient at `coef`, and how exact they are."""
        terms = [0.5 * self.alpha * float(coef @ coef), -float(coef @ self._observed)]
        grad = self.alpha * coef - self._observed
        variances = np.zeros(len(coef))
        is_exact = True
        for k, (stack, weight) in enumerate(zip(self.stacks, self._weights, strict=True)):
            scores = stack.scores(coef)
            used = scores if stack.forbidden is None else scores[~stack.forbidden]
            if not np.abs(used).max(initial=0.0) < MAX_SCORE:  # false for NaN too
                raise PrecisionError(
                    "scores must stay finite during learning; features times coefficients "
                    "are beyond float64. Use scale_features=True, or smaller features."
                )
            engine = with_own_seed(self.engine, k)  # stacks number their graphs alike
            result = engine.infer(scores, n_jobs=self.n_jobs, check=False)
            terms.append(float(weight @ result.log_partition))
            grad += stack.expected_features(weight[:, None, None] * result.marginals)
            is_exact &= result.is_exact
            if result.marginal_errors is not None:
                variances += gradient_variances(
                    stack.features, weight, result.marginals, result.marginal_errors
                )
            elif not result.is_exact:
                variances += np.nan
        return Evaluation(math.fsum(terms), grad, np.sqrt(variances), is_exact)
