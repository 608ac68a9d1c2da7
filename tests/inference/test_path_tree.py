"""Intervals from the path tree hold for certain, whatever the graph and the tolerance."""

from dataclasses import replace

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch._parallel import Allowance, Job
from permatch.inference.path_tree import bound_nodes
from permatch.inference.path_walks import Walker
from permatch.kernels import path_tree
from permatch.scores import check_problem
from tests.helpers import exact_partial, random_problem


def solve(problem, **options):
    scores, left, right = problem
    engine = pm.PathTree(**options)
    return engine.infer(scores, unmatched_left=left, unmatched_right=right)


def assert_holds(found, truth):
    """The truth, in 50 digits, is within all intervals; estimates are too."""
    log_partition, marginals, left, right = truth
    low, high = found.diagnostics.interval
    assert low <= log_partition <= high
    assert low <= found.log_partition <= high
    for (low, high), exact, point in (
        (found.marginal_bounds, marginals, found.marginals),
        (found.unmatched_left_bounds, left, found.unmatched_left),
        (found.unmatched_right_bounds, right, found.unmatched_right),
    ):
        assert ((low <= exact) & (exact <= high)).all()
        assert ((low <= point) & (point <= high)).all()
        assert ((low >= 0) & (high <= 1)).all()


def width(ends):
    return float((ends[1] - ends[0]).max(initial=0.0))


@pytest.mark.parametrize("spread", [0.0, 0.5, 2.0, 5.0, 20.0, 300.0, 3000.0])
def test_fifty_digits_are_within_the_intervals(spread, rng):
    for _ in range(12):
        shape = rng.integers(0, 6, 2)
        problem = random_problem(rng, *shape, spread, rng.choice([0.0, 0.3, 0.7]))
        truth = exact_partial(*problem)
        for tol in (0.5, 0.03, 1e-3, 1e-9):
            for sides in ("both", "left", "right"):
                found = solve(problem, tol=tol, sides=sides)
                assert_holds(found, truth)
                if spread > 300:  # few digits are left
                    continue
                assert found.diagnostics.is_converged
                assert width(found.marginal_bounds) <= tol
                if sides != "right":
                    assert width(found.unmatched_left_bounds) <= tol
                if sides != "left":
                    assert width(found.unmatched_right_bounds) <= tol
            few = solve(problem, tol=tol, max_steps=int(rng.integers(0, 4)))
            assert_holds(few, truth)
        np.testing.assert_allclose(found.marginals, truth[1], rtol=0, atol=1e-9)


def small_graphs(rng, n_graphs, spread, largest=4):
    """Many small graphs as one problem."""
    blocks = [
        random_problem(rng, *rng.integers(1, largest + 1, 2), spread, 0.3)
        for _ in range(n_graphs)
    ]
    scores, left, right = map(list, zip(*blocks, strict=True))
    return check_problem(scores, left, right)[0]


@pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
def test_many_graphs_against_enumeration(spread, rng):
    problem = small_graphs(rng, 300, spread)
    exact = pm.Enumeration().infer_problem(problem, Job())
    for tol in (0.3, 0.02, 1e-6):
        found = pm.PathTree(tol=tol).infer_problem(problem, Job())
        for name in ("marginal", "unmatched_left", "unmatched_right"):
            low, high = getattr(found, f"{name}_bounds")
            truth = getattr(exact, name + "s" * (name == "marginal"))
            assert ((low - 1e-13 <= truth) & (truth <= high + 1e-13)).all()
        off = np.abs(found.log_partition - exact.log_partition)
        assert (off <= found.log_partition_error + 1e-9).all()
    assert found.diagnostics.n_graphs == 300


