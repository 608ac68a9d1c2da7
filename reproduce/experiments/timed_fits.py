"""Fits to be timed: rankers on judged lists, matchers on pairs of images."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from permatch.pages.demo_learning import Setup, draw, n_evaluations, quiet_fit
from reproduce.experiments.letor_folds import Lists
from reproduce.experiments.rows import Row

# Largest entry of the gradient at the end of a fit of the exponential model.
_TOL = 1e-4


class Case(NamedTuple):
    """A fit to be timed, and one that does no more than have everything compiled."""

    fit: Callable[[], Any]
    warm_up: Callable[[], Any]
    n_observations: int | None  # None: the fitted model knows


def ranking_case(
    method: str,
    size: int | str,
    train: Lists,
    *,
    alpha: float,
    n_subsets: float,
    n_jobs: int,
    seed: int,
) -> Case:
    """Return the fit of ``"rankmatch"`` or ``"dorm"`` on subsets of some size."""
    from permatch.estimators import DORM, RankMatch

    def fit(lists: Lists, **more: Any) -> Any:
        options: dict[str, Any] = {
            "alpha": alpha,
            "n_subsets": n_subsets,
            "scale_features": False,
            "random_state": seed,
            "n_jobs": n_jobs,
        }
        if method == "dorm":
            model: Any = DORM(size, **options, **more)
        else:
            model = RankMatch(size, tol=_TOL, **options, **more)
        return model.fit(lists.X, lists.y, qid=lists.qid)

    few = first_queries(train, 1)
    return Case(lambda: fit(train), lambda: fit(few, max_iter=1), None)


def image_case(
    method: str,
    n_points: int,
    *,
    alpha: float,
    n_pairs: int,
    n_jobs: int,
    seed: int,
    repeat: int,
) -> Case:
    """Return the fit of ``"map"`` or ``"max_margin"`` on pairs of sheared silhouettes."""
    from permatch.estimators import MAPMatching, MaxMarginMatching

    what = Setup(n_train=(n_pairs,), n_test=1, n_points=n_points, n_images=20, seed=seed)
    train = draw(what, repeat).train(n_pairs)

    def fit(n: int, **more: Any) -> Any:
        if method == "map":
            model: Any = MAPMatching(alpha=alpha, tol=_TOL, n_jobs=n_jobs, **more)
        else:
            model = MaxMarginMatching(alpha=alpha, n_jobs=n_jobs, **more)
        return model.fit(train.graphs[:n], train.matchings[:n])

    return Case(lambda: fit(n_pairs), lambda: fit(1, max_iter=1), n_pairs)


def timed(case: Case) -> Row:
    """Return what a fit took, in all and per observation."""
    start = time.perf_counter()
    with quiet_fit():
        model = case.fit()
    seconds = time.perf_counter() - start
    n_observations = case.n_observations or int(model.n_observations_)
    return {
        "n_observations": n_observations,
        "seconds": seconds,
        "seconds_per_observation": seconds / n_observations,
        "n_evaluations": n_evaluations(model),
        "is_converged": bool(model.is_converged_),
    }


def first_queries(lists: Lists, n_queries: int) -> Lists:
    """Return the first lists that have as many grades as any list has."""
    edges = list(zip(lists.starts[:-1], lists.starts[1:], strict=True))
    n_grades = [len(np.unique(lists.y[first:last])) for first, last in edges]
    best = [edge for edge, n in zip(edges, n_grades, strict=True) if n == max(n_grades)]
    rows = np.concatenate([np.arange(first, last) for first, last in best[:n_queries]])
    return Lists(lists.X[rows], lists.y[rows], lists.qid[rows])
