"""Learning to rank beside LightGBM, and what a large data set costs.

OHSUMED's first fold is used where PERMATCH_DATA names the folder that has it, else lists of
the same sizes and grades that were made up.
"""

import os
from pathlib import Path

import numpy as np
from scipy import sparse

import permatch as pm
from benchmarks.harness import Report, milliseconds, race, run_python, spreads

_SHORT_LISTS = Path(__file__).parent.parent / "examples" / "lists.txt"

# Peak above what is loaded before X is made, as a multiple of X: 1 is X itself.
_PEAK = """
import numpy as np
import permatch as pm
from benchmarks.bench_ranking import mslr_like, mslr_objective
from benchmarks.harness import memory_bytes

X, y, group = mslr_like(4)
pm.RankMatch().fit(X, y, group=group)  # compiles, and loads what it needs
before = memory_bytes("VmHWM")
X, y, group = mslr_like(2000)
mslr_objective(X, y, group).value_and_grad(np.ones(X.shape[1]))
one = memory_bytes("VmHWM")
pm.RankMatch(n_jobs=2).fit(X, y, group=group)
print((one - before) / X.nbytes, (memory_bytes("VmHWM") - before) / X.nbytes)
"""


def mslr_like(n_queries):
    """Return lists like those of MSLR: 120 documents, 136 features, 5 grades."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_queries * 120, 136))
    hidden = X[:, :20] @ rng.normal(size=20) / 4 + rng.normal(size=len(X))
    return X, np.digitize(hidden, [0.2, 1.0, 2.0, 2.8]), np.full(n_queries, 120)


def mslr_objective(X, y, group):
    """Return the whole-list objective of some lists, as a fit has it."""
    from permatch._shards import HeldShards
    from permatch.queries import check_queries

    problem = pm.RankMatch()._problem(HeldShards([check_queries(X, y, group=group)]), 2)
    return problem.objective(1.0)


def ohsumed_like():
    """Return lists of the sizes and grades of OHSUMED's first training fold."""
    rng = np.random.default_rng(0)
    group = rng.integers(35, 321, size=63)
    X = rng.uniform(size=(group.sum(), 25))
    hidden = X[:, :5].sum(axis=1) / 2 + rng.normal(size=len(X))
    return X, np.digitize(hidden, [1.8, 2.4]), group


def first_fold():
    """Return documents scaled within queries, grades, group sizes and a name."""
    folder = Path(os.environ.get("PERMATCH_DATA", "")) / "letor" / "OHSUMED"
    if not folder.is_dir():
        return *ohsumed_like(), "made up like OHSUMED"
    train = pm.datasets.load_letor(folder).folds[0].train
    X = pm.QueryScaler().fit_transform(train.X, qid=train.qid)
    first = np.sort(np.unique(train.qid, return_index=True)[1])
    group = np.diff(np.append(first, len(train.qid)))
    return X, train.y, group, "OHSUMED, fold 1"


