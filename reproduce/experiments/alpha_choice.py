"""Alpha by evidence against cross-validation: what each chooses, costs and is worth.

    horse      silhouettes: `n_train` pairs of images; test log-likelihood and Hamming loss
    ohsumed    whole lists, the training part of every fold; test log-likelihood, NDCG@10
    dblp_acm   one half of the records, candidate pairs by title; test log-likelihood and
               Hamming loss of the other half

Log-likelihoods are means over graphs or queries.  Cross-validation chooses from half
decades, by the log-likelihood of held-out graphs, for rankings by NDCG@1 to 10; five folds.
"""

import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import permatch as pm
from permatch._shards import HeldShards
from permatch._types import FloatArray
from permatch.datasets import read_edge_table
from permatch.objectives.rank_losses import ranking_likelihood
from permatch.pages.demo_learning import Setup, draw
from permatch.queries import check_queries
from reproduce.experiments.bibliographies import load_bibliographies
from reproduce.experiments.letor_folds import load_folds
from reproduce.experiments.rows import Plan, Row, experiment, fingerprint, moments

#: What together names a row.
KEY = ("config", "task", "repeat", "method")
TASKS = ("horse", "ohsumed", "dblp_acm")
METHODS = ("evidence", "cross-validation")

#: What is measured on test data, by task: the log-likelihood, and what matters in the end.
MEASURES = {"horse": "Hamming loss", "ohsumed": "NDCG@10", "dblp_acm": "Hamming loss"}

# Candidates per record of DBLP-ACM, and the least similarity of titles.
_NEIGHBORS, _SIMILAR = 3, 0.5

_SCHEMA = 1


@dataclass(frozen=True)
class Config:
    """What the experiment depends on.

    Parameters
    ----------
    tasks : tuple of str
        Some of `TASKS`.
    n_repeats : int
        Draws of silhouettes and of halves of records, and folds of OHSUMED, at most five.
    n_train, n_points : int
        Pairs of silhouettes to learn from, and points of each.
    seed : int
        Seed of draws, halves and folds.
    data : str, optional
        Where to look for the data; None looks where ``PERMATCH_DATA`` says.
    """

    tasks: tuple[str, ...] = TASKS
    n_repeats: int = 5
    n_train: int = 20
    n_points: int = 12
    seed: int = 0
    data: str | None = None

    @classmethod
    def tiny(cls) -> "Config":
        """Return a configuration of a few seconds, without data, for tests."""
        return cls(tasks=("horse",), n_repeats=1, n_train=6, n_points=4)


@experiment(KEY)
def run(config: Config) -> Plan:
    """Yield the rows of the experiment as they are known.

    Yields
    ------
    dict
        ``config``, ``task``, ``repeat``, ``method``, ``alpha``, ``log_likelihood``,
        ``measure``, ``n_evaluations`` of the objective and ``seconds``.
    """
    options = {"seed": config.seed, "n_train": config.n_train, "n_points": config.n_points}

    @lru_cache(maxsize=1)
    def problem(task: str, repeat: int) -> Any:
        return _PROBLEMS[task](config, repeat)

    return Plan(
        fingerprint(options, (), schema=_SCHEMA),
        [
            (task, repeat, method)
            for task in config.tasks
            for repeat in range(config.n_repeats)
            for method in METHODS
        ],
        lambda key, show: problem(key["task"], key["repeat"]).measure(key["method"]),
        lambda key: 1.0,
    )


def summarise(rows: Iterable[Row]) -> list[Row]:
    """Return a line per task and method: means and spreads over repeats."""
    rows = list(rows)
    lines = []
    for task, method in dict.fromkeys((row["task"], row["method"]) for row in rows):
        own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        line: Row = {"task": task, "method": method, "measured": MEASURES[task]}
        for name in ("log_likelihood", "measure", "seconds", "n_evaluations"):
            line[name] = moments(row[name] for row in own)
        line["alphas"] = [row["alpha"] for row in own]
        lines.append(line)
    return lines


