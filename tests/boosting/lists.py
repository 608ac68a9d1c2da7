"""Judged lists whose grades follow an interaction, so that no linear score ranks them."""

import numpy as np


def crossed_lists(seed=0, n_queries=40, length=12, n_features=3):
    """Return documents, grades and query ids."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * length, n_features))
    hidden = X[:, 0] * np.sign(X[:, 1]) + 0.2 * rng.normal(size=len(X))
    return X, np.digitize(hidden, [0.4, 1.2]), np.repeat(np.arange(n_queries), length)
