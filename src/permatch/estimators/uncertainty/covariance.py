"""The covariance of estimated coefficients from derivatives at the optimum.

The objective is ``alpha/2 |w - prior|^2 + sum_k share_k loss_k(w)`` over units k, graphs or
queries, with shares that sum to one, H its Hessian at the optimum w, and n the number of
units.

    laplace    (n H)^-1: n times the objective is minus the logarithm of the posterior
    sandwich   H^-1 (B + alpha/n) H^-1,  B = C/(C-1) sum over clusters c of s_c s_c'
               s_c = sum over the units of c of share_k (gradient of loss_k
                     + alpha (w - prior))

The sum of the s_c is the gradient, 0.  B is the variance of the gradient whatever the
units of a cluster have in common; where the model is right and units are independent it is
about ``(H - alpha)/n``, and both covariances agree.  The penalty counts as a prior in
both.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.errors import InvalidOptionError, PrecisionError

# Of the largest eigenvalue, with every parameter in its own unit.
_SINGULAR = 1e-12
# Of the largest second derivative, and of 1, with every feature divided by its spread:
# what is less is rounding, as of a feature that is constant; the profile form of lists has
# few digits there.
_NOTHING = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class Derivatives:
    """The objective of scaled parameters at its optimum."""

    params: FloatArray  # (p,)
    value: float  # of the objective, with the penalty
    hessian: FloatArray  # with the penalty, (p, p)
    gradients: FloatArray  # of every unit, weighted by its share, without penalty, (n, p)
    shares: FloatArray  # of the units, (n,)
    penalties: FloatArray  # alpha, or 0 where there is no penalty, (p,)
    prior: FloatArray | float = 0.0  # what the penalty draws to, (p,)
    is_free: BoolArray  # whether the parameter may change, (p,)
    spread: FloatArray | float = 1.0  # of the features, in the scale of the parameters
    method: str = "exact"  # of the second derivatives
    is_exact: bool = True
    error: float = 0.0  # relative standard error of second derivatives from samples

    @property
    def loss(self) -> float:
        """The mean loss, without the penalty."""
        return self.value - 0.5 * float(self.penalties @ (self.params - self.prior) ** 2)

    @property
    def gradient(self) -> FloatArray:
        """The gradient of the objective, 0 at an optimum, (p,)."""
        return self.gradients.sum(axis=0) + self._pull

    @property
    def scores(self) -> FloatArray:
        """The gradient of every unit, the penalty divided among them, (n, p)."""
        return self.gradients + np.outer(self.shares, self._pull)

    @property
    def _pull(self) -> FloatArray:
        return self.penalties * (self.params - self.prior)


def laplace(found: Derivatives, inverse: FloatArray, nobs: float) -> FloatArray:
    """Return the inverse of the posterior's Hessian, (p, p).

    `inverse` is that of the objective's Hessian, as `invert` returns it.
    """
    return _within(found, inverse / nobs)


def sandwich(
    found: Derivatives, inverse: FloatArray, nobs: float, clusters: IntArray
) -> FloatArray:
    """Return the covariance that holds whatever the units of a cluster share, (p, p).

    `clusters` (n,) numbers the cluster of every unit from 0.
    """
    n_clusters = int(clusters.max(initial=-1)) + 1
    if n_clusters < 2:
        raise InvalidOptionError(
            "cov_type='sandwich' needs at least 2 clusters, whose differences it measures; "
            f"got {n_clusters}. Use cov_type='laplace', or clusters that are smaller."
        )
    sums = np.zeros((n_clusters, len(found.params)))
    np.add.at(sums, clusters, found.scores)
    free = found.is_free
    middle = n_clusters / (n_clusters - 1.0) * (sums.T @ sums)[np.ix_(free, free)]
    middle += np.diag(found.penalties[free]) / nobs
    return _within(found, inverse @ middle @ inverse)


def invert(found: Derivatives, names: tuple[str, ...]) -> FloatArray:
    """Return the inverse of the Hessian of the free parameters; refuse singular ones."""
    free = found.is_free
    hessian = found.hessian[np.ix_(free, free)]
    if not len(hessian):  # all are at a bound
        return hessian
    spread = np.broadcast_to(found.spread, free.shape)[free]
    own = np.diag(hessian) / spread**2
    is_nothing = np.abs(own) <= _NOTHING * max(np.abs(own).max(), 1.0)
    if is_nothing.any():
        _refuse_singular(np.flatnonzero(free)[is_nothing], names)
    sizes = np.sqrt(np.abs(np.diag(hessian)))
    values, vectors = linalg.eigh(hessian / np.outer(sizes, sizes))
    if values[0] < -np.sqrt(_SINGULAR):
        raise PrecisionError(
            "the coefficients must be at an optimum; the second derivatives there are not "
            "positive. With incomplete labels the fit may have ended at a saddle: raise "
            "alpha, or label more nodes."
        )
    if values[0] <= _SINGULAR * values[-1]:
        weakest = np.abs(vectors[:, 0])
        _refuse_singular(np.flatnonzero(free)[weakest > 0.1 * weakest.max()], names)
    inverse = (vectors / values) @ vectors.T / np.outer(sizes, sizes)
    return 0.5 * (inverse + inverse.T)


def log_determinant(found: Derivatives) -> float:
    """Return the logarithm of the determinant of the Hessian."""
    sign, value = np.linalg.slogdet(found.hessian)
    return float(value) if sign > 0 else np.nan


def _within(found: Derivatives, covariance: FloatArray) -> FloatArray:
    """Return the covariance of all parameters: 0 for those that are held."""
    full = np.zeros((len(found.params),) * 2)
    full[np.ix_(found.is_free, found.is_free)] = covariance
    return full


def _refuse_singular(which: IntArray, names: tuple[str, ...]) -> None:
    shown = ", ".join(names[k] for k in which[:5]) + ", ..." * (len(which) > 5)
    raise PrecisionError(
        "the data must determine all coefficients; they do not determine "
        f"{shown}, which are constant or depend on each other. Drop features, or use alpha "
        "above 0."
    )
