"""Linking two registers: candidate tables read, learnt from, and linked."""

import tempfile
from pathlib import Path

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, run_python, spreads, timed
from benchmarks.rivals.single_best_links import SingleBestLinks
from benchmarks.scored_pairs import ScoredPairs, simulate
from benchmarks.sparse_graphs import small_components
from permatch.datasets import read_edge_table
from permatch.labels import check_known
from permatch.objectives import MatchingLikelihood, Parameters, arrange

# Thresholds of the rival; people without true links use the last.
_THRESHOLDS = 0.05, 0.1, 0.2, 0.5

_PEAK = """
import numpy as np
import permatch as pm
from benchmarks.harness import memory_bytes
from benchmarks.scored_pairs import simulate

pairs = simulate({}, {}, np.random.default_rng(5)).frame()
before = memory_bytes("VmRSS")
pm.link(pairs)
print(before, memory_bytes("VmHWM"))
"""

TRUTH = np.linspace(-1.0, 1.0, 10)


def run(is_quick: bool) -> Report:
    report = Report("Linking: scored pairs, and pairs with 10 features")
    rng = np.random.default_rng(9)
    _linking(report, is_quick)
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


def _linking(report, is_quick):
    """Add the links of a scored table, and how good they are, beside splink's."""
    sizes = (10_000, 4000) if is_quick else (1_000_000, 400_000)
    pairs = simulate(*sizes, np.random.default_rng(5))
    frame = pairs.frame()
    rival = SingleBestLinks(frame)
    ours, theirs = race(
        lambda: pm.link(frame), lambda: rival.link(_THRESHOLDS[-1]), repeats=3
    )
    links = pm.link(frame)
    is_linked = links["decision"] == "link"
    is_exact = links["is_exact"]
    f1 = _f1(is_linked, pairs)
    rivals = [_f1(rival.is_linked(frame, rival.link(t)), pairs) for t in _THRESHOLDS]
    off = (links["high"] - links["low"])[~is_exact]
    what = f"{len(frame):,} pairs, {sizes[1]:,} + {sizes[1]:,} records"
    report.add(
        f"link, {what}",
        "splink, single best links",
        milliseconds(ours.best),
        milliseconds(theirs.best),
        ours.best,
        "s",
        None if is_quick else 10.0,
        accuracy=f"{is_exact.mean():.1%} of pairs exact, the others known to within "
        f"{off.mean() if len(off) else 0.0:.1g} in the mean; "
        f"{np.count_nonzero(links['decision'] == 'review')} to review",
        spread=spreads(ours, theirs),
        note=f"{ours.best / theirs.best:.2g} times the rival, which is run in memory "
        "without DuckDB's ordering of joins: with it, it takes far longer",
    )
    before, peak = map(int, run_python(_PEAK.format(*sizes)).split())
    report.add(
        f"memory at the peak, {what}",
        "none",
        f"{(peak - before) / 1e9:.2f} GB beside the table",
        "",
        peak / 1e9,
        "GB",
        None if is_quick else 3.0,
    )
    best = int(np.argmax(rivals))
    listed = ", ".join(f"{v:.3f} ({t})" for t, v in zip(_THRESHOLDS, rivals, strict=True))
    report.add(
        f"F1 of {np.count_nonzero(is_linked):,} links, {what}",
        f"splink, the best threshold, {_THRESHOLDS[best]}",
        f"{f1:.4f}",
        f"{rivals[best]:.4f}",
        f1 - rivals[best],
        "above the rival",
        None if is_quick else 0.0,
        is_lower_better=False,
        note=f"the rival's F1 by threshold: {listed}",
    )
    scores = [
        float(np.mean((own - pairs.is_true) ** 2))
        for own in (links["probability"], pairs.probability)
    ]
    report.add(
        f"Brier score, {what}",
        "the pair probabilities",
        f"{scores[0]:.4f}",
        f"{scores[1]:.4f}",
        scores[0] / scores[1],
        "of rival",
        None if is_quick else 0.6,
    )


def _f1(is_linked: np.ndarray, pairs: ScoredPairs) -> float:
    """Return F1 of links among all that are true, whether candidates or not."""
    n_right = np.count_nonzero(is_linked & pairs.is_true)
    return 2.0 * n_right / (np.count_nonzero(is_linked) + pairs.n_links)


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
