"""Maximum margin estimation: the structured hinge and a bundle solver."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from permatch.errors import InvalidMatchingError
from permatch.estimators.checks import with_weight
from permatch.estimators.linear_matcher import Data, LinearMatcher
from permatch.estimators.matching_parts import GraphsInParts
from permatch.estimators.prior import check_prior
from permatch.estimators.problem import MarginProblem
from permatch.estimators.scaling import design
from permatch.inference import AbstractEngine, find_engine
from permatch.objectives import MatchingHinge
from permatch.objectives.sharded import ShardedHinge


@dataclass(eq=False, repr=False)
class MaxMarginMatching(LinearMatcher):
    """Learn to match so that labelled matchings win by a margin.

    Minimises, with phi(pi) the summed features of the edges and unmatched nodes of matching
    pi and y the labelled matching of a graph, which must be complete,

        alpha/2 |(coef - prior_coef) * scale|^2
            + mean( max_pi hamming(pi, y) + <coef, phi(pi) - phi(y)> ),

    where hamming is the share of left nodes in which two matchings differ: the further a
    matching is from the label, the larger the margin.  The penalty acts on the intercept of
    unmatched scores too.  The maximum is one assignment problem per
    graph, so graphs may be far larger than an exact likelihood allows.

    Parameters
    ----------
    alpha : float
        Strength of the penalty, above 0.  It acts on the coefficients of the scaled
        features, so it does not depend on their units.
    prior_coef : float, array of shape (d,) or mapping from names of features to floats
        What the penalty draws the coefficients to, as in `MAPMatching`.
    unmatched : {"auto", "larger", "any"}
        Which nodes may stay unmatched: "larger", those left over on the larger side of an
        unequal graph; "any", all, with scores that are learned.  "auto" is "any" if labels
        leave other nodes unmatched than those left over.
    scale_features : bool
        Divide every feature by its standard deviation over all training edges or nodes.
    tol : float
        Duality gap to reach, as a fraction of the objective.
    max_iter : int
        Maximum rounds of the bundle solver.
    warm_start : bool
        Start from the ``coef_`` of the last fit too, not only from zero.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    engine : str or engine object
        Computes marginals and log-likelihoods of the fitted model; not used by `fit` and
        ``predict(decode="mode")``.
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
    gap_ : float
        The duality gap reached, as a fraction of the objective: no coefficients have an
        objective lower by more than that.
    alpha_ : float
        The alpha of the fit.
    n_iter_ : int
        Number of rounds.
    is_converged_ : bool
        Whether the gap reached `tol`.
    history_ : list of dict
        ``iteration``, ``loss`` (the best objective so far), ``lower_bound``, ``gap``,
        ``evaluations`` and ``seconds``.

    Notes
    -----
    This objective does not model probabilities: `predict_marginals`, `sample` and
    `log_likelihood` use the learned scores as log-weights, and their probabilities are not
    calibrated.  Use `MAPMatching` where probabilities matter.

    A fit that ends at `max_iter` or by Ctrl-C warns and keeps the best coefficients.

    References
    ----------
    T. S. Caetano, J. J. McAuley, L. Cheng, Q. V. Le and A. J. Smola, "Learning graph
    matching", IEEE Transactions on Pattern Analysis and Machine Intelligence 31 (2009).

    Examples
    --------
    Match points that have moved slightly, by two descriptors; the second is pure noise.

    >>> import numpy as np
    >>> from permatch.estimators import MaxMarginMatching
    >>> rng = np.random.default_rng(0)
    >>> graphs, matchings = [], []
    >>> for _ in range(40):
    ...     left, matching = rng.normal(size=(6, 2)), rng.permutation(6)
    ...     right = np.empty((6, 2))
    ...     right[matching] = left + [0.1, 2.0] * rng.normal(size=(6, 2))
    ...     graphs.append((left[:, None] - right[None]) ** 2)
    ...     matchings.append(matching)
    >>> model = MaxMarginMatching(alpha=0.01).fit(graphs[:20], matchings[:20])
    >>> model.score(graphs[20:], matchings[20:]) > 0.7
    True
    >>> model.gap_ <= 1e-3
    True
    """

    alpha: float = 1e-2
    _: KW_ONLY
    prior_coef: Any = 0.0
    unmatched: str = "auto"
    scale_features: bool = True
    tol: float = 1e-3
    max_iter: int = 1000
    warm_start: bool = False
    n_jobs: int | None = None
    engine: str | AbstractEngine = "auto"
    verbose: bool = False
    gap_: float = field(init=False)

    _is_zero_allowed = False

    def _problem(self, data: Data, n_jobs: int) -> MarginProblem:
        find_engine(self.engine)  # a misspelt one is better known before the fit
        if isinstance(data, GraphsInParts):
            _require_complete(data.first("incomplete"))
            shards, found = data.settled(self._parameters, is_scaled=self.scale_features)
            hinge, passes = ShardedHinge(data.hinge(shards, n_jobs)), data.shards.passes
        else:
            passes = None
            data = with_weight(data)
            is_open = (k for k, known in enumerate(data[1]) if not known.is_complete)
            _require_complete(next(is_open, None))
            found = design(data, self._parameters, is_scaled=self.scale_features)
            hinge = MatchingHinge(found.parts, found.shares, n_jobs=n_jobs)
        prior = check_prior(self.prior_coef, self._names, self._parameters)
        return MarginProblem(
            scale=found.scale,
            passes=passes,
            shift=found.shift,
            prior=prior * found.scale,
            risk_and_subgradient=hinge.risk_and_subgradient,
        )

    def _adopt(self, problem: Any, optimum: Any) -> None:
        super()._adopt(problem, optimum)
        self.gap_ = optimum.gap


def _require_complete(incomplete: int | None) -> None:
    """Refuse graphs of which one has an incomplete label."""
    if incomplete is not None:
        raise InvalidMatchingError(
            "MaxMarginMatching needs to know the partner of every node, or that it has "
            f"none; the label of graph {incomplete} is incomplete. Use MAPMatching."
        )
