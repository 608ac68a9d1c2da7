"""Maximum a posteriori estimation: the likelihood, an engine and a smooth solver."""

import math
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import with_weight
from permatch.estimators.convergence import warn_caller
from permatch.estimators.fit_plan import EVALUATIONS, FitPlan, in_words, is_close, plan_fit
from permatch.estimators.matcher import BaseMatcher, Data
from permatch.estimators.matching_parts import GraphsInParts
from permatch.estimators.problem import LinearProblem, MatchingProblem
from permatch.estimators.scaling import design
from permatch.estimators.uncertainty.covariance import Derivatives
from permatch.estimators.uncertainty.of_matchings import MatchingInference
from permatch.inference import (
    AbstractEngine,
    AutoEngine,
    find_engine,
    require_marginals,
)
from permatch.inference._options import check_budget
from permatch.objectives import MatchingLikelihood, Parameters
from permatch.objectives.feature_table import FeatureTable
from permatch.objectives.likelihood import InexactError
from permatch.optimizers import (
    NEWTON,
    Optimum,
    check_solver,
    minimize,
    minimize_newton,
    minimize_noisy,
)

# How far a first fit goes that only finds a start.
_START_TOL, _START_STEPS = 1e-2, 50

# The gradient is a sum over nodes: beyond so many, its rounding errors exceed any `tol`.
_MANY_NODES = 100

# How near to its bound a scaled coefficient is at it.
_AT_BOUND = 1e-9

_NAMED_BOUNDS = {"non-negative": (0.0, np.inf), "non-positive": (-np.inf, 0.0)}


