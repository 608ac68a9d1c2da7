"""Boosted rankers of LightGBM and XGBoost, grown a round at a time.

All stop alike: when the mean of NDCG@1 to NDCG@10 of the validation lists has not risen for
a number of rounds; the best round counts.  The options that are not searched are those each
library has by default.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._optional import require
from permatch._types import FloatArray
from permatch.metrics import MeanNDCG
from permatch.metrics.lists import rank_lists
from reproduce.experiments.letor_folds import Fold, Lists

#: Objectives by the library that has them.
LIGHTGBM = ("lambdarank", "rank_xendcg")
XGBOOST = ("rank:ndcg",)

_MEASURE = MeanNDCG @ 10


@dataclass(frozen=True, eq=False)
class Stopped:
    """Trees that were grown until they no longer got better.

    Attributes
    ----------
    score : float
        The mean of NDCG@1 to NDCG@10 of the validation lists.
    n_rounds : int
        Rounds up to there.
    seconds : float
        Processor time of a round, without the validation lists.
    predict : callable
        From features to scores.
    """

    score: float
    n_rounds: int
    seconds: float
    predict: Callable[[FloatArray], FloatArray]


def mean_ndcg(lists: Lists, scores: FloatArray) -> float:
    """Return the mean of NDCG@1 to NDCG@10 over the queries of some lists."""
    ranked = rank_lists(lists.y, scores, None, np.diff(lists.starts))
    return float(_MEASURE.mean(_MEASURE.values(ranked)))


def grow(
    objective: str,
    fold: Fold,
    *,
    num_leaves: int,
    learning_rate: float,
    n_rounds: int,
    patience: int,
    seed: int,
) -> Stopped:
    """Grow the trees of an objective of LightGBM or XGBoost."""
    make = _XGBoost if objective in XGBOOST else _LightGBM
    growth = make(objective, fold, num_leaves, learning_rate, seed)
    best, best_round, seconds = -np.inf, 0, 0.0
    n_done = 0
    while n_done < n_rounds and n_done - best_round < patience:
        began = time.process_time()
        growth.add_round()
        seconds += time.process_time() - began
        n_done += 1
        score = mean_ndcg(fold.validation, growth.held_out())
        if score > best:
            best, best_round = score, n_done
    return Stopped(
        best, best_round, seconds / n_done, lambda X: growth.predict(X, best_round)
    )


class _LightGBM:
    """Trees of LightGBM."""

    def __init__(
        self, objective: str, fold: Fold, num_leaves: int, learning_rate: float, seed: int
    ) -> None:
        lightgbm = require("lightgbm", "boosting", what="reproduce trees")
        options = {
            "objective": objective,
            "metric": "None",
            "num_leaves": num_leaves,
            "learning_rate": learning_rate,
            "seed": seed,
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        sizes = np.diff(fold.train.starts)
        data = lightgbm.Dataset(fold.train.X, fold.train.y, group=sizes, params=options)
        self._booster = lightgbm.Booster(options, data)
        valid = fold.validation
        sizes = np.diff(valid.starts)
        # Without params it would set the number of threads back to all.
        own = data.create_valid(valid.X, valid.y, group=sizes, params=options)
        self._booster.add_valid(own, "validation")
        self._scores = np.zeros(len(valid.y))

    def add_round(self) -> None:
        self._booster.update()

    def held_out(self) -> FloatArray:
        """Return the scores of the validation lists."""

        def keep(scores: FloatArray, _: Any) -> tuple[str, float, bool]:
            self._scores = scores.copy()
            return "nothing", 0.0, True

        self._booster.eval_valid(keep)
        return self._scores

    def predict(self, X: FloatArray, n_rounds: int) -> FloatArray:
        return self._booster.predict(X, num_iteration=n_rounds, num_threads=1)


class _XGBoost:
    """Trees of XGBoost, grown by leaves as LightGBM grows them."""

    def __init__(
        self, objective: str, fold: Fold, num_leaves: int, learning_rate: float, seed: int
    ) -> None:
        self._xgboost = require("xgboost", "reproduce", what="reproduce trees")
        options = {
            "objective": objective,
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": num_leaves,
            "max_depth": 0,
            "eta": learning_rate,
            "seed": seed,
            "nthread": 1,
        }
        self._train, self._valid = self._read(fold.train), self._read(fold.validation)
        self._booster = self._xgboost.Booster(options, [self._train, self._valid])
        self._n_done = 0

    def _read(self, lists: Lists) -> Any:
        data = self._xgboost.DMatrix(lists.X, lists.y, nthread=1)
        data.set_group(np.diff(lists.starts))
        return data

    def add_round(self) -> None:
        self._booster.update(self._train, self._n_done)
        self._n_done += 1

    def held_out(self) -> FloatArray:
        """Return the scores of the validation lists."""
        return self._booster.predict(self._valid, output_margin=True)

    def predict(self, X: FloatArray, n_rounds: int) -> FloatArray:
        data = self._xgboost.DMatrix(X, nthread=1)
        found = self._booster.predict(
            data, output_margin=True, iteration_range=(0, n_rounds)
        )
        return found.astype(np.float64)