def test_ten_thousand_graphs_against_the_frontier(rng):
    n_graphs, largest = 10_000, 6
    sizes = rng.integers(1, largest + 1, (2, n_graphs))
    starts = np.concatenate([[[0], [0]], np.cumsum(sizes, axis=1)], axis=1)
    graphs = np.repeat(np.arange(n_graphs), largest**2)
    rows, cols = np.tile(np.indices((largest, largest)).reshape(2, -1), n_graphs)
    is_edge = (rows < sizes[0, graphs]) & (cols < sizes[1, graphs])
    is_edge &= rng.random(len(graphs)) < 0.6
    left, right = (starts[0, graphs] + rows)[is_edge], (starts[1, graphs] + cols)[is_edge]
    spread = np.array([0.5, 2.0, 10.0, 100.0])[graphs % 4][is_edge]
    scores = spread * rng.normal(size=len(left))
    edges = pm.EdgeScores(left, right, scores, *starts[:, -1].tolist())
    problem, _ = check_problem(edges, rng.normal(size=starts[0, -1]), 0.0)
    exact = pm.Frontier().infer_problem(problem, Job())
    for tol, steps in ((0.5, 10), (0.01, 3), (0.01, 10**5)):
        found = pm.PathTree(tol=tol, max_steps=steps).infer_problem(problem, Job())
        for name in ("marginal", "unmatched_left", "unmatched_right"):
            low, high = getattr(found, f"{name}_bounds")
            truth = getattr(exact, name + "s" * (name == "marginal"))
            assert ((low - 1e-12 <= truth) & (truth <= high + 1e-12)).all()
        low, high = found.diagnostics.interval
        assert low - 1e-6 <= exact.log_partition[0] <= high + 1e-6
    assert found.diagnostics.is_converged


def strong_graphs(rng, shape, spread, limit):
    """Two thousand dense graphs side by side, no score larger than `limit`."""
    sizes = (shape, shape[:1], shape[1:])
    drawn = (rng.normal(0.0, spread, (2000, *size)) for size in sizes)
    scores, left, right = (np.clip(values, -limit, limit) for values in drawn)
    return check_problem(list(scores), list(left), list(right))[0]


@pytest.mark.parametrize("shape", [(3, 2), (3, 3), (1, 4)])
@pytest.mark.parametrize(
    ("spread", "limit"),
    [(150.0, 229.0), (300.0, 229.0), (150.0, np.inf), (300.0, np.inf), (1000.0, np.inf)],
)
def test_strong_scores_give_numbers_that_hold(spread, limit, shape, rng):
    problem = strong_graphs(rng, shape, spread, limit)
    # Odds of up to exp(690) are kept as they are, larger ones as logarithms.
    assert Walker(problem).tree.is_log == (limit == np.inf)
    exact = pm.Frontier().infer_problem(problem, Job())
    for options in ({}, {"tol": 0.5, "max_steps": 2}, {"tol": 0.0, "max_steps": 1000}):
        found = pm.PathTree(**options).infer_problem(problem, Job())
        for name in ("marginal", "unmatched_left", "unmatched_right"):
            low, high = getattr(found, f"{name}_bounds")
            suffix = "s" * (name == "marginal")
            truth, point = (getattr(one, name + suffix) for one in (exact, found))
            assert ((low - 1e-10 <= truth) & (truth <= high + 1e-10)).all()
            assert ((low <= point) & (point <= high)).all()
        off = np.abs(found.log_partition - exact.log_partition)
        assert (off <= found.log_partition_error + 1e-9).all()
        assert np.isfinite(found.log_partition_error).all()
        assert np.isfinite(found.marginal_errors).all()
        assert np.isfinite(found.diagnostics.interval).all()
        assert options or found.diagnostics.is_converged


def test_products_of_strong_odds_do_not_overflow():
    scores = [[574.0, -375], [62, -412], [-701, 198]]
    asked = {"unmatched_left": [372.0, -255, 136], "unmatched_right": [-258.0, -593]}
    found = pm.infer(scores, "path_tree", **asked)
    assert found.log_partition == pytest.approx(632.0, abs=1e-9)
    assert found.marginals == pytest.approx(pm.infer(scores, "frontier", **asked).marginals)


@pytest.mark.parametrize("spread", [0.5, 2.0, 5.0])
def test_the_error_of_the_log_partition_is_that_of_its_estimate(spread, rng):
    for _ in range(20):
        problem = random_problem(rng, 5, 5, spread, 0.2)
        for options in ({"max_steps": 0}, {"tol": 0.5}, {"tol": 0.01, "max_steps": 3}):
            found = solve(problem, **options)
            low, high = found.diagnostics.interval
            value = found.log_partition
            assert low <= value <= high
            assert found.log_partition_error == max(high - value, value - low)
            assert found.log_partition_error <= high - low


