"""Are probabilities of grades right on queries never seen?  Four ways to find them.

    ohsumed    LETOR's OHSUMED, five folds, features scaled to [0, 1] within queries
    short      short lists like those of MQ2008, many without a relevant document; a new
               rule and new lists for every repeat (`short_lists`)

    rate        every document has the share of the grade in the training lists
    shares      the law of rankings, given that every list has the training shares of the
                grades: what `RankMatch.distribution` took before counts were learned
    learned     ``RankMatch.predict_relevance``: counts learned from the training lists
    calibrated  the same after ``calibrate`` with the validation lists: slope and counts
                from these

The ranker is the same for all, with alpha chosen by the mean of NDCG@1 to NDCG@10 of the
validation lists.  Of the test lists, the probabilities of grade 1 or higher and of the
highest grade are compared with what is so: expected calibration error over ten bins, Brier
score and log-loss, over documents.  Queries differ far more than documents of one query,
so that moments are over repeats, and the error of a curve is taken over queries.
"""

import math
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

import permatch as pm
from permatch._types import BoolArray, FloatArray, IntArray
from reproduce.experiments.letor_folds import Fold, Lists, load_folds
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments
from reproduce.experiments.short_lists import Short

#: What together names a row.
KEY = ("config", "task", "repeat", "method", "event")
TASKS = ("ohsumed", "short")
METHODS = ("rate", "shares", "learned", "calibrated")
#: Whether a document has grade 1 or higher, and whether it has the highest grade.
EVENTS = ("relevant", "highest")
#: Figures of a row that are compared; lower is better.
FIGURES = ("calibration_error", "brier", "log_loss")
N_BINS = 10

_SCHEMA = 1
# A probability of 0 or 1 that is wrong must not cost without limit.
_LEAST = 1e-6


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
    alphas: tuple[float, ...] = tuple(np.logspace(-2.0, 3.0, 11).tolist())
    seed: int = 0
    data: str | None = None

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration of a few seconds, without data, for tests."""
        return cls(("short",), 2, Short((40, 15, 20), (5, 9), 6, 2), (1e-1, 10.0))


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``task``, ``repeat``, ``method``, ``event``; ``calibration_error``,
        ``brier`` and ``log_loss`` of the test documents; ``bins``, by bin of the
        probability the number of documents, and the sums of probabilities and of what is
        so; ``squares``, by bin the sum over queries of the squared difference of these
        sums; ``seconds`` of the probabilities (processor time), ``slope`` and ``std``.
    """

    @lru_cache(maxsize=1)
    def fold(task: str, repeat: int) -> Fold:
        if task == "ohsumed":
            return load_folds("OHSUMED", config.data).fold(repeat + 1)
        return config.short.draw((config.seed, repeat))

    @lru_cache(maxsize=1)
    def fit(task: str, repeat: int) -> Any:
        train, valid = (
            getattr(fold(task, repeat), name) for name in ("train", "validation")
        )
        model = pm.RankMatchCV(alphas=config.alphas)
        with warnings.catch_warnings():  # alphas at the end of the grid
            warnings.simplefilter("ignore", UserWarning)
            return model.fit(
                train.X, train.y, train.qid, validation=(valid.X, valid.y, valid.qid)
            )

    @lru_cache(maxsize=1)
    def predict(task: str, repeat: int, method: str) -> tuple[FloatArray, Row]:
        return probabilities(method, fit(task, repeat), fold(task, repeat))

    def row(key: Row) -> Row:
        task, repeat = key["task"], key["repeat"]
        chances, facts = predict(task, repeat, key["method"])
        return measure(chances, fold(task, repeat).test, key["event"]) | facts

    return Plan(
        fingerprint(asdict(config), ("data", "tasks", "n_repeats"), schema=_SCHEMA),
        [
            (task, repeat, method, event)
            for task in config.tasks
            for repeat in range(config.n_repeats)
            for method in METHODS
            for event in EVENTS
        ],
        lambda key, show: row(key),
        lambda key: 1.0,
    )


