"""Linking the boxes of two frames, by several methods that see the same candidate pairs.

    iou         the assignment with the largest sum of intersections over unions, without
                links below a threshold; probabilities by logistic regression on the
                intersection over union
    logistic    logistic regression on the features of a pair and of its two boxes; the
                assignment with the largest sum of log-odds, without links below a threshold
    permatch    the likeliest matching, and its marginals, under learned scores of pairs,
                births and deaths

Thresholds and penalties are chosen on training data.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from permatch._types import BoolArray, FloatArray, IntArray
from permatch.estimators import MAPMatchingCV
from permatch.graphs import BipartiteGraph
from permatch.tracking import FramePairs
from reproduce.experiments.link_measures import best_threshold

METHODS = ("iou", "logistic", "permatch")

#: Inverse penalties of logistic regression; features have unit variance.
INVERSE_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)

_IOU = 0  # the column of this feature
_N_BLOCKS = 3


@dataclass(frozen=True, eq=False)
class Lessons:
    """Labelled pairs of frames, cut into blocks of time for cross-validation."""

    graphs: list[BipartiteGraph]
    matchings: list[IntArray]
    block: IntArray
    n_links: int

    @classmethod
    def of(cls, several: Sequence[FramePairs]) -> "Lessons":
        """Put together what was learned from several views of the same frames."""
        start = np.concatenate([pairs.frames[:, 0] for pairs in several])
        low, high = start.min(), start.max() + 1
        return cls(
            [graph for pairs in several for graph in pairs.graphs],
            [matching for pairs in several for matching in pairs.matchings],
            (_N_BLOCKS * (start - low)) // (high - low),
            sum(pairs.n_links for pairs in several),
        )

    @property
    def folds(self) -> list[tuple[IntArray, IntArray]]:
        """Graphs to learn from and graphs held out: a block of time each."""
        blocks = np.unique(self.block)
        return [
            (np.flatnonzero(self.block != k), np.flatnonzero(self.block == k))
            for k in blocks
        ]

    @property
    def is_true(self) -> BoolArray:
        """Which edges of all graphs are links."""
        return taken_edges(self.graphs, self.matchings)


class Answer(NamedTuple):
    """Which candidate pairs a method takes, and how probable it thinks they are."""

    is_taken: BoolArray
    probability: FloatArray
    chosen: dict[str, float]


def answer(
    method: str,
    lessons: Lessons,
    test: Lessons,
    alphas: Sequence[float],
    n_jobs: int | None,
) -> Answer:
    """Return what a method makes of the test pairs after its lessons."""
    if method == "permatch":
        return _permatch(lessons, test, alphas, n_jobs)
    if method == "iou":
        values = [
            np.concatenate([graph.edge_features[:, _IOU] for graph in part.graphs])
            for part in (lessons, test)
        ]
        model = _fit_logistic(values[0][:, None], lessons)
        probability = model.predict_proba(values[1][:, None])[:, 1]
        return _assigned(lessons, test, values, probability, {})
    rows = [pair_features(part.graphs) for part in (lessons, test)]
    model = _fit_logistic(rows[0], lessons)
    values = [model.decision_function(part) for part in rows]
    chosen = {"C": float(model.best_params_["logisticregression__C"])}
    return _assigned(lessons, test, values, model.predict_proba(rows[1])[:, 1], chosen)


def pair_features(graphs: Sequence[BipartiteGraph]) -> FloatArray:
    """Return the features of all edges with those of their two nodes."""
    return np.concatenate(
        [
            np.hstack(
                [
                    graph.edge_features,
                    graph.left_features[graph.structure.left],
                    graph.right_features[graph.structure.right],
                ]
            )
            for graph in graphs
        ]
    )


def taken_edges(
    graphs: Sequence[BipartiteGraph], matchings: Sequence[IntArray]
) -> BoolArray:
    """Return which edges of all graphs are in their matchings."""
    return np.concatenate(
        [
            matching[graph.structure.left] == graph.structure.right
            for graph, matching in zip(graphs, matchings, strict=True)
        ]
    )


def assign(graphs: Sequence[BipartiteGraph], values: FloatArray) -> BoolArray:
    """Return the edges of the assignments with the most links and the largest sums."""
    taken, end = [], 0
    for graph in graphs:
        own = values[end : end + graph.n_edges]
        end += graph.n_edges
        i, j = graph.structure.left, graph.structure.right
        # What is no candidate is worth less than any that is.
        table = np.zeros((graph.n_left, graph.n_right))
        table[i, j] = own - own.min(initial=0.0) + 1e-9
        chosen = np.zeros(table.shape, dtype=bool)
        chosen[linear_sum_assignment(table, maximize=True)] = True
        taken.append(chosen[i, j])
    return np.concatenate(taken)


def _assigned(
    lessons: Lessons,
    test: Lessons,
    values: Sequence[FloatArray],
    probability: FloatArray,
    chosen: dict[str, float],
) -> Answer:
    """Return the assignment above the threshold that was best in the lessons."""
    taken = assign(lessons.graphs, values[0])
    threshold = best_threshold(values[0][taken], lessons.is_true[taken], lessons.n_links)
    is_taken = assign(test.graphs, values[1]) & (values[1] >= threshold)
    return Answer(is_taken, probability, chosen | {"threshold": threshold})


def _fit_logistic(rows: FloatArray, lessons: Lessons) -> Any:
    """Return logistic regression with the penalty chosen on held-out blocks of time."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    owner = np.repeat(
        np.arange(len(lessons.graphs)), [graph.n_edges for graph in lessons.graphs]
    )
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
        {"logisticregression__C": INVERSE_PENALTIES},
        scoring="neg_log_loss",
        cv=[
            tuple(np.flatnonzero(np.isin(owner, part)) for part in fold)
            for fold in lessons.folds
        ],
    )
    return search.fit(rows, lessons.is_true)


def fit_permatch(
    lessons: Lessons, alphas: Sequence[float], n_jobs: int | None
) -> MAPMatchingCV:
    """Return learned scores of pairs, births and deaths; alpha by blocks of time."""
    model = MAPMatchingCV(
        alphas,
        unmatched="any",
        cv=lessons.folds,
        scoring="log_likelihood",
        tol=1e-4,
        n_jobs=n_jobs,
    )
    with warnings.catch_warnings():
        # An alpha at the end of the grid is told by its row.
        warnings.simplefilter("ignore")
        return model.fit(lessons.graphs, lessons.matchings)


def _permatch(
    lessons: Lessons, test: Lessons, alphas: Sequence[float], n_jobs: int | None
) -> Answer:
    model = fit_permatch(lessons, alphas, n_jobs)
    taken = taken_edges(test.graphs, model.predict(test.graphs))
    probability = np.concatenate(model.predict_marginals(test.graphs))
    return Answer(taken, probability, {"alpha": float(model.alpha_)})
