"""Sparse graphs to time things on, as edges with normal scores."""

import numpy as np

import permatch as pm


def band(n: int, half: int, rng: np.random.Generator, spread: float = 1.0) -> np.ndarray:
    """Return scores (n, n) that are allowed up to `half` places off the diagonal."""
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    return np.where(apart <= half, spread * rng.normal(size=(n, n)), -np.inf)


def small_components(n: int, rng: np.random.Generator) -> pm.EdgeScores:
    """Return n + n nodes with 3 n edges in groups of 3 to 10 nodes a side, n >= 3.

    Every left node has edges to three right nodes of its group; numbers are shuffled.
    """
    sizes = rng.integers(3, 11, size=n // 3)
    sizes = sizes[: np.searchsorted(np.cumsum(sizes), n - 2)]
    rest = n - sizes.sum()
    sizes = np.append(sizes, [rest] if rest <= 10 else [rest // 2, rest - rest // 2])
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    keys = rng.random((n, 10))
    keys[np.arange(10) >= np.repeat(sizes, sizes)[:, None]] = 2.0
    places = first[:, None] + np.argsort(keys, axis=1)[:, :3]
    left = np.repeat(rng.permutation(n), 3)
    right = rng.permutation(n)[places.ravel()]
    return pm.EdgeScores(left, right, rng.normal(size=3 * n), n_left=n, n_right=n)


def random_edges(
    n: int, n_edges: int, log_odds: tuple[float, float], rng: np.random.Generator
) -> pm.EdgeScores:
    """Return n + n nodes with edges drawn at random, of normal log-odds (mean, sd)."""
    pairs = np.unique(rng.integers(0, n * n, size=n_edges + n_edges // 10))
    pairs = rng.permutation(pairs)[:n_edges]
    scores = rng.normal(*log_odds, size=len(pairs))
    return pm.EdgeScores(pairs // n, pairs % n, scores, n_left=n, n_right=n)


def bytes_of(edges: pm.EdgeScores) -> int:
    """Return the bytes of the edges as given: two node numbers and a score each."""
    return edges.left.nbytes + edges.right.nbytes + edges.score.nbytes
