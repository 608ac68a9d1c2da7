"""The objective of a linear model: built once from training data, solved at any alpha.

Coefficients are those of scaled features, ``coef * scale``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from permatch._shards import Passes, Shards
from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.estimators.convergence import GapPercent, GradientPercent
from permatch.estimators.paths import (
    Path,
    WarmPath,
    distance_on_path,
    gap_on_path,
    steeper,
)
from permatch.estimators.uncertainty.covariance import Derivatives
from permatch.objectives.rank_losses import ObservedLoss
from permatch.objectives.ranking import LinearRanking, spread_within_queries
from permatch.optimizers import (
    BaseOptimum,
    BundleOptimum,
    NewtonPath,
    Optimum,
    Planes,
    minimize,
    minimize_bundle,
    minimize_newton,
)
from permatch.optimizers.lbfgs import count_on
from permatch.queries import QuerySet

# With more features the second derivatives cost more than the steps they save.
_MOST_FEATURES_FOR_NEWTON = 1000
# What they cost for subsets and pairs, in evaluations.
_COST_OF_SUBSETS = 100.0
# How many times as far out a second run begins that looks for the end of a first one.
_FAR = 10.0
# Rise of the loss, and of 1, that is more than rounding.
_SEEN = 1e-8


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearProblem:
    """An objective of scaled coefficients."""

    scale: FloatArray  # divisor of every feature, (d,)
    fitted: dict[str, Any] = field(default_factory=dict)  # attributes of the fitted model
    passes: Passes | None = None  # over the training data, if these are in shards

    #: Shows the progress of a solution.
    percent: ClassVar[Any] = GradientPercent

    def solve(self, alpha: float, start: FloatArray | None, **options: Any) -> BaseOptimum:
        """Return the best scaled coefficients at one alpha.

        The options are `tol`, `max_iter` and optionally `on_iteration` of the optimizer.
        """
        raise NotImplementedError

    def path(self, options: dict[str, Any]) -> Path:
        """Return what fits at one alpha after the other, with the options of `solve`."""
        return WarmPath(self, options)

    def settle(self, alpha: float, start: FloatArray | None, **options: Any) -> BaseOptimum:
        """Solve, and find out whether there is an optimum at all.

        Without a penalty there is none if the data are separable: loss and gradient keep
        falling while coefficients grow.  Then a solver that starts much further out stays
        there; otherwise it comes back.  It also stays there if coefficients do not matter,
        as those of constant features; going back changes nothing then.
        """
        optimum = self.solve(alpha, start, **options)
        if alpha > 0.0 or not (optimum.is_converged and isinstance(optimum, Optimum)):
            return optimum
        step = optimum.coef if start is None else optimum.coef - start
        step = step if step.any() else optimum.coef
        options.pop("on_iteration", None)
        far = self.solve(alpha, optimum.coef + _FAR * step, **options)
        way = far.coef - optimum.coef
        length, distance = np.linalg.norm(step), np.linalg.norm(way)
        if not far.is_converged or distance <= length:
            return optimum
        options["tol"] = np.inf  # the first point will do
        back = self.solve(alpha, optimum.coef - length / distance * way, **options)
        if not back.value - optimum.value > _SEEN * max(1.0, abs(optimum.value)):
            return optimum
        return replace(optimum, is_converged=False, has_no_end=True)

    def coef(self, optimum: BaseOptimum) -> FloatArray:
        """Return the coefficients in the units of the features."""
        with np.errstate(over="ignore"):  # caught at once
            coef = optimum.coef / self.scale
        if not np.isfinite(coef).all():
            worst = int(np.argmin(np.isfinite(coef)))
            raise PrecisionError(
                f"coefficients must be finite; feature {worst} varies by only "
                f"{self.scale[worst]:.2g}, too little for float64. Multiply it by a large "
                "number."
            )
        return coef

    def scaled(self, coef: FloatArray) -> FloatArray:
        """Return the scaled coefficients of coefficients in the units of the features."""
        return coef * self.scale

    def units(self) -> FloatArray:
        """Return the matrix from scaled coefficients to the units of the features."""
        return np.diag(1.0 / self.scale)

    def start_after(self, optimum: BaseOptimum) -> FloatArray:
        """Return the start at the next alpha."""
        return optimum.coef


@dataclass(frozen=True, eq=False, kw_only=True)
class HingeProblem(LinearProblem):
    """A non-smooth risk, minimised by cutting planes to a certified gap."""

    risk_and_subgradient: Callable[[FloatArray], tuple[float, FloatArray]]

    percent = GapPercent

    def solve(
        self, alpha: float, start: FloatArray | None, **options: Any
    ) -> BundleOptimum:
        """Return the best scaled coefficients at one alpha, with a certified gap."""
        n_features = len(self.scale)
        return minimize_bundle(
            self.risk_and_subgradient, n_features, alpha=alpha, start=start, **options
        )

    def path(self, options: dict[str, Any]) -> Path:
        """Return what fits at one alpha after the other, by the planes of those before."""
        more = {"tol": gap_on_path(options["tol"]), "planes": Planes(len(self.scale))}
        return WarmPath(self, options | more)


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchingProblem(LinearProblem):
    """An objective of scaled coefficients, the last of which may be an intercept."""

    shift: FloatArray | None  # what centring has taken off the intercept; see `Design`
    prior: FloatArray  # the scaled coefficients that the penalty draws to

    def coef(self, optimum: BaseOptimum) -> FloatArray:
        """Return the coefficients in the units of the features."""
        coef = super().coef(optimum)
        if self.shift is not None:
            coef[-1] += self.shift @ coef[:-1]
        return coef

    def scaled(self, coef: FloatArray) -> FloatArray:
        """Return the scaled coefficients of coefficients in the units of the features."""
        scaled = super().scaled(coef)
        if self.shift is not None:
            scaled[-1] -= self.shift @ coef[:-1]
        return scaled

    def units(self) -> FloatArray:
        """Return the matrix from scaled coefficients to the units of the features."""
        units = super().units()
        if self.shift is not None:
            units[-1, :-1] = self.shift / self.scale[:-1]
        return units


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginProblem(MatchingProblem, HingeProblem):
    """The hinge of labelled matchings."""

    def solve(
        self, alpha: float, start: FloatArray | None, **options: Any
    ) -> BundleOptimum:
        """Return the best scaled coefficients at one alpha, with a certified gap."""
        # The bundle solver draws to 0: it gets the distance from the prior, and so do the
        # planes that one fit hands on to the next.
        moved = replace(
            self,
            prior=np.zeros_like(self.prior),
            risk_and_subgradient=lambda step: self.risk_and_subgradient(self.prior + step),
        )
        begin = None if start is None else start - self.prior
        found = HingeProblem.solve(moved, alpha, begin, **options)
        return replace(found, coef=self.prior + found.coef)


@dataclass(frozen=True, eq=False, kw_only=True)
class RankingProblem(LinearProblem):
    """A smooth loss over judged lists, minimised by quasi-Newton steps."""

    shards: Shards  # pairs of queries and the loss of their scores
    n_jobs: int
    is_scaled: bool  # whether the scale is the spread of features
    #: Distances are underestimated where second derivatives are old.
    _caution: ClassVar[float] = 0.3
    weigh: Callable[[], FloatArray]  # returns the shares of all queries, which sum to one

    def objective(self, alpha: float, form: str | None = None) -> LinearRanking:
        """Return the objective at one alpha, for whole lists perhaps in another form."""
        return LinearRanking(self.shards, self.scale, alpha, form=form, n_jobs=self.n_jobs)

    @cached_property
    def shares(self) -> FloatArray:
        """The shares of the queries, (q,); they sum to one."""
        return self.weigh()

    def derivatives(self, alpha: float, coef: FloatArray) -> Derivatives:
        """Return what is known of a likelihood at some scaled coefficients."""
        objective = self.objective(alpha)
        return Derivatives(
            params=coef,
            value=objective.value_and_grad(coef)[0],
            hessian=objective.hessian(coef),
            gradients=objective.gradients(coef),
            shares=self.shares,
            penalties=np.full(len(coef), alpha),
            is_free=np.ones(len(coef), dtype=bool),
            spread=self._spread() / self.scale,
        )

    def _spread(self) -> FloatArray:
        """Return the spread of every feature within queries."""
        if self.is_scaled:
            return self.scale
        return spread_within_queries(self.shards.derive(_queries_of), self.n_jobs)

    def solve(self, alpha: float, start: FloatArray | None, **options: Any) -> Optimum:
        """Return the best scaled coefficients at one alpha."""
        begin = np.zeros(len(self.scale)) if start is None else start
        return minimize(self.objective(alpha).value_and_grad, begin, **options)

    def path(self, options: dict[str, Any]) -> Path:
        """Return what fits at one alpha after the other."""
        if len(self.scale) > _MOST_FEATURES_FOR_NEWTON:
            return WarmPath(self, steeper(options))
        loss, distance = self.objective(0.0), distance_on_path(options["tol"])
        return NewtonPath(
            self._evaluate,
            loss.hessian,
            np.ones(len(self.scale), dtype=bool),
            cost=_COST_OF_SUBSETS,
            tol=self._caution * distance,
            max_iter=options["max_iter"],
        )

    def _evaluate(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray | None]:
        """Return the loss, its gradient, and second derivatives if they cost little."""
        return *self.objective(0.0).value_and_grad(coef), None


@dataclass(frozen=True, eq=False, kw_only=True)
class WholeListProblem(RankingProblem):
    """The likelihood of whole lists, minimised by Newton's method.

    From zero, the profile form comes first.  It is cheap, its optimum is close to that of
    the exact form, and its second derivatives serve the exact form too, so a few of the
    expensive evaluations are enough.
    """

    _caution = 1.0

    def solve(self, alpha: float, start: FloatArray | None, **options: Any) -> Optimum:
        """Return the best scaled coefficients at one alpha."""
        if start is not None:
            return self._minimize(None, alpha, start, options)
        first = self._minimize("profile", alpha, np.zeros(len(self.scale)), options)
        if not self.fitted["forms_"]["exact"] or first.is_interrupted:
            return first
        last = self._minimize(None, alpha, first.coef, options)
        if not last.n_evaluations:  # interrupted at once
            return replace(
                first, is_converged=False, is_interrupted=True, message=last.message
            )
        later = [count_on(row, first.history[-1]) for row in last.history]
        return replace(
            last,
            n_iter=first.n_iter + last.n_iter,
            n_evaluations=first.n_evaluations + last.n_evaluations,
            history=first.history + later,
        )

    def _evaluate(self, coef: FloatArray) -> tuple[float, FloatArray, FloatArray | None]:
        return self.objective(0.0).evaluate_curved(coef)

    def _minimize(
        self, form: str | None, alpha: float, start: FloatArray, options: dict[str, Any]
    ) -> Optimum:
        value_and_grad = self.objective(alpha, form).value_and_grad
        if len(self.scale) > _MOST_FEATURES_FOR_NEWTON:
            return minimize(value_and_grad, start, **options)
        curved = self.objective(alpha, "profile")
        return minimize_newton(value_and_grad, curved.hessian, start, **options)


def _queries_of(shard: tuple[QuerySet, Any]) -> QuerySet:
    return shard[0]


def query_scale(shards: Shards, *, is_scaled: bool, n_jobs: int) -> FloatArray:
    """Return the spread of every feature within queries, or ones."""
    if not is_scaled:
        return np.ones(shards.map(_count_features)[0])
    return spread_within_queries(shards, n_jobs)


def _count_features(queries: QuerySet) -> int:
    return queries.n_features


def ranking_problem(
    data: Shards, observed: ObservedLoss, *, is_scaled: bool, n_jobs: int
) -> LinearProblem:
    """Return the problem of linear scores with a loss over judged lists."""
    scale = query_scale(data, is_scaled=is_scaled, n_jobs=n_jobs)
    fitted = {"n_observations_": observed.n_observations} | observed.fitted
    if observed.has_kinks:
        risk = LinearRanking(observed.shards, scale, 0.0, n_jobs=n_jobs)
        return HingeProblem(
            scale=scale,
            fitted=fitted,
            passes=data.passes,
            risk_and_subgradient=risk.risk_and_subgradient,
        )
    kind = WholeListProblem if observed.has_forms else RankingProblem
    return kind(
        scale=scale,
        fitted=fitted,
        passes=data.passes,
        shards=observed.shards,
        n_jobs=n_jobs,
        is_scaled=is_scaled,
        weigh=observed.weigh,
    )
