"""Nodes with room for several links: against enumeration, brute force and laws."""

import itertools
import math

import numpy as np
import pytest

import permatch as pm
from permatch import errors
from permatch._parallel import Job
from permatch.inference import counted
from permatch.inference.capacities import loosen
from permatch.inference.counted import CountedWalk, counts_plan
from permatch.scores import check_problem

NAMES = ("marginals", "unmatched_left", "unmatched_right")


def brute_force(scores, left, right, capacity_left, capacity_right):
    """Sum over all sets of allowed edges, one by one."""
    edges = np.argwhere(scores > -np.inf).reshape(-1, 2)
    rows, totals = [], []
    for chosen in itertools.product([False, True], repeat=len(edges)):
        own = edges[list(chosen)]
        counts = [np.bincount(own[:, s], minlength=scores.shape[s]) for s in (0, 1)]
        if (counts[0] > capacity_left).any() or (counts[1] > capacity_right).any():
            continue
        free = [counts[0] == 0, counts[1] == 0]
        total = scores[tuple(own.T)].sum() + left[free[0]].sum() + right[free[1]].sum()
        if total > -np.inf:
            rows.append(np.concatenate([chosen, *free]))
            totals.append(total)
    if not totals:
        return None
    log_partition = np.logaddexp.reduce(totals)
    means = np.exp(np.array(totals) - log_partition) @ np.array(rows)
    marginals = np.zeros(scores.shape)
    marginals[tuple(edges.T)] = means[: len(edges)]
    n = len(edges) + len(left)
    return log_partition, marginals, means[len(edges) : n], means[n:]


def unmatched(rng, n, spread):
    """Scores of staying unmatched: all 0, some 0, or some that must be matched."""
    values = spread * rng.normal(size=n)
    kind = rng.integers(4)
    if kind < 2:
        values[rng.random(n) < (1.0, 0.4)[kind]] = 0.0
    elif kind == 2:
        values[rng.random(n) < 0.3] = -np.inf
    return values


def random_case(rng, spread=1.0, largest=4, density=0.8):
    n, k = rng.integers(1, largest + 1, 2)
    is_edge = rng.random((n, k)) < density
    scores = np.where(is_edge, spread * rng.normal(size=(n, k)), -np.inf)
    return scores, {
        "unmatched_left": unmatched(rng, n, spread),
        "unmatched_right": unmatched(rng, k, spread),
        "capacity_left": rng.integers(1, 4, n),
        "capacity_right": rng.integers(1, 5, k),
    }


def assert_same(found, other, atol=1e-11):
    scale = 1.0 + np.abs(other.log_partition)
    np.testing.assert_allclose(
        np.asarray(found.log_partition) / scale, other.log_partition / scale, atol=1e-12
    )
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(found, name), getattr(other, name), rtol=0, atol=atol
        )


@pytest.mark.parametrize("engine", ["enumeration", "frontier", "auto"])
def test_against_brute_force(rng, engine):
    n_infeasible = 0
    for _ in range(25):
        scores, options = random_case(rng, largest=3)
        wanted = brute_force(scores, *options.values())
        if wanted is None:
            n_infeasible += 1
            with pytest.raises(errors.InfeasibleGraphError):
                pm.infer(scores, engine, **options)
            continue
        found = pm.infer(scores, engine, **options)
        assert found.log_partition == pytest.approx(wanted[0], abs=1e-12)
        assert found.is_exact
        for name, own in zip(NAMES, wanted[1:], strict=True):
            np.testing.assert_allclose(getattr(found, name), own, rtol=0, atol=1e-13)
    assert n_infeasible < 20


@pytest.mark.parametrize("spread", [1.0, 30.0, 300.0, 2000.0])
def test_against_enumeration(rng, spread):
    n_solved = 0
    for _ in range(40):
        scores, options = random_case(rng, spread)
        try:
            wanted = pm.infer(scores, "enumeration", **options)
        except errors.InfeasibleGraphError:
            continue
        n_solved += 1
        assert_same(pm.infer(scores, "frontier", **options), wanted)
    assert n_solved > 10


def test_states_that_win_late_are_not_lost():
    # On the way there, what wins in the end is lost beside what unmatched nodes undo.
    scores = np.array(
        [
            [-252.72589248, -346.0768204, 467.83210274, -335.49301605],
            [389.42558989, 150.04118997, -91.00524207, -289.26921093],
            [260.62337421, 432.41279919, -233.5061022, -74.68630147],
        ]
    )
    options = {"unmatched_left": 499.99023904, "unmatched_right": 0.0}
    options["capacity_left"] = np.inf
    found = pm.infer(scores, "frontier", **options)
    assert_same(found, pm.infer(scores, "enumeration", **options))
    np.testing.assert_allclose(found.unmatched_left, [1.0, 1.0, 0.0], atol=1e-12)


