"""Second derivatives of the likelihood in gradients, and fits by Newton's method."""

from pathlib import Path

import numpy as np

import permatch as pm
from benchmarks.bench_linking import candidates
from benchmarks.harness import Report, milliseconds, race, spreads
from permatch._parallel import Job
from permatch.inference.tangents import Directions, infer_tangents
from permatch.labels import check_known
from permatch.objectives import MatchingLikelihood, Parameters, arrange
from permatch.scores import stacked_problem

_LINKS = Path(__file__).parents[1] / "examples" / "links.csv"
_STEP = 1e-4


def run(is_quick: bool) -> Report:
    report = Report("Second derivatives, one thread; Newton's method beside L-BFGS")
    repeats = 2 if is_quick else 5
    rng = np.random.default_rng(3)
    for n_graphs, size, n_features, target in (
        (60, 20, 60, 30.0),
        (1000, 6, 10, None),
        (60, 12, 60, None),
    ):
        graphs = list(rng.normal(size=(n_graphs, size, size, n_features)))
        labels = [rng.permutation(size) for _ in graphs]
        what = f"Hessian: {n_graphs} graphs, m = {size}, {n_features} features"
        objective = _likelihood(graphs, labels, is_any=False)
        _hessian(
            report, what, objective, 0.3 * rng.normal(size=n_features), repeats, target
        )
    n_edges = 10_000 if is_quick else 100_000
    edges, features, matching = candidates(n_edges, rng)
    graph = pm.BipartiteGraph.from_edges(
        edges.left, edges.right, features, edges.n_left, edges.n_right
    )
    objective = _likelihood([graph], [matching], is_any=True)
    what = f"Hessian: a table of {n_edges:,} pairs, 10 features and an intercept"
    _hessian(report, what, objective, 0.3 * rng.normal(size=11), repeats, None)
    for n_graphs, n, k in ((2000, 6, 6), (128, 12, 12), (32, 14, 14), (256, 8, 12)):
        _one_direction(report, rng, n_graphs, n, k, repeats)
    horses = pm.datasets.silhouettes(
        n_points=14, n_images=60, n_contour=200, shear=(-1.5, 1.5), rng=0
    )
    graphs, truths, _ = horses.pairs(30, rng=0)
    links = pm.datasets.read_edge_table(_LINKS)
    table = [graph], [matching]
    for name, data in (
        ("the horse, m = 14, 60 features", (graphs, truths)),
        ("examples/links.csv, 3 features", (links.graphs, links.matchings)),
        (f"a table of {n_edges:,} pairs, 10 features", table),
    ):
        for alpha in (1e-3, 1e-1):
            _solvers(report, f"{name}, alpha {alpha:g}", data, alpha, repeats)
    return report


def _likelihood(graphs, labels, *, is_any):
    graphs = [
        g if isinstance(g, pm.BipartiteGraph) else pm.BipartiteGraph(g) for g in graphs
    ]
    parameters = Parameters.of(graphs[0], is_any=is_any)
    parts = arrange(graphs, check_known(graphs, labels), parameters)
    shares = np.full(len(graphs), 1 / len(graphs))
    return MatchingLikelihood(parts, shares, 0.01, pm.AutoEngine())


def _hessian(report, what, objective, coef, repeats, target):
    """Add the time of the Hessian in gradients, and how far it is from differences."""
    hessian, gradient = race(
        lambda: objective.hessian(coef),
        lambda: objective.value_and_grad(coef),
        repeats=repeats,
    )
    found = objective.curvature(coef)
    step = _STEP * np.eye(len(coef))[0]
    above, below = (objective.value_and_grad(coef + s * step)[1] for s in (1, -1))
    column = (above - below) / (2 * _STEP)
    off = np.abs(found.product[0] - column).max() / np.abs(column).max()
    report.add(
        what,
        "a gradient",
        milliseconds(hessian.best),
        milliseconds(gradient.best),
        hessian.best / gradient.best,
        "gradients",
        target,
        accuracy=f"{off:.0e} from differences; {found.method}",
        spread=spreads(hessian, gradient),
    )


def _one_direction(report, rng, n_graphs, n, k, repeats):
    """Add the time of derivatives of all probabilities along one direction."""
    left, right = rng.normal(size=(n_graphs, n)), rng.normal(size=(n_graphs, k))
    scores = rng.normal(size=(n_graphs, n, k))
    problem, job = stacked_problem(scores, left, right), Job(1, False)
    sizes = problem.structure.n_edges, n_graphs * n, n_graphs * k
    along = Directions(*(rng.normal(size=(size, 1)) for size in sizes))
    engine = pm.AutoEngine()
    tangents, inference = race(
        lambda: infer_tangents(problem, along, job),
        lambda: engine.infer_problem(problem, job),
        repeats=4 * repeats,
    )
    found = infer_tangents(problem, along, job).edges[:, 0]
    above, below = (
        engine.infer_problem(
            stacked_problem(
                scores + step * along.edges.reshape(scores.shape),
                left + step * along.left.reshape(left.shape),
                right + step * along.right.reshape(right.shape),
            ),
            job,
        ).marginals
        for step in (_STEP, -_STEP)
    )
    off = np.abs(found - (above - below) / (2 * _STEP)).max() / np.abs(found).max()
    report.add(
        f"double backward: {n_graphs:,} graphs of {n} x {k}, all may stay unmatched",
        "inference, the backward",
        milliseconds(tangents.best),
        milliseconds(inference.best),
        tangents.best / inference.best,
        "times",
        4.0,
        accuracy=f"{off:.0e} from differences",
        spread=spreads(tangents, inference),
    )


def _solvers(report, what, data, alpha, repeats):
    """Add evaluations and seconds of both solvers to the same optimum."""
    newton = pm.MAPMatching(alpha, solver="newton-cg")
    quasi = pm.MAPMatching(alpha, solver="lbfgs")
    times = race(lambda: newton.fit(*data), lambda: quasi.fit(*data), repeats=repeats)
    n_newton, n_quasi = (m.history_[-1]["evaluations"] for m in (newton, quasi))
    off = newton.history_[-1]["loss"] - quasi.history_[-1]["loss"]
    report.add(
        what,
        "lbfgs",
        f"{n_newton} evaluations, {milliseconds(times[0].best)}",
        f"{n_quasi} evaluations, {milliseconds(times[1].best)}",
        n_newton / n_quasi,
        "of its evaluations",
        1.0,
        accuracy=f"loss {off:+.0e}; {times[0].best / times[1].best:.2f} of its seconds",
        spread=spreads(*times),
    )
