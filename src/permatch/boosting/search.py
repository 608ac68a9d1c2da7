"""One search over the leaves of trees for all boosted models, on every split at once.

For every number of leaves, trees are grown on all splits at once until their mean score on
held-out data no longer rises; the best round counts.  Ties go to fewer leaves.  The model
is then grown again on all training data with that many rounds; with a validation set, which
never trains, the trees grown on the training data are kept.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from permatch._progress import progress_bar
from permatch.boosting.base import BoostedModel
from permatch.boosting.options import check_leaves
from permatch.boosting.trees import Grown, Growth, Judge, Loss, Trees, grow_together
from permatch.errors import InvalidOptionError
from permatch.estimators.convergence import warn_caller

# Mean scores closer than this are tied; they differ by the order of a sum.
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows with their loss, and held-out rows with a judge of their scores."""

    features: Any
    loss: Loss
    held_out: Any
    judge: Judge


@dataclass(frozen=True, eq=False)
class _Tried:
    """One number of leaves on all splits: how it went, and the trees of the first split."""

    num_leaves: int
    grown: Grown
    trees: Trees

    @property
    def scores(self) -> list[float]:
        """The scores of the splits after the best round."""
        return self.grown.scores[self.grown.best_round - 1]


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedSearch(BoostedModel):
    """Choose the leaves and rounds, then grow the trees.

    Subclasses are boosted models with these parameters instead of `num_leaves`.

    Parameters
    ----------
    leaf_counts : sequence of int
        Numbers of leaves to try.
    cv : int, splitter, or iterable of (train, test) arrays
        Folds of the training data; not used with a validation set.

    Attributes
    ----------
    num_leaves_ : int
        The chosen number of leaves.
    best_score_ : float
        The mean score on held-out data of the chosen leaves and rounds.
    cv_results_ : dict
        ``num_leaves``, the best ``n_rounds`` of each, ``scores`` there (one row per number
        of leaves, one column per split), ``mean_score``, ``std_score``, and ``curves``,
        the mean score after every round.
    """

    num_leaves: int = field(default=0, init=False)
    leaf_counts: Any = (7, 15, 31)
    n_rounds: int = 500
    cv: Any = 5
    num_leaves_: int = field(init=False)
    best_score_: float = field(init=False)
    cv_results_: dict[str, Any] = field(init=False)

    def _first_leaves(self) -> int:
        return self._check_leaf_counts()[0]

    def _check_leaf_counts(self) -> list[int]:
        """Return the numbers of leaves to try, rising, each once."""
        counts = self.leaf_counts
        if isinstance(counts, str) or not isinstance(counts, Iterable):
            raise InvalidOptionError(
                f"leaf_counts must be a sequence of whole numbers; got {counts!r}."
            )
        checked = sorted({check_leaves(count, "every leaf count") for count in counts})
        if not checked:
            raise InvalidOptionError("leaf_counts must have at least one number; got none.")
        return checked

    def _search(
        self,
        splits: Sequence[Split],
        options: dict[str, Any],
        whole: Callable[[], tuple[Any, Loss]] | None,
    ) -> tuple[Grown, Any]:
        """Choose, grow, and set the fitted attributes, without a warning.

        `whole` returns the rows and the loss to grow the trees on at the end; None keeps
        those of the only split.  Return how it went, and the loss of the trees kept.
        """
        tried, is_interrupted = self._try_all(splits, options)
        best = self._choose(tried)
        grown = replace(best.grown, is_interrupted=is_interrupted)
        self._adopt(best.trees, grown, splits[0].features.shape[1])
        if whole is None or is_interrupted:
            return grown, splits[0].loss
        try:
            features, loss = whole()
            options = options | {"num_leaves": best.num_leaves}
            return self._grow(features, loss, options, n_rounds=grown.best_round), loss
        except KeyboardInterrupt:  # before the first round: the trees of a split are kept
            self.is_converged_ = False
            return replace(grown, is_interrupted=True), splits[0].loss

    def _try_all(
        self, splits: Sequence[Split], options: dict[str, Any]
    ) -> tuple[list[_Tried], bool]:
        """Try the numbers of leaves in turn; return also whether Ctrl-C ended it."""
        counts, tried = self._check_leaf_counts(), []
        judges = [own.judge for own in splits]
        title, n_steps = type(self).__name__, len(counts) * self.n_rounds
        with progress_bar(title, n_steps, 0.0, bool(self.verbose)) as show:
            for k, num_leaves in enumerate(counts):
                told = options | {"num_leaves": num_leaves}

                def show_round(done: int, before: int = k * self.n_rounds) -> None:
                    if show is not None:
                        show(before + done)

                try:
                    growths = [
                        Growth(own.features, own.loss, told, own.held_out) for own in splits
                    ]
                    how = self.n_rounds, self.patience, show_round
                    grown = grow_together(growths, judges, *how)
                except KeyboardInterrupt:
                    if not tried:
                        raise
                    return tried, True
                trees = growths[0].trees(grown.best_round)
                tried.append(_Tried(num_leaves, grown, trees))
                if grown.is_interrupted:
                    return tried, True
        return tried, False

    def _choose(self, tried: list[_Tried]) -> _Tried:
        """Set what is known of the choice, and return it."""
        scores = np.array([one.scores for one in tried])
        means = scores.mean(axis=1)
        self.cv_results_ = {
            "num_leaves": np.array([one.num_leaves for one in tried]),
            "n_rounds": np.array([one.grown.best_round for one in tried]),
            "scores": scores,
            "mean_score": means,
            "std_score": scores.std(axis=1),
            "curves": [[row["score"] for row in one.grown.history] for one in tried],
        }
        best = tried[int(np.argmax(means >= means.max() - _TIE))]
        self.num_leaves_, self.best_score_ = best.num_leaves, best.grown.best_score
        return best

    def _warn(self, optimum: Grown) -> None:
        tried = self.cv_results_["num_leaves"].tolist()
        if optimum.is_interrupted:
            warn_caller(
                f"the fit of {type(self).__name__} was interrupted after trying "
                f"{', '.join(map(str, tried))} leaves; the best trees so far are kept, "
                "perhaps those of a single split. Fit again to improve them.",
                ConvergenceWarning,
            )
        elif self.cv_results_["n_rounds"][tried.index(self.num_leaves_)] == self.n_rounds:
            self._warn_of_rounds()
