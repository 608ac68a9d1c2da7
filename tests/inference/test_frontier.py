"""The frontier: orders, widths and limits; answers on graphs too large to enumerate."""

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch._parallel import Job
from permatch.kernels import frontier_plan as planning
from permatch.kernels.frontier_plan import frontier_plan
from permatch.scores import check_problem
from tests.helpers import random_scores


def band(rng, n, reach, spread=1.0):
    """Scores on a band around the diagonal."""
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > reach
    return np.where(far, -np.inf, spread * rng.normal(size=(n, n)))


def width_of(scores):
    problem, _ = check_problem(scores, 0.0, 0.0)
    return frontier_plan(problem.structure).width.tolist()


@pytest.mark.parametrize("size", [6, 9, 13])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_perfect_squares_agree_with_glynn(rng, size, spread):
    scores = random_scores(rng, size, spread, forbidden=0.2)
    found, other = pm.infer(scores, "frontier"), pm.infer(scores, "subset_dp")
    assert found.log_partition == pytest.approx(other.log_partition, rel=1e-13)
    np.testing.assert_allclose(found.marginals, other.marginals, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(7, 9), (9, 7), (8, 8), (6, 12)])
def test_wide_graphs_agree_with_their_transpose_in_another_order(rng, shape):
    """Vectors, blocks and closed bits of every position, against another walk."""
    for _ in range(10):
        scores = np.where(rng.random(shape) < 0.7, 3 * rng.normal(size=shape), -np.inf)
        left, right = rng.normal(size=shape[0]), rng.normal(size=shape[1])
        rows, cols = rng.permutation(shape[0]), rng.permutation(shape[1])
        found = pm.infer(scores, "frontier", unmatched_left=left, unmatched_right=right)
        other = pm.infer(
            scores[rows][:, cols].T,
            "frontier",
            unmatched_left=right[cols],
            unmatched_right=left[rows],
        )
        assert found.log_partition == pytest.approx(other.log_partition, abs=1e-11)
        np.testing.assert_allclose(
            found.marginals[rows][:, cols], other.marginals.T, rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(
            found.unmatched_left[rows], other.unmatched_right, rtol=0, atol=1e-13
        )


def test_wide_graphs_by_expansion_along_a_row(rng):
    n, k = 7, 6
    scores, left, right = rng.normal(size=(n, k)), rng.normal(size=n), rng.normal(size=k)

    def solve(rows, cols):
        return pm.infer(
            scores[rows][:, cols],
            "frontier",
            unmatched_left=left[rows],
            unmatched_right=right[cols],
        )

    rows, cols = np.arange(n), np.arange(k)
    found = solve(rows, cols)
    parts = [left[0] + solve(rows[1:], cols).log_partition]
    parts += [scores[0, j] + solve(rows[1:], cols[cols != j]).log_partition for j in cols]
    shares = np.exp(np.array(parts) - found.log_partition)
    assert shares.sum() == pytest.approx(1.0, abs=1e-12)
    assert shares[0] == pytest.approx(found.unmatched_left[0], abs=1e-13)
    np.testing.assert_allclose(shares[1:], found.marginals[0], rtol=0, atol=1e-13)


def test_widths(rng):
    assert width_of(np.zeros((1, 9))) == [0]  # nodes with a single neighbour are never open
    assert width_of(np.zeros((9, 1))) == [0]
    assert width_of(np.zeros((40, 6))) == [6]
    assert width_of(np.zeros((6, 40))) == [6]
    assert width_of(np.full((3, 3), -np.inf)) == []
    scores = band(rng, 60, 2)
    assert width_of(scores) == [5]
    # The order of the nodes is found again, up to a few open nodes.
    mixed = scores[rng.permutation(60)][:, rng.permutation(60)]
    assert max(width_of(mixed)) <= 7


def test_many_starts_are_tried_where_it_pays(rng):
    graphs = [np.where(rng.random((30, 30)) < 0.15, 0.0, -np.inf) for _ in range(4)]
    problem, _ = check_problem(graphs, 0.0, 0.0)
    tried = frontier_plan(problem.structure).log2_cost.sum()
    problem, _ = check_problem([graph[::-1] for graph in graphs], 0.0, 0.0)
    again = frontier_plan(problem.structure).log2_cost.sum()
    assert tried == pytest.approx(again, abs=8.0)  # the numbering hardly matters
    natural = 4 * (30 + np.log2(150))
    assert tried < natural - 20.0


def test_a_tree_is_narrow(rng):
    n = 200
    parent = np.array([rng.integers(max(0, i - 20), i) for i in range(1, n)])
    depth = np.zeros(n, dtype=int)
    for i in range(1, n):
        depth[i] = depth[parent[i - 1]] + 1
    ends = [np.where(depth[1:] % 2 == side, np.arange(1, n), parent) for side in (0, 1)]
    tree = pm.EdgeScores(*ends, rng.normal(size=n - 1), n, n)
    assert max(width_of(tree)) <= 8
    found = pm.infer(tree, "frontier", unmatched_left=0.0, unmatched_right=0.0)
    beliefs = pm.infer(tree, "bethe", unmatched_left=0.0, unmatched_right=0.0)
    # Belief propagation is exact on trees.
    assert found.log_partition == pytest.approx(beliefs.log_partition, abs=1e-6)
    np.testing.assert_allclose(found.marginals, beliefs.marginals, atol=1e-6)


@pytest.mark.parametrize("walks_right", [False, True])
def test_both_sides_are_walked(rng, walks_right):
    scores = rng.normal(size=(9, 6))
    if walks_right:
        scores = scores.T
    problem, _ = check_problem(scores, 0.0, 0.0)
    assert frontier_plan(problem.structure).walks_right.tolist() == [walks_right]


def test_long_walks_at_any_spread(rng):
    """A band of 400 nodes: a matching far better than the others has all the mass."""
    for spread in (1.0, 300.0, 1e6):
        scores = band(rng, 400, 3, spread)
        found = pm.infer(scores, "frontier", unmatched_left=0.0, unmatched_right=-spread)
        rows = found.marginals.sum(axis=1) + found.unmatched_left
        cols = found.marginals.sum(axis=0) + found.unmatched_right
        np.testing.assert_allclose(rows, 1.0, atol=1e-12)
        np.testing.assert_allclose(cols, 1.0, atol=1e-12)
        if spread > 1e5:
            best = pm.best_matching(scores, unmatched_left=0.0, unmatched_right=-spread)
            is_matched = best >= 0
            picked = found.marginals[np.nonzero(is_matched)[0], best[is_matched]]
            assert (picked > 0.99).mean() > 0.99


def triangle(n):
    """A graph with one matching, and 2^n ways to begin one that cannot end."""
    left = np.repeat(np.arange(n), 4)
    right = left + np.tile(np.arange(4), n)
    left, right = left[right < n], right[right < n]
    unmatched = np.full(n, -np.inf)
    unmatched[0] = 0.0
    return pm.EdgeScores(left, right, np.zeros(len(left)), n, n), unmatched


def test_states_that_lead_nowhere_do_not_drown_those_that_count():
    for n in (800, 2500):
        edges, unmatched = triangle(n)
        found = pm.infer(
            edges, "frontier", unmatched_left=-np.inf, unmatched_right=unmatched
        )
        assert found.log_partition == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_array_equal(found.marginals, edges.left == edges.right)


@pytest.mark.parametrize("shape", [(6, 7), (8, 5)])
def test_sums_of_logarithms_agree(rng, shape, monkeypatch):
    scores = np.where(rng.random(shape) < 0.8, 2 * rng.normal(size=shape), -np.inf)
    sides = {"unmatched_left": 0.5, "unmatched_right": rng.normal(size=shape[1])}
    found = pm.infer(scores, "frontier", **sides)
    monkeypatch.setattr("permatch.kernels.frontier.LOST", 1000)  # all count as lost
    other = pm.infer(scores, "frontier", **sides)
    assert found.log_partition == pytest.approx(other.log_partition, abs=1e-13)
    for name in ("marginals", "unmatched_left", "unmatched_right"):
        one, two = getattr(found, name), getattr(other, name)
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-14)
        assert not np.array_equal(one, two)  # another way


