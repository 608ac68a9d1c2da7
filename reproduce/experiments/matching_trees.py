"""Boosted trees that give the edges of graphs their scores, by two likelihoods.

    boosted   of whole matchings: `BoostedMatching`
    pairs     of every edge by itself, a logistic loss, as LightGBM is used for pairs

Both are trees of LightGBM with the same options.  Rounds and whether scores must fall
as features rise are chosen by the Hamming loss of the best matchings of the validation
pairs; so are leaves where a grid has several numbers of them, which that of the published
runs does not: 8.  Ties go to fewer leaves, then to falling scores.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

import permatch as pm
from permatch._types import FloatArray
from permatch.boosting.matching_objective import edge_rows
from permatch.boosting.trees import Growth, grow_together
from permatch.decoding import best_matching
from permatch.graphs import BipartiteGraph
from permatch.metrics import hamming_loss
from permatch.pages.demo_learning import Pairs, quiet_fit
from reproduce.experiments.rows import Row

#: The methods, in the order in which they are fitted.
TREES = ("boosted", "pairs")

Scorer = Callable[[list[BipartiteGraph]], list[FloatArray]]


@dataclass(frozen=True)
class TreeGrid:
    """What trees are chosen from, and how they are grown.

    Parameters
    ----------
    leaf_counts : tuple of int
        Most leaves of a tree.
    are_falling : tuple of bool
        Whether scores must not rise with any feature, a distance.
    learning_rate : float
        Share of every tree that is added.
    n_rounds, patience : int
        Most rounds, and rounds without a better loss before the end.
    """

    leaf_counts: tuple[int, ...] = (8,)
    are_falling: tuple[bool, ...] = (True, False)
    learning_rate: float = 0.1
    n_rounds: int = 300
    patience: int = 20

    @classmethod
    def tiny(cls) -> "TreeGrid":
        """Return a grid that takes no time, for tests."""
        return cls((2, 4), (True, False), 0.3, 8, 4)


@dataclass(frozen=True, eq=False)
class TreeFit:
    """Chosen trees: from graphs to the scores of their edges, and what else was tried."""

    scores: Scorer
    path: list[Row]

    @property
    def best(self) -> Row:
        """The step of the path that was chosen."""
        return self.path[_best(self.path)]

    def losses(self, pairs: Pairs) -> list[float]:
        """Return the Hamming loss of every pair."""
        return [
            float(np.mean(best_matching(scores) != matching))
            for scores, matching in zip(
                self.scores(pairs.graphs), pairs.matchings, strict=True
            )
        ]

    def to_row(self) -> Row:
        """Return it as part of a row."""
        names = ("num_leaves", "is_falling", "n_rounds")
        best = self.best
        return {
            "chosen": {name: best[name] for name in names},
            "validation_loss": best["validation_loss"],
            "n_evaluations": best["n_evaluations"],
            "seconds": best["seconds"],
            "path": self.path,
        }


def learn_trees(
    method: str,
    grid: TreeGrid,
    train: Pairs,
    validation: Pairs,
    engine: Any = "auto",
    *,
    on_progress: Callable[[float], None] = lambda share: None,
    n_jobs: int | None = None,
) -> TreeFit:
    """Grow trees by one of `TREES`, and choose.

    Parameters
    ----------
    method : str
        One of `TREES`.
    grid : TreeGrid
        What there is to choose from.
    train, validation : Pairs
        Pairs to learn from, and pairs to choose by.
    engine : str or engine object
        Inference of "boosted".
    on_progress : callable
        Called with the share that is done.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    TreeFit
        What was chosen.
    """
    learn = _boosted if method == "boosted" else _pairs
    path: list[Row] = []
    scorers: list[Scorer] = []
    for k, is_falling in enumerate(grid.are_falling):
        found = learn(grid, is_falling, train, validation, engine, n_jobs)
        for row, scorer in found:
            path.append(row)
            scorers.append(scorer)
        on_progress((k + 1) / len(grid.are_falling))
    return TreeFit(scorers[_best(path)], path)


def _best(path: Sequence[Row]) -> int:
    """Return the place of the step with the least loss, then leaves, then the first."""
    return min(
        range(len(path)), key=lambda k: (path[k]["validation_loss"], path[k]["num_leaves"])
    )


def _boosted(
    grid: TreeGrid,
    is_falling: bool,
    train: Pairs,
    validation: Pairs,
    engine: Any,
    n_jobs: int | None,
) -> list[tuple[Row, Scorer]]:
    """Return the best of all numbers of leaves, grown by the likelihood of matchings."""
    began = time.perf_counter()
    model = pm.BoostedMatchingCV(
        leaf_counts=grid.leaf_counts,
        n_rounds=grid.n_rounds,
        learning_rate=grid.learning_rate,
        patience=grid.patience,
        monotone_constraints=_signs(train, is_falling),
        scoring="hamming",
        engine=engine,
        budget=None,
        n_jobs=n_jobs,
    )
    with quiet_fit(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the last round, and of approximate inference
        model.fit(*train, validation=(validation.graphs, validation.matchings))
    curves = model.cv_results_["curves"]
    row = _step(
        is_falling,
        int(model.num_leaves_),
        int(model.n_rounds_),
        -float(model.best_score_),
        sum(map(len, curves)),
        began,
    )
    return [(row, lambda graphs: _of_graphs(model.trees_.predict, graphs))]


def _pairs(
    grid: TreeGrid,
    is_falling: bool,
    train: Pairs,
    validation: Pairs,
    engine: Any,
    n_jobs: int | None,
) -> list[tuple[Row, Scorer]]:
    """Return all numbers of leaves, each grown by the likelihood of single edges."""
    rows, held_out = edge_rows(train.graphs), edge_rows(validation.graphs)
    ends = _ends(validation.graphs)

    def judge(scores: FloatArray) -> float:
        tables = _tables(validation.graphs, np.split(scores, ends))
        return -hamming_loss(validation.matchings, [best_matching(t) for t in tables])

    found = []
    for num_leaves in grid.leaf_counts:
        began = time.perf_counter()
        # What else there is has the defaults of `BoostedMatching`.
        options = {
            "num_leaves": num_leaves,
            "learning_rate": grid.learning_rate,
            "min_data_in_leaf": 20,
            "seed": 0,
            "num_threads": n_jobs or 1,
        }
        signs = _signs(train, is_falling)
        if signs is not None:
            options["monotone_constraints"] = signs
        growth = Growth(rows, EdgeLoss(_is_match(train)), options, held_out)
        grown = grow_together([growth], [judge], grid.n_rounds, grid.patience)
        if grown.is_interrupted:
            raise KeyboardInterrupt
        trees = growth.trees(grown.best_round)
        row = _step(
            is_falling,
            num_leaves,
            grown.best_round,
            -grown.best_score,
            len(grown.history),
            began,
        )
        found.append(
            (row, lambda graphs, own=trees.predict: _of_graphs(own, graphs)),
        )
    return found


class EdgeLoss:
    """The logistic loss of every edge by itself, from the share of edges that match.

    Parameters
    ----------
    is_match : ndarray of shape (n_edges,)
        1 for the edges of the true matchings, else 0.
    """

    def __init__(self, is_match: FloatArray) -> None:
        self.is_match = is_match
        share = float(np.mean(is_match))
        self.constant = float(np.log(share / (1.0 - share)))

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss, and derivatives of the sum by every score."""
        log_odds = scores + self.constant
        loss = np.mean(np.logaddexp(0.0, log_odds) - self.is_match * log_odds)
        p = self.probability(scores)
        return float(loss), p - self.is_match, p * (1.0 - p)

    def probability(self, scores: FloatArray) -> FloatArray:
        """Return the probability of every edge, what trees say added to the constant."""
        return expit(scores + self.constant)


