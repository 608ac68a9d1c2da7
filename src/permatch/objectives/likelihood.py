"""The negative log-posterior of labelled matchings and its gradient.

    value(w)    = alpha/2 |w - prior|^2 + sum_n share_n ( log_partition_n - <w, phi_n> )
    gradient(w) = alpha (w - prior) + sum_n share_n ( expected features_n - phi_n )
    hessian(w)  = alpha 1 + sum_n share_n Cov_n( features )

with w the parameters (see `Parameters`), phi_n the features of what is labelled in graph n,
edges and unmatched nodes, and shares of graphs that sum to one.  The expected features are
``sum_ij marginals_ij x_ij`` and those of unmatched nodes likewise.  The penalty leaves the
intercept out.  Value and gradient are exact if the engine is; so is the Hessian, unless
`Curvature.method` says otherwise.

With complete labels the objective is convex.  Incomplete ones say that the matching is
one of several, whose log-partition takes the place of ``<w, phi_n>``; then it is not, and
the covariance given what is known is subtracted from the Hessian.  A sampling engine gets
the same seed at every `w`.
"""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.inference import AbstractEngine, Diagnostics
from permatch.objectives.expectation import Curved, add_curved
from permatch.objectives.feature_table import FeatureTable
from permatch.objectives.parts import Part
from permatch.problems import Problem
from permatch.scores import stacked_problem