def test_threads_and_slices_change_nothing(rng, monkeypatch):
    graphs = [band(rng, 40, 4) for _ in range(20)]
    found = [
        pm.Frontier().infer(graphs, unmatched_left=0.0, unmatched_right=1.0, n_jobs=n)
        for n in (1, 2, 3)
    ]
    monkeypatch.setattr(planning, "_LOG2_LONG", 1.0)
    monkeypatch.setattr(planning, "_STEPS_PER_TASK", 2.0**14)
    found.append(pm.Frontier().infer(graphs, unmatched_left=0.0, unmatched_right=1.0))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].log_partition, other.log_partition)
        np.testing.assert_array_equal(found[0].marginals, other.marginals)
        np.testing.assert_array_equal(found[0].unmatched_right, other.unmatched_right)


def test_tables_that_are_computed_twice_change_nothing(rng, monkeypatch):
    scores = band(rng, 50, 3)
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    sides = {"unmatched_left": 0.0, "unmatched_right": 1.0}
    found = pm.infer(scores, "frontier", **sides)
    figures = frontier_plan(check_problem(scores, 0.0, 0.0)[0].structure)
    monkeypatch.setattr(planning, "_LOG2_LONG", 1.0)
    monkeypatch.setattr(planning, "MOST_KEPT", 100.0)
    other = pm.infer(scores, "frontier", **sides)
    fewer = frontier_plan(check_problem(scores, 0.0, 0.0)[0].structure)
    assert fewer.largest < figures.largest - 1.0
    assert found.log_partition == other.log_partition
    for name in ("marginals", "unmatched_left", "unmatched_right"):
        np.testing.assert_array_equal(getattr(found, name), getattr(other, name))


