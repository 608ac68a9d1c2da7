"""What `MAPMatching` minimises: the likelihood of labelled matchings at any alpha."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidOptionError
from permatch.estimators.paths import Path, WarmPath, distance_on_path, steeper
from permatch.estimators.problem import MatchingProblem
from permatch.estimators.uncertainty.covariance import Derivatives
from permatch.inference import AbstractEngine
from permatch.objectives import MatchingLikelihood, Parameters
from permatch.objectives.feature_table import FeatureTable
from permatch.objectives.likelihood import InexactError
from permatch.optimizers import (
    NEWTON,
    BaseOptimum,
    NewtonPath,
    Optimum,
    minimize,
    minimize_newton,
    minimize_noisy,
)

# How far a first fit goes that only finds a start.
_START_TOL, _START_STEPS = 1e-2, 50

# About what second derivatives cost, in evaluations.
_COST, _COST_PER_PARAMETER = 3.0, 0.25

# How near to its bound a scaled coefficient is at it.
_AT_BOUND = 1e-9

_NAMED_BOUNDS = {"non-negative": (0.0, np.inf), "non-positive": (-np.inf, 0.0)}


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodProblem(MatchingProblem):
    """The likelihood of labelled matchings, by exact or estimated inference."""

    objective: MatchingLikelihood
    method: str
    bounds: tuple[FloatArray, FloatArray] | None
    unit: float  # what the tolerance is multiplied by
    shares: FloatArray  # of the graphs, which sum to one
    spread: FloatArray  # of every parameter's feature, before it is scaled
    is_penalised: BoolArray

    def derivatives(self, alpha: float, coef: FloatArray) -> Derivatives:
        """Return what is known of the likelihood at some scaled coefficients."""
        objective = self.objective.with_alpha(alpha)
        found = objective.evaluate(coef)
        curved = objective.curvature(coef)
        return Derivatives(
            params=coef,
            value=found.value,
            hessian=curved.product,
            method=curved.method,
            is_exact=curved.is_exact and found.is_exact,
            error=curved.error,
            gradients=objective.gradients(coef),
            shares=self.shares,
            penalties=np.where(self.is_penalised, alpha, 0.0),
            prior=self.prior,
            is_free=self._is_free(coef),
            spread=self.spread / self.scale,
        )

    def by_component(self) -> "LikelihoodProblem":
        """Return the mean over the components of the only graph, which are independent."""
        (table,) = self.objective.parts
        assert isinstance(table, FeatureTable)
        parts = [table.by_component()]
        shares = np.full(len(parts[0].members), 1.0 / len(parts[0].members))
        own = self.objective
        mean = MatchingLikelihood(
            parts, shares, own.alpha, own.engine, own.n_jobs, own.prior
        )
        return replace(self, objective=mean, shares=shares)

    def _is_free(self, coef: FloatArray) -> BoolArray:
        """Return which parameters are not at a bound."""
        if self.bounds is None:
            return np.ones(len(coef), dtype=bool)
        low, high = (bound * self.scale for bound in self.bounds)
        near = _AT_BOUND * np.maximum(np.abs(coef), 1.0)
        return (coef - low > near) & (high - coef > near)

    def solve(self, alpha: float, start: FloatArray | None, **options: Any) -> Optimum:
        """Return the best scaled coefficients at one alpha."""
        objective = self.objective.with_alpha(alpha)
        options |= {"method": self.method, "tol": self.unit * options["tol"]}
        if start is None and not objective.is_convex:
            # What is known of whole nodes comes first: the way down from there is short.
            few = options | {
                "tol": max(options["tol"], _START_TOL),
                "max_iter": _START_STEPS,
            }
            few.pop("on_iteration", None)
            first = self._minimize(objective.settled(), self.prior, few)
            if first.is_interrupted:
                return first
            start = first.coef
        begin = self.prior if start is None else start
        return self._minimize(objective, begin, options)

    def _minimize(
        self, objective: MatchingLikelihood, begin: FloatArray, options: dict[str, Any]
    ) -> Optimum:
        if (bounds := self._scaled_bounds()) is not None:
            options["bounds"] = bounds
        if self.method == NEWTON:
            return self._minimize_newton(objective, begin, options)
        if objective.is_exact:
            with suppress(InexactError):
                return minimize(objective.exact_value_and_grad, begin, **options)
        return minimize_noisy(objective, begin, **options)

    def _minimize_newton(
        self, objective: MatchingLikelihood, begin: FloatArray, options: dict[str, Any]
    ) -> Optimum:
        options.pop("method")
        try:
            return minimize_newton(
                objective.exact_value_and_grad, objective.hessian, begin, **options
            )
        except InexactError:
            raise not_exact(objective.engine) from None

    def path(self, options: dict[str, Any]) -> Path:
        """Return what fits at one alpha after the other."""
        loss, warm = self.objective.with_alpha(0.0), WarmPath(self, steeper(options))
        if not (loss.is_exact and loss.is_convex):
            return warm

        def evaluate(coef: FloatArray) -> tuple[float, FloatArray, None]:
            return *loss.exact_value_and_grad(coef), None

        bounds = self._scaled_bounds()
        exact = NewtonPath(
            evaluate,
            loss.hessian,
            self.is_penalised,
            cost=_COST + _COST_PER_PARAMETER * len(self.scale),
            tol=distance_on_path(options["tol"]),
            max_iter=options["max_iter"],
            centre=self.prior,
            bounds=bounds,
        )
        return _ExactPath(exact, warm)

    def _scaled_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        if self.bounds is None:
            return None
        low, high = self.bounds
        return low * self.scale, high * self.scale

    def coef(self, optimum: Any) -> FloatArray:
        """Return the coefficients in the units of the features, within the bounds."""
        coef = super().coef(optimum)
        # Undoing the scale may round past a bound.
        return coef if self.bounds is None else np.clip(coef, *self.bounds)

    def start_after(self, optimum: Any) -> FloatArray:
        """Return the start at the next alpha: the model, within the bounds."""
        return self.scaled(self.coef(optimum))


class _ExactPath:
    """Newton's path, for as long as inference is exact."""

    def __init__(self, exact: NewtonPath, otherwise: Path) -> None:
        self.exact, self._now, self._otherwise = exact, exact, otherwise

    def advance(self, alpha: float) -> BaseOptimum:
        """Return the optimum at the next alpha."""
        try:
            return self._now.advance(alpha)
        except InexactError:
            self._now = self._otherwise
            return self._now.advance(alpha)

    def follow(self, leader: Any) -> None:
        """Take over the curvature of another one."""
        self.exact.follow(leader.exact)