# Beliefs that still change by more than this are not converged.
_UNSETTLED = 1e-4
# Seeds asked for stay clear of those that sizes of graphs are told apart by.
_SEED_STRIDE = 10_000
# Of a coefficient, between gradients of which the difference is taken.
_STEP = 1e-3


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The objective at one point."""

    value: float
    grad: FloatArray  # (n_parameters,)
    # Bounds on the error of the gradient due to approximation, likewise: 0 if inference is
    # exact or samples, NaN if the engine reports no errors.
    grad_bounds: FloatArray
    is_exact: bool  # whether all inference was exact
    doubts: tuple[int, ...] = ()  # sizes whose results the engine calls unreliable


@dataclass(frozen=True, eq=False)
class Curvature:
    """Second derivatives of the objective, or their products with vectors."""

    product: FloatArray  # (n_parameters, k); the Hessian if the vectors were those of axes
    method: str  # how the covariances of graphs were computed
    error: float = 0.0  # relative standard error of a variance, where there are samples
    is_exact: bool = True  # up to rounding


class InexactError(Exception):
    """An engine that was to be exact is not."""


class MatchingLikelihood:
    """Value and gradient of the regularised negative log-likelihood.

    Takes the labelled training graphs in parts, the `shares` (n,), which sum to one, of all
    graphs in their order, and the engine that infers.  The penalty draws to `prior`, (p,).
    """

    def __init__(
        self,
        parts: Sequence[Part],
        shares: FloatArray,
        alpha: float,
        engine: AbstractEngine,
        n_jobs: int = 1,
        prior: FloatArray | float = 0.0,
    ) -> None:
        self.parts = parts
        self.prior = prior
        self.alpha = alpha
        self.engine = engine
        self.n_jobs = n_jobs
        self._all_shares = shares
        self._shares = [shares[part.members] for part in parts]
        # What is labelled enters only through the sum of its features.
        self._observed = np.zeros(len(parts[0].parameters))
        self._penalised = parts[0].parameters.is_penalised
        for part, share in zip(parts, self._shares, strict=True):
            self._observed += part.observed(share)

    @property
    def is_convex(self) -> bool:
        """Whether the objective is convex: whether all labels are complete."""
        return all(
            not isinstance(part, FeatureTable) or not part.is_open.any()
            for part in self.parts
        )

    def settled(self) -> "MatchingLikelihood":
        """Return the objective over the nodes whose labels are known, which is convex."""
        parts = [
            part.settled() if isinstance(part, FeatureTable) else part
            for part in self.parts
        ]
        return MatchingLikelihood(
            parts, self._all_shares, self.alpha, self.engine, self.n_jobs, self.prior
        )

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
        return all(part.is_exact_by(self.engine) for part in self.parts)

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

    def problems(self, coef: FloatArray) -> list[Problem]:
        """Return what the engine solves at `coef`, a problem per part."""
        return [
            part.problem(coef)
            if isinstance(part, FeatureTable)
            else stacked_problem(part.scores(coef))
            for part in self.parts
        ]

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
        held = (coef - self.prior) * self._penalised
        terms = [0.5 * self.alpha * float(held @ held), -float(coef @ self._observed)]
        grad = self.alpha * held - self._observed
        bounds = np.zeros(len(coef))
        is_exact = True
        doubtful: list[int] = []
        for k, (part, share) in enumerate(zip(self.parts, self._shares, strict=True)):
            engine = self.engine.with_seed(k)  # parts number their graphs alike
            # The evaluation reports what the engine warns of.
            with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                found = part.expect(coef, share, engine, self.n_jobs)
            terms.append(float(share @ found.log_partition))
            grad += found.total
            is_known = all(result.is_exact for result in found.results)
            is_exact &= is_known
            if found.bounds is not None:
                bounds += found.bounds
            elif not is_known and not engine.draws:
                bounds += np.nan
            doubtful += [
                result.diagnostics.size
                for result in found.results
                if is_doubtful(result.diagnostics, engine)
            ]
        value = math.fsum(terms)
        if not math.isfinite(value):
            raise PrecisionError(
                "fitting needs an engine that computes log-partitions; "
                f"{type(self.engine).__name__} with these options does not. Change them "
                "(SwapChain: tempering=True), or the engine."
            )
        return Evaluation(value, grad, bounds, is_exact, tuple(doubtful))

    def gradients(self, coef: FloatArray) -> FloatArray:
        """Return what every graph adds to the gradient, without the penalty, (n, p)."""
        grads = np.zeros((len(self._all_shares), len(coef)))
        for k, (part, share) in enumerate(zip(self.parts, self._shares, strict=True)):
            engine = self.engine.with_seed(k)
            surplus = part.surpluses(coef, engine, self.n_jobs)
            grads[part.members] = share[:, None] * surplus
        return grads

    def hessian(self, coef: FloatArray) -> FloatArray:
        """Return the second derivatives at `coef`, with those of the penalty, (p, p)."""
        return self.curvature(coef).product

    def hessian_product(self, coef: FloatArray, vectors: FloatArray) -> FloatArray:
        """Return the second derivatives at `coef` times vectors (p, k)."""
        return self.curvature(coef, vectors).product

    def curvature(self, coef: FloatArray, vectors: FloatArray | None = None) -> Curvature:
        """Return the second derivatives times vectors (p, k), by default those of axes.

        The sum over parts of the covariance of features; see `permatch.inference.tangents`
        for the methods.  With an engine that approximates without drawing, second
        derivatives are those of the approximation, by differences of its gradient.
        """
        if not (self.is_exact or self.draws):
            return self._differences(
                coef, np.eye(len(coef)) if vectors is None else vectors
            )
        found = self.curved(coef, vectors)
        along = np.eye(len(coef)) if vectors is None else vectors
        product = found.product + (self.alpha * self._penalised)[:, None] * along
        if vectors is None:
            product = 0.5 * (product + product.T)
        method = " and ".join(sorted(found.methods))
        return Curvature(product, method, found.error, found.error == 0.0)

    def curved(self, coef: FloatArray, vectors: FloatArray | None) -> Curved:
        """Return the covariance of features times vectors, the sum over parts."""
        return add_curved(
            [
                part.curve(coef, share, vectors, self.n_jobs)
                for part, share in zip(self.parts, self._shares, strict=True)
            ]
        )

    def _differences(self, coef: FloatArray, vectors: FloatArray) -> Curvature:
        """Return central differences of the gradient along vectors."""
        columns = []
        for vector in vectors.T:
            step = _STEP / max(float(np.abs(vector).max()), np.finfo(float).tiny)
            above, below = (
                self.evaluate(coef + sign * step * vector).grad for sign in (1.0, -1.0)
            )
            columns.append((above - below) / (2.0 * step))
        product = np.array(columns).T.reshape(vectors.shape)
        if vectors.shape[0] == vectors.shape[1]:
            product = 0.5 * (product + product.T)
        return Curvature(product, "differences of approximate gradients", is_exact=False)


def is_doubtful(found: Diagnostics, engine: AbstractEngine) -> bool:
    """Return whether an engine reports that it did not reach its target."""
    if engine.draws and found.certificate == "heuristic":
        return True
    # Beliefs that tend to 0 and 1 are good enough long before they converge.
    return not found.is_converged and (found.residual or np.inf) > _UNSETTLED
