"""One method on one fold: fitted along a path of alphas, one of them chosen by validation.

    rankmatch         MAP on subsets of M documents, as in the paper
    rankmatch_list    MAP on whole lists
    rankmatch_pairs   MAP on all pairs of different grade, the paper's M = 2 (all)
    dorm              max-margin with an NDCG loss, on the very subsets of `rankmatch`
    ridge             query-centred ridge regression of the grades

Whatever the method, alpha is that with the largest mean of NDCG@1 to NDCG@10 on the
validation part of the fold, the strongest in case of ties; the coefficients fitted with it
on the training part are kept.
"""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from permatch._types import FloatArray
from permatch.metrics import MeanNDCG
from permatch.pages.demo_learning import quiet_fit
from reproduce.experiments.letor_folds import LETOR, Fold, Lists
from reproduce.experiments.rows import Row

#: Methods that draw subsets, and so differ from repeat to repeat.
SAMPLED = ("rankmatch", "dorm")

LEARNERS = ("rankmatch", "rankmatch_list", "rankmatch_pairs", "dorm", "ridge")


def draw_seed(seed: int, repeat: int, fold: int) -> int:
    """Return the seed of the subsets of a repeat of a fold, the same for every method.

    Parameters
    ----------
    seed : int
        Where all randomness comes from.
    repeat : int
        Number of the repeat, from 0.
    fold : int
        Number of the fold.

    Returns
    -------
    int
        For `random_state`.
    """
    return int(np.random.SeedSequence(seed, spawn_key=(repeat, fold)).generate_state(1)[0])


def learn(
    method: str,
    fold: Fold,
    alphas: Sequence[float],
    *,
    subset_size: int = 2,
    n_subsets: float = 0.4,
    seed: int = 0,
    n_jobs: int | None = None,
) -> tuple[FloatArray, Row]:
    """Fit a method at every alpha and choose one by validation.

    Parameters
    ----------
    method : str
        One of `LEARNERS`.
    fold : Fold
        Training and validation part are used, the test part is not looked at.
    alphas : sequence of float
        Strengths of the penalty to choose from.
    subset_size : int
        Documents of a subset, for methods that draw them.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times `subset_size`.
    seed : int
        Of the subsets.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    coef : ndarray of shape (d,)
        The learned coefficients.
    row : dict
        ``alpha``, ``is_edge`` (whether it is the first or last one tried),
        ``validation_ndcg``, ``is_converged``, ``n_observations``; ``seconds`` of the whole
        path, ``n_fits`` along it and ``fit_seconds``, the processor time of one of them;
        and ``path``, the alphas tried and their validation scores.
    """
    start, began = time.perf_counter(), time.process_time()
    model = _model(method, alphas, subset_size, n_subsets, seed, n_jobs)
    coef, row = _learn(model, fold)
    spent = time.process_time() - began
    row["is_edge"] = len(alphas) > 1 and row["alpha"] in (min(alphas), max(alphas))
    row |= {"n_fits": len(alphas), "fit_seconds": round(spent / len(alphas), 6)}
    return coef, row | {"seconds": round(time.perf_counter() - start, 3)}


def learn_and_measure(
    method: str,
    fold: Fold,
    alphas: Sequence[float],
    *,
    subset_size: int,
    n_subsets: float,
    seed: int,
    n_jobs: int | None = None,
) -> Row:
    """Return what a method reaches on the test part of a fold, and how.

    Parameters
    ----------
    method : str
        One of `LEARNERS`.
    fold : Fold
        What to learn from, to choose by and to test on.
    alphas : sequence of float
        Strengths of the penalty to choose from.
    subset_size : int
        Documents of a subset, for methods that draw them.
    n_subsets : float
        Subsets drawn from a query, as a multiple of its documents times `subset_size`.
    seed : int
        Of the subsets.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    dict
        As of `measure` and `learn`, and ``coef``, and ``subset_size`` where it matters.
    """
    coef, row = learn(
        method,
        fold,
        alphas,
        subset_size=subset_size,
        n_subsets=n_subsets,
        seed=seed,
        n_jobs=n_jobs,
    )
    if method in SAMPLED:
        row["subset_size"] = subset_size
    return measure(fold.test, fold.test.X @ coef) | row | {"coef": coef.tolist()}


def measure(test: Lists, scores: FloatArray) -> Row:
    """Return NDCG@1 to NDCG@10 of scores: means over queries, and every query's own.

    Parameters
    ----------
    test : Lists
        The judged lists.
    scores : ndarray of shape (n,)
        A score for every document.

    Returns
    -------
    dict
        ``ndcg`` with the paper's discount, ``ndcg_letor`` with LETOR's, ``queries``, and
        ``per_query``, the paper's NDCG of each at every cut.
    """
    values = test.ndcg(scores)
    return {
        "ndcg": values.mean(axis=0).tolist(),
        "ndcg_letor": test.ndcg(scores, LETOR).mean(axis=0).tolist(),
        "queries": test.ids,
        "per_query": values.tolist(),
    }


def _model(
    method: str,
    alphas: Sequence[float],
    subset_size: int,
    n_subsets: float,
    seed: int,
    n_jobs: int | None,
) -> Any:
    from permatch.estimators import DORMCV, QueryRidgeCV, RankMatchCV

    # Features are between 0 and 1 already.
    common: dict[str, Any] = {
        "alphas": list(alphas),
        "scoring": MeanNDCG @ 10,
        "scale_features": False,
        "n_jobs": n_jobs,
    }
    sampling: dict[str, Any] = {
        "n_subsets": n_subsets,
        "missing_grades": "skip",
        "random_state": seed,
    }
    if method == "ridge":
        return QueryRidgeCV(**common)
    if method == "dorm":
        return DORMCV(subset_size, **common, **sampling)
    if method == "rankmatch":
        return RankMatchCV(subset_size, **common, **sampling)
    return RankMatchCV("pairs" if method == "rankmatch_pairs" else "all", **common)


def _learn(model: Any, fold: Fold) -> tuple[FloatArray, Row]:
    train, validation = fold.train, fold.validation
    with quiet_fit():
        # The row says whether alpha is at the end of the grid.
        warnings.filterwarnings("ignore", "the chosen alpha", UserWarning)
        model.fit(
            train.X,
            train.y,
            qid=train.qid,
            validation=(validation.X, validation.y, validation.qid),
        )
    tried = model.cv_results_
    return model.coef_, {
        "alpha": float(model.alpha_),
        "validation_ndcg": float(model.best_score_),
        "is_converged": bool(model.is_converged_),
        "n_observations": int(model.n_observations_),
        "path": _path(tried["alphas"], tried["mean_score"]),
    }


def _path(alphas: Any, scores: Any) -> list[Row]:
    return [
        {"alpha": float(alpha), "validation_ndcg": float(score)}
        for alpha, score in zip(alphas, scores, strict=True)
    ]
