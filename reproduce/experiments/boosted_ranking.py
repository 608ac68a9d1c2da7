"""Boosted trees by the likelihood of whole lists next to rankers that are used for it.

    ohsumed    LETOR's OHSUMED, five folds, features scaled to [0, 1] within queries
    stepped    lists like those of MSLR whose grades no linear score explains, new rules and
               lists for every repeat (`stepped_lists`)

    linear       `RankMatch`; alpha, and on `stepped` the scaling, chosen
    boosted      `BoostedRankMatch`
    lambdarank, rank_xendcg    of LightGBM
    rank:ndcg                  of XGBoost

Trees of all kinds have the same leaves and learning rates to choose from and stop by the
same rule.  Everything is chosen by the mean of NDCG@1 to NDCG@10 of the validation lists,
which is also what is reported of the test lists.  Tests are paired by query and corrected
for their number within a task by Holm's rule.
"""

import itertools
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

import permatch as pm
from permatch._types import FloatArray
from reproduce.experiments.letor_folds import Fold, load_folds
from reproduce.experiments.query_tests import compare_with, grouped
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments
from reproduce.experiments.stepped_lists import Stepped
from reproduce.experiments.tree_rivals import LIGHTGBM, XGBOOST, grow

#: What together names a row.
KEY = ("config", "task", "repeat", "method")
TASKS = ("ohsumed", "stepped")
OURS = "boosted"
METHODS = ("linear", OURS, *LIGHTGBM, *XGBOOST)

# About the seconds of a row, by task and method, for the progress.
_COSTS = {"ohsumed": 1.0, "stepped": 15.0}

_SCHEMA = 1


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    tasks : tuple of str
        Some of `TASKS`.
    n_repeats : int
        Folds of OHSUMED, at most five, and seeds of the lists that are made.
    stepped : Stepped
        What these lists are made of.
    leaf_counts, learning_rates : tuple
        What the trees are chosen from.
    n_rounds, patience : int
        Most rounds, and rounds without a better score before the end.
    seed : int
        Seed of lists and trees.
    data : str, optional
        Where to look for the data; None looks where ``PERMATCH_DATA`` says.
    """

    tasks: tuple[str, ...] = TASKS
    n_repeats: int = 5
    stepped: Stepped = field(default_factory=Stepped)
    leaf_counts: tuple[int, ...] = (4, 8, 16, 31)
    learning_rates: tuple[float, ...] = (0.05, 0.1)
    n_rounds: int = 500
    patience: int = 50
    seed: int = 0
    data: str | None = None

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration of a few seconds, without data, for tests."""
        lists = Stepped((12, 8, 20), (10, 20), 4, 3, 3, (2, 2, 1))
        return cls(
            ("stepped",), 2, lists, leaf_counts=(4, 8), learning_rates=(0.3,), n_rounds=8
        )


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``task``, ``repeat``, ``method``; ``chosen``, the options; their
        ``validation`` score; ``ndcg``, the means of NDCG@1 to NDCG@10 of the test lists;
        ``values``, the mean of these for every query; ``seconds`` of all fits and, of
        trees, ``seconds_per_round`` at the chosen options (processor time).
    """

    @lru_cache(maxsize=1)
    def fold(task: str, repeat: int) -> Fold:
        if task == "ohsumed":
            return load_folds("OHSUMED", config.data).fold(repeat + 1)
        return config.stepped.draw((config.seed, repeat))

    left_out = ("data", "tasks", "n_repeats")
    return Plan(
        fingerprint(asdict(config), left_out, schema=_SCHEMA),
        [
            (task, repeat, method)
            for task in config.tasks
            for repeat in range(config.n_repeats)
            for method in METHODS
        ],
        lambda key, show: measure(
            config, key["task"], fold(key["task"], key["repeat"]), key["method"]
        ),
        lambda key: _COSTS[key["task"]],
    )


def measure(config: Config, task: str, fold: Fold, method: str) -> Row:
    """Choose the options of a method on the validation lists; return a row's content."""
    began = time.process_time()
    if method == "linear":
        found, scores = _linear(task, fold)
    elif method == OURS:
        found, scores = _boosted(config, fold)
    else:
        found, scores = _rival(config, fold, method)
    seconds = time.process_time() - began
    ndcg = fold.test.ndcg(scores)
    return found | {
        "ndcg": ndcg.mean(axis=0).tolist(),
        "values": ndcg.mean(axis=1).tolist(),
        "seconds": seconds,
    }


