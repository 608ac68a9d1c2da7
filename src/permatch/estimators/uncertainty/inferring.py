"""From a fitted model and its training data to a posterior."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, refuse_masked
from permatch.errors import InvalidOptionError, PrecisionError
from permatch.estimators.convergence import warn_caller
from permatch.estimators.uncertainty.covariance import (
    Derivatives,
    invert,
    laplace,
    log_determinant,
    sandwich,
)
from permatch.estimators.uncertainty.posterior import Posterior
from permatch.queries import find_missing

COV_TYPES = ("sandwich", "laplace")

# Standard errors from the optimum that are taken for none.
_NEAR = 0.1
# Clusters per parameter below which the sandwich is known to be too narrow.
_CLUSTERS_PER_PARAMETER = 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Observed:
    """What a posterior is made from, besides derivatives."""

    alpha: float  # of the problem
    units: str  # "graphs", "components" or "queries"
    nobs: float  # the sum of their weights
    clusters: IntArray  # of every unit, numbered from 0
    names: tuple[str, ...]  # of the parameters
    has_likelihood: bool  # whether the objective is that of independent units
    why_not: str = ""  # if it is not
    notes: tuple[str, ...] = ()


def infer_posterior(
    model: Any, problem: Any, observed: Observed, cov_type: str
) -> Posterior:
    """Return the posterior of a fitted model, given the problem that it solved."""
    check_choice(cov_type, "cov_type", COV_TYPES)
    alpha = observed.alpha
    _require_optimum(model, alpha)
    if cov_type == "laplace" and not observed.has_likelihood:
        raise InvalidOptionError(
            f"cov_type='laplace' needs a likelihood of independent {observed.units}; "
            f"{observed.why_not}. Use cov_type='sandwich'."
        )
    coef = problem.scaled(model._weights())
    found: Derivatives = problem.derivatives(alpha, coef)
    inverse = invert(found, observed.names)
    if cov_type == "laplace":
        scaled = laplace(found, inverse, observed.nobs)
    else:
        scaled = sandwich(found, inverse, observed.nobs, observed.clusters)
    _compare(model, found, inverse, observed.nobs)
    units = problem.units()
    evidence = np.nan
    has_evidence = observed.has_likelihood and found.is_exact and found.is_free.all()
    if has_evidence and alpha > 0.0:
        evidence = log_evidence(found, observed.nobs)
    return Posterior(
        names=observed.names,
        params=np.array(model._weights()),
        covariance=units @ scaled @ units.T,
        is_fixed=~found.is_free,
        cov_type=cov_type,
        model=type(model).__name__,
        units=observed.units,
        nobs=observed.nobs,
        n_clusters=int(observed.clusters.max()) + 1,
        penalty=model._penalty(),
        llf=-observed.nobs * found.loss,
        log_evidence=evidence,
        hessian_method=found.method,
        notes=(*_notes(found, observed, cov_type), *observed.notes),
        has_likelihood=observed.has_likelihood,
    )


def log_evidence(found: Derivatives, nobs: float) -> float:
    """Return the logarithm of the probability of the data, coefficients integrated out.

    Laplace's approximation: n times the objective is minus the logarithm of likelihood
    times prior, up to constants of the prior.  Parameters without a penalty have a flat
    prior, whose unknown constant is left out.
    """
    n_free = len(found.params)
    penalties = found.penalties[found.penalties > 0.0]
    return float(
        -nobs * found.value
        + 0.5 * np.sum(np.log(nobs * penalties))
        - 0.5 * (log_determinant(found) + n_free * np.log(nobs))
        + 0.5 * (n_free - len(penalties)) * np.log(2.0 * np.pi)
    )


def number_clusters(clusters: Any, n_units: int, units: str) -> IntArray:
    """Return the cluster of every unit as a number from 0; by default its own."""
    if clusters is None:
        return np.arange(n_units)
    refuse_masked(clusters, "clusters", InvalidOptionError)
    found = np.asarray(clusters)
    if found.shape != (n_units,):
        raise InvalidOptionError(
            f"clusters must have one label for each of the {n_units} {units}; got shape "
            f"{found.shape}."
        )
    is_missing = find_missing(found)
    if is_missing.any():
        first = int(np.argmax(is_missing))
        raise InvalidOptionError(
            f"clusters must not be missing; that of {units[:-1]} {first} is "
            f"{found[first]}. Give it a cluster of its own."
        )
    if found.dtype.kind == "O":
        found = found.astype(str)
    return np.unique(found, return_inverse=True)[1].reshape(-1)


def feature_names(names: list[str] | None, n_features: int, prefix: str = "") -> list[str]:
    """Return the names of features, or x1, x2, ..."""
    own = [f"x{k + 1}" for k in range(n_features)] if names is None else names
    return [f"{prefix}{name}" for name in own]


def _require_optimum(model: Any, alpha: float) -> None:
    if alpha == 0.0 and not model.is_converged_:
        raise PrecisionError(
            "inference needs a fit that converged; this one, without a penalty, did not. "
            "If the data are separable there are no best coefficients: fit with alpha "
            "above 0. Otherwise raise max_iter."
        )


def _compare(model: Any, found: Derivatives, inverse: FloatArray, nobs: float) -> None:
    """Warn if the coefficients are not optimal for the data given."""
    step = inverse @ found.gradient[found.is_free]
    errors = np.sqrt(np.diag(inverse) / nobs)
    distance = np.max(np.abs(step) / errors, initial=0.0)
    if distance <= _NEAR:
        return
    if not model.is_converged_:
        raise PrecisionError(
            "inference needs a fit that converged; this one ended about "
            f"{distance:.2g} standard errors from its optimum. Raise max_iter, or lower "
            "tol."
        )
    warn_caller(
        f"the coefficients are about {distance:.2g} standard errors from the optimum of "
        "the data given, which seem not to be those of the fit. Pass the training data, "
        "with the same weights."
    )


def _notes(found: Derivatives, observed: Observed, cov_type: str) -> list[str]:
    notes = []
    if not found.is_free.all():
        held = [
            name
            for name, free in zip(observed.names, found.is_free, strict=True)
            if not free
        ]
        shown = ", ".join(held[:5]) + ", ..." * (len(held) > 5)
        notes.append(
            f"At a bound, so without an interval: {shown}. The others are given these."
        )
    if found.error > 0.0:
        notes.append(
            f"Second derivatives are estimates ({found.method}), with a relative standard "
            f"error of {100 * found.error:.2g} %."
        )
    elif not found.is_exact:
        notes.append(
            f"Inference is approximate; second derivatives are {found.method}, and "
            "standard errors are those of the approximation."
        )
    n_clusters = int(observed.clusters.max()) + 1
    if cov_type == "sandwich" and n_clusters < _CLUSTERS_PER_PARAMETER * len(found.params):
        notes.append(
            f"Only {n_clusters} clusters for {len(found.params)} parameters: intervals of "
            "the sandwich are likely to be too narrow. Compare cov_type='laplace'."
        )
    return notes
