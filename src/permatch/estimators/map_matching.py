"""Maximum a posteriori estimation: the likelihood, an engine and a smooth solver."""

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from permatch.estimators.checks import with_weight
from permatch.estimators.convergence import warn_caller
from permatch.estimators.fit_plan import (
    EVALUATIONS,
    FitPlan,
    plan_fit,
    warn_if_approximate,
)
from permatch.estimators.likelihood_problem import (
    LikelihoodProblem,
    check_bounds,
    not_exact,
)
from permatch.estimators.linear_matcher import Data, LinearMatcher
from permatch.estimators.matching_parts import GraphsInParts
from permatch.estimators.prior import check_prior
from permatch.estimators.problem import LinearProblem
from permatch.estimators.scaling import design
from permatch.estimators.uncertainty.of_matchings import MatchingInference
from permatch.inference import (
    AbstractEngine,
    AutoEngine,
    find_engine,
    require_marginals,
)
from permatch.inference._options import check_budget
from permatch.objectives import MatchingLikelihood, Parameters
from permatch.optimizers import (
    NEWTON,
    check_solver,
)

# The gradient is a sum over nodes: beyond so many, its rounding errors exceed any `tol`.
_MANY_NODES = 100


@dataclass(eq=False, repr=False)
class MAPMatching(MatchingInference, LinearMatcher):
    """Learn to match from labelled matchings, by maximum a posteriori.

    Minimises, with phi the summed features of the labelled edges of a graph,

        alpha/2 |(coef - prior_coef) * scale|^2 + mean( log_partition - <coef, phi> ),

    which is convex; phi includes unmatched nodes, whose scores are learned too where there
    are any.  The intercept of these scores is not penalised.  Value and gradient are exact
    with an exact engine; large graphs need an engine that approximates or samples.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, at least 0.  It acts on the coefficients of the scaled
        features, so it does not depend on their units.
    prior_coef : float, array of shape (d,) or mapping from names of features to floats
        What the penalty draws the coefficients to, in the units of the features: those you
        would use without labels, say -1 for distances.  Features that a mapping leaves out
        are drawn to 0.  See the notes.
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
        derivatives are exact and need exact inference; it builds the whole Hessian (no
        conjugate gradients, in spite of the name).  The last two support no bounds.
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
    alpha_ : float
        The alpha of the fit.
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

    With ``prior_coef=0`` a strong penalty does not give back the scores that were there
    before learning: coefficients shrink, but in other proportions.  Where new graphs may
    differ from labelled ones, draw to the scores that work without labels.  As their scale
    counts too, take that at which they fit the labels best: the coefficient of a model
    whose only feature is their sum.

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
    prior_coef: Any = 0.0
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
        prior = check_prior(self.prior_coef, self._names, parameters)
        if isinstance(data, GraphsInParts):
            _check_sizes(engine, data.sizes, parameters)
            shards, found = data.settled(parameters, is_scaled=self.scale_features)
            prior *= found.scale
            objective = data.likelihood(shards, parameters, engine, n_jobs, prior)
            size, passes = data.mean_size, data.shards.passes
            shares = np.full(data.n_graphs, 1.0 / data.n_graphs)
        else:
            graphs, labels, weights = data = with_weight(data)
            _check_sizes(engine, {g.size for g in graphs if g.is_square}, parameters)
            found = design(data, parameters, is_scaled=self.scale_features)
            prior *= found.scale
            objective = MatchingLikelihood(
                found.parts, found.shares, 0.0, engine, n_jobs, prior
            )
            size, passes = float(weights @ [graph.size for graph in graphs]), None
            shares = found.shares
        if self.solver == NEWTON and not objective.is_exact:
            raise not_exact(engine)
        return LikelihoodProblem(
            scale=found.scale,
            passes=passes,
            shift=found.shift,
            prior=prior,
            objective=objective,
            method=self.solver,
            bounds=bounds,
            unit=max(1.0, size / _MANY_NODES),
            shares=shares,
            spread=found.spread,
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
        warn_if_approximate(self.engine_report_, find_engine(self.engine))
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