def test_logs_agree_with_floats(rng):
    for _ in range(20):
        scores, options = random_case(rng, largest=5)
        problem, _ = check_problem(
            scores, 0.3, -0.4, capacity_left=options["capacity_left"], capacity_right=2
        )
        if not problem.has_capacities or not problem.structure.n_edges:
            continue
        problem = loosen(problem).problem
        plan = counts_plan(problem)
        found, other = (
            counted.Found(
                *np.zeros((2, len(plan.width))),
                *(np.zeros(problem.structure.n_edges), np.ones(problem.structure.n_left)),
                np.ones(problem.structure.n_right),
            )
            for _ in range(2)
        )
        for c in range(len(plan.width)):
            CountedWalk(plan, c, problem).solve(found)
            CountedWalk(plan, c, problem).solve_by_logs(other)
        np.testing.assert_allclose(found.totals, other.totals, atol=1e-12)
        for name in ("marginals", "left", "right"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(other, name), rtol=0, atol=1e-13
            )


def test_states_lost_by_floats_are_found_by_logs():
    """The first node must be linked, at a price that floats hold for nothing."""
    n = 6
    scores = np.zeros((n, n))
    scores[:, 0] = -1e3
    options = {
        "unmatched_left": 0.0,
        "unmatched_right": np.where(np.arange(n) == 0, -np.inf, 1e3),
        "capacity_left": 1,
        "capacity_right": 3,
    }
    found = pm.infer(scores[:, :3], "frontier", **_cut(options, 3))
    wanted = pm.infer(scores[:, :3], "enumeration", **_cut(options, 3))
    assert_same(found, wanted)


def _cut(options, k):
    return options | {"unmatched_right": options["unmatched_right"][:k]}


def test_one_is_the_matching_of_today(rng):
    scores = rng.normal(size=(5, 7))
    plain = pm.infer(scores, unmatched_left=0.0, unmatched_right=0.0)
    for one in (1, np.ones(5, int), 1.0):
        found = pm.infer(scores, unmatched_left=0.0, unmatched_right=0.0, capacity_left=one)
        assert found.log_partition == plain.log_partition
        for name in NAMES:
            np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
    square = rng.normal(size=(6, 6))
    found = pm.infer(square, capacity_left=1, capacity_right=1)
    np.testing.assert_array_equal(found.marginals, pm.infer(square).marginals)


def test_transposing_transposes(rng):
    for _ in range(10):
        scores, options = random_case(rng, largest=5)
        options |= {"unmatched_left": 0.2, "unmatched_right": -0.7}
        found = pm.infer(scores, "frontier", **options)
        other = pm.infer(
            scores.T,
            "frontier",
            unmatched_left=-0.7,
            unmatched_right=0.2,
            capacity_left=options["capacity_right"],
            capacity_right=options["capacity_left"],
        )
        assert found.log_partition == pytest.approx(other.log_partition, abs=1e-12)
        np.testing.assert_allclose(found.marginals, other.marginals.T, atol=1e-13)
        np.testing.assert_allclose(found.unmatched_left, other.unmatched_right, atol=1e-13)


def test_without_limits_edges_are_independent(rng):
    scores = rng.normal(size=(30, 40))
    found = pm.infer(
        scores,
        "frontier",
        unmatched_left=0.0,
        unmatched_right=0.0,
        capacity_left=math.inf,
        capacity_right=math.inf,
    )
    own = 1.0 / (1.0 + np.exp(-scores))
    np.testing.assert_allclose(found.marginals, own, atol=1e-14)
    np.testing.assert_allclose(found.unmatched_left, (1 - own).prod(axis=1), atol=1e-14)
    assert found.log_partition == pytest.approx(np.log1p(np.exp(scores)).sum())


@pytest.mark.parametrize("engine", ["frontier", "auto", "bethe", "path_tree"])
def test_one_to_many_without_a_limit_is_a_choice_per_node(rng, engine):
    """Every left node chooses on its own, whatever the size of the component."""
    scores = rng.normal(size=(200, 50))
    found = pm.infer(
        scores, engine, unmatched_left=0.5, unmatched_right=0.0, capacity_right=math.inf
    )
    weights = np.exp(scores - 0.5)
    own = weights / (1.0 + weights.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.marginals, own, atol=1e-9)
    np.testing.assert_allclose(found.unmatched_right, (1 - own).prod(axis=0), atol=1e-7)


