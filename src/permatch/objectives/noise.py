"""How far errors of the marginals may have moved a gradient.

A gradient by the coefficients is a weighted sum of expected features,

    gradient[k] = const + sum_n weight_n sum_ij marginals_n[i, j] x_n[i, j, k],

so the standard errors ``s`` of the marginals carry over.  Graphs are drawn independently of
each other, but the edges of one graph are not: those of a row exclude each other, and rows
change together, mostly two at a time, since a matching differs from another in at least two
rows.  With features centred in every row, which changes no difference of matchings,

    variance[k] = 4 sum_n weight_n^2 sum_ij s_n[i, j]^2 ( x_n[i, j, k] - mean_n[i, k] )^2

is enough for independent draws, whose rows each halve what single edges would give, and
for pairs of rows that exchange their columns, which double it.
"""

import numpy as np

from permatch._types import FloatArray

# Two for the edges of a row, two for rows that change in pairs.
_CORRELATION = 4.0


def gradient_variances(
    features: FloatArray, weights: FloatArray, marginals: FloatArray, errors: FloatArray
) -> FloatArray:
    """Return the variance of every entry of the gradient that comes from the marginals.

    Parameters
    ----------
    features : ndarray of shape (b, m, m, d)
        Edge features of graphs of one size.
    weights : ndarray of shape (b,)
        Weight of every graph.
    marginals, errors : ndarray of shape (b, m, m)
        Marginals and their standard errors.

    Returns
    -------
    ndarray of shape (d,)
        Squares of standard errors.

    Examples
    --------
    One graph of two nodes, whose two matchings are told apart by the feature.

    >>> import numpy as np
    >>> features = np.array([[[1.0, 0.0], [0.0, 1.0]]])[..., None]
    >>> half = np.full((1, 2, 2), 0.5)
    >>> np.sqrt(gradient_variances(features, np.ones(1), half, 0.01 * np.ones((1, 2, 2))))
    array([0.02])
    """
    total = np.zeros(features.shape[3])
    for x, weight, table, error in zip(features, weights, marginals, errors, strict=True):
        shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
        centred = x - np.einsum("ij,ijd->id", shares, x)[:, None]
        np.square(centred, out=centred)
        total += (weight**2) * np.einsum("ij,ijd->d", error**2, centred)
    return _CORRELATION * total
