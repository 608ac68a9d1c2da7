"""The forms in which scores arrive: formats of sparse arrays, stacks, unmatched scores."""

import numpy as np
import pytest
from scipy import sparse

import permatch as pm
from permatch import errors
from permatch.problems import Structure

LISTING = ("csr", "csc", "coo", "lil", "dok")
FREE = {"unmatched_left": 0.0, "unmatched_right": 0.5}


def with_zeros(form):
    """Return scores of which two edges score 0, in a sparse format."""
    places = [0, 0, 1, 2, 3], [0, 1, 1, 2, 0]
    return sparse.csr_array(([0.0, 1.0, 2.0, 0.0, -1.0], places), (4, 4)).asformat(form)


@pytest.mark.parametrize("form", LISTING)
def test_formats_that_list_their_edges_agree(form):
    scores = with_zeros(form)
    listed = with_zeros("coo")
    edges = pm.EdgeScores(listed.row, listed.col, listed.data, 4, 4)
    wanted = pm.infer(edges, **FREE)
    found = pm.infer(scores, **FREE)
    assert found.log_partition == pytest.approx(wanted.log_partition, abs=1e-13)
    assert found.marginals.format == form
    np.testing.assert_allclose(
        found.marginals.toarray()[listed.row, listed.col], wanted.marginals
    )
    assert found.marginals.nnz == 5


@pytest.mark.parametrize("form", ["bsr", "dia"])
@pytest.mark.parametrize(
    "call",
    [
        pm.infer,
        pm.MatchingDistribution,
        lambda scores: pm.infer([np.zeros((2, 2)), scores]),
    ],
)
def test_formats_that_lose_scores_of_zero_are_refused(form, call):
    with pytest.raises(errors.ScoreTypeError, match=rf"got format {form}.*\.tocsr\(\)"):
        call(with_zeros(form))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_marginals_are_read_only(form):
    d = pm.MatchingDistribution(with_zeros(form), **FREE)
    with pytest.raises(ValueError, match="read-only"):
        d.marginals.data[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        d.marginals.data *= 2.0
    rows = d.marginals @ np.ones(4) + d.unmatched_left
    np.testing.assert_allclose(rows, 1.0)


def test_a_stack_takes_unmatched_scores_of_each_graph(rng):
    scores = rng.normal(size=(3, 2, 4))
    left, right = rng.normal(size=(3, 2)), rng.normal(size=(3, 4))
    found = pm.infer(scores, unmatched_left=left, unmatched_right=right)
    listed = pm.infer(list(scores), unmatched_left=list(left), unmatched_right=list(right))
    np.testing.assert_array_equal(found.marginals, listed.marginals)
    for g in range(3):
        one = pm.infer(scores[g], unmatched_left=left[g], unmatched_right=right[g])
        assert found.log_partition[g] == pytest.approx(one.log_partition, abs=1e-12)
    same = pm.infer(scores, unmatched_left=left[0], unmatched_right=-0.5)
    tiled = pm.infer(
        scores,
        unmatched_left=np.tile(left[0], (3, 1)).tolist(),
        unmatched_right=np.full((3, 4), -0.5),
    )
    np.testing.assert_array_equal(same.marginals, tiled.marginals)


@pytest.mark.parametrize("shape", [(3, 4), (2, 2), (4,), (1, 3, 2)])
def test_unmatched_scores_of_a_stack_must_fit(shape):
    with pytest.raises(errors.ScoreShapeError, match=r"shape \(2,\), .* shape \(3, 2\)"):
        pm.infer(np.zeros((3, 2, 4)), unmatched_left=np.zeros(shape))


@pytest.mark.parametrize("sides", [{}, FREE, {"unmatched_left": np.zeros((0, 2))}])
@pytest.mark.parametrize("k", [2, 3])
def test_an_empty_stack_keeps_its_shape(k, sides):
    found = pm.infer(np.zeros((0, 2, k)), **sides)
    assert found.marginals.shape == (0, 2, k)
    assert found.unmatched_left.shape == (0, 2)
    assert found.unmatched_right.shape == (0, k)
    assert found.log_partition.shape == (0,)


@pytest.mark.parametrize(
    "scores",
    [
        pm.EdgeScores([0], [2**40], [1.0]),
        pm.EdgeScores([0], [0], [1.0], n_left=2**61),
        sparse.coo_array(([1.0], ([0], [2**40])), shape=(1, 2**40 + 1)),
    ],
)
def test_nodes_without_end_are_refused(scores):
    with pytest.raises(errors.SizeLimitError, match="nodes needs .* without gaps"):
        pm.infer(scores)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ma.array([0.0, 1.0], mask=[False, True]), "masked nodes must be matched"),
        (np.array([True, False]), "nodes that may stay unmatched use np.where"),
        ([[0.0], [1.0, 2.0]], "one number or one per node; got"),
    ],
)
@pytest.mark.parametrize("scores", [np.zeros((2, 2)), np.zeros((3, 2, 2))])
def test_advice_on_unmatched_scores_is_about_nodes(scores, values, message):
    with pytest.raises(errors.InvalidGraphError, match=message) as caught:
        pm.infer(scores, unmatched_left=values)
    assert "edges" not in str(caught.value)


@pytest.mark.parametrize("density", [0.0, 0.4, 1.0])
def test_edges_are_found_by_their_nodes(density, rng):
    is_edge = rng.random((4, 5)) < density
    left, right = np.nonzero(is_edge)
    starts = np.concatenate([[0], np.cumsum(is_edge.sum(axis=1))])
    structure = Structure(starts, right, np.array([0, 4]), np.array([0, 5]))
    wanted = np.full(is_edge.shape, -1)
    wanted[left, right] = np.arange(len(left))
    found = structure.find(*np.indices(is_edge.shape))
    np.testing.assert_array_equal(found, wanted)
