"""Maximum a posteriori estimation: the likelihood, an engine and a quasi-Newton solver."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch._validation import check_count, check_jobs, refuse_masked
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.estimators.base import (
    BaseMatcher,
    check_data_set,
    check_feature_names,
    check_number,
)
from permatch.estimators.convergence import GradientPercent, warn_unless_converged
from permatch.estimators.noisy_fit import (
    EstimatedOptimum,
    engine_for_learning,
    minimize_estimated,
    warn_of_doubts,
)
from permatch.estimators.scaling import scaled_stacks
from permatch.graphs import BipartiteGraph
from permatch.inference import AbstractEngine, find_engine, require_marginals
from permatch.objectives import MatchingLikelihood
from permatch.optimizers import check_solver

_NAMED_BOUNDS = {"non-negative": (0.0, np.inf), "non-positive": (-np.inf, 0.0)}


class MAPMatching(BaseMatcher):
    """Learn the weights of a matching from labelled matches, by maximum a posteriori.

    Minimises, with phi the summed features of the labelled edges of a graph,

        alpha/2 |coef * scale|^2 + mean( log_partition - <coef, phi> ),

    which is convex; with an exact engine so are value and gradient exact.  Graphs too large
    for that are learnt from with an engine that approximates or draws.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, at least 0.  It acts on the coefficients of the scaled
        features, so it means the same in every unit.
    engine : str or engine object
        Computes log-partitions and marginals.  From 20 nodes on "nesting", which draws, or
        "bethe", which approximates, are far faster than exact engines.
    solver : {"lbfgs", "bfgs"}
        Limited-memory BFGS, or the full BFGS of the paper, which takes no bounds.
    bounds : None, "non-negative", "non-positive" or a pair (low, high)
        Limits of the coefficients in the units of the features: numbers, arrays of shape
        (d,), or None for no limit on that side.
    scale_features : bool
        Whether to divide every feature by its standard deviation over all training edges.
    tol : float
        Largest entry of the gradient, by the scaled coefficients, accepted as converged;
        with an engine that draws, entries that cannot be told from zero are accepted too.
    max_iter : int
        Most steps of the solver.
    warm_start : bool
        Whether to begin at the ``coef_`` of the last fit instead of at zero.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  No result depends on it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (d,)
        One coefficient per feature, in the units of the features.
    scale_ : ndarray of shape (d,)
        What every feature was divided by.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if `fit` was given any.
    n_iter_ : int
        Steps taken.
    is_converged_ : bool
        Whether the gradient got as small as `tol`, or cannot be told from zero.
    history_ : list of dict
        ``iteration``, ``loss``, ``grad_norm``, ``evaluations`` and ``seconds`` from the
        start on.
    gradient_error_ : float
        Largest standard error of an entry of the gradient at ``coef_``: 0 with exact
        inference, NaN with an engine that says nothing of its errors (`Bethe`).
    is_exact_ : bool
        Whether all inference of the fit was exact.

    Notes
    -----
    An evaluation costs one inference per graph.  A fit that ends early, at `max_iter` or by
    Ctrl-C, warns and keeps the best coefficients seen.

    Engines that draw (`HuberLaw`, `Nesting`, `SwapChain`, and `AutoEngine`
    beyond the exact sizes) get the same seed at every evaluation.  The fit begins with a
    16th of their draws and quadruples them wherever the gradient has come down to its own
    errors, up to as many as the engine was made for; if up to 64 times as many are enough
    for `tol`, it goes on to that.  ``gradient_error_`` is what remains: the standard
    deviation of the gradient over eight seeds at the end.  A
    thousand draws per graph are plenty: their errors are then about a thirtieth of those
    that come from having no more graphs than there are.

    `Bethe` makes the objective smooth, deterministic and consistent with its gradient, but
    it is another one: the coefficients are those that the Bethe approximation of the
    likelihood likes best.

    Examples
    --------
    Match points that have moved a little by two descriptors; the second is all noise.

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

    n_iter_: int
    is_converged_: bool
    history_: list[dict[str, float]]
    gradient_error_: float
    is_exact_: bool

    def __init__(
        self,
        alpha: float = 1e-2,
        *,
        engine: str | AbstractEngine = "auto",
        solver: str = "lbfgs",
        bounds: Any = None,
        scale_features: bool = True,
        tol: float = 1e-6,
        max_iter: int = 500,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.alpha = alpha
        self.engine = engine
        self.solver = solver
        self.bounds = bounds
        self.scale_features = scale_features
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(
        self,
        graphs: Any,
        matchings: Any,
        sample_weight: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        graphs : sequence of (m, m, d) arrays or BipartiteGraph
            Edge features; sizes m may differ between graphs.
        matchings : sequence of integer arrays of shape (m,)
            The true matching of every graph.
        sample_weight : array of shape (n,), optional
            Weight of every graph; 2 counts like the graph given twice.
        feature_names : sequence of str, optional
            A name for every feature, kept with the model.

        Returns
        -------
        MAPMatching
            Itself.
        """
        checked, labels, weights = check_data_set(graphs, matchings, sample_weight)
        names = check_feature_names(feature_names, checked[0].n_features)
        optimum = self._fit(checked, labels, weights)
        self.feature_names_ = names
        warn_unless_converged(optimum, type(self).__name__, self.tol)
        warn_of_doubts(optimum, find_engine(self.engine))
        return self

    def _fit(
        self, graphs: list[BipartiteGraph], labels: list[IntArray], weights: FloatArray
    ) -> EstimatedOptimum:
        """Learn from checked data and set the fitted attributes, without a warning."""
        alpha = check_number(self.alpha, "alpha")
        tol = check_number(self.tol, "tol", is_zero_allowed=False)
        max_iter = check_count(self.max_iter, "max_iter", 1)
        n_jobs = check_jobs(self.n_jobs)
        engine = engine_for_learning(find_engine(self.engine))
        require_marginals(engine)
        check_solver(self.solver, is_bounded=self.bounds is not None)
        n_features = graphs[0].n_features
        bounds = check_bounds(self.bounds, n_features)

        kept = np.nonzero(weights)[0]
        graphs, labels = [graphs[k] for k in kept], [labels[k] for k in kept]
        weights = weights[kept]
        for size in {graph.size for graph in graphs}:
            engine.check_size(size)  # before anything is computed
        stacks, scale = scaled_stacks(graphs, weights, is_scaled=self.scale_features)
        objective = MatchingLikelihood(stacks, labels, weights, alpha, engine, n_jobs)
        start = np.zeros(n_features)
        if self.warm_start and len(getattr(self, "coef_", ())) == n_features:
            start = self.coef_ * scale
        with progress_bar(type(self).__name__, 100, 0.0, bool(self.verbose)) as show:
            optimum = minimize_estimated(
                objective,
                start,
                method=self.solver,
                bounds=None if bounds is None else (bounds[0] * scale, bounds[1] * scale),
                tol=tol,
                max_iter=max_iter,
                on_iteration=None if show is None else GradientPercent(tol, show),
            )
        with np.errstate(over="ignore"):  # caught at once
            coef = optimum.coef / scale
        if not np.isfinite(coef).all():
            worst = int(np.argmin(np.isfinite(coef)))
            raise PrecisionError(
                f"coefficients must be finite; feature {worst} varies by only "
                f"{scale[worst]:.2g}, too little for float64. Give it in a smaller unit."
            )
        self.coef_ = coef
        if bounds is not None:  # undoing the scale may round past a bound
            self.coef_ = np.clip(self.coef_, *bounds)
        self.scale_ = scale
        self.n_features_in_ = n_features
        self.n_iter_ = optimum.n_iter
        self.is_converged_ = optimum.is_converged
        self.history_ = optimum.history
        self.gradient_error_ = optimum.gradient_error
        self.is_exact_ = optimum.is_exact
        return optimum


def check_bounds(bounds: Any, n_features: int) -> tuple[FloatArray, FloatArray] | None:
    """Return lowest and highest coefficients, each (d,), or None without bounds."""
    if bounds is None:
        return None
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
            "the low bound of a coefficient must not be above its high bound, and both "
            f"must be numbers; feature {worst} has low {sides[0][worst]} and high "
            f"{sides[1][worst]}."
        )
    return sides[0], sides[1]