@dataclass(eq=False, repr=False)
class MAPMatching(MatchingInference, BaseMatcher):
    """Learn to match from labelled matchings, by maximum a posteriori.

    Minimises, with phi the summed features of the labelled edges of a graph,

        alpha/2 |coef * scale|^2 + mean( log_partition - <coef, phi> ),

    which is convex; phi includes unmatched nodes, whose scores are learned too where there
    are any.  The intercept of these scores is not penalised.  Value and gradient are exact
    with an exact engine; large graphs need an engine that approximates or samples.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, at least 0.  It acts on the coefficients of the scaled
        features, so it does not depend on their units.
    engine : str or engine object
        Computes log-partitions and marginals.  From 20 nodes, "nesting", which samples, and
        "bethe", which approximates, are far faster than exact engines.  With "auto" each
        connected component has an engine of its own; see `budget`.
    budget : float or None
        Seconds that a fit with "auto" should take, by estimate.  Components that would take
        it longer are approximated by belief propagation (`Bethe`), or by samplers where
        they are dense squares of perfect matchings and there is time; ``engine_report_``
        says so, and a warning unless they are known to be off by no more than the engine's
        `tol`.  None: all inference is as in `permatch.infer`, however long that takes.
    solver : {"lbfgs", "bfgs", "newton-cg"}
        Limited-memory BFGS; the full BFGS of the paper; or Newton's method, whose second
        derivatives are exact and need exact inference.  The last two support no bounds.
    bounds : None, "non-negative", "non-positive" or a pair (low, high)
        Limits of the coefficients in the units of the features: numbers, arrays of shape
        (d,), or None for no limit on that side.
    unmatched : {"auto", "larger", "any"}
        Which nodes may stay unmatched: "larger", those left over on the larger side of an
        unequal graph; "any", all, with scores that are learned.  "auto" is "any" if labels
        leave other nodes unmatched than those left over.
    scale_features : bool
        Divide every feature by its standard deviation over all training edges or nodes.
    tol : float
        Largest entry of the gradient (by scaled coefficients) to reach; with a sampling
        engine, a gradient that is zero within its noise is accepted too.  For graphs of
        more than 100 nodes, per 100 nodes: rounding allows no more.
    max_iter : int
        Maximum steps of the solver.
    warm_start : bool
        Start from the ``coef_`` of the last fit instead of zero.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One coefficient per feature, in the units of the features.
    unmatched_ : {"larger", "any"}
        Which nodes may stay unmatched.
    unmatched_intercept_ : float
        Score of staying unmatched, less what the features of a node add; the same on both
        sides, as only the sum matters.  0 with "larger", where it cancels.
    unmatched_left_coef_, unmatched_right_coef_ : ndarray of shape (p,), (q,)
        One coefficient per feature of left and right nodes.
    scale_ : ndarray of shape (d,)
        Divisor of every feature.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if known.
    n_iter_ : int
        Steps taken.
    is_converged_ : bool
        Whether the gradient reached `tol`, or is zero within its noise; False on separable
        data with ``alpha=0``, which have no best coefficients.
    history_ : list of dict
        ``iteration``, ``loss``, ``grad_norm``, ``evaluations`` and ``seconds``.
    gradient_error_ : float
        Largest standard error of an entry of the gradient at ``coef_``: 0 with exact
        inference, NaN if the engine reports no errors (`Bethe`).
    is_exact_ : bool
        Whether all inference of the fit was exact.
    is_convex_ : bool
        Whether the objective was convex.  It is not with incomplete labels: ``coef_`` may
        then be a local optimum only.
    engine_report_ : dict or None
        With "auto" and a `budget`: ``n_exact``, ``n_approximate`` and ``n_sampled``
        components, ``n_pairs`` and ``n_approximate_pairs``, ``expected_seconds``; how many
        of the approximate components were compared with closer results at ``coef_``
        (``n_checked``), the ``largest_difference`` of a probability there, and the
        ``largest_error`` given the errors of these, which ``is_certain`` or holds with high
        probability; NaN if unknown.
    posterior_, log_evidence_
        Set by `inference`, dropped by the next fit: how sure the coefficients are, and the
        log-evidence of the model.

    Notes
    -----
    With incomplete labels (-2 in a matching, `Known` or `EdgeLabels` in its place) the
    likelihood is that of what is known: the total probability of all matchings that agree
    with it.  The fit starts from the optimum over the nodes whose labels are known, the
    others left out.

    An evaluation costs one inference per graph.  "newton-cg" needs a third to three
    quarters of the evaluations of "lbfgs", and second derivatives at most of its steps:
    those of dense graphs of m nodes cost about 0.8 m evaluations, those of sparse ones 2 to
    20 for every eight coefficients.  That takes longer, except where "lbfgs" needs hundreds
    of evaluations, as with a weak penalty and correlated features.

    A fit that ends early, at `max_iter` or by Ctrl-C, warns and keeps the best
    coefficients.

    Sampling engines (`HuberLaw`, `Nesting`, `SwapChain`, and `AutoEngine` beyond the exact
    sizes) get the same seed at every evaluation.  The fit starts with 1/16 of their draws
    and quadruples them whenever the gradient falls below its errors, up to the number the
    engine was set to; if at most 64 times that number reaches `tol`, it goes on to that.
    ``gradient_error_`` is the remaining error: the standard deviation of the gradient over
    eight seeds at the end.  A thousand draws per graph are plenty: their errors are about a
    thirtieth of those due to the finite number of graphs.

    With `Bethe` the objective is smooth, deterministic and consistent with its gradient,
    but it is the Bethe approximation of the likelihood that is maximised.

    Examples
    --------
    Match points that have moved slightly, by two descriptors; the second is pure noise.

    >>> import numpy as np
    >>> import permatch as pm
    >>> from permatch.estimators import MAPMatching
    >>> rng = np.random.default_rng(0)
    >>> graphs, matchings = [], []
    >>> for _ in range(40):
    ...     left, matching = rng.normal(size=(6, 2)), rng.permutation(6)
    ...     right = np.empty((6, 2))
    ...     right[matching] = left + [0.1, 2.0] * rng.normal(size=(6, 2))
    ...     graphs.append((left[:, None] - right[None]) ** 2)
    ...     matchings.append(matching)
    >>> model = MAPMatching(alpha=0.01).fit(graphs[:20], matchings[:20])
    >>> bool(model.coef_[0] < 10 * model.coef_[1] < 0)
    True
    >>> model.score(graphs[20:], matchings[20:]) > 0.7
    True
    """

    alpha: float = 1e-2
    _: KW_ONLY
    engine: str | AbstractEngine = "auto"
    budget: float | None = 120.0
    solver: str = "lbfgs"
    bounds: Any = None
    unmatched: str = "auto"
    scale_features: bool = True
    tol: float = 1e-6
    max_iter: int = 500
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: bool = False
    gradient_error_: float = field(init=False)
    is_exact_: bool = field(init=False)
    is_convex_: bool = field(init=False)
    engine_report_: dict[str, Any] | None = field(init=False)

    def _begin(self, data: Data) -> None:
        super()._begin(data)
        budget = check_budget(self.budget, f"budget of {type(self).__name__}")
        engine = find_engine(self.engine)
        self._plan: FitPlan | None = None
        if isinstance(engine, AutoEngine):
            is_limited, seconds = budget is not None, budget or math.inf
            plan = plan_fit(engine, data, self._parameters, seconds, self._n_evaluations())
            plan.announce(True if self.verbose else None, is_limited=is_limited)
            self._plan = plan if is_limited else None

    def _n_evaluations(self) -> int:
        """Return how many evaluations a fit takes, as estimates go."""
        return EVALUATIONS

    def _learning_engine(self) -> AbstractEngine:
        if self._plan is not None:
            return self._plan.engine
        return find_engine(self.engine).for_learning()

    def _problem(self, data: Data, n_jobs: int) -> LinearProblem:
        engine = self._learning_engine()
        require_marginals(engine)
        check_solver(self.solver, is_bounded=self.bounds is not None)
        parameters = self._parameters
        bounds = check_bounds(self.bounds, parameters)
        if isinstance(data, GraphsInParts):
            _check_sizes(engine, data.sizes, parameters)
            shards, found = data.settled(parameters, is_scaled=self.scale_features)
            objective = data.likelihood(shards, parameters, engine, n_jobs)
            size, passes = data.mean_size, data.shards.passes
            shares = np.full(data.n_graphs, 1.0 / data.n_graphs)
        else:
            graphs, labels, weights = data = with_weight(data)
            _check_sizes(engine, {g.size for g in graphs if g.is_square}, parameters)
            found = design(data, parameters, is_scaled=self.scale_features)
            objective = MatchingLikelihood(found.parts, found.shares, 0.0, engine, n_jobs)
            size, passes = float(weights @ [graph.size for graph in graphs]), None
            shares = found.shares
        if self.solver == NEWTON and not objective.is_exact:
            raise not_exact(engine)
        return LikelihoodProblem(
            scale=found.scale,
            passes=passes,
            shift=found.shift,
            objective=objective,
            method=self.solver,
            bounds=bounds,
            unit=max(1.0, size / _MANY_NODES),
            shares=shares,
            is_penalised=parameters.is_penalised,
        )

    def _adopt(self, problem: Any, optimum: Any) -> None:
        super()._adopt(problem, optimum)
        self.gradient_error_ = optimum.gradient_error
        self.is_exact_ = optimum.is_exact
        self.is_convex_ = problem.objective.is_convex
        self.engine_report_ = None if self._plan is None else self._plan.report()

    def _conclude(self, problem: Any, optimum: Any) -> None:
        if self._plan is None or optimum.is_interrupted:
            return
        try:
            found = self._plan.compare(problem.objective, optimum.coef)
        except KeyboardInterrupt:  # the fit itself is complete
            return
        self.engine_report_ = self._plan.report() | found

    def _warn(self, optimum: Any) -> None:
        super()._warn(optimum)
        report = self.engine_report_
        if report is not None and not is_close(report, find_engine(self.engine)):
            warn_caller(
                f"the fit is approximate: {in_words(report)}. Raise budget to spend more "
                "time, or set it to None (--budget inf) for no limit.",
                RuntimeWarning,
            )
        if optimum.doubts:
            engine = find_engine(self.engine)
            sizes = ", ".join(map(str, dict.fromkeys(optimum.doubts)))
            warn_caller(
                f"at the fitted coefficients {type(engine).__name__} reports its results "
                f"for graphs of size {sizes} as unreliable; the coefficients may be off by "
                f"more than gradient_error_. {_remedy(engine, max(optimum.doubts))}",
                RuntimeWarning,
            )


