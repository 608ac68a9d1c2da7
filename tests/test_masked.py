"""Masked arrays are refused wherever arrays come in: NumPy would drop the mask silently."""

import numpy as np
import pytest

import permatch as pm
from permatch import metrics
from permatch.datasets import edge_table_from_matches, read_edge_table
from permatch.datasets.outline import read_outline
from permatch.decoding import bayes_matching, best_matching, k_best
from permatch.errors import InvalidMatchingError, InvalidOptionError, PermatchError
from permatch.estimators import QueryScaler
from permatch.features import shape_context

RNG = np.random.default_rng(0)
GRAPHS = RNG.normal(size=(4, 3, 3, 2))
LABELS = np.array([[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
X, Y, QID = RNG.normal(size=(6, 2)), np.array([0, 1, 2, 1, 0, 1]), np.repeat([0, 1], 3)
ONES = np.ones(6)
TABLE = read_edge_table({"graph": [7], "left": ["a"], "right": ["p"], "distance": [0.5]})


def masked(values):
    """Return an array whose first entry is masked."""
    array = np.ma.array(values)
    array[(0,) * array.ndim] = np.ma.masked
    return array


def fit_matcher(kind=pm.MAPMatching, graphs=GRAPHS, labels=LABELS, weights=None, **options):
    return kind(**options).fit(graphs, labels, weights)


def fit_ranker(kind=pm.RankMatch, documents=X, y=Y, qid=QID, weight=None, **options):
    return kind(**options).fit(documents, y, qid=qid, sample_weight=weight)


def ranking(scores=(3.0, 2.0, 1.0), weights=(1.0, 0.0, 0.0)):
    return pm.RankingDistribution(scores, weights)


CASES = {
    "features": lambda: fit_matcher(graphs=masked(GRAPHS)),
    "features in a list": lambda: fit_matcher(graphs=[masked(g) for g in GRAPHS]),
    "features in nested lists": lambda: fit_matcher(
        graphs=[[list(map(masked, row)) for row in graph] for graph in GRAPHS]
    ),
    "features, max-margin": lambda: fit_matcher(
        pm.MaxMarginMatching, graphs=masked(GRAPHS)
    ),
    "features, search": lambda: fit_matcher(pm.MAPMatchingCV, graphs=masked(GRAPHS)),
    "labels": lambda: fit_matcher(labels=masked(LABELS)),
    "labels in a list": lambda: fit_matcher(labels=[masked(label) for label in LABELS]),
    "weights of graphs": lambda: fit_matcher(weights=masked(np.ones(4))),
    "bounds": lambda: fit_matcher(bounds=(masked([0.0, 0.0]), None)),
    "graphs to predict": lambda: fit_matcher().predict(masked(GRAPHS)),
    "graph": lambda: pm.BipartiteGraph(masked(GRAPHS[0])),
    "allowed edges": lambda: pm.BipartiteGraph(GRAPHS[0], masked(np.ones((3, 3), bool))),
    "nodes": lambda: pm.BipartiteGraph.from_nodes(masked([[0.0], [1.0]]), [[1.0], [3.0]]),
    "documents": lambda: fit_ranker(documents=masked(X)),
    "documents in a list": lambda: fit_ranker(documents=list(map(masked, X))),
    "documents, max-margin": lambda: fit_ranker(pm.DORM, documents=masked(X)),
    "documents, search": lambda: fit_ranker(pm.RankMatchCV, documents=masked(X)),
    "grades": lambda: fit_ranker(y=masked(Y)),
    "query ids": lambda: fit_ranker(qid=masked(QID)),
    "weights of documents": lambda: fit_ranker(weight=masked(ONES)),
    "group sizes": lambda: pm.RankMatch().fit(X, Y, group=masked([3, 3])),
    "documents to predict": lambda: fit_ranker().predict(masked(X)),
    "documents to scale": lambda: QueryScaler().fit_transform(masked(X), qid=QID),
    "weights of positions": lambda: fit_ranker(
        subset_size=3, position_weights=masked([2.0, 1.0, 0.0])
    ),
    "levels": lambda: fit_ranker(levels=masked([0.0, 1.0, 2.0])),
    "scores": lambda: pm.infer(masked(np.eye(3))),
    "scores in nested lists": lambda: pm.infer(list(map(masked, np.eye(3)))),
    "scores to decode": lambda: best_matching(masked(np.eye(3))),
    "scores to list the best of": lambda: k_best(masked(np.eye(3)), 2),
    "marginals": lambda: bayes_matching(masked(np.eye(3)), np.ones((3, 3), bool)),
    "edges to decode with": lambda: bayes_matching(
        np.eye(3), masked(np.ones((3, 3), bool))
    ),
    "matching": lambda: pm.MatchingDistribution(np.eye(3)).log_prob(masked([0, 1, 2])),
    "scores of a list": lambda: ranking(scores=masked([3.0, 2.0, 1.0])),
    "positions of a list": lambda: ranking(weights=masked([1.0, 0.0, 0.0])),
    "documents of a list": lambda: ranking().prob_above(masked([0, 1]), 2),
    "matchings to compare": lambda: metrics.hamming_loss(masked(LABELS), LABELS),
    "marginals to compare": lambda: metrics.calibration([masked(np.eye(3))], LABELS[:1]),
    "grades to measure": lambda: metrics.ndcg(masked(Y), X[:, 0], QID),
    "scores to measure": lambda: metrics.ndcg(Y, masked(X[:, 0]), QID),
    "figures to compare": lambda: metrics.randomisation_test(masked(ONES), X[:, 0]),
    "p-values": lambda: metrics.holm(masked([0.1, 0.2])),
    "points": lambda: shape_context(masked(X)),
    "image": lambda: read_outline(masked(np.eye(9))),
    "probabilities": lambda: edge_table_from_matches(TABLE, [[0]], [masked([[1.0]])]),
}


@pytest.mark.parametrize("name", CASES)
def test_masked_arrays_are_refused(name):
    with pytest.raises(PermatchError, match=r"must be a plain array, got a masked array\."):
        CASES[name]()


def test_a_masked_number_is_no_whole_number():
    hidden = np.ma.array(2, mask=True)
    with pytest.raises(InvalidOptionError, match="k must be a whole number"):
        k_best(np.eye(3), hidden)
    with pytest.raises(InvalidMatchingError, match="given must name right nodes"):
        pm.MatchingDistribution(np.eye(3), given={0: hidden})
