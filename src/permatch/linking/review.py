"""Which pairs a person should look at first: what knowing about them saves."""

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch.decoding.bayes import LinkCosts
from permatch.kernels.review_gains import add_gains
from permatch.problems import Structure

# Pairs less probable than this neither gain nor lose anything that shows.
_LEAST = 1e-6
# Gains that differ by less differ by rounding, which is not the same on all machines.
_DIGITS = 9


def largest_first(gains: FloatArray, rows: IntArray) -> IntArray:
    """Return the places of gains above 0, the largest first, equal ones by their rows."""
    order = np.lexsort((rows, -gains.round(_DIGITS)))
    return order[gains[order] > 0.0]


def review_gains(
    structure: Structure, chances: FloatArray, costs: LinkCosts, *, is_one_to_one: bool
) -> FloatArray:
    """Return by how much the expected cost falls if the truth about a pair is known.

    Parameters
    ----------
    structure : Structure
        The pairs.
    chances : ndarray of shape (n_edges,)
        Their probabilities.
    costs : LinkCosts
        Of missed and false links.
    is_one_to_one : bool
        False where records may have several links: pairs then count by themselves.
    """
    gains = np.minimum(costs.missed * chances, costs.false * (1.0 - chances))
    gains = np.maximum(gains, 0.0)
    if is_one_to_one:
        limits = float(costs.missed), float(costs.false), _LEAST
        edges = np.ascontiguousarray(chances)
        add_gains(structure.starts, structure.all_edges, edges, *limits, gains)
        add_gains(*structure.by_right, edges, *limits, gains)
    return gains
