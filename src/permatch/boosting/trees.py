"""Boosted trees on LightGBM: grown by a loss of scores, kept as LightGBM's own text.

Every round adds a tree to the scores.  It is fitted to the slope and the curvature of the
loss by every score, so a loss may be of whole matchings or rankings: all that LightGBM sees
are two numbers per row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from scipy import sparse

from permatch._optional import require
from permatch._types import FloatArray, IntArray
from permatch.boosting.tree_text import check_trees, keep_trees, read_trees
from permatch.errors import InvalidOptionError

#: From scores of held-out rows to a figure; higher is better.
Judge = Callable[[FloatArray], float]

# The same trees for any number of threads, which histograms by rows would not give.
_ALWAYS = {
    "objective": "none",
    "metric": "None",
    "deterministic": True,
    "force_col_wise": True,
    "feature_pre_filter": False,  # by which rare features would be constant
    "verbosity": -1,
}


class Loss(Protocol):
    """A loss of the scores of all rows, summed over whatever rows are judged together."""

    def derivatives(self, scores: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss, and its first and second derivative by every score, (n,).

        The second derivatives are those of one score alone, none below 0.
        """
        ...


@dataclass(frozen=True)
class Trees:
    """Boosted trees; the score of a row is the sum of the leaves it falls into.

    Parameters
    ----------
    text : str
        The trees in LightGBM's own format, from the header to the last tree;
        ``lightgbm.Booster(model_str=text)`` reads it.
    """

    text: str

    @cached_property
    def booster(self) -> Any:
        """The trees as a ``lightgbm.Booster``."""
        lightgbm = require("lightgbm", "boosting", what="a model of boosted trees")
        return lightgbm.Booster(model_str=self.text)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The numbers of features and of trees."""
        return check_trees(self.text)

    def predict(self, features: Any, n_jobs: int = 1) -> FloatArray:
        """Return the score of every row, (n,), of dense or sparse features (n, d)."""
        return self.booster.predict(_for_lightgbm(features), num_threads=n_jobs)

    def contributions(self, features: Any, n_jobs: int = 1) -> FloatArray:
        """Return what every feature adds to the score of every row, (n, d + 1).

        These are Shapley values by Lundberg's algorithm.  The last column is the mean score
        of the training rows, so that rows sum to the scores.
        """
        found = self.booster.predict(
            _for_lightgbm(features), pred_contrib=True, num_threads=n_jobs
        )
        return found.toarray() if sparse.issparse(found) else found

    def gains(self) -> tuple[FloatArray, IntArray]:
        """Return how much the splits by every feature gained, and how many there are."""
        n_features, _ = self.sizes
        trees = read_trees(self.text)
        features = np.concatenate([tree.features for tree in trees])
        gains = np.concatenate([tree.gains for tree in trees])
        gained = np.bincount(features, gains, minlength=n_features)
        return gained.astype(np.float64), np.bincount(features, minlength=n_features)

    def to_json(self) -> dict[str, str]:
        """Return the text under the key "lightgbm", for JSON."""
        return {"lightgbm": self.text}

    @classmethod
    def from_json(cls, value: dict[str, str]) -> Self:
        """Return what `to_json` was called on; ValueError if it is damaged."""
        check_trees(value["lightgbm"])
        return cls(value["lightgbm"])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text,)

    def __repr__(self) -> str:
        n_features, n_trees = self.sizes
        return f"Trees(n_trees={n_trees}, n_features={n_features})"


class Growth:
    """Trees that are being grown, a round at a time.

    Parameters
    ----------
    features : array or sparse matrix of shape (n, d)
        The rows that are learned from.
    loss : Loss
        The loss of their scores.
    options : dict
        Parameters of LightGBM, such as ``num_leaves`` and ``learning_rate``.
    held_out : array or sparse matrix, optional
        Rows whose scores are followed on the way.
    """

    def __init__(
        self, features: Any, loss: Loss, options: dict[str, Any], held_out: Any = None
    ) -> None:
        lightgbm = require("lightgbm", "boosting", what="a model of boosted trees")
        self._loss = loss
        options, n_features = options | _ALWAYS, features.shape[1]
        data = lightgbm.Dataset(_for_lightgbm(features), params=options)
        try:
            if not any(data.construct().feature_num_bin(k) for k in range(n_features)):
                raise InvalidOptionError(
                    "trees need at least one feature that is not 0 throughout; all "
                    f"{n_features} are. Add features."
                )
            self._booster = lightgbm.Booster(options, data)
            if held_out is not None:
                rows = _for_lightgbm(held_out)
                self._booster.add_valid(data.create_valid(rows, params=options), "held out")
        except lightgbm.basic.LightGBMError as err:
            raise InvalidOptionError(
                f"LightGBM must accept the options of the trees; it says: {err}. Change "
                "the option it names."
            ) from err

    @property
    def n_rounds(self) -> int:
        """The number of rounds so far."""
        return self._booster.current_iteration()

    def add_round(self) -> tuple[float, bool]:
        """Add a tree; return the loss before it, and whether there was nothing to split."""
        loss = np.nan

        def derive(scores: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
            nonlocal loss
            loss, slope, curvature = self._loss.derivatives(scores)
            return slope, curvature

        is_over = self._booster.update(fobj=derive)
        return loss, is_over

    def judge(self, judge: Judge) -> float:
        """Return what `judge` says of the scores of the held-out rows."""
        ((*_, value, _),) = self._booster.eval_valid(
            lambda scores, _: ("score", judge(scores), True)
        )
        return value

    def trees(self, n_rounds: int | None = None) -> Trees:
        """Return the trees of the first rounds, by default of all."""
        text = self._booster.model_to_string(num_iteration=n_rounds or -1)
        return Trees(keep_trees(text))


@dataclass
class Grown:
    """How some growths went, round by round.

    Attributes
    ----------
    history : list of dict
        For every round: ``round`` from 1, ``loss`` on the training rows before it, the mean
        over the growths, and ``score``, the mean of the judges after it, if there are any.
    scores : list of list of float
        What every judge said after every round.
    best_round : int
        The number of rounds that scored best, the first of several; without judges, all.
    best_score : float
        Its score; NaN without judges.
    is_interrupted, is_early : bool
        Whether Ctrl-C ended it, and whether scores that no longer rose did.
    """

    history: list[dict[str, float]]
    scores: list[list[float]]
    best_round: int = 0
    best_score: float = np.nan
    is_interrupted: bool = False
    is_early: bool = False


def grow_together(
    growths: Sequence[Growth],
    judges: Sequence[Judge] | None,
    n_rounds: int,
    patience: int,
    show: Callable[[int], None] | None = None,
) -> Grown:
    """Add rounds to all growths, until the mean score has not risen for `patience` rounds.

    `judges` are one for each growth; without them there are `n_rounds` rounds.  It ends
    before a round in which no growth finds anything to split.  Ctrl-C ends it after the
    last round that all growths have done; it is raised if there is none.
    """
    grown = Grown([], [])
    try:
        for k in range(1, n_rounds + 1):
            steps = [growth.add_round() for growth in growths]
            if all(is_over for _, is_over in steps) and k > 1:
                break
            row = {"round": float(k), "loss": float(np.mean([loss for loss, _ in steps]))}
            if judges is not None:
                pairs = zip(growths, judges, strict=True)
                scores = [growth.judge(judge) for growth, judge in pairs]
                row["score"] = float(np.mean(scores))
                grown.scores.append(scores)
                # the first round always counts, whatever its score
                if not grown.best_round or row["score"] > grown.best_score:
                    grown.best_round, grown.best_score = k, row["score"]
            else:
                grown.best_round = k
            grown.history.append(row)
            if show is not None:
                show(k)
            if judges is not None and k - grown.best_round >= patience:
                grown.is_early = True
                break
    except KeyboardInterrupt:
        if not grown.best_round:
            raise
        grown.is_interrupted = True
    return grown


def _for_lightgbm(features: Any) -> Any:
    """Return features in a form that LightGBM takes: it knows no sparse arrays."""
    return sparse.csr_matrix(features) if sparse.issparse(features) else features