def probabilities(method: str, model: Any, fold: Fold) -> tuple[FloatArray, Row]:
    """Return the probability of every grade for the test documents, and facts of it.

    The model that is given is calibrated in place by the last method.
    """
    test, valid = fold.test, fold.validation
    began = time.process_time()
    if method == "rate":
        rates = np.bincount(fold.train.y, minlength=int(model.grades_[-1]) + 1)
        found = np.tile(rates / rates.sum(), (len(test.y), 1))
    elif method == "shares":
        found = by_training_shares(model, test)
    else:
        if method == "calibrated":
            model.calibrate(valid.X, valid.y, valid.qid)
        found = model.predict_relevance(test.X, test.qid)
    facts = {"seconds": time.process_time() - began}
    if method in ("learned", "calibrated"):
        facts |= {"slope": float(model.score_slope_), "std": float(model.shift_std_)}
    return found, facts


def by_training_shares(model: Any, lists: Lists) -> FloatArray:
    """Return probabilities of grades, given that every list has the training shares."""
    found = np.zeros((len(lists.y), int(model.grades_[-1]) + 1))
    scores, grades = model.predict(lists.X), model.grades_[::-1]
    for first, last in zip(lists.starts[:-1], lists.starts[1:], strict=True):
        sizes = split_by_shares(int(last - first), model.level_shares_)
        weights = np.repeat(model.level_weights_, sizes)
        law = pm.RankingDistribution(scores[first:last], weights)
        # Short lists may lack a grade.
        found[first:last, grades[sizes > 0]] = law.level_marginals
    return found


def split_by_shares(n: int, shares: FloatArray) -> IntArray:
    """Split n positions by shares, largest remainders first."""
    sizes = np.floor(n * shares).astype(np.intp)
    order = np.argsort(sizes - n * shares, kind="stable")
    sizes[order[: n - sizes.sum()]] += 1
    return sizes


def measure(chances: FloatArray, lists: Lists, event: str) -> Row:
    """Return the figures of the probability of an event."""
    least = 1 if event == "relevant" else chances.shape[1] - 1
    predicted = np.clip(chances[:, least:].sum(axis=1), 0.0, 1.0)
    is_so: BoolArray = lists.y >= least
    bins = np.minimum((N_BINS * predicted).astype(np.intp), N_BINS - 1)
    parts = [np.bincount(bins, own, N_BINS) for own in (None, predicted, is_so)]
    owners = np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts))
    away = np.zeros((len(lists.starts) - 1, N_BINS))
    np.add.at(away, (owners, bins), predicted - is_so)
    safe = np.clip(predicted, _LEAST, 1.0 - _LEAST)
    return {
        "calibration_error": float(np.abs(parts[1] - parts[2]).sum() / len(predicted)),
        "brier": float(np.mean((predicted - is_so) ** 2)),
        "log_loss": float(-np.mean(np.log(np.where(is_so, safe, 1.0 - safe)))),
        "bins": [part.tolist() for part in parts],
        "squares": (away**2).sum(axis=0).tolist(),
    }


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per task, event and method.

    Returns
    -------
    list of dict
        ``task``, ``event``, ``method``; moments over repeats of the `FIGURES`;
        ``pooled_error``, the expected calibration error over the documents of all repeats;
        and by bin of the probability ``count``, the mean ``predicted`` and ``observed``,
        and the standard ``error`` of their difference over queries, None in empty bins.
    """
    kept: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        kept.setdefault((row["task"], row["event"], row["method"]), []).append(row)
    lines = []
    for (task, event, method), own in kept.items():
        counts, predicted, observed = np.sum([row["bins"] for row in own], axis=0)
        squares = np.sum([row["squares"] for row in own], axis=0)
        line: Row = {"task": task, "event": event, "method": method}
        line |= {name: moments(row[name] for row in own) for name in FIGURES}
        line["pooled_error"] = float(np.abs(predicted - observed).sum() / counts.sum())
        line["bins"] = [
            {
                "count": int(n),
                "predicted": float(p / n) if n else None,
                "observed": float(o / n) if n else None,
                "error": float(math.sqrt(s) / n) if n else None,
            }
            for n, p, o, s in zip(counts, predicted, observed, squares, strict=True)
        ]
        lines.append(line)
    return lines


def as_data(config: Config, rows: Iterable[Row], day: str) -> dict[str, Any]:
    """Return the results as plain numbers and text, without where the data was found."""
    options = asdict(config)
    options.pop("data")
    return {"date": day, "config": options, "summary": summarise(rows)}