def _check_sizes(engine: AbstractEngine, sizes: set[int], parameters: Parameters) -> None:
    """Refuse squares that are too large for the engine, before anything is computed."""
    for size in () if parameters.is_any else sizes:
        engine.check_size(size)


def _remedy(engine: AbstractEngine, size: int) -> str:
    """Return what to do about unreliable results for graphs of at most a size."""
    if isinstance(engine, AutoEngine):
        return "Use budget=None, with which it draws, or engine='nesting'."
    if AutoEngine().is_exact_for(size):
        return "Use engine='auto', which solves graphs of this size exactly."
    if engine.draws:
        return "Let it draw more, or use engine='auto'."
    return "Raise its max_iter, or use engine='auto' or 'nesting'."


@dataclass(frozen=True, eq=False, kw_only=True)
class LikelihoodProblem(MatchingProblem):
    """The likelihood of labelled matchings, by exact or estimated inference."""

    objective: MatchingLikelihood
    method: str
    bounds: tuple[FloatArray, FloatArray] | None
    unit: float  # what the tolerance is multiplied by
    shares: FloatArray  # of the graphs, which sum to one
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
            is_free=self._is_free(coef),
        )

    def by_component(self) -> "LikelihoodProblem":
        """Return the mean over the components of the only graph, which are independent."""
        (table,) = self.objective.parts
        assert isinstance(table, FeatureTable)
        parts = [table.by_component()]
        shares = np.full(len(parts[0].members), 1.0 / len(parts[0].members))
        own = self.objective
        mean = MatchingLikelihood(parts, shares, own.alpha, own.engine, own.n_jobs)
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
            first = self._minimize(objective.settled(), np.zeros(len(self.scale)), few)
            if first.is_interrupted:
                return first
            start = first.coef
        begin = np.zeros(len(self.scale)) if start is None else start
        return self._minimize(objective, begin, options)

    def _minimize(
        self, objective: MatchingLikelihood, begin: FloatArray, options: dict[str, Any]
    ) -> Optimum:
        if self.bounds is not None:
            low, high = self.bounds
            options["bounds"] = (low * self.scale, high * self.scale)
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

    def coef(self, optimum: Any) -> FloatArray:
        """Return the coefficients in the units of the features, within the bounds."""
        coef = super().coef(optimum)
        # Undoing the scale may round past a bound.
        return coef if self.bounds is None else np.clip(coef, *self.bounds)

    def start_after(self, optimum: Any) -> FloatArray:
        """Return the start at the next alpha: the model, within the bounds."""
        return self.scaled(self.coef(optimum))


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
