"""The graphs that partial matchings are timed on, and their rival."""

import importlib
import sys

import numpy as np
import pytest

import permatch as pm
from benchmarks import sparse_graphs
from benchmarks.rivals import ehm2
from permatch.scores import check_problem


@pytest.mark.parametrize("n", [3, 4, 12, 13, 500])
def test_small_components_have_three_edges_a_node_and_are_small(n):
    edges = sparse_graphs.small_components(n, np.random.default_rng(n))
    assert (edges.n_left, edges.n_right) == (n, n)
    assert (np.bincount(edges.left, minlength=n) == 3).all()
    problem, _ = check_problem(edges, 0.0, 0.0)  # refuses edges that occur twice
    assert max(sizes.max() for sizes in problem.structure.components.sizes) <= 10


def test_random_edges_are_distinct_and_as_many_as_asked_for():
    rng = np.random.default_rng(0)
    edges = sparse_graphs.random_edges(300, 1200, (-1.0, 2.0), rng)
    assert len(edges) == 1200
    assert len(np.unique(edges.left * 300 + edges.right)) == 1200


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2)])
def test_rival_agrees_with_enumeration(shape):
    pytest.importorskip("pyehm")
    scores = np.random.default_rng(0).normal(size=shape)
    scores[1, 0] = -np.inf
    exact = pm.infer(scores, "enumeration", unmatched_left=0.0, unmatched_right=0.0)
    assert ehm2.marginals(scores) == pytest.approx(exact.marginals, abs=1e-12)


def test_reason_is_given_where_the_rival_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyehm", None)
    assert "'.[bench]'" in ehm2.why_missing()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["partial", "path_tree", "linking", "tracking"])
def test_quick_benchmarks_run(name):
    report = importlib.import_module(f"benchmarks.bench_{name}").run(is_quick=True)
    assert all(np.isfinite(row.figure) for row in report.rows)
    assert not [row.what for row in report.rows if "NOT EXACT" in row.accuracy]
    misses = [row.figure for row in report.rows if "misses" in row.unit]
    assert misses == ([0] if name == "path_tree" else [])
