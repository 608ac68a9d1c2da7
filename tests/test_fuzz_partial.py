"""Ten thousand sparse and partial inputs, many bad: a documented error, or right."""

import numpy as np
import pytest
from scipy import sparse

import permatch as pm
from permatch.errors import PermatchError
from tests.test_fuzz import ODDITIES, SPECIAL

N_INPUTS = 10_000
ENGINES = ["auto", "frontier", "enumeration", "glynn"]


def random_edges(rng):
    """Nodes, scores and sizes; now and then an edge twice, or to a node out of range."""
    n, k = (int(size) for size in rng.integers(0, 6, 2))
    is_edge = rng.random((n, k)) < rng.choice([0.2, 0.6, 1.0])
    left, right = np.nonzero(is_edge)
    score = rng.normal(size=len(left)) * 10.0 ** rng.integers(-1, 4)
    if rng.random() < 0.3:
        is_special = rng.random(len(left)) < 0.3
        score = np.where(is_special, rng.choice(SPECIAL, len(left)), score)
    if len(left) and rng.random() < 0.05:
        left, right, score = (np.append(a, a[0]) for a in (left, right, score))
    if len(left) and rng.random() < 0.05:
        left = left.copy()
        left[rng.integers(len(left))] = rng.choice([-1, n, 10**12])
    return left, right, score, n, k


def random_graph(rng):
    left, right, score, n, k = random_edges(rng)
    form = rng.integers(5)
    is_inside = len(left) == 0 or (left.min() >= 0 and left.max() < n)
    if form == 0 or not is_inside:
        return pm.EdgeScores(left, right, score, n, k)
    if form == 1:
        return pm.EdgeScores(left, right, score)
    if form in (2, 3):
        kind = sparse.coo_array if form == 2 else sparse.coo_matrix
        made = kind((score, (left, right)), shape=(n, k))
        return made if rng.random() < 0.5 else made.tocsr()
    scores = np.full((n, k), -np.inf)
    scores[left, right] = score
    return scores


def random_unmatched(rng, size):
    form = rng.integers(8)
    if form < 2:
        return None
    if form < 4:
        return float(rng.normal())
    if form < 7:
        values = rng.normal(size=size) * 10.0 ** rng.integers(-1, 3)
        return np.where(rng.random(size) < 0.2, -np.inf, values)
    return [np.nan, np.inf, "text", np.zeros(size + 1), ODDITIES[3]][rng.integers(5)]


def shape_of(graph):
    return (graph.n_left, graph.n_right) if hasattr(graph, "n_left") else graph.shape


def as_dense(graph, values):
    if isinstance(graph, pm.EdgeScores):
        dense = np.zeros(shape_of(graph))
        dense[graph.left, graph.right] = values
        return dense
    return values.toarray() if sparse.issparse(values) else values


def assert_right(graph, sides, found):
    marginals = as_dense(graph, found.marginals)
    assert np.isfinite(found.log_partition)
    for axis, free in ((1, found.unmatched_left), (0, found.unmatched_right)):
        np.testing.assert_allclose(marginals.sum(axis=axis) + free, 1, rtol=0, atol=1e-9)
    expected = pm.infer(
        graph, "enumeration", unmatched_left=sides[0], unmatched_right=sides[1]
    )
    values = graph.score if isinstance(graph, pm.EdgeScores) else as_dense(graph, graph)
    parts = [values, *(side for side in sides if side is not None)]
    finite = [np.abs(np.atleast_1d(a)[np.isfinite(a)]).max(initial=0.0) for a in parts]
    # Sums of scores this large are not known any better.
    rounding = 10 * np.spacing(max(finite))
    assert abs(found.log_partition - expected.log_partition) <= 1e-10 + rounding
    if rounding < 1e-11:
        np.testing.assert_allclose(
            marginals, as_dense(graph, expected.marginals), rtol=0, atol=1e-9
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_random_sparse_and_partial_inputs():
    rng = np.random.default_rng(7)
    n_answered = n_refused = 0
    for _ in range(N_INPUTS):
        try:
            graph = random_graph(rng)
            sides = [random_unmatched(rng, size) for size in shape_of(graph)]
            found = pm.infer(
                graph,
                ENGINES[rng.integers(len(ENGINES))],
                unmatched_left=sides[0],
                unmatched_right=sides[1],
            )
        except PermatchError:
            n_refused += 1
        else:
            assert_right(graph, sides, found)
            n_answered += 1
    # Both sides are really exercised.
    assert n_answered > N_INPUTS // 10
    assert n_refused > N_INPUTS // 10
