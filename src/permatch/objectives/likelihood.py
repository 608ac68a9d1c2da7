"""The negative log-posterior of labelled matchings and its gradient.

    value(coef)    = alpha/2 |coef|^2 + sum_n weight_n ( log_partition_n - <coef, phi_n> )
    gradient(coef) = alpha coef + sum_n weight_n sum_ij ( marginals_n - matching_n )_ij x_ij

with phi_n the summed features of the labelled edges of graph n, x_ij its edge features, and
weights that sum to one.  Both are exact if the engine is; the objective is convex.  A
sampling engine gets the same seed at every `coef`.
"""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import MAX_SCORE
from permatch.errors import PrecisionError
from permatch.inference import AbstractEngine, Diagnostics
from permatch.objectives.stacks import FeatureStack

# Beliefs that still change by more than this are not converged.
_UNSETTLED = 1e-4
# Seeds asked for stay clear of those that sizes of graphs are told apart by.
_SEED_STRIDE = 10_000


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at one point."""

    value: float
    grad: FloatArray  # (d,)
    # Bounds on the error of the gradient due to approximation, (d,): 0 if inference is
    # exact or samples, NaN if the engine reports no errors.
    grad_bounds: FloatArray
    is_exact: bool  # whether all inference was exact
    doubts: tuple[int, ...] = ()  # sizes whose results the engine calls unreliable


class InexactError(Exception):
    """An engine that was to be exact is not."""


class MatchingLikelihood:
    """Value and gradient of the regularised negative log-likelihood.

    Takes the training graphs, stacked by size, the labelled `matchings` and the `weights`
    (n,), which sum to one, of all graphs in their order, and the engine that infers.
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
        # The labelled edges enter only through their weighted sum of features.
        self._observed = np.zeros(stacks[0].features.shape[3])
        for stack, weight in zip(stacks, self._weights, strict=True):
            rows = np.arange(stack.size)
            for g, member in enumerate(stack.members):
                edges = stack.features[g, rows, matchings[member]]
                self._observed += weight[g] * edges.sum(axis=0)

    def with_alpha(self, alpha: float) -> Self:
        """Return the same objective with another penalty."""
        other = copy.copy(self)
        other.alpha = alpha
        return other

    def with_engine(self, engine: AbstractEngine) -> Self:
        """Return the same objective with another engine."""
        other = copy.copy(self)
        other.engine = engine
        return other

    @property
    def is_exact(self) -> bool:
        """Whether the engine is exact for all graphs, as far as is known beforehand."""
        return all(self.engine.is_exact_for(stack.size) for stack in self.stacks)

    @property
    def draws(self) -> bool:
        """Whether the engine draws."""
        return self.engine.draws

    def with_effort(self, factor: float) -> Self:
        """Return the same objective with `factor` times as many draws."""
        return self.with_engine(self.engine.with_effort(factor))

    def with_seed(self, number: int) -> Self:
        """Return the same objective with different draws for every number from 1."""
        return self.with_engine(self.engine.with_seed(_SEED_STRIDE * number))

    def value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient at `coef`."""
        found = self.evaluate(coef)
        return found.value, found.grad

    def exact_value_and_grad(self, coef: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient at `coef`, or raise InexactError."""
        found = self.evaluate(coef)
        if not found.is_exact:
            raise InexactError
        return found.value, found.grad

    def evaluate(self, coef: FloatArray) -> Evaluation:
        """Return the objective and its gradient at `coef`, and how exact they are."""
        terms = [0.5 * self.alpha * float(coef @ coef), -float(coef @ self._observed)]
        grad = self.alpha * coef - self._observed
        bounds = np.zeros(len(coef))
        is_exact = True
        doubtful: list[int] = []
        for k, (stack, weight) in enumerate(zip(self.stacks, self._weights, strict=True)):
            scores = stack.scores(coef)
            used = scores if stack.forbidden is None else scores[~stack.forbidden]
            if not np.abs(used).max(initial=0.0) < MAX_SCORE:  # false for NaN too
                raise PrecisionError(
                    "scores must stay finite during fitting; features times coefficients "
                    "exceed float64. Divide the features by a large number."
                )
            engine = self.engine.with_seed(k)  # stacks number their graphs alike
            # The evaluation reports what the engine warns of.
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                result = engine.infer(scores, n_jobs=self.n_jobs, check=False)
            terms.append(float(weight @ result.log_partition))
            grad += stack.expected_features(weight[:, None, None] * result.marginals)
            is_exact &= result.is_exact
            if result.diagnostics.certificate == "rigorous":
                bounds += _gradient_bounds(stack.features, weight, result.marginal_errors)
            elif not result.is_exact and not engine.draws:
                bounds += np.nan
            if _is_doubtful(result.diagnostics, engine):
                doubtful.append(stack.size)
        value = math.fsum(terms)
        if not math.isfinite(value):
            raise PrecisionError(
                "fitting needs an engine that computes log-partitions; "
                f"{type(self.engine).__name__} with these options does not. Change them "
                "(SwapChain: tempering=True), or the engine."
            )
        return Evaluation(value, grad, bounds, is_exact, tuple(doubtful))


def _gradient_bounds(
    features: FloatArray, weights: FloatArray, errors: FloatArray
) -> FloatArray:
    """Bound the error of the gradient, given bounds (b, m, m) on marginals.

    What a row's marginals lose on some edges they gain on others, each at most the bound.
    """
    ranges = features.max(axis=2) - features.min(axis=2)  # (b, m, d)
    return np.einsum("b,bm,bmd->d", weights, errors.sum(axis=2), ranges)


def _is_doubtful(found: Diagnostics, engine: AbstractEngine) -> bool:
    """Return whether an engine reports that it did not reach its target."""
    if engine.draws and found.certificate == "heuristic":
        return True
    # Beliefs that tend to 0 and 1 are good enough long before they converge.
    return not found.is_converged and (found.residual or np.inf) > _UNSETTLED