def _linear(task: str, fold: Fold) -> tuple[Row, FloatArray]:
    train, valid, test = fold.train, fold.validation, fold.test
    scalings = (None,) if task == "ohsumed" else (None, "minmax", "standard")
    fits = []
    for scaling in scalings:
        model = pm.RankMatchCV(scaling=scaling)
        with warnings.catch_warnings():  # a chosen alpha at the end of the grid shows
            warnings.simplefilter("ignore", UserWarning)
            model.fit(train.X, train.y, train.qid, validation=(valid.X, valid.y, valid.qid))
        fits.append(model)
    best = max(fits, key=lambda model: model.best_score_)
    chosen = {"alpha": best.alpha_, "scaling": best.scaling}
    found = {"chosen": chosen, "validation": float(best.best_score_)}
    return found, best.predict(test.X, test.qid)


def _boosted(config: Config, fold: Fold) -> tuple[Row, FloatArray]:
    train, valid = fold.train, fold.validation
    fits = []
    for rate in config.learning_rates:
        model = pm.BoostedRankMatchCV(
            leaf_counts=config.leaf_counts,
            learning_rate=rate,
            n_rounds=config.n_rounds,
            patience=config.patience,
            random_state=config.seed,
        )
        with warnings.catch_warnings():  # the last of all rounds shows
            warnings.simplefilter("ignore", UserWarning)
            model.fit(train.X, train.y, train.qid, validation=(valid.X, valid.y, valid.qid))
        fits.append(model)
    best = max(fits, key=lambda model: model.best_score_)
    chosen = _chosen(best.num_leaves_, best.learning_rate, best.n_rounds_)
    found = {
        "chosen": chosen,
        "validation": float(best.best_score_),
        "forms": best.forms_,
        "seconds_per_round": _seconds_per_round(config, fold, chosen),
    }
    return found, best.predict(fold.test.X)


def _seconds_per_round(config: Config, fold: Fold, chosen: Row) -> float:
    """Return the time of a round without validation lists and preparations."""
    options = {name: chosen[name] for name in ("num_leaves", "learning_rate")}
    train, seconds = fold.train, []
    for n_rounds in (1, 1 + min(chosen["n_rounds"], 30)):
        model = pm.BoostedRankMatch(n_rounds=n_rounds, random_state=config.seed, **options)
        began = time.process_time()
        model.fit(train.X, train.y, train.qid)
        seconds.append(time.process_time() - began)
    return (seconds[1] - seconds[0]) / min(chosen["n_rounds"], 30)


def _rival(config: Config, fold: Fold, method: str) -> tuple[Row, FloatArray]:
    fits = []
    for rate, leaves in itertools.product(config.learning_rates, config.leaf_counts):
        grown = grow(
            method,
            fold,
            num_leaves=leaves,
            learning_rate=rate,
            n_rounds=config.n_rounds,
            patience=config.patience,
            seed=config.seed,
        )
        fits.append((grown, _chosen(leaves, rate, grown.n_rounds)))
    best, chosen = max(fits, key=lambda fit: fit[0].score)
    scores = best.predict(fold.test.X)
    found = {
        "chosen": chosen,
        "validation": best.score,
        "seconds_per_round": best.seconds,
    }
    return found, scores


def _chosen(num_leaves: int, learning_rate: float, n_rounds: int) -> Row:
    return {
        "num_leaves": int(num_leaves),
        "learning_rate": float(learning_rate),
        "n_rounds": int(n_rounds),
    }


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per task and method.

    Returns
    -------
    list of dict
        ``task``, ``method``, ``ndcg``, the means of NDCG@1 to NDCG@10 over repeats, and
        moments over repeats of ``mean``, the mean of these, of ``validation``, ``seconds``
        and ``seconds_per_round``; ``chosen`` by repeat.
    """
    lines = []
    for task, method, own in grouped(rows):
        line: Row = {"task": task, "method": method}
        line["ndcg"] = np.mean([row["ndcg"] for row in own], axis=0).tolist()
        line["mean"] = moments(float(np.mean(row["ndcg"])) for row in own)
        for name in ("validation", "seconds", "seconds_per_round"):
            if name in own[0]:
                line[name] = moments(row[name] for row in own)
        line["chosen"] = [row["chosen"] for row in own]
        lines.append(line)
    return lines


def compare(rows: Iterable[Row], *, n_resamples: int = 100_000) -> list[Row]:
    """Return paired tests of our trees against every other method, see `compare_with`."""
    return compare_with(OURS, rows, n_resamples=n_resamples)


def as_data(config: Config, rows: Iterable[Row], day: str) -> dict[str, Any]:
    """Return the results as plain numbers and text, without where the data was found."""
    rows = list(rows)
    options = asdict(config)
    options.pop("data")
    return {
        "date": day,
        "config": options,
        "summary": summarise(rows),
        "tests": compare(rows),
    }