def test_nodes_that_fall_apart_keep_their_joint_probability(rng):
    """A node without a limit may have two copies' worth of edges in one component."""
    scores = rng.normal(size=(3, 3))
    options = {"unmatched_left": 0.0, "unmatched_right": [0.0, 0.0, 0.4]}
    options |= {"capacity_left": [1, 2, 1], "capacity_right": [3, 3, 2]}
    problem, _ = check_problem(scores, **options)
    loose = loosen(problem)
    assert len(loose.right) == 3  # all edges hang together by the last right node
    found = pm.infer(scores, "frontier", **options)
    assert_same(found, pm.infer(scores, "enumeration", **options))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 3), (3, 1), (2, 2)])
def test_graphs_without_edges(shape):
    found = pm.infer(
        np.full(shape, -np.inf), unmatched_left=2.0, unmatched_right=-1.0, capacity_left=2
    )
    assert found.log_partition == pytest.approx(2.0 * shape[0] - shape[1])
    assert (found.unmatched_left == 1).all()
    assert (found.unmatched_right == 1).all()


def test_stacks_lists_and_sparse_scores(rng):
    graphs = rng.normal(size=(3, 3, 4))
    options = {"unmatched_left": 0.3, "unmatched_right": -0.2}
    capacity = rng.integers(1, 4, size=(3, 4))
    each = [
        pm.infer(graph, "frontier", **options, capacity_right=own)
        for graph, own in zip(graphs, capacity, strict=True)
    ]
    stacked = pm.infer(graphs, "frontier", **options, capacity_right=capacity)
    listed = pm.infer(list(graphs), "frontier", **options, capacity_right=list(capacity))
    rows, cols = np.indices((3, 4)).reshape(2, -1)
    edges = [pm.EdgeScores(rows, cols, graph.ravel()) for graph in graphs]
    sparse = pm.infer(edges, "auto", **options, capacity_right=list(capacity))
    for g, own in enumerate(each):
        for found in (stacked, listed, sparse):
            assert found.log_partition[g] == pytest.approx(own.log_partition, abs=1e-13)
            np.testing.assert_allclose(
                np.ravel(found.marginals[g]), own.marginals.ravel(), atol=1e-14
            )
            np.testing.assert_allclose(
                found.unmatched_right[g], own.unmatched_right, atol=1e-14
            )


def band_problem(rng, n=60, reach=3):
    far = np.abs(np.subtract.outer(np.arange(n), np.arange(n))) > reach
    scores = np.where(far, -np.inf, rng.normal(size=(n, n)))
    options = {"unmatched_left": 0.2, "unmatched_right": -0.3}
    return scores, options | {"capacity_left": 1, "capacity_right": 2}


def test_parts_slices_and_threads_change_nothing(rng, monkeypatch):
    scores, options = band_problem(rng)
    several = [scores, scores[:20, :30], scores[5:50, :40]]
    one = pm.infer(several, "frontier", **options)
    for n_jobs in (2, 4):
        found = pm.infer(several, "frontier", **options, n_jobs=n_jobs)
        np.testing.assert_array_equal(found.log_partition, one.log_partition)
        for own, other in zip(found.marginals, one.marginals, strict=True):
            np.testing.assert_array_equal(own, other)
    monkeypatch.setattr(counted, "_LOG2_LONG", 0.0)
    monkeypatch.setattr(counted, "MOST_KEPT", 2.0**12)
    found = pm.infer(several, "frontier", **options)
    np.testing.assert_array_equal(found.log_partition, one.log_partition)
    for own, other in zip(found.marginals, one.marginals, strict=True):
        np.testing.assert_array_equal(own, other)


def test_parts_need_less_memory(rng, monkeypatch):
    scores, options = band_problem(rng, 100)
    plans = []
    for most in (2.0**40, 2.0**10):
        monkeypatch.setattr(counted, "MOST_KEPT", most)
        problem, _ = check_problem(scores, **options)
        plans.append(counts_plan(loosen(problem).problem))
    assert plans[1].largest < plans[0].largest - 1.5


def test_other_engines_name_those_that_count(rng):
    scores, options = random_case(rng)
    options |= {"unmatched_left": 0.5, "unmatched_right": 0.5, "capacity_right": 2}
    scores = rng.normal(size=(3, 4))
    options["capacity_left"] = 1
    for engine in ("bethe", "path_tree", "nesting", "glynn", "swap_chain", "sparsified"):
        with pytest.raises(errors.CapacityError, match=r"'frontier'.*or engine='auto'"):
            pm.infer(scores, engine, **options)