@pytest.mark.parametrize("shape", [(150, 150), (150, 120), (120, 150)])
def test_a_band_against_the_frontier(shape, rng):
    rows, cols = np.indices(shape)
    is_near = np.abs(rows - cols) <= 2
    scores = np.where(is_near, 1.5 * rng.normal(size=shape) - 1.0, -np.inf)
    asked = {"unmatched_left": rng.normal(size=shape[0]), "unmatched_right": 0.0}
    exact = pm.Frontier().infer(scores, **asked)
    for sides in ("both", "left", "right"):
        found = pm.PathTree(tol=0.02, sides=sides).infer(scores, n_jobs=2, **asked)
        assert found.diagnostics.is_converged
        low, high = found.diagnostics.interval
        assert low <= exact.log_partition <= high
        for name in ("marginal", "unmatched_left", "unmatched_right"):
            low, high = getattr(found, f"{name}_bounds")
            truth = getattr(exact, name + "s" * (name == "marginal"))
            assert ((low - 1e-12 <= truth) & (truth <= high + 1e-12)).all()
        assert np.abs(found.marginals - exact.marginals).max() < 0.01


def test_the_whole_tree_is_exact(rng):
    for spread in (1.0, 10.0):
        problem = random_problem(rng, 5, 5, spread, 0.2)
        log_partition, marginals, left, _ = exact_partial(*problem)
        found = solve(problem, tol=0.0, max_steps=10**6)
        np.testing.assert_allclose(found.marginals, marginals, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.unmatched_left, left, rtol=0, atol=1e-12)
        assert found.log_partition == pytest.approx(float(log_partition), abs=1e-9)


def test_logarithms_and_plain_odds_agree(rng, monkeypatch):
    problem = random_problem(rng, 30, 30, 2.0, 0.9)
    plain = solve(problem, tol=1e-4)
    monkeypatch.setattr("permatch.inference.path_walks._LARGEST", 1.0)
    logs = solve(problem, tol=1e-4)
    assert Walker(check_problem(*problem)[0]).tree.is_log
    assert np.abs(logs.marginals - plain.marginals).max() < 2e-4
    assert logs.log_partition == pytest.approx(plain.log_partition, abs=1e-2)


