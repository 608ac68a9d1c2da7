"""Texts as weighted counts of their letter triples (TF-IDF), and how alike two are.

Words are padded with spaces and cut into triples; accents are dropped.  A triple counts
more the rarer it is in both tables together.  Vectors have length one, so their product is
the cosine of the angle between them: 1 for equal texts, 0 for texts without a common
triple.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._parallel import run_slices
from permatch._progress import progress_bar
from permatch._types import FloatArray, IntArray
from permatch.features.records import Records

# Pairs multiplied at once, and products of the kernel per second.
_PAIRS = 100_000
_SPEED = 3e8


def text_vectors(a: Records, b: Records, keys: Sequence[str]) -> tuple[Any, Any]:
    """Return one vector per record, from one or several columns of text."""
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    found: list[Any] = []
    for key in keys:
        texts = a.text(key) + b.text(key)
        if not any(texts):
            continue
        vectorizer = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(3, 3), strip_accents="unicode", lowercase=False
        )
        found.append(vectorizer.fit_transform(texts))
    if not found:
        found = [csr_array((len(a) + len(b), 1))]
    both = normalize(hstack(found, format="csr"))
    return both[: len(a)], both[len(a) :]


def similarities(vectors: tuple[Any, Any], left: IntArray, right: IntArray) -> FloatArray:
    """Return the similarity of the records of every pair."""
    a, b = vectors
    values = np.empty(len(left))
    for first in range(0, len(left), _PAIRS):
        part = slice(first, first + _PAIRS)
        products = a[left[part]].multiply(b[right[part]])
        values[part] = np.asarray(products.sum(axis=1)).ravel()
    return np.clip(values, 0.0, 1.0)


def neighbor_pairs(
    vectors: tuple[Any, Any],
    blocks: tuple[IntArray, IntArray],
    n_neighbors: int,
    min_similarity: float,
) -> tuple[IntArray, IntArray]:
    """Return the pairs in which one is among the nearest of the other, in its block."""
    from permatch.kernels.neighbors import find_neighbors

    a, columns = vectors[0].tocsr(), vectors[1].tocsc()
    n, k = a.shape[0], columns.shape[0]
    tables = [
        (np.full((size, n_neighbors), -1, dtype=np.int64), np.zeros((size, n_neighbors)))
        for size in (n, k)
    ]
    of_a, of_b = tables
    sums = np.empty(k)
    counts = np.bincount(a.indices, minlength=a.shape[1])
    seconds = float(counts @ np.diff(columns.indptr) + n * k) / _SPEED
    with progress_bar("finding neighbours", n, seconds, None) as show:

        def work(first: int, last: int) -> None:
            find_neighbors(
                (a.indptr, a.indices, a.data),
                (columns.indptr, columns.indices, columns.data),
                blocks,
                min_similarity,
                of_a,
                of_b,
                sums,
                first,
                last,
            )
            if show is not None:
                show(last)

        run_slices(work, n, 16)
    left, place = np.nonzero(of_a[0] >= 0)
    right, spot = np.nonzero(of_b[0] >= 0)
    pairs = np.concatenate(
        [left * k + of_a[0][left, place], of_b[0][right, spot] * k + right]
    )
    return np.divmod(np.unique(pairs), k)