@pytest.mark.parametrize("engine", ["frontier", "auto"])
def test_wide_components_are_refused_with_their_cost(rng, engine):
    scores = rng.normal(size=(30, 30))
    options = {"unmatched_left": 0.0, "unmatched_right": 0.0, "capacity_right": 2}
    with pytest.raises(errors.SizeLimitError, match=r"2\^\d+ states.*30 x 30 nodes"):
        pm.infer(scores, engine, **options)
    brief = pm.AutoEngine(budget=1e-6)
    with pytest.raises(errors.SizeLimitError, match="auto has a budget of 1e-06 s"):
        brief.infer(scores[:8, :8], **options)
    some = pm.Frontier(max_width=4)
    with pytest.raises(errors.SizeLimitError, match=r"max_width=\d+\)"):
        some.infer(scores[:6, :6], **options)


@pytest.mark.parametrize(
    ("capacity", "match"),
    [
        (0, "at least 1.*got 0.*forbid its edges"),
        (-2, "got -2"),
        (1.5, "got 1.5"),
        (float("nan"), "got nan"),
        ([1, 2], r"shape \(3,\); got shape \(2,\)"),
        ("many", "got 'many'"),
        (True, "got True"),
        ([[1], [1, 2]], r"got \[\[1\], \[1, 2\]\]"),
        (np.ma.array([1, 2, 3], mask=[0, 1, 0]), "masked"),
    ],
)
def test_capacities_are_checked(capacity, match):
    with pytest.raises(errors.InvalidOptionError, match=f"capacity_left must be.*{match}"):
        pm.infer(np.zeros((3, 3)), unmatched_left=0.0, capacity_left=capacity)
    with pytest.raises(errors.InvalidOptionError, match="capacity_left must be"):
        pm.infer(np.zeros((2, 3, 3)), unmatched_left=0.0, capacity_left=capacity)


def test_capacities_that_are_too_low_are_named():
    with pytest.raises(errors.InfeasibleGraphError, match="capacities are too low"):
        pm.infer(np.zeros((3, 1)), unmatched_left=-np.inf, capacity_right=2)
    found = pm.infer(np.zeros((3, 1)), unmatched_left=-np.inf, capacity_right=3)
    assert found.log_partition == pytest.approx(0.0)


def test_a_list_of_capacities_has_one_entry_per_graph():
    with pytest.raises(errors.InvalidOptionError, match="one entry per graph, 2; got 3"):
        pm.infer([np.zeros((2, 2))] * 2, capacity_left=[1, 2, 3])


def test_selections_and_graphs_keep_capacities(rng):
    scores = np.where(np.kron(np.eye(3), np.ones((2, 2))) > 0, 0.0, -np.inf)
    capacity = np.array([1, 1, 2, 1, 1, 3])
    problem, _ = check_problem(scores, 0.0, 0.0, capacity_left=capacity, capacity_right=1)
    assert problem.capacity_right is None
    assert problem.select(np.array([0])).problem.capacity_left is None
    np.testing.assert_array_equal(
        problem.select(np.array([2, 1])).problem.capacity_left, [1, 3, 2, 1]
    )
    np.testing.assert_array_equal(problem.transposed().capacity_right, capacity)
    kept = problem.kept(np.arange(problem.structure.n_edges) != 0)
    np.testing.assert_array_equal(kept.capacity_left, capacity)
    two, _ = check_problem([scores, scores], 0.0, 0.0, capacity_left=[1, capacity])
    assert two.graph(0).capacity_left is None
    np.testing.assert_array_equal(two.graph(1).capacity_left, capacity)


def test_infeasible_graphs_are_named(rng):
    scores = np.full((2, 3, 3), -np.inf)
    scores[:, :, 0] = 0.0
    free = np.array([[0.0, 0.0, 0.0], [-np.inf, -np.inf, -np.inf]])
    for engine in ("frontier", "auto"):
        with pytest.raises(errors.InfeasibleGraphError, match="graph 1"):
            pm.infer(
                scores, engine, unmatched_left=free, unmatched_right=0.0, capacity_right=2
            )


def test_the_answer_for_a_problem_has_its_arrays(rng):
    scores, options = band_problem(rng, 8)
    problem, _ = check_problem(scores, **options)
    found = pm.Frontier().infer_problem(problem, Job())
    assert found.marginals.shape == (problem.structure.n_edges,)
    assert found.diagnostics.engine == "frontier"
    assert found.diagnostics.seconds > 0
