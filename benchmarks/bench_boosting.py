"""Boosted trees by the likelihood of whole lists beside LightGBM's `lambdarank`.

Both grow the same number of trees of the same size on the same binned data; only what the
trees are fitted to differs.  Binning is not timed.
"""

import permatch as pm
from benchmarks.bench_ranking import first_fold, mslr_like
from benchmarks.harness import Report, milliseconds, race, spreads

_ROUNDS = 30
_MOST = 2.0  # of the time of a round of lambdarank


def run(is_quick: bool) -> Report:
    report = Report("A round of boosting with whole lists, one thread")
    *ohsumed, name = first_fold()
    large = mslr_like(100 if is_quick else 1000)
    for what, data in ((name, ohsumed), ("MSLR-like, 5 grades", large)):
        for num_leaves in (7, 31):
            _add(report, what, data, num_leaves, 3 if is_quick else 7)
    return report


def _add(report: Report, what: str, data, num_leaves: int, repeats: int) -> None:
    import lightgbm

    X, y, group = data
    objective = pm.boosting.RankMatchObjective()
    options = {"num_leaves": num_leaves, "num_threads": 1, "verbosity": -1}
    binned = lightgbm.Dataset(X, y, group=group, params=options, free_raw_data=False)
    binned.construct()

    def grow(kind):
        return lambda: lightgbm.train(options | {"objective": kind}, binned, _ROUNDS)

    ours, theirs = race(grow(objective), grow("lambdarank"), repeats=repeats)
    scores = grow(objective)().predict(X)
    ndcg = (pm.metrics.NDCG @ 10)(y, scores, group=group)
    forms = objective.forms(y, group)
    kinds = ", ".join(f"{n} {form}" for form, n in forms.items() if n)
    report.add(
        f"{what}, {len(X):,} documents, {num_leaves} leaves",
        "LightGBM lambdarank",
        milliseconds(ours.best / _ROUNDS),
        milliseconds(theirs.best / _ROUNDS),
        ours.best / theirs.best,
        "of rival",
        _MOST,
        accuracy=f"{kinds}; NDCG@10 in training {ndcg:.3f}",
        spread=spreads(ours, theirs),
    )