class _Matching:
    """Labelled graphs to learn from, and others to be judged by."""

    alphas = np.logspace(1.0, -5.0, 13)

    def __init__(self, train: Any, test: Any, config: Config) -> None:
        self.train, self.test, self.seed = train, test, config.seed

    def measure(self, method: str) -> Row:
        alphas = "evidence" if method == "evidence" else self.alphas
        model = pm.MAPMatchingCV(
            alphas, scoring="log_likelihood", random_state=self.seed, tol=1e-5
        )
        seconds = _timed(model, *self.train)
        return _row(
            model,
            model.log_likelihood(*self.test),
            1.0 - model.score(*self.test),
            seconds,
        )


class _Ranking:
    """Judged lists to learn from, and others to be judged by."""

    alphas = np.logspace(2.0, -4.0, 13)

    def __init__(self, train: Any, test: Any, config: Config) -> None:
        self.train, self.test, self.seed = train, test, config.seed

    def measure(self, method: str) -> Row:
        alphas = "evidence" if method == "evidence" else self.alphas
        model = pm.RankMatchCV(alphas=alphas, random_state=self.seed)
        seconds = _timed(model, self.train.X, self.train.y, self.train.qid)
        scores = model.predict(self.test.X)
        queries = check_queries(self.test.X, self.test.y, self.test.qid)
        observed = ranking_likelihood(HeldShards([queries]), "all")
        (loss,) = observed.shards.map(_loss_of, scores)
        ndcg = float(np.mean(self.test.ndcg(scores)[:, -1]))
        return _row(model, -loss, ndcg, seconds)


def _loss_of(shard: Any, scores: FloatArray) -> float:
    return shard[1].value_and_slope(scores)[0]


def _timed(model: Any, *data: Any) -> float:
    began = time.perf_counter()
    with warnings.catch_warnings():  # a chosen alpha at the end of the grid shows in rows
        warnings.simplefilter("ignore", UserWarning)
        model.fit(*data)
    return time.perf_counter() - began


def _row(model: Any, log_likelihood: float, measure: float, seconds: float) -> Row:
    return {
        "alpha": float(model.alpha_),
        "log_likelihood": float(log_likelihood),
        "measure": measure,
        "n_evaluations": int(model.cv_results_["n_evaluations"].sum()),
        "seconds": seconds,
    }


def _horse(config: Config, repeat: int) -> _Matching:
    setup = Setup(n_train=(config.n_train,), n_test=200, n_points=config.n_points,
                  n_images=100, seed=config.seed)  # fmt: skip
    drawn = draw(setup, repeat)
    return _Matching(drawn.train(config.n_train), drawn.test, config)


def _ohsumed(config: Config, repeat: int) -> _Ranking:
    fold = load_folds("OHSUMED", config.data).fold(repeat + 1)
    return _Ranking(fold.train, fold.test, config)


def _dblp_acm(config: Config, repeat: int) -> _Matching:
    tables = load_bibliographies(config.data)
    halves = tables.halves(np.random.default_rng([config.seed, repeat]))
    parts = []
    for half in (0, 1):
        own = [np.flatnonzero(side == half) for side in halves]
        found = tables.candidates(own[0], own[1], _NEIGHBORS)
        label: FloatArray = found.is_link.astype(float)
        columns = found.table(label=label)
        is_kept = columns["similarity"] >= _SIMILAR  # components stay small enough
        table = read_edge_table(
            {name: values[is_kept] for name, values in columns.items()},
            left="acm",
            right="dblp",
            label="label",
        ).split_components()
        parts.append((table.graphs, table.matchings))
    train, test = parts
    return _Matching(train, test, config)


_PROBLEMS = {"horse": _horse, "ohsumed": _ohsumed, "dblp_acm": _dblp_acm}


def as_data(config: Config, rows: Iterable[Row], day: str) -> dict[str, Any]:
    """Return the results as plain numbers and text, without where the data was found."""
    options = asdict(config)
    options.pop("data")
    return {"date": day, "config": options, "summary": summarise(rows)}
