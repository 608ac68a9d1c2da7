"""The distance of predicted matchings from true ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._types import IntArray
from permatch._validation import check_weights, refuse_masked
from permatch.decoding.bayes import ABSTAINED
from permatch.errors import InvalidMatchingError
from permatch.labels import UNKNOWN


def hamming_loss(
    true: Sequence[Any], predicted: Sequence[Any], *, sample_weight: Any = None
) -> float:
    """Return the share of left nodes with a wrong partner, averaged over graphs.

    A partner instead of none is wrong, and so is none instead of a partner, or leaving the
    node to a person.

    Parameters
    ----------
    true, predicted : sequences of matchings
        One integer array per graph: the right node of every left node, -1 if it has none.
        Nodes whose true partner is -2, unknown, are left out; a predicted -2
        (``pm.ABSTAINED``) leaves the node to a person.
    sample_weight : array of shape (n,), optional
        Weight of every graph in the average.

    Returns
    -------
    float
        Between 0 and 1; a graph without known nodes counts as correct.

    Examples
    --------
    >>> hamming_loss([[0, 1, 2], [1, 0]], [[0, 2, 1], [1, 0]])
    0.3333333333333333
    """
    if len(true) != len(predicted) or len(true) == 0:
        raise InvalidMatchingError(
            "true and predicted must be non-empty lists of equal length; got "
            f"{len(true)} and {len(predicted)}."
        )
    losses = []
    for k, pair in enumerate(zip(true, predicted, strict=True)):
        size = len(pair[0])
        a, b = (
            check_matching(pair[0], size, k, UNKNOWN),
            check_matching(pair[1], size, k, ABSTAINED),
        )
        wrong = (a != b)[a != UNKNOWN]
        losses.append(wrong.mean() if len(wrong) else 0.0)
    return float(check_weights(sample_weight, len(losses)) @ np.array(losses))


def check_matching(matching: Any, size: int, graph: int, least: int) -> IntArray:
    """Return a matching (size,) of entries of at least `least`, no partner taken twice."""
    refuse_masked(matching, "a matching", InvalidMatchingError)
    array = np.asarray(matching)
    if array.size == 0:
        array = array.astype(np.intp)  # NumPy takes an empty list for floats
    if array.dtype.kind not in "iu" or array.shape != (size,):
        raise InvalidMatchingError(
            f"a matching must be an integer array with one entry per left node, {size}; "
            f"got dtype {array.dtype} and shape {array.shape} for graph {graph}."
        )
    partners = array[array >= 0]
    if (array < least).any() or len(np.unique(partners)) < len(partners):
        raise InvalidMatchingError(
            "a matching must hold right nodes, each at most once, or -1 for unmatched; got "
            f"{array.tolist() if size <= 20 else 'others'} for graph {graph}. Nodes are "
            "counted from 0."
        )
    return array.astype(np.intp)
