"""Data sets drawn from a model whose coefficients are known."""

import numpy as np

import permatch as pm
from permatch.graphs import BipartiteGraph

COEF = np.array([1.5, -1.0, 0.5, 0.0])


def planted(rng, n_graphs, sizes=(5,), coef=COEF, forbidden=0.0):
    """Return graphs of the given sizes in turn, and matchings drawn from the model."""
    graphs, matchings = [], []
    for k in range(n_graphs):
        size = sizes[k % len(sizes)]
        features = rng.normal(size=(size, size, len(coef)))
        allowed = None
        if forbidden:
            allowed = rng.random((size, size)) >= forbidden
            allowed[np.arange(size), rng.permutation(size)] = True
        graph = BipartiteGraph(features, allowed)
        scores = graph.scores(np.asarray(coef))
        graphs.append(graph if forbidden else features)
        matchings.append(pm.MatchingDistribution(scores).sample(1, rng=rng)[0])
    return graphs, matchings
