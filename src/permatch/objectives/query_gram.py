"""Derivatives by coefficients from those by scores, per query.

    hessian   = sum over queries of X' ( diag(variances) - loadings loadings' ) X
    gradients = X' slope, query by query

with X the documents of the query.  Blocks of whole queries bound the memory.
"""

from typing import Any

import numpy as np
from scipy import sparse

from permatch._parallel import run_tasks
from permatch._types import FloatArray

#: Documents copied at a time, about: few enough for the cache.
_BLOCK_SIZE = 2048
# Sums that are made side by side.
_SUMS = 8


def gram_of_queries(
    starts: np.ndarray,
    variances: FloatArray,
    loadings: FloatArray,
    documents: Any,
    n_jobs: int = 1,
) -> FloatArray:
    """Return the second derivatives by the coefficients of a linear score, (d, d).

    Takes the `starts` (q + 1,) of the queries, `variances` (n,), `loadings` (n, k) and
    `documents` (n, d), dense or sparse rows.  The result is symmetric and float64.
    """
    n_features = documents.shape[1]
    blocks = cut_queries(starts, _BLOCK_SIZE)
    sums = np.zeros((min(_SUMS, len(blocks) - 1), n_features, n_features))

    def add(k: int) -> None:
        # The same blocks for every sum, in the same order, on any number of threads.
        for first, last in zip(blocks[k:-1:_SUMS], blocks[k + 1 :: _SUMS], strict=True):
            rows = slice(starts[first], starts[last])
            own = starts[first : last + 1] - starts[first]
            _add_block(own, variances[rows], loadings[rows], documents[rows], sums[k])

    run_tasks(add, len(sums), n_jobs)
    result = sums.sum(axis=0)
    return 0.5 * (result + result.T)


def _add_block(
    starts: np.ndarray,
    variances: FloatArray,
    loadings: FloatArray,
    block: Any,
    total: FloatArray,
) -> None:
    """Add the second derivatives of some queries."""
    roots = np.sqrt(variances)[:, None]
    summed = _query_sums(starts, loadings) @ block
    if sparse.issparse(block):
        scaled = block.multiply(roots).tocsr()
        total += (scaled.T @ scaled).toarray()
        summed = summed.toarray()
    else:
        scaled = block * roots
        total += scaled.T @ scaled
    total -= summed.T @ summed


def gradients_of_queries(
    starts: np.ndarray, slope: FloatArray, documents: Any
) -> FloatArray:
    """Return the part of every query in the gradient by the coefficients, (q, d).

    Takes the `slope` (n,) by the scores and `documents` (n, d), dense or sparse rows.
    """
    summed = _query_sums(np.asarray(starts), slope[:, None]) @ documents
    return summed.toarray() if sparse.issparse(summed) else np.asarray(summed)


def dense_rows(documents: Any, first: int, last: int) -> FloatArray:
    """Return a copy of some documents as plain rows of float64."""
    rows = documents[first:last]
    rows = rows.toarray() if sparse.issparse(rows) else rows
    return np.ascontiguousarray(rows, dtype=np.float64)


def cut_queries(starts: np.ndarray, size: int) -> np.ndarray:
    """Return the borders of runs of queries of about `size` documents each."""
    n_queries = len(starts) - 1
    if starts[-1] <= size:
        return np.array([0, n_queries])
    borders = np.searchsorted(starts, np.arange(0, starts[-1] + size, size))
    return np.unique(np.clip(borders, 0, n_queries))


def _query_sums(starts: np.ndarray, loadings: FloatArray) -> sparse.csc_array:
    """Return the matrix that multiplies rows by loadings and sums them by query."""
    n_rows, n_levels = loadings.shape
    owners = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    rows = owners[:, None] * n_levels + np.arange(n_levels)
    ends = n_levels * np.arange(n_rows + 1)
    shape = ((len(starts) - 1) * n_levels, n_rows)
    return sparse.csc_array((loadings.ravel(), rows.ravel(), ends), shape=shape)