def not_exact(engine: AbstractEngine) -> InvalidOptionError:
    """Return the error that Newton's method cannot be used."""
    return InvalidOptionError(
        "solver='newton-cg' needs exact inference; these graphs are too large or too wide "
        f"for engine {engine.name!r} to be exact, within the budget if there is one. Use "
        "solver='lbfgs', which accepts approximate gradients, or leave out edges that "
        "hardly matter."
    )


def check_bounds(
    bounds: Any, parameters: Parameters
) -> tuple[FloatArray, FloatArray] | None:
    """Return the lowest and highest value of every parameter, or None without bounds.

    Bounds are those of edge features; all else is free.
    """
    if bounds is None:
        return None
    n_features = parameters.n_edge
    required = (
        f"bounds must be None, {', '.join(map(repr, _NAMED_BOUNDS))}, or a pair "
        f"(low, high) of numbers or arrays of shape ({n_features},)"
    )
    if isinstance(bounds, str):
        if bounds not in _NAMED_BOUNDS:
            raise InvalidOptionError(f"{required}; got {bounds!r}.")
        bounds = _NAMED_BOUNDS[bounds]
    refuse_masked(bounds, "bounds", InvalidOptionError)
    try:
        low, high = bounds
        sides = [
            np.array(
                np.broadcast_to(free if side is None else side, n_features), dtype=float
            )
            for side, free in ((low, -np.inf), (high, np.inf))
        ]
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(f"{required}; got {bounds!r}.") from err
    is_wrong = ~(sides[0] <= sides[1]) | (sides[0] == np.inf) | (sides[1] == -np.inf)
    if is_wrong.any():
        worst = int(np.argmax(is_wrong))
        raise InvalidOptionError(
            "the low bound of a coefficient must be at most its high bound; "
            f"feature {worst} has low {sides[0][worst]} and high {sides[1][worst]}."
        )
    free = np.full(parameters.n_nodes, np.inf)
    return np.concatenate([sides[0], -free]), np.concatenate([sides[1], free])
