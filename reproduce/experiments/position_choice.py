"""Does it pay to weigh the top of a list more?  Levels of whole lists, next to each other.

    ohsumed    LETOR's OHSUMED, five folds, features scaled to [0, 1] within queries
    short      short lists like those of MQ2008, many without a relevant document; a new
               rule and new lists for every repeat (`short_lists`)

    grades     `RankMatch` as it is: the weight of a position is the grade of its document
    gains      ``2**grade - 1``
    dcg        ``position_weights="dcg"``: the mean of 1 / log2(1 + position) over the
               positions of the grade
    dcg to 10  the same, with weight 0 from position 11 on
    chosen     whichever of these has the best score on the validation lists

Alpha is chosen from the same half decades for all by the mean of NDCG@1 to NDCG@10 of the
validation lists, which is also what is reported of the test lists.  Tests are paired by
query and corrected for their number within a task by Holm's rule.
"""

import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

import permatch as pm
from reproduce.experiments.letor_folds import Fold, load_folds
from reproduce.experiments.query_tests import compare_with, grouped
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments
from reproduce.experiments.short_lists import Short

#: What together names a row.
KEY = ("config", "task", "repeat", "method")
TASKS = ("ohsumed", "short")
REFERENCE, CHOSEN = "grades", "chosen"
_DCG_TO_10 = (*(1.0 / np.log2(np.arange(2.0, 12.0))).tolist(), 0.0)
#: The options of `RankMatch` by method; ties in the choice go to the first.
OPTIONS: dict[str, dict[str, Any]] = {
    REFERENCE: {},
    "gains": {"levels": "gains"},
    "dcg": {"position_weights": "dcg"},
    "dcg to 10": {"position_weights": _DCG_TO_10},
}
METHODS = (*OPTIONS, CHOSEN)

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
    short : Short
        What these lists are made of.
    alphas : tuple of float
        What alpha is chosen from.
    seed : int
        Seed of the lists.
    data : str, optional
        Where to look for the data; None looks where ``PERMATCH_DATA`` says.
    """

    tasks: tuple[str, ...] = TASKS
    n_repeats: int = 5
    short: Short = field(default_factory=Short)
    alphas: tuple[float, ...] = tuple(np.logspace(-5.0, 3.0, 17).tolist())
    seed: int = 0
    data: str | None = None

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration of a few seconds, without data, for tests."""
        return cls(("short",), 2, Short((20, 10, 15), (5, 9), 6, 2), (1e-3, 1e-1, 10.0))


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``task``, ``repeat``, ``method``; ``options``, the method that was
        taken; its ``alpha`` and ``validation`` score; ``ndcg``, the means of NDCG@1 to
        NDCG@10 of the test lists; ``values``, the mean of these for every query; and
        ``seconds`` of the fits (processor time).
    """

    @lru_cache(maxsize=1)
    def fold(task: str, repeat: int) -> Fold:
        if task == "ohsumed":
            return load_folds("OHSUMED", config.data).fold(repeat + 1)
        return config.short.draw((config.seed, repeat))

    @lru_cache(maxsize=len(OPTIONS))
    def fit(task: str, repeat: int, method: str) -> Row:
        return measure(config, fold(task, repeat), method)

    def row(task: str, repeat: int, method: str) -> Row:
        if method != CHOSEN:
            return fit(task, repeat, method)
        fits = [fit(task, repeat, own) for own in OPTIONS]
        best = max(fits, key=lambda found: found["validation"])
        return best | {"seconds": sum(found["seconds"] for found in fits)}

    left_out = ("data", "tasks", "n_repeats")
    return Plan(
        fingerprint(asdict(config), left_out, schema=_SCHEMA),
        [
            (task, repeat, method)
            for task in config.tasks
            for repeat in range(config.n_repeats)
            for method in METHODS
        ],
        lambda key, show: row(key["task"], key["repeat"], key["method"]),
        lambda key: float(key["method"] != CHOSEN),
    )


def measure(config: Config, fold: Fold, method: str) -> Row:
    """Choose alpha on the validation lists; return a row's content."""
    train, valid, test = fold.train, fold.validation, fold.test
    model = pm.RankMatchCV(alphas=config.alphas, **OPTIONS[method])
    began = time.process_time()
    with warnings.catch_warnings():  # a chosen alpha at the end of the grid shows in rows
        warnings.simplefilter("ignore", UserWarning)
        model.fit(train.X, train.y, train.qid, validation=(valid.X, valid.y, valid.qid))
    seconds = time.process_time() - began
    ndcg = test.ndcg(model.predict(test.X))
    return {
        "options": method,
        "alpha": float(model.alpha_),
        "validation": float(model.best_score_),
        "ndcg": ndcg.mean(axis=0).tolist(),
        "values": ndcg.mean(axis=1).tolist(),
        "seconds": seconds,
    }


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per task and method.

    Returns
    -------
    list of dict
        ``task``, ``method``, ``ndcg``, the means of NDCG@1 to NDCG@10 over repeats, and
        moments over repeats of ``mean``, the mean of these, of ``validation`` and
        ``seconds``; ``alphas`` and ``options`` by repeat.
    """
    lines = []
    for task, method, own in grouped(rows):
        line: Row = {"task": task, "method": method}
        line["ndcg"] = np.mean([row["ndcg"] for row in own], axis=0).tolist()
        line["mean"] = moments(float(np.mean(row["ndcg"])) for row in own)
        for name in ("validation", "seconds"):
            line[name] = moments(row[name] for row in own)
        line["alphas"] = [row["alpha"] for row in own]
        line["options"] = [row["options"] for row in own]
        lines.append(line)
    return lines


def compare(rows: Iterable[Row], *, n_resamples: int = 100_000) -> list[Row]:
    """Return paired tests of ``grades`` against every other method, see `compare_with`."""
    return compare_with(REFERENCE, rows, n_resamples=n_resamples)


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
