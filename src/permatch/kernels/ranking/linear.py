"""Products of a tall matrix of documents with short vectors, by ranges of rows.

    scores = documents @ coef          slopes by feature = documents' @ slopes by document

BLAS would keep threads spinning that other tasks then have to share the processors with,
and sums in an order of its own; single precision would be copied or summed as such.  These
read every document once, in the precision it has, and add up in float64.
"""

from numba import njit

# Sums may be reordered, which is what lets a row be read several numbers at a time.
_FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, fastmath=_FAST)
def score_rows(documents, coef, scores, first, last):
    """Set ``scores[i] = <documents[i], coef>`` for the rows first to last - 1."""
    for i in range(first, last):
        total = 0.0
        for j in range(len(coef)):
            total += documents[i, j] * coef[j]
        scores[i] = total


@njit(cache=True, nogil=True, fastmath=_FAST)
def add_rows(documents, slopes, total, first, last):
    """Add ``slopes[i] * documents[i]`` for the rows first to last - 1 to `total` (d,)."""
    for i in range(first, last):
        slope = slopes[i]
        if slope != 0.0:
            for j in range(len(total)):
                total[j] += slope * documents[i, j]


@njit(cache=True, nogil=True)
def add_squares(documents, starts, mean, squares, first, last):
    """Add every feature's squared distances from its query's mean, over some queries.

    `mean` (d,) is scratch.
    """
    n_features = len(mean)
    for k in range(first, last):
        mean[:] = 0.0
        for i in range(starts[k], starts[k + 1]):
            for j in range(n_features):
                mean[j] += documents[i, j]
        mean /= starts[k + 1] - starts[k]
        for i in range(starts[k], starts[k + 1]):
            for j in range(n_features):
                squares[j] += (documents[i, j] - mean[j]) ** 2