def sparse_lists():
    """Return 60 lists of 50 documents with 300 features, one in twenty above 0."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((3000, 300), density=0.05, format="csr", rng=rng)
    hidden = X @ (rng.normal(size=300) * (rng.random(300) < 0.3))
    hidden += 0.5 * rng.normal(size=3000)
    y = np.digitize(hidden, np.quantile(hidden, [0.7, 0.9]))
    return X, y, np.repeat(np.arange(60), 50)


def run(is_quick: bool) -> Report:
    import lightgbm

    X, y, group, name = first_fold()
    report = Report(f"Learning to rank: {name}, {len(X):,} documents, two threads")
    rivals = [lightgbm.LGBMRanker(n_jobs=n, verbose=-1) for n in (1, 2)]
    models = {
        "whole list, exact, one alpha": (pm.RankMatch(alpha=3.0, n_jobs=2), 1.0),
        "M = 3, 0.4 D M subsets": (pm.RankMatch(3, alpha=0.03, n_jobs=2), 0.5),
        "whole list, profile": (pm.RankMatch(alpha=3.0, form="profile", n_jobs=2), None),
        "all pairs": (pm.RankMatch("pairs", alpha=0.03, n_jobs=2), None),
        "DORM, M = 3, same subsets": (pm.DORM(3, alpha=0.03, n_jobs=2), None),
    }
    timings = race(
        *(lambda m=m: m.fit(X, y, group=group) for m in rivals),
        *(lambda m=m: m.fit(X, y, group=group) for m, _ in models.values()),
        repeats=5 if is_quick else 15,
    )
    # With its threads it can be slower than without; the better one counts.
    theirs = min(timings[:2], key=lambda timing: timing.best)
    ours = timings[2:]
    for (what, (model, target)), timing in zip(models.items(), ours, strict=True):
        report.add(
            what,
            "LightGBM LGBMRanker, defaults",
            milliseconds(timing.best),
            milliseconds(theirs.best),
            timing.best / theirs.best,
            "of rival",
            target,
            accuracy=f"{model.n_observations_:,} observations, {model.n_iter_} steps",
            spread=spreads(timing, theirs),
        )
    _searches(report, X, y, group, 1 if is_quick else 3)
    _large(report)
    return report


def _searches(report: Report, X, y, group, repeats: int) -> None:
    """Add searches for alpha: next to one fit, on short lists, and by margin."""
    search = pm.RankMatchCV(n_jobs=2)
    model = pm.RankMatch(alpha=search.fit(X, y, group=group).alpha_, n_jobs=2)
    ours, one = race(
        lambda: search.fit(X, y, group=group),
        lambda: model.fit(X, y, group=group),
        repeats=repeats,
    )
    report.add(
        f"RankMatchCV, {search.cv_results_['scores'].size} fits",
        "one fit",
        milliseconds(ours.best),
        milliseconds(one.best),
        ours.best / one.best,
        "of rival",
        12.0,
        accuracy=f"alpha {search.alpha_:g}",
        spread=spreads(ours, one),
    )
    short = pm.datasets.read_letor(_SHORT_LISTS)
    for what, model, data, target in (
        (
            "RankMatchCV, the README's lists",
            pm.RankMatchCV(),
            (short.X, short.y, short.qid),
            2.0,
        ),
        (
            "DORMCV, 3,000 documents, 300 sparse features",
            pm.DORMCV(n_jobs=2),
            sparse_lists(),
            30.0,
        ),
    ):
        (fit,) = race(lambda m=model, d=data: m.fit(*d), repeats=1)
        report.add(
            f"{what}, {model.cv_results_['scores'].size} fits",
            "none",
            milliseconds(fit.best),
            "",
            fit.best,
            "s",
            target,
            accuracy=f"alpha {model.alpha_:g}",
        )


def _large(report: Report) -> None:
    """Add rows on 2,000 queries, 120 documents, 136 features and 5 grades."""
    X, y, group = mslr_like(2000)
    model = pm.RankMatch(n_jobs=2)
    objective = mslr_objective(X, y, group)
    coef = np.full(X.shape[1], 0.1)
    (evaluation,) = race(lambda: objective.value_and_grad(coef), repeats=5)
    (fit,) = race(lambda: model.fit(X, y, group=group), repeats=1)
    forms = ", ".join(f"{n} {form}" for form, n in model.forms_.items() if n)
    report.add(
        "MSLR-like, one evaluation",
        "none",
        milliseconds(evaluation.best),
        "",
        evaluation.best,
        "s",
        2.0,
        accuracy=forms,
        spread=f"{evaluation.spread:.2f}",
    )
    report.add(
        "MSLR-like, a fit",
        "none",
        f"{model.n_iter_} steps",
        "",
        fit.best,
        "s",
        None,
        accuracy=f"gradient norm {model.history_[-1]['grad_norm']:.0e}",
    )
    one, whole = map(float, run_python(_PEAK).split())
    report.add(
        "MSLR-like, peak memory of a fit", "none", f"{one:.2f} evaluation", "",
        whole, "of X", 3.0,
    )  # fmt: skip
