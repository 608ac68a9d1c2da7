"""The distance of predicted matchings from true ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._validation import check_matchings, check_weights
from permatch.errors import InvalidMatchingError


def hamming_loss(
    true: Sequence[Any], predicted: Sequence[Any], *, sample_weight: Any = None
) -> float:
    """Return the share of rows matched to a wrong column, averaged over graphs.

    Parameters
    ----------
    true, predicted : sequences of matchings
        One permutation per graph; sizes may differ between graphs.
    sample_weight : array of shape (n,), optional
        Weight of every graph in the average.

    Returns
    -------
    float
        Between 0 and 1; an empty graph counts as correct.

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
    for a, b in zip(true, predicted, strict=True):
        size = len(a)
        wrong = check_matchings(a, size) != check_matchings(b, size)
        losses.append(wrong.mean() if size else 0.0)
    return float(check_weights(sample_weight, len(losses)) @ np.array(losses))