def sparse_edges(rng, n, degree=3, spread=1.0):
    codes = np.unique(rng.integers(0, n * n, degree * n))
    return pm.EdgeScores(codes // n, codes % n, spread * rng.normal(size=len(codes)), n, n)


def test_any_number_of_threads_gives_the_same_bits(rng, monkeypatch):
    monkeypatch.setattr("permatch.inference.path_walks._ROOTS_PER_TASK", 16)
    edges = sparse_edges(rng, 300)
    engine = pm.PathTree(tol=0.02)
    asked = {"unmatched_left": 0.0, "unmatched_right": 0.5}
    one, more = (engine.infer(edges, n_jobs=n, **asked) for n in (1, 3))
    for name in ("marginals", "unmatched_left", "unmatched_right", "marginal_bounds"):
        np.testing.assert_array_equal(getattr(one, name), getattr(more, name))
    assert one.diagnostics.interval == more.diagnostics.interval
    assert one.log_partition == more.log_partition


def test_rows_sum_to_one_and_intervals_say_so(rng):
    edges = sparse_edges(rng, 200, spread=2.0)
    found = pm.PathTree(sides="left").infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    rows = np.bincount(edges.left, found.marginals, 200) + found.unmatched_left
    np.testing.assert_allclose(rows, 1, rtol=0, atol=1e-12)
    low, high = found.marginal_bounds
    cols = [np.bincount(edges.right, ends, 200) for ends in (low, high)]
    assert (found.unmatched_right_bounds[0] <= 1 - cols[0] + 1e-12).all()
    assert (found.unmatched_right_bounds[1] >= 1 - cols[1] - 1e-12).all()
    assert found.marginal_errors == pytest.approx(
        np.maximum(high - found.marginals, found.marginals - low)
    )


def test_isolated_nodes_and_graphs_without_edges():
    edges = pm.EdgeScores([1], [2], [0.0], n_left=3, n_right=4)
    found = pm.PathTree().infer(edges, unmatched_left=0.0, unmatched_right=[1.0, 1, 0, 1])
    np.testing.assert_allclose(found.unmatched_left, [1.0, 0.5, 1.0])
    np.testing.assert_allclose(found.unmatched_right, [1.0, 1.0, 0.5, 1.0])
    assert found.log_partition == pytest.approx(3.0 + np.log(2.0))
    for shape in ((0, 0), (0, 3), (3, 0), (2, 2)):
        none = pm.PathTree().infer(
            np.full(shape, -np.inf), unmatched_left=2.0, unmatched_right=-1.0
        )
        assert none.log_partition == pytest.approx(2.0 * shape[0] - shape[1])
        assert (none.unmatched_left == 1).all()
        assert (none.unmatched_right == 1).all()
    nothing = pm.PathTree().infer([], unmatched_left=0.0, unmatched_right=0.0)
    assert nothing.diagnostics.interval is None


@pytest.mark.parametrize("asked", [{}, {"unmatched_left": 0.0, "unmatched_right": 0.0}])
def test_a_side_without_nodes_has_bounds_all_the_same(asked):
    def shapes(ends):
        return [np.shape(values) for values in ends]

    for shape in ((0, 0), (0, 3), (3, 0), (4, 0, 0), (4, 0, 2), (4, 2, 0)):
        found = pm.PathTree().infer(np.zeros(shape), **asked)
        assert shapes(found.marginal_bounds) == [shape] * 2
        assert shapes(found.unmatched_left_bounds) == [shape[:-1]] * 2
        assert shapes(found.unmatched_right_bounds) == [(*shape[:-2], shape[-1])] * 2
    edges = pm.EdgeScores([], [], [], 0, 0)
    assert shapes(pm.PathTree().infer(edges, **asked).marginal_bounds) == [(0,)] * 2
    for listed in ([], [np.zeros((0, 0))], [np.zeros((0, 0)), np.zeros((0, 2))]):
        found = pm.PathTree().infer(listed, **asked)
        assert list(map(len, found.marginal_bounds)) == [len(listed)] * 2
        for ends in found.marginal_bounds:
            assert shapes(ends) == shapes(listed)


def test_one_graph_of_a_stack_has_its_own_bounds(rng):
    stack = rng.normal(size=(3, 2, 4))
    asked = {"unmatched_left": 0.0, "unmatched_right": 0.5}
    one = pm.PathTree().infer(stack, **asked).graph(1)
    alone = pm.PathTree().infer(stack[1], **asked)
    for name in ("marginal_bounds", "unmatched_left_bounds", "unmatched_right_bounds"):
        np.testing.assert_allclose(getattr(one, name), getattr(alone, name))


def test_a_long_chain_is_exact():
    # 2 n nodes in a row with strong odds: paths as long as the graph.
    n = 400
    left = np.repeat(np.arange(n), 2)[1:]
    right = np.repeat(np.arange(n), 2)[:-1]
    edges = pm.EdgeScores(left, right, np.full(2 * n - 1, 4.0))
    found = pm.PathTree(tol=1e-8).infer(edges, unmatched_left=0.0, unmatched_right=0.0)
    ratio, log_partition = 1.0, 0.0
    for _ in range(2 * n):
        log_partition -= np.log(ratio)
        ratio = 1.0 / (1.0 + np.exp(4.0) * ratio)
    assert found.log_partition == pytest.approx(log_partition, abs=1e-5)
    assert found.diagnostics.is_converged


def test_scores_whose_digits_are_lost_leave_wide_intervals_that_hold():
    scores = np.array([[1e300, 1e300], [-1e300, 3.0]])
    found = pm.PathTree().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    low, high = found.marginal_bounds
    assert (low <= high).all()
    assert not found.diagnostics.is_converged
    # A score that forbids as well as -inf does not spoil the rest.
    other = np.array([[0.0, -1e300], [1.0, 2.0]])
    found = pm.PathTree().infer(other, unmatched_left=0.0, unmatched_right=0.0)
    other[0, 1] = -np.inf
    same = pm.PathTree().infer(other, unmatched_left=0.0, unmatched_right=0.0)
    np.testing.assert_allclose(found.marginals, same.marginals, atol=1e-12)


def test_steps_run_out(rng):
    edges = sparse_edges(rng, 100, degree=4, spread=2.0)
    asked = {"unmatched_left": 0.0, "unmatched_right": 0.0}
    few = pm.PathTree(tol=1e-4, max_steps=20).infer(edges, **asked)
    told = few.diagnostics
    assert not told.is_converged
    assert told.certificate == told.interval_certificate == "rigorous"
    assert told.figures["n_wide"] > 0
    assert any("did not reach a width of 0.0001" in note for note in told.notes)
    more = pm.PathTree(tol=0.02, max_steps=10**6).infer(edges, **asked)
    assert more.diagnostics.is_converged
    assert (few.marginal_bounds[0] <= more.marginal_bounds[1]).all()  # they overlap
    assert (more.marginal_bounds[0] <= few.marginal_bounds[1]).all()


def test_a_budget_leaves_every_node_an_interval(rng):
    edges = sparse_edges(rng, 200, degree=4, spread=2.0)
    problem, _ = check_problem(edges, 0.0, 0.0)
    engine = pm.PathTree(tol=0.05)
    answer = replace(engine, budget=60.0).infer_problem(problem, Job())
    assert answer.diagnostics.is_converged
    hurried = replace(engine, tol=1e-6, budget=1e-9).infer_problem(problem, Job())
    assert not hurried.diagnostics.is_converged
    low, high = hurried.marginal_bounds
    assert (low <= answer.marginal_bounds[1]).all()
    assert (answer.marginal_bounds[0] <= high).all()
    assert width(answer.marginal_bounds) <= 0.05


def test_walks_leave_their_space_clean(rng):
    problem, _ = check_problem(sparse_edges(rng, 50), 0.0, 0.0)
    walker = Walker(problem)
    space = walker._new_space()
    n_nodes, n_links = 100, len(walker.plan.nodes)
    for is_ordered in (False, True):
        path_tree.bound_roots(
            walker.tree, space, np.arange(n_nodes), is_ordered, 1e-3, 50,
            np.empty((n_links, 3)), np.empty((n_nodes, 3)), np.empty(n_nodes),
            np.empty((n_nodes, 2), dtype=np.int64),
        )  # fmt: skip
        assert not space.state.any()


def test_the_plan_of_a_structure_is_made_once(rng):
    problem, _ = check_problem(sparse_edges(rng, 20), 0.0, 0.0)
    again = replace(problem, scores=problem.scores + 1.0)
    assert Walker(problem).plan is Walker(again).plan


def test_nodes_that_must_be_matched_are_refused():
    scores = np.zeros((3, 3))
    with pytest.raises(errors.PartialMatchingError, match="no unmatched scores were given"):
        pm.PathTree().infer(scores)
    with pytest.raises(
        errors.PartialMatchingError, match=r"right node 1 \(like 1 other\) must"
    ):
        pm.PathTree().infer(
            scores, unmatched_left=0.0, unmatched_right=[0.0, -np.inf, -np.inf]
        )


def test_options_are_checked():
    with pytest.raises(errors.InvalidOptionError, match="sides of PathTree must be one of"):
        pm.PathTree(sides="top")
    with pytest.raises(errors.InvalidOptionError, match="tol of PathTree"):
        pm.PathTree(tol=-0.1)
    with pytest.raises(errors.InvalidOptionError, match="max_steps of PathTree"):
        pm.PathTree(max_steps=-1)
    with pytest.raises(errors.InvalidOptionError, match="must be at most 5000000"):
        pm.PathTree(max_steps=10**9)
    with pytest.raises(errors.InvalidOptionError, match="budget of PathTree"):
        pm.PathTree(budget=0)


def test_some_nodes_are_bounded_alone():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(5, 6))
    problem, _ = check_problem(scores, 0.0, 0.0)
    exact = pm.Frontier().infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    found = bound_nodes(
        problem,
        np.array([1, 3]),
        np.array([2]),
        tol=1e-3,
        max_steps=100_000,
        time=Allowance(None),
        job=Job(),
    )
    low, high = (end.reshape(5, 6) for end in found.edges)
    assert (low <= exact.marginals).all()
    assert (exact.marginals <= high).all()
    is_walked = np.zeros((5, 6), dtype=bool)
    is_walked[[1, 3]] = is_walked[:, 2] = True
    assert ((high - low)[is_walked] < 1e-3).all()
    assert (low[~is_walked] == 0.0).all()
    assert (high[~is_walked] == 1.0).all()
    for ends, truth in (
        (found.left, exact.unmatched_left),
        (found.right, exact.unmatched_right),
    ):
        assert (ends[0] <= truth).all()
        assert (truth <= ends[1]).all()