@pytest.mark.parametrize(
    ("size", "end"),
    [(12, ", fix known pairs, or raise the limit: "), (200, ", or fix known pairs.")],
)
def test_advice_for_wide_components_ends_with_or(size, end):
    with pytest.raises(errors.SizeLimitError, match=end):
        pm.Frontier(max_width=10).infer(np.zeros((size, size)), unmatched_left=0.0)


def test_a_component_that_is_too_wide_is_refused_with_its_cost(rng):
    graphs = [np.zeros((3, 3)), rng.normal(size=(12, 12))]
    with pytest.raises(errors.SizeLimitError) as info:
        pm.Frontier(max_width=10).infer(graphs, unmatched_left=0.0, unmatched_right=0.0)
    message = str(info.value)
    assert "width at most 10; got 12" in message
    assert "left node 0 of graph 1 (12 x 12 nodes, 144 edges)" in message
    assert "max_width=12" in message
    found = pm.Frontier(max_width=12).infer(graphs, unmatched_left=0.0, unmatched_right=0.0)
    assert found.is_exact


def test_what_is_hopeless_is_given_up_early(rng):
    left, right = rng.integers(0, 3000, (2, 12_000))
    pairs = np.unique(left * 3000 + right)
    edges = pm.EdgeScores(pairs // 3000, pairs % 3000, np.zeros(len(pairs)))
    with pytest.raises(errors.SizeLimitError, match="got at least 4.*It would take years"):
        pm.infer(edges, "frontier", unmatched_left=0.0, unmatched_right=0.0)


def test_too_little_memory_is_refused(rng, monkeypatch):
    monkeypatch.setattr("permatch.inference.frontier_limits.available_memory", lambda: 1e6)
    monkeypatch.setattr("permatch.inference.frontier_limits.LITTLE", 1e5)
    with pytest.raises(errors.SizeLimitError, match="of memory for components of width 15"):
        pm.infer(rng.normal(size=(15, 15)), "frontier", unmatched_left=0.0)


def test_options():
    with pytest.raises(errors.InvalidOptionError, match="max_width of Frontier"):
        pm.Frontier(max_width=-1)
    with pytest.raises(errors.InvalidOptionError, match="at most 40, got 50"):
        pm.Frontier(max_width=50)
    assert repr(pm.Frontier()) == "Frontier(max_width=24)"


def test_a_plan_is_made_once(rng):
    problem, _ = check_problem([rng.normal(size=(4, 4))] * 3, 0.0, 0.0)
    plan = frontier_plan(problem.structure)
    pm.Frontier().infer_problem(problem, Job())
    assert frontier_plan(problem.structure) is plan
    assert plan.log2_cost.shape == plan.log2_bytes.shape == plan.walks_right.shape == (3,)
