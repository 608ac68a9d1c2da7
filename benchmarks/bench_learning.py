"""What the objective adds to the engine, and how long a fit takes."""

import numpy as np

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, spreads
from permatch.labels import check_known
from permatch.objectives import MatchingLikelihood, Parameters, arrange
from permatch.pages.demo_learning import Setup, draw

_MOST_FITS = 12.0  # that a search for alpha may take the time of


def run(is_quick: bool) -> Report:
    report = Report("Learning: 60 graphs, m = 20, 60 features, two threads")
    train = draw(Setup()).train(60)
    engine = pm.AutoEngine()
    scale = np.concatenate([g.features.reshape(-1, 60) for g in train.graphs]).std(axis=0)
    labels = check_known(train.graphs, train.matchings)
    parameters = Parameters.of(train.graphs[0], is_any=False)
    parts = arrange(train.graphs, labels, parameters)
    parts[0].features[...] /= np.where(scale > 0, scale, 1.0)
    weights = np.full(60, 1 / 60)
    objective = MatchingLikelihood(parts, weights, 0.01, engine, n_jobs=2)
    coef = -0.1 * np.ones(60)
    scores = parts[0].scores(coef)[0]
    gradient, single = race(
        lambda: objective.value_and_grad(coef),
        lambda: engine.infer(scores, n_jobs=1),
        repeats=5 if is_quick else 15,
    )
    ideal = 60 * single.best / 2
    report.add(
        "one exact gradient",
        "60 single graphs / 2",
        milliseconds(gradient.best),
        milliseconds(ideal),
        gradient.best / ideal,
        "of rival",
        1.3,
        spread=spreads(gradient, single),
    )
    model = pm.MAPMatching(alpha=0.01, n_jobs=2)
    (fit,) = race(lambda: model.fit(*train), repeats=1 if is_quick else 2)
    last = model.history_[-1]
    report.add(
        "a fit from zero, gradient norm 1e-6",
        "none",
        f"{last['evaluations']} evaluations",
        "",
        fit.best,
        "s",
        20.0,
        accuracy=f"gradient norm {last['grad_norm']:.0e}",
        spread=f"{fit.spread:.2f}",
    )
    margin = pm.MaxMarginMatching(alpha=0.01, n_jobs=2)
    (fit,) = race(lambda: margin.fit(*train), repeats=1)
    report.add(
        "max-margin, duality gap 1e-3",
        "none",
        f"{margin.n_iter_} rounds",
        "",
        fit.best,
        "s",
        None,
        accuracy=f"gap {margin.gap_:.0e}",
    )
    _search(report, 1 if is_quick else 3)
    return report


def _search(report: Report, repeats: int) -> None:
    """Add a search for alpha next to one fit, on 60 graphs of 12 nodes a side."""
    rng = np.random.default_rng(0)
    graphs = rng.normal(size=(60, 12, 12, 10))
    hidden = graphs @ rng.normal(size=10) + rng.normal(size=graphs.shape[:-1])
    data = graphs, [pm.best_matching(scores) for scores in hidden]
    search = pm.MAPMatchingCV(n_jobs=2)
    model = pm.MAPMatching(search.fit(*data).alpha_, n_jobs=2)
    ours, one = race(lambda: search.fit(*data), lambda: model.fit(*data), repeats=repeats)
    report.add(
        f"MAPMatchingCV, {search.cv_results_['scores'].size} fits, 60 graphs, m = 12",
        "one fit",
        milliseconds(ours.best),
        milliseconds(one.best),
        ours.best / one.best,
        "of rival",
        _MOST_FITS,
        accuracy=f"alpha {search.alpha_:g}",
        spread=spreads(ours, one),
    )