def _is_match(pairs: Pairs) -> FloatArray:
    """Return 1 for every edge of the true matchings, 0 for the others."""
    found = []
    for graph, matching in zip(*pairs, strict=True):
        table = np.zeros((graph.n_left, graph.n_right))
        table[np.arange(graph.n_left), matching] = 1.0
        found.append(table.ravel())
    return np.concatenate(found)


def _of_graphs(
    predict: Callable[[FloatArray], FloatArray], graphs: list[BipartiteGraph]
) -> list[FloatArray]:
    """Return the scores of every graph, as a table."""
    return _tables(graphs, np.split(predict(edge_rows(graphs)), _ends(graphs)))


def _ends(graphs: list[BipartiteGraph]) -> np.ndarray:
    return np.cumsum([graph.n_edges for graph in graphs])[:-1]


def _tables(graphs: list[BipartiteGraph], scores: Sequence[FloatArray]) -> list[FloatArray]:
    return [
        own.reshape(graph.n_left, graph.n_right)
        for graph, own in zip(graphs, scores, strict=True)
    ]


def _signs(pairs: Pairs, is_falling: bool) -> list[int] | None:
    return [-1] * pairs.graphs[0].n_features if is_falling else None


def _step(
    is_falling: bool,
    num_leaves: int,
    n_rounds: int,
    validation_loss: float,
    n_grown: int,
    began: float,
) -> Row:
    return {
        "num_leaves": num_leaves,
        "is_falling": is_falling,
        "n_rounds": n_rounds,
        "validation_loss": validation_loss,
        "n_evaluations": n_grown,
        "seconds": round(time.perf_counter() - began, 3),
    }
