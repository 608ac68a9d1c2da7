"""Penalised least squares of grades on features, within queries.

With the centred features X_q and grades y_q of the D_q documents of a query,

    value(coef) = alpha |coef|^2 + sum_q weight_q |y_q - X_q coef|^2 / D_q

where the weights sum to one.  One eigendecomposition solves it for every alpha:

    gram   = sum_q weight_q X_q' X_q / D_q  =  U diag(e) U'
    moment = sum_q weight_q X_q' y_q / D_q
    coef   = U (U' moment / (e + alpha))
"""

import numpy as np
from scipy import sparse

from permatch._types import FloatArray
from permatch.errors import PrecisionError
from permatch.objectives.query_gram import cut_queries, gram_of_queries
from permatch.queries import QuerySet

# Documents copied at a time, about.
_BLOCK_SIZE = 4096


class QueryLeastSquares:
    """The objective above, as a function of coefficients of features divided by `scale`.

    Takes the sums of `query_moments`, O(n d^2) for n documents; then O(d^2) per alpha.
    """

    def __init__(
        self, square: float, gram: FloatArray, moment: FloatArray, scale: FloatArray
    ) -> None:
        self._square = float(square)
        self._moment = moment / scale
        self._gram = gram / np.outer(scale, scale)
        if not (np.isfinite(self._gram).all() and np.isfinite(self._moment).all()):
            raise PrecisionError(
                "features must be small enough for their squares to be finite; some are "
                "not. Divide the features by a large number, in both fit and predict."
            )
        self._eigenvalues, self._vectors = np.linalg.eigh(self._gram)

    def minimum(self, alpha: float) -> FloatArray:
        """Return the coefficients that minimise the objective at an alpha above 0."""
        shares = (self._vectors.T @ self._moment) / (
            np.maximum(self._eigenvalues, 0.0) + alpha
        )
        return self._vectors @ shares

    def value_and_grad(self, coef: FloatArray, alpha: float) -> tuple[float, FloatArray]:
        """Return the objective and its gradient at `coef`."""
        pull = self._gram @ coef
        value = self._square + coef @ (pull - 2.0 * self._moment) + alpha * coef @ coef
        return float(value), 2.0 * (pull - self._moment + alpha * coef)


def query_moments(
    queries: QuerySet, total_weight: float
) -> tuple[float, FloatArray, FloatArray]:
    """Return the sum of the squared grades, the gram and the moment of some queries."""
    weights = queries.weights / total_weight
    each = (weights / queries.lengths)[queries.owners]
    means = np.bincount(queries.owners, queries.grades) / queries.lengths
    grades = queries.grades - means[queries.owners]
    return float(each @ grades**2), *_moments(queries, each, grades)


def _moments(
    queries: QuerySet, each: FloatArray, grades: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return gram and moment, given the weight and the centred grade of every document."""
    documents, starts, owners = queries.documents, queries.starts, queries.owners
    if sparse.issparse(documents):
        loadings = np.sqrt(each / queries.lengths[owners])[:, None]
        gram = gram_of_queries(starts, each, loadings, documents)
        return gram, documents.T @ (each * grades)
    n_features = documents.shape[1]
    gram, moment = np.zeros((n_features, n_features)), np.zeros(n_features)
    cuts = cut_queries(starts, _BLOCK_SIZE)
    for first, last in zip(cuts[:-1], cuts[1:], strict=True):
        rows = slice(starts[first], starts[last])
        block = np.array(documents[rows], dtype=np.float64)
        sums = np.add.reduceat(block, starts[first:last] - starts[first], axis=0)
        means = sums / queries.lengths[first:last, None]
        # The weight of a document is split evenly between the two factors of a product.
        roots = np.sqrt(each[rows])
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks
            block -= means[owners[rows] - first]
            block *= roots[:, None]
            gram += block.T @ block
            moment += block.T @ (grades[rows] * roots)
    return gram, moment
