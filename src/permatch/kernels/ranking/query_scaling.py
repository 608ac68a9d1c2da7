"""Features scaled within each query, a query at a time while it is in the cache.

    minmax    (x - lowest) / (highest - lowest)
    standard  (x - mean) / standard deviation

over the documents of the query; a feature that is the same for all of them becomes 0.
Reading and writing the same array is allowed.  Sums are in float64.  Each function returns
the first query and feature that cannot be scaled, or (-1, -1).
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def scale_minmax(documents, starts, out):
    """Fill `out` with every feature from 0 to 1 within each query."""
    n_features = documents.shape[1]
    low = np.empty(n_features)
    span = np.empty(n_features)
    for k in range(len(starts) - 1):
        _bounds(documents[starts[k] : starts[k + 1]], low, span)
        for j in range(n_features):
            span[j] -= low[j]
            if span[j] == 0.0:
                span[j] = 1.0
            elif span[j] == np.inf:
                return k, j
        for i in range(starts[k], starts[k + 1]):
            for j in range(n_features):
                out[i, j] = (documents[i, j] - low[j]) / span[j]
    return -1, -1


@njit(cache=True, nogil=True)
def scale_standard(documents, starts, out):
    """Fill `out` with every feature of mean 0 and variance 1 within each query."""
    n_features = documents.shape[1]
    low = np.empty(n_features)
    high = np.empty(n_features)
    mean = np.empty(n_features)
    spread = np.empty(n_features)
    for k in range(len(starts) - 1):
        first, end = starts[k], starts[k + 1]
        _bounds(documents[first:end], low, high)
        mean[:] = 0.0
        spread[:] = 0.0
        for i in range(first, end):
            for j in range(n_features):
                mean[j] += documents[i, j]
        for j in range(n_features):
            # The mean of equal numbers may differ from them by rounding.
            mean[j] = low[j] if low[j] == high[j] else mean[j] / (end - first)
        for i in range(first, end):
            for j in range(n_features):
                spread[j] += (documents[i, j] - mean[j]) ** 2
        for j in range(n_features):
            spread[j] = np.sqrt(spread[j] / (end - first))
            if spread[j] == 0.0:
                spread[j] = 1.0
            elif not np.isfinite(spread[j]):
                return k, j
        for i in range(first, end):
            for j in range(n_features):
                out[i, j] = (documents[i, j] - mean[j]) / spread[j]
    return -1, -1


@njit(cache=True, nogil=True)
def scale_minmax_sparse(data, columns, row_starts, n_features, starts, out):
    """Fill `out` with the stored values scaled; what is not stored is 0 and stays 0.

    A feature cannot be scaled if it has zeros and negative values in a query.
    """
    low = np.empty(n_features, data.dtype)
    high = np.empty(n_features, data.dtype)
    n_stored = np.zeros(n_features, np.int64)
    for k in range(len(starts) - 1):
        begin, end = row_starts[starts[k]], row_starts[starts[k + 1]]
        length = starts[k + 1] - starts[k]
        for entry in range(begin, end):
            j = columns[entry]
            if n_stored[j] == 0:
                low[j] = high[j] = data[entry]
            low[j] = min(low[j], data[entry])
            high[j] = max(high[j], data[entry])
            n_stored[j] += 1
        for entry in range(begin, end):
            j = columns[entry]
            if 0 < n_stored[j] < length:
                low[j] = min(low[j], 0.0)
                high[j] = max(high[j], 0.0)
                if low[j] < 0.0:
                    return k, j
        for entry in range(begin, end):
            j = columns[entry]
            span = high[j] - low[j]
            out[entry] = (data[entry] - low[j]) / (span if span > 0.0 else 1.0)
            n_stored[j] = 0
    return -1, -1


@njit(cache=True, nogil=True)
def _bounds(block, low, high):
    """Fill `low` and `high` with the extremes of every column."""
    low[:] = block[0]
    high[:] = block[0]
    for i in range(1, len(block)):
        for j in range(block.shape[1]):
            value = block[i, j]
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]
