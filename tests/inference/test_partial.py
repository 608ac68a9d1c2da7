"""Laws and accuracy on sparse, rectangular and partial problems: one table of engines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import permatch as pm
from permatch import errors
from tests.helpers import (
    PARTIAL,
    PARTIAL_APPROXIMATE,
    exact_partial,
    log_partition_error,
    partial_problems,
    random_problem,
)

every_engine = pytest.mark.parametrize("case", PARTIAL, ids=str)


def solve(case, scores, left, right):
    return case.engine.infer(scores, unmatched_left=left, unmatched_right=right)


def tolerance(*arrays):
    """The rounding of scores of this size."""
    finite = [np.abs(a[np.isfinite(a)]).sum() for a in map(np.asarray, arrays)]
    return 1e-10 + 1e-14 * sum(finite)


def assert_same(found, other, shift=0.0):
    assert found.log_partition == pytest.approx(other.log_partition + shift, abs=1e-8)
    for name in ("marginals", "unmatched_left", "unmatched_right"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(other, name), rtol=0, atol=1e-10
        )


@every_engine
@settings(max_examples=30)
@given(problem=partial_problems(max_size=5))
def test_against_fifty_digits(case, problem):
    log_partition, marginals, left, right = exact_partial(*problem)
    found = solve(case, *problem)
    assert log_partition_error(found.log_partition, log_partition) < tolerance(*problem)
    assert found.is_exact
    np.testing.assert_allclose(found.marginals, marginals, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.unmatched_left, left, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.unmatched_right, right, rtol=0, atol=1e-11)


@every_engine
@given(problem=partial_problems())
def test_rows_and_columns_sum_to_one(case, problem):
    found = solve(case, *problem)
    rows = found.marginals.sum(axis=1) + found.unmatched_left
    cols = found.marginals.sum(axis=0) + found.unmatched_right
    np.testing.assert_allclose(rows, 1, rtol=0, atol=1e-11)
    np.testing.assert_allclose(cols, 1, rtol=0, atol=1e-11)
    assert ((found.marginals >= 0) & (found.marginals <= 1)).all()
    assert (found.marginals[np.isneginf(problem[0])] == 0).all()


@every_engine
@given(problem=partial_problems(largest=20.0), shift=st.floats(-1e3, 1e3), data=st.data())
def test_adding_to_a_node_adds_to_the_log_partition(case, problem, shift, data):
    scores, left, right = problem
    if not len(left):
        return
    node = data.draw(st.integers(0, len(left) - 1))
    more, moved = scores.copy(), left.copy()
    more[node] += shift
    moved[node] += shift
    assert_same(solve(case, more, moved, right), solve(case, *problem), shift)


@every_engine
@given(problem=partial_problems())
def test_transposing_transposes(case, problem):
    scores, left, right = problem
    found, other = solve(case, *problem), solve(case, scores.T, right, left)
    assert found.log_partition == pytest.approx(other.log_partition, abs=1e-8)
    np.testing.assert_allclose(found.marginals, other.marginals.T, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.unmatched_left, other.unmatched_right, atol=1e-11)


@every_engine
@given(problem=partial_problems(), seed=st.integers(0, 2**32 - 1))
def test_permuting_permutes(case, problem, seed):
    scores, left, right = problem
    rng = np.random.default_rng(seed)
    rows, cols = rng.permutation(len(left)), rng.permutation(len(right))
    found = solve(case, *problem)
    other = solve(case, scores[rows][:, cols], left[rows], right[cols])
    assert found.log_partition == pytest.approx(other.log_partition, abs=1e-8)
    np.testing.assert_allclose(
        found.marginals[rows][:, cols], other.marginals, rtol=0, atol=1e-11
    )
    np.testing.assert_allclose(found.unmatched_left[rows], other.unmatched_left, atol=1e-11)


@every_engine
@given(problem=partial_problems(max_size=4), price=st.floats(-300, 300))
def test_an_isolated_node_adds_its_score_and_stays_unmatched(case, problem, price):
    scores, left, right = problem
    more = np.vstack([scores, np.full((1, len(right)), -np.inf)])
    found, before = solve(case, more, np.append(left, price), right), solve(case, *problem)
    assert found.log_partition == pytest.approx(before.log_partition + price, abs=1e-8)
    assert found.unmatched_left[-1] == 1.0
    np.testing.assert_allclose(found.marginals[:-1], before.marginals, atol=1e-12)


@every_engine
@given(problem=partial_problems())
def test_a_forbidden_edge_equals_no_edge(case, problem):
    scores, left, right = problem
    rows, cols = np.nonzero(scores > -np.inf)
    listed = pm.EdgeScores(rows, cols, scores[rows, cols], *scores.shape)
    everything = np.indices(scores.shape).reshape(2, -1)
    all_listed = pm.EdgeScores(*everything, scores.ravel(), *scores.shape)
    dense = solve(case, scores, left, right)
    found, padded = solve(case, listed, left, right), solve(case, all_listed, left, right)
    assert found.log_partition == dense.log_partition == padded.log_partition
    np.testing.assert_array_equal(found.marginals, dense.marginals[rows, cols])
    np.testing.assert_array_equal(padded.marginals, dense.marginals.ravel())


@every_engine
@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0), (1, 4), (4, 1), (3, 3)])
def test_graphs_without_edges(case, shape):
    scores = np.full(shape, -np.inf)
    found = solve(case, scores, 2.0, -1.0)
    assert found.log_partition == pytest.approx(2.0 * shape[0] - shape[1])
    assert (found.unmatched_left == 1).all()
    assert (found.unmatched_right == 1).all()


@every_engine
@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (2, 5), (5, 3)])
def test_the_larger_side_is_free_by_default(case, shape, rng):
    scores = rng.normal(size=shape)
    sides = [0.0 if shape[s] > shape[1 - s] else -np.inf for s in (0, 1)]
    found = case.engine.infer(scores)
    assert_same(found, solve(case, scores, *sides))
    assert found.unmatched_left.sum() == pytest.approx(max(shape[0] - shape[1], 0))
    assert found.unmatched_right.sum() == pytest.approx(max(shape[1] - shape[0], 0))


@every_engine
def test_a_list_of_all_kinds_comes_back_in_kind(case, rng):
    scores, left, right = random_problem(rng, 3, 4)
    rows, cols = np.nonzero(scores > -np.inf)
    values = scores[rows, cols]
    graphs = [
        scores,
        sparse.csr_array((values, (rows, cols)), shape=scores.shape),
        sparse.coo_matrix((values, (rows, cols)), shape=scores.shape),
        pm.EdgeScores(rows, cols, values, *scores.shape),
    ]
    found = case.engine.infer(
        graphs, unmatched_left=[left] * 4, unmatched_right=[right] * 4
    )
    single = solve(case, *[scores, left, right])
    np.testing.assert_allclose(found.log_partition, single.log_partition, atol=1e-12)
    assert isinstance(found.marginals[1], sparse.csr_array)
    assert isinstance(found.marginals[2], sparse.coo_matrix)
    np.testing.assert_allclose(found.marginals[0], single.marginals, atol=1e-13)
    for laid in found.marginals[1:3]:
        np.testing.assert_allclose(laid.toarray(), single.marginals, atol=1e-13)
    np.testing.assert_allclose(found.marginals[3], single.marginals[rows, cols], atol=1e-13)
    for k in range(4):
        np.testing.assert_allclose(found.unmatched_left[k], single.unmatched_left)


@every_engine
def test_many_components_add_up(case, rng):
    blocks = [random_problem(rng, *rng.integers(1, 4, 2), must=0.3) for _ in range(300)]
    whole = np.full([sum(b[0].shape[s] for b in blocks) for s in (0, 1)], -np.inf)
    row = col = 0
    for scores, _, _ in blocks:
        whole[row : row + scores.shape[0], col : col + scores.shape[1]] = scores
        row, col = row + scores.shape[0], col + scores.shape[1]
    sides = [np.concatenate([b[s] for b in blocks]) for s in (1, 2)]
    found = solve(case, whole, *sides)
    apart = case.engine.infer(
        [b[0] for b in blocks],
        unmatched_left=[b[1] for b in blocks],
        unmatched_right=[b[2] for b in blocks],
    )
    assert found.log_partition == pytest.approx(apart.log_partition.sum(), abs=1e-9)
    np.testing.assert_allclose(
        found.unmatched_left, np.concatenate(apart.unmatched_left), atol=1e-12
    )


@every_engine
def test_what_cannot_be_matched_is_refused(case):
    # Three left nodes that must be matched compete for two right ones.
    scores = np.zeros((4, 3))
    scores[:3, 2] = -np.inf
    with pytest.raises(errors.InfeasibleGraphError, match="left node [0-2]"):
        solve(case, scores, -np.inf, 0.0)


every_approximate = pytest.mark.parametrize(
    ("engine", "unknown"), PARTIAL_APPROXIMATE, ids=lambda case: getattr(case, "name", "")
)


@every_approximate
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_approximate_answers_are_within_their_errors(engine, unknown, spread):
    rng = np.random.default_rng(5)
    problems = [random_problem(rng, 4, 5, spread) for _ in range(8)]
    sides = {
        "unmatched_left": [left for _, left, _ in problems],
        "unmatched_right": [right for _, _, right in problems],
    }
    graphs = [scores for scores, _, _ in problems]
    exact = pm.infer(graphs, "frontier", **sides)
    found = engine.infer(graphs, **sides)
    for k, marginals in enumerate(found.marginals):
        errors = 0.0 if found.marginal_errors is None else found.marginal_errors[k]
        off = np.abs(marginals - exact.marginals[k])
        assert (off <= unknown + 5.0 * np.nan_to_num(errors) + 0.01).all()
        sums = marginals.sum(axis=1) + found.unmatched_left[k]
        np.testing.assert_allclose(sums, 1.0, rtol=0, atol=5e-3)


@every_approximate
@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0), (1, 4), (3, 3)])
def test_approximate_engines_take_graphs_without_edges(engine, unknown, shape):
    found = engine.infer(np.full(shape, -np.inf), unmatched_left=2.0, unmatched_right=-1.0)
    assert found.log_partition == pytest.approx(2.0 * shape[0] - shape[1])
    assert found.marginals.shape == shape
    assert (found.unmatched_left == 1).all()
    assert (found.unmatched_right == 1).all()


@pytest.mark.parametrize("name", ["auto", "sparsified", "bethe", "nesting", "swap_chain"])
def test_approximate_engines_refuse_what_cannot_be_matched(name):
    scores = np.zeros((4, 3))
    scores[:3, 2] = -np.inf
    with pytest.raises(errors.InfeasibleGraphError, match="this graph"):
        pm.infer(scores, name, unmatched_left=-np.inf, unmatched_right=0.0)


def test_an_engine_without_marginals_gives_none():
    for scores in (np.eye(2), np.where(np.eye(3) > 0, 1.0, -np.inf)):
        found = pm.infer(sparse.csr_array(np.where(scores > -np.inf, scores, 0.0)), "ryser")
        assert found.marginals is None
        assert found.diagnostics.engine == "ryser"


BAD = {
    "duplicate edge": (
        lambda: pm.infer(pm.EdgeScores([0, 0], [1, 1], [0.0, 0.0])),
        errors.EdgeListError,
        r"every edge once; edge \(0, 1\) occurs more than once\.",
    ),
    "duplicate edges": (
        lambda: pm.infer(pm.EdgeScores([0, 0, 0, 1, 1], [1, 1, 1, 0, 0], np.zeros(5))),
        errors.EdgeListError,
        r"edge \(0, 1\) \(like 1 other\) occurs more than once",
    ),
    "duplicate entry": (
        lambda: pm.infer(sparse.coo_array((np.zeros(2), ([0, 0], [0, 0])), shape=(1, 1))),
        errors.EdgeListError,
        "every edge once",
    ),
    "out of range": (
        lambda: pm.EdgeScores([0], [3], [0.0], 1, 3),
        errors.EdgeListError,
        "names right node 3, and n_right is 3",
    ),
    "negative": (
        lambda: pm.EdgeScores([-1], [0], [0.0]),
        errors.EdgeListError,
        "at least 0; edge 0 has -1",
    ),
    "ids": (
        lambda: pm.EdgeScores(["a"], ["b"], [0.0]),
        errors.EdgeListError,
        "Number the nodes from 0",
    ),
    "lengths": (
        lambda: pm.EdgeScores([0], [0], [0.0, 1.0]),
        errors.EdgeListError,
        "one entry per edge",
    ),
    "nan": (
        lambda: pm.infer(pm.EdgeScores([0], [0], [np.nan])),
        errors.NaNScoreError,
        r"at edge \(0, 0\)",
    ),
    "inf": (
        lambda: pm.infer(sparse.csr_array([[np.inf]])),
        errors.InfiniteScoreError,
        r"inf at edge \(0, 0\)",
    ),
    "alone": (
        lambda: pm.infer([[0.0, -np.inf], [-np.inf, -np.inf]], unmatched_right=0.0),
        errors.InfeasibleGraphError,
        r"left node 1 of this graph has none\.",
    ),
    "several alone": (
        lambda: pm.infer(
            np.full((3, 2), -np.inf), unmatched_right=0.0, unmatched_left=-np.inf
        ),
        errors.InfeasibleGraphError,
        r"left node 0 of this graph \(like 2 others\) has none",
    ),
    "nan unmatched": (
        lambda: pm.infer(np.zeros((2, 2)), unmatched_left=np.nan),
        errors.NaNScoreError,
        "unmatched_left must not contain NaN",
    ),
    "infinite unmatched": (
        lambda: pm.infer(np.zeros((2, 2)), unmatched_left=np.inf),
        errors.InfiniteScoreError,
        "forbid its edges",
    ),
    "wrong unmatched": (
        lambda: pm.infer(np.zeros((2, 2)), unmatched_right=np.zeros(3)),
        errors.ScoreShapeError,
        r"one per node, shape \(2,\); got shape \(3,\)",
    ),
    "too few unmatched": (
        lambda: pm.infer([np.zeros((2, 2))], unmatched_right=[0.0, 0.0]),
        errors.InvalidOptionError,
        "one entry per graph, 1; got 2",
    ),
    "perfect engine": (
        lambda: pm.infer(np.zeros((2, 3)), "glynn"),
        errors.PartialMatchingError,
        "engine='frontier'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()
