"""Probabilities with intervals that carry the uncertainty of the weights.

A probability p changes with the weights w by its gradient g.  With Sigma the covariance
of w,

    standard error of p        = sqrt(g' Sigma g)
    standard error of logit p  = sqrt(g' Sigma g) / (p (1 - p))

The interval is symmetric on the logit scale (the delta method), so it stays within 0 and
1.  With ``Sigma = R R'`` the columns of R are the directions in which p is differentiated;
no gradient of a probability by all weights is held.  Draws of w check this: quantiles of
the probabilities need no derivatives, but many inferences.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from permatch._types import FloatArray, Seed
from permatch._validation import check_count, check_rng
from permatch.errors import InvalidOptionError
from permatch.estimators.checks import check_number
from permatch.estimators.uncertainty.posterior import Posterior, normal_reach

# Directions at a time: what is held are eight numbers per probability.
_AT_ONCE = 8
# Nearer to 0 or 1 a logit has lost its digits.
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class MarginalIntervals:
    """Probabilities, and intervals due to the uncertainty of the weights.

    The arrays have the form that `predict_marginals`, or `rank_marginals`, returns
    without `uncertainty`.

    Attributes
    ----------
    marginals : ndarray
        The probabilities at the estimated weights.
    standard_errors : ndarray
        Their standard errors.
    low, high : ndarray
        Ends of the intervals.
    level : float
        Probability that an interval holds the probability of the true weights.
    method : {"delta", "draws", "delta, exact samples", "draws, approximate"}
        How the intervals were found.  "delta, exact samples": derivatives are estimates,
        for components too large for exact ones.  "draws, approximate": the probabilities
        are those of an engine that is not exact, and their errors are not in the intervals.
    unmatched_left, unmatched_right : MarginalIntervals or None
        Of matchings: the same for the probability of every left, or right, node to stay
        unmatched, arrays (n,) and (k,).

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> graphs = rng.normal(size=(40, 3, 3, 1)) + 2.0 * np.eye(3)[:, :, None]
    >>> model = pm.MAPMatching(alpha=0.01).fit(graphs, [[0, 1, 2]] * 40)
    >>> posterior = model.inference(graphs, [[0, 1, 2]] * 40)
    >>> (found,) = model.predict_marginals(graphs[:1], uncertainty=posterior)
    >>> found.marginals.shape, found.level, found.method
    ((3, 3), 0.95, 'delta')
    >>> bool(np.all((found.low < found.marginals) & (found.marginals < found.high)))
    True
    """

    marginals: FloatArray
    standard_errors: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    method: str
    unmatched_left: "MarginalIntervals | None" = None
    unmatched_right: "MarginalIntervals | None" = None


def check_wanted(
    uncertainty: Any, weights: FloatArray, level: Any, n_draws: Any
) -> tuple[Posterior, float, int]:
    """Return what intervals are asked for: a posterior, a level and a number of draws."""
    posterior = _check_uncertainty(uncertainty, weights)
    return posterior, _check_level(level), _check_draws(n_draws)


def _check_uncertainty(uncertainty: Any, weights: FloatArray) -> Posterior:
    """Return the posterior of a model with these weights."""
    if not isinstance(uncertainty, Posterior):
        raise InvalidOptionError(
            "uncertainty must be a Posterior, as model.inference(...) returns, or None; "
            f"got {type(uncertainty).__name__}."
        )
    if uncertainty.params.shape != weights.shape or not np.allclose(
        uncertainty.params, weights, rtol=1e-6, atol=1e-9
    ):
        raise InvalidOptionError(
            "uncertainty must be the posterior of this model; its params are others than "
            "the model's coefficients. Call inference on this model, after fit."
        )
    return uncertainty


def _check_level(level: Any) -> float:
    """Return a probability between 0 and 1, both excluded."""
    found = check_number(level, "level", is_zero_allowed=False)
    if found >= 1.0:
        raise InvalidOptionError(
            f"level must be below 1: 0.95 gives 95 % intervals; got {level!r}."
        )
    return found


def delta_intervals(
    marginals: FloatArray,
    posterior: Posterior,
    differentiate: Callable[[FloatArray], FloatArray],
    level: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return standard errors and the ends of intervals, all like `marginals` (n,).

    `differentiate` takes directions (p, k) of the weights and returns the derivatives
    (n, k) of the marginals.
    """
    root = posterior.root()
    squares = np.zeros(marginals.shape)
    for first in range(0, root.shape[1], _AT_ONCE):
        squares += np.square(differentiate(root[:, first : first + _AT_ONCE])).sum(axis=1)
    errors = np.sqrt(squares)
    reach = normal_reach(1.0 - level)
    inner = np.clip(marginals, _LEAST, 1.0 - _LEAST)
    span = reach * errors / (inner * (1.0 - inner))
    ends = []
    for sign in (-1.0, 1.0):
        moved = expit(logit(inner) + sign * span)
        # Where there is no logit to speak of: the plain interval.
        plain = np.clip(marginals + sign * reach * errors, 0.0, 1.0)
        ends.append(np.where(inner == marginals, moved, plain))
    return errors, np.minimum(ends[0], marginals), np.maximum(ends[1], marginals)


def drawn_intervals(
    posterior: Posterior,
    infer: Callable[[FloatArray], FloatArray],
    level: float,
    n_draws: int,
    rng: Seed,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return standard deviations and quantiles over draws of the weights.

    `infer` takes weights (p,) and returns marginals (n,).
    """
    weights: Iterable[FloatArray] = posterior.sample(n_draws, check_rng(rng))
    drawn = np.array([infer(own) for own in weights])
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(drawn, [tail, 1.0 - tail], axis=0)
    return drawn.std(axis=0, ddof=1), low, high


def _check_draws(n_draws: Any) -> int:
    """Return how many draws to take: 0, or enough for quantiles."""
    found = check_count(n_draws, "n_draws", 0)
    if 0 < found < 20:
        raise InvalidOptionError(
            f"n_draws must be 0, for the delta method, or at least 20; got {n_draws}."
        )
    return found
