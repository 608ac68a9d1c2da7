"""Alphas from strong to weak, each fit begun where the last one ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_weights
from permatch.errors import InvalidOptionError
from permatch.estimators.base import DataSet
from permatch.estimators.map_matching import MAPMatching
from permatch.optimizers import BundleOptimum, Optimum

# Mean scores closer than this are tied; they differ by the order of a sum.
_TIE = 1e-12

#: What can choose alpha, and whether more of it is better.
SCORINGS = {"hamming": False, "log_likelihood": True}


@dataclass(frozen=True, eq=False)
class Tried:
    """One alpha on one split."""

    score: float
    coef: FloatArray
    optimum: Optimum | BundleOptimum


class Fold(Protocol):
    """One split: something to train on, something held out, and how far it has come."""

    def advance(self, alpha: float) -> Tried:
        """Fit at the next alpha, beginning where the last fit ended.

        Raises KeyboardInterrupt if the fit was interrupted.
        """
        ...

    @property
    def has_coef(self) -> bool:
        """Whether there are coefficients to keep, be it of a fit that was interrupted."""
        ...


@dataclass(frozen=True, eq=False)
class MatcherFold:
    """Graphs to train on, graphs held out, and the model that walks along the path."""

    model: MAPMatching
    train: DataSet
    held_out: DataSet
    scoring: str

    @property
    def has_coef(self) -> bool:
        """Whether there are coefficients to keep."""
        return hasattr(self.model, "coef_")

    def advance(self, alpha: float) -> Tried:
        """Fit at the next alpha, beginning where the last fit ended."""
        self.model.alpha = alpha
        optimum = self.model._fit(*self.train)
        if optimum.is_interrupted:
            raise KeyboardInterrupt
        if self.scoring == "hamming":
            score = self.model._loss(*self.held_out)
        else:
            score = self.model.log_likelihood(*self.held_out)
        return Tried(score, self.model.coef_, optimum)


@dataclass(frozen=True, eq=False)
class AlphaPath:
    """What was tried: a row for every alpha that all splits have seen, from strong on."""

    alphas: list[float]
    rows: list[list[Tried]]
    is_interrupted: bool

    def scores(self) -> FloatArray:
        """Return the score of every alpha on every split."""
        return np.array([[tried.score for tried in row] for row in self.rows])

    def coefs(self) -> FloatArray:
        """Return the coefficients at every alpha on every split."""
        return np.array([[tried.coef for tried in row] for row in self.rows])

    def n_open(self) -> int:
        """Return how many of the fits have not converged."""
        return sum(not tried.optimum.is_converged for row in self.rows for tried in row)

    def n_evaluations(self) -> IntArray:
        """Return the evaluations used at every alpha on every split."""
        counts = [[tried.optimum.n_evaluations for tried in row] for row in self.rows]
        return np.array(counts, dtype=np.intp)

    def results(self, n_splits: int) -> dict[str, Any]:
        """Return a table of what was tried, by alpha and split."""
        shape = (len(self.rows), n_splits)
        scores = self.scores().reshape(shape)
        return {
            "alphas": np.array(self.alphas[: len(self.rows)]),
            "scores": scores,
            "mean_score": scores.mean(axis=1),
            "std_score": scores.std(axis=1),
            "n_evaluations": self.n_evaluations().reshape(shape),
        }

    def best(self, *, is_more_better: bool) -> int:
        """Return the place of the best mean score; of equal ones the strongest alpha."""
        means = self.scores().mean(axis=1)
        losses = -means if is_more_better else means
        return int(np.argmax(losses <= losses.min() + _TIE))


def walk(
    folds: Sequence[Fold],
    alphas: list[float],
    show: Callable[[int], None] | None = None,
) -> AlphaPath:
    """Try one alpha after another on all folds; after Ctrl-C, return what is complete."""
    rows: list[list[Tried]] = []
    try:
        for alpha in alphas:
            row = []
            for fold in folds:
                row.append(fold.advance(alpha))
                if show is not None:
                    show(len(rows) * len(folds) + len(row))
            rows.append(row)
    except KeyboardInterrupt:
        if not folds[0].has_coef:
            raise  # there is nothing to keep yet
        return AlphaPath(alphas, rows, is_interrupted=True)
    return AlphaPath(alphas, rows, is_interrupted=False)


def take(data: DataSet, which: Any, fold: int) -> DataSet:
    """Return the graphs of one side of a split, weights summing to one again."""
    graphs, labels, weights = data
    try:
        chosen = np.arange(len(graphs))[which]
    except (IndexError, TypeError) as err:
        raise InvalidOptionError(
            f"the index arrays of cv must name graphs 0 .. {len(graphs) - 1}; split {fold} "
            f"does not ({err})."
        ) from err
    if not weights[chosen].any():
        raise InvalidOptionError(
            "every split of cv needs graphs to train on and graphs held out, with a "
            f"sample_weight above 0; split {fold} lacks one. Use fewer folds."
        )
    return (
        [graphs[k] for k in chosen],
        [labels[k] for k in chosen],
        check_weights(weights[chosen], len(chosen)),
    )
