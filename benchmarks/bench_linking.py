"""Linking two registers: candidate tables read, scored and learnt from."""

import tempfile
from pathlib import Path

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, spreads, timed
from benchmarks.sparse_graphs import small_components
from permatch.datasets import read_edge_table
from permatch.labels import check_known
from permatch.objectives import MatchingLikelihood, Parameters, arrange

TRUTH = np.linspace(-1.0, 1.0, 10)


def run(is_quick: bool) -> Report:
    report = Report("Linking: candidate pairs with 10 features")
    rng = np.random.default_rng(9)
    _reading(report, rng, is_quick)
    _learning(report, rng, is_quick)
    return report


def candidates(n_edges: int, rng: np.random.Generator):
    """Return edges, features (n_edges, 10) and a matching drawn by their true weights."""
    edges = small_components(n_edges // 3, rng)
    features = rng.normal(size=(len(edges), 10)).round(4)
    sides = edges.n_left, edges.n_right
    scored = pm.EdgeScores(edges.left, edges.right, features @ TRUTH, *sides)
    law = pm.MatchingDistribution(scored, unmatched_left=0.0, unmatched_right=0.0)
    return edges, features, law.sample(1, rng=rng)[0]


def _reading(report, rng, is_quick):
    """Add what grouping a table costs beside reading it."""
    import pandas
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    edges, features, matching = candidates(6000 if is_quick else 1_000_000, rng)
    columns = {
        "left": np.char.add("a", edges.left.astype(str)),
        "right": np.char.add("b", edges.right.astype(str)),
        "label": (matching[edges.left] == edges.right).astype(int),
        **{f"x{k}": features[:, k] for k in range(10)},
    }
    table = pyarrow.table(columns)
    with tempfile.TemporaryDirectory() as folder:
        for kind, write, rival, target in (
            ("Parquet", pyarrow.parquet.write_table, pandas.read_parquet, 2.0),
            ("CSV", pyarrow.csv.write_csv, pandas.read_csv, 8.0),
        ):
            path = Path(folder) / f"pairs.{kind.lower()}"
            write(table, path)
            ours, theirs = race(
                lambda path=path: read_edge_table(path),
                lambda path=path, rival=rival: rival(path),
                repeats=3,
            )
            (graph,) = read_edge_table(path).graphs
            n_read = graph.n_edges
            report.add(
                f"{kind}, {len(edges):,} rows",
                f"pandas.{rival.__name__}, no graphs",
                milliseconds(ours.best),
                milliseconds(theirs.best),
                ours.best,
                "s",
                None if is_quick else target,
                accuracy=f"{n_read:,} edges read",
                spread=spreads(ours, theirs),
                note=f"{ours.best / theirs.best:.2g} times the rival",
            )


def _learning(report, rng, is_quick):
    """Add one exact gradient and a fit on one graph in small components."""
    edges, features, matching = candidates(3000 if is_quick else 300_000, rng)
    graph = pm.BipartiteGraph.from_edges(
        edges.left, edges.right, features, edges.n_left, edges.n_right
    )
    parameters = Parameters.of(graph, is_any=True)
    parts = arrange([graph], check_known([graph], [matching]), parameters)
    objective = MatchingLikelihood(parts, np.ones(1), 0.01, pm.AutoEngine())
    coef = np.full(len(parameters), 0.1)
    (gradient,) = race(lambda: objective.value_and_grad(coef), repeats=5)
    what = f"{edges.n_left:,} + {edges.n_right:,} nodes, {len(edges):,} pairs"
    report.add(
        f"one exact gradient, {what}",
        "none",
        milliseconds(gradient.best),
        "",
        gradient.best,
        "s",
        None if is_quick else 1.2,
        accuracy="exact" if objective.is_exact else "NOT EXACT",
        spread=f"{gradient.spread:.2f}",
    )
    model = pm.MAPMatching(alpha=0.01)
    fit, _ = timed(lambda: model.fit([graph], [matching]))
    error = np.abs(model.coef_ - TRUTH).max()
    report.add(
        f"a fit from zero, {what}",
        "none",
        f"{model.history_[-1]['evaluations']} evaluations",
        "",
        fit.best,
        "s",
        None if is_quick else 60.0,
        accuracy=f"true coefficients found within {error:.3f}, "
        f"gradient norm {model.history_[-1]['grad_norm']:.0e}",
    )
