"""Ridge regression of grades on features, query by query: a baseline without permutations.

With features and grades less their means within the query, X_q and y_q, and D_q documents,

    minimise  alpha |coef|^2 + mean over queries of |y_q - X_q coef|^2 / D_q,

which one eigendecomposition solves for all alphas:

    gram = mean X_q' X_q / D_q = U diag(e) U'     coef = U (U' moment / (e + alpha)).
"""

from collections.abc import Sequence

import numpy as np

from permatch._types import FloatArray
from reproduce.experiments.letor_folds import Lists


def ridge_path(lists: Lists, alphas: Sequence[float]) -> FloatArray:
    """Return the coefficients at every alpha.

    Parameters
    ----------
    lists : Lists
        What to learn from.
    alphas : sequence of float
        Strengths of the penalty, above 0.

    Returns
    -------
    ndarray of shape (len(alphas), d)
        One row per alpha.
    """
    lengths = np.diff(lists.starts)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    means = np.add.reduceat(lists.X, lists.starts[:-1], axis=0) / lengths[:, None]
    grades = lists.y - (np.add.reduceat(lists.y, lists.starts[:-1]) / lengths)[owners]
    # The weight of a document is split evenly between the two factors of a product.
    weights = np.sqrt(1.0 / (lengths * len(lengths)))[owners]
    centred = (lists.X - means[owners]) * weights[:, None]
    eigenvalues, vectors = np.linalg.eigh(centred.T @ centred)
    moment = vectors.T @ (centred.T @ (grades * weights))
    shrunk = moment / (np.maximum(eigenvalues, 0.0) + np.asarray(alphas)[:, None])
    return shrunk @ vectors.T
