"""The coefficients that a penalty draws to."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidOptionError
from permatch.objectives import Parameters


def check_prior(
    prior_coef: Any, names: list[str] | None, parameters: Parameters
) -> FloatArray:
    """Return what the penalty draws every parameter to, in the units of the features.

    `prior_coef` is that of edge features; all else is drawn to 0.
    """
    n_features = parameters.n_edge
    required = (
        f"prior_coef must be a number, an array of shape ({n_features},) or a mapping from "
        "names of features to numbers, all finite"
    )
    if isinstance(prior_coef, Mapping):
        prior_coef = _by_name(prior_coef, names)
    refuse_masked(prior_coef, "prior_coef", InvalidOptionError)
    try:
        given = np.asarray(prior_coef, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(f"{required}; got {prior_coef!r}.") from err
    if given.shape not in ((), (n_features,)) or isinstance(prior_coef, bool | str):
        shown = repr(prior_coef) if given.ndim == 0 else f"shape {given.shape}"
        raise InvalidOptionError(f"{required}; got {shown}.")
    if not np.isfinite(given).all():
        worst = int(np.argmin(np.isfinite(given)))
        place = f" for feature {worst}" if given.ndim else ""
        raise InvalidOptionError(f"{required}; got {given.ravel()[worst]}{place}.")
    prior = np.zeros(len(parameters))
    prior[:n_features] = given
    return prior


def _by_name(given: Mapping[Any, Any], names: list[str] | None) -> list[Any]:
    """Return a number per feature, 0 for those that are not named."""
    if names is None:
        raise InvalidOptionError(
            "prior_coef names features, but their names are not known; pass feature_names "
            "to fit, or an array."
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        raise InvalidOptionError(
            f"prior_coef must name features of the data; {unknown[0]!r} is none of "
            f"{', '.join(names)}. Correct the name, or leave it out."
        )
    return [given.get(name, 0.0) for name in names]
