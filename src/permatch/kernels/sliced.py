"""Kernels that may take long on one graph, run in slices: Ctrl-C is heard between two.

The compiled functions do the same in one go, to the last bit.  Those are for many small
graphs, these for large ones.
"""

import numpy as np

from permatch._parallel import run_slices
from permatch._types import FloatArray
from permatch.kernels import ryser, subset_dp

# States or subsets of a first slice.
_FEW = 1 << 16


def fill_forward(weights: FloatArray, forward: FloatArray) -> None:
    """Fill the forward table (2^m) of `subset_dp`."""

    def sweep(first: int, last: int) -> None:
        subset_dp.sweep_forward(weights, forward, first, last)

    run_slices(sweep, len(forward), _FEW)


def infer_by_subsets(weights: FloatArray, marginals: FloatArray) -> float:
    """Fill `marginals` and return the permanent, by `subset_dp`."""
    n_states = 1 << len(weights)
    if n_states <= _FEW:
        return float(subset_dp.infer_one(weights, marginals))
    forward, backward = np.empty(n_states), np.empty(n_states)
    fill_forward(weights, forward)
    marginals[:] = 0.0

    def sweep(first: int, last: int) -> None:
        subset_dp.sweep_back(weights, forward, backward, marginals, first, last)

    run_slices(sweep, n_states, _FEW)
    permanent = float(forward[-1])
    subset_dp.to_marginals(weights, permanent, marginals)
    return permanent


def permanent_by_ryser(weights: FloatArray) -> tuple[float, float]:
    """Return the permanent and an estimate of its relative rounding error."""
    m = len(weights)
    if m == 0:
        return 1.0, 0.0  # the formula leaves out the empty set, here the only one
    columns = np.ascontiguousarray(weights.T)
    row_sums, totals = np.zeros(m), np.zeros(2)

    def add(first: int, last: int) -> None:
        ryser.add_terms(columns, row_sums, totals, first + 1, last + 1)

    run_slices(add, (1 << m) - 1, _FEW)
    value, magnitude = totals.tolist()
    if not value > 0.0:
        return value, np.inf
    return value, m * float(np.finfo(np.float64).eps) * magnitude / value
