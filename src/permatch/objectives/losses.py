"""Losses of a matching that decompose over its edges, as offsets to add to scores.

    loss(matching) = sum_i offsets[i, matching[i]]

A loss of this form turns loss-augmented inference, ``max loss(matching) + score(matching)``
over all matchings, into one assignment problem.
"""

from collections.abc import Callable

import numpy as np

from permatch._types import FloatArray, IntArray

#: From the labels (b, m) of a stack of graphs to offsets (b, m, m).
LossOffsets = Callable[[IntArray], FloatArray]


def hamming_offsets(labels: IntArray) -> FloatArray:
    """Return the offsets of the Hamming loss, the share of wrong rows.

    Parameters
    ----------
    labels : ndarray of shape (b, m)
        The true matching of every graph of a stack.

    Returns
    -------
    ndarray of shape (b, m, m)
        ``1 / m`` on every edge that is not in the true matching, 0 on those that are.

    Examples
    --------
    >>> import numpy as np
    >>> hamming_offsets(np.array([[1, 0]]))
    array([[[0.5, 0. ],
            [0. , 0.5]]])
    """
    n_graphs, size = labels.shape
    offsets = np.full((n_graphs, size, size), 1.0 / max(size, 1))
    np.put_along_axis(offsets, labels[:, :, None], 0.0, axis=2)
    return offsets
