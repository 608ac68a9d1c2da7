"""The base of models whose scores are made by boosted trees."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from permatch._progress import progress_bar
from permatch._types import FloatArray
from permatch._validation import check_count, check_jobs
from permatch.boosting.options import (
    check_leaves,
    check_monotone,
    check_share,
    check_tree_options,
)
from permatch.boosting.trees import Grown, Growth, Judge, Loss, Trees, grow_together
from permatch.estimators.base import BaseModel
from permatch.estimators.checks import check_number
from permatch.estimators.convergence import warn_caller


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedModel(BaseModel):
    """A model whose scores are made by boosted trees.

    Subclasses grow them by `_grow`, which sets the attributes below.

    Parameters
    ----------
    num_leaves : int
        Most leaves of a tree, at least 2.
    n_rounds : int
        Most rounds, each of which adds a tree.
    learning_rate : float
        Share of every tree that is added, above 0.
    min_data_in_leaf : int
        Fewest training rows of a leaf.
    lambda_l2 : float
        L2 penalty on the values of leaves.
    feature_fraction : float
        Share of the features that a tree may use, drawn at random.
    monotone_constraints : sequence or dict, optional
        1 if scores must not fall as the feature rises, -1 if they must not rise, 0 for
        neither: one per feature, or a dict by name.
    tree_options : dict, optional
        Further options of LightGBM, such as ``{"max_bin": 63}``.
    patience : int
        With held-out data: rounds without a better score before training ends.
    random_state : int
        Seed of all that is random.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    trees_ : Trees
        The trees; ``trees_.booster`` is a ``lightgbm.Booster``.
    n_rounds_ : int
        The rounds that were kept.
    history_ : list of dict
        For every round ``round``, the training ``loss`` before it and, with held-out data,
        their ``score`` after it.
    is_converged_ : bool
        False if Ctrl-C ended the fit.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if known.
    """

    num_leaves: int = 31
    n_rounds: int = 100
    learning_rate: float = 0.1
    min_data_in_leaf: int = 20
    lambda_l2: float = 0.0
    feature_fraction: float = 1.0
    monotone_constraints: Any = None
    tree_options: Any = None
    patience: int = 50
    random_state: int = 0
    n_jobs: int | None = None
    verbose: bool = False
    trees_: Trees = field(init=False)
    n_rounds_: int = field(init=False)
    history_: list[dict[str, float]] = field(init=False)
    is_converged_: bool = field(init=False)

    _objects: ClassVar[dict[str, Any]] = {"trees_": Trees}

    def _tree_options(self, n_features: int, names: list[str] | None) -> dict[str, Any]:
        """Return the checked options of a `Growth`."""
        check_count(self.n_rounds, "n_rounds", 1)
        check_count(self.patience, "patience", 1)
        options = {
            "num_leaves": self._first_leaves(),
            "learning_rate": check_number(
                self.learning_rate, "learning_rate", is_zero_allowed=False
            ),
            "min_data_in_leaf": check_count(self.min_data_in_leaf, "min_data_in_leaf", 1),
            "lambda_l2": check_number(self.lambda_l2, "lambda_l2"),
            "feature_fraction": check_share(self.feature_fraction, "feature_fraction"),
            "seed": check_count(self.random_state, "random_state", 0),
            "num_threads": check_jobs(self.n_jobs),
        }
        signs = check_monotone(self.monotone_constraints, n_features, names)
        if signs is not None:
            options["monotone_constraints"] = signs
        return options | check_tree_options(self.tree_options)

    def _first_leaves(self) -> int:
        """Return the number of leaves, of several to choose from the smallest."""
        return check_leaves(self.num_leaves)

    def _grow(
        self,
        features: Any,
        loss: Loss,
        options: dict[str, Any],
        held_out: tuple[Any, Judge] | None = None,
        n_rounds: int | None = None,
    ) -> Grown:
        """Grow the trees and set the fitted attributes, without a warning.

        `options` are what `_tree_options` returned.  `held_out` are the features of
        held-out data and the judge of their scores, which then end the growth and choose
        how many of its rounds are kept.
        """
        growth = Growth(features, loss, options, held_out[0] if held_out else None)
        judges = [held_out[1]] if held_out else None
        n_rounds = n_rounds or self.n_rounds
        with progress_bar(type(self).__name__, n_rounds, 0.0, bool(self.verbose)) as show:
            grown = grow_together([growth], judges, n_rounds, self.patience, show)
        self._adopt(growth.trees(grown.best_round), grown, features.shape[1])
        return grown

    def _adopt(self, trees: Trees, grown: Grown, n_features: int) -> None:
        """Set the fitted attributes."""
        self.trees_ = trees
        self.n_rounds_ = grown.best_round
        self.history_ = grown.history
        self.is_converged_ = not grown.is_interrupted
        self.n_features_in_ = n_features

    def _warn(self, optimum: Grown) -> None:
        """Warn the caller of `fit` of unreliable results."""
        name = type(self).__name__
        if optimum.is_interrupted:
            warn_caller(
                f"the fit of {name} was interrupted after {len(optimum.history)} rounds; "
                "the best trees so far are kept. Fit again to improve them.",
                ConvergenceWarning,
            )
        elif optimum.scores and optimum.best_round == self.n_rounds:
            self._warn_of_rounds()

    def _warn_of_rounds(self) -> None:
        warn_caller(
            f"the score on held-out data was best after the last of {self.n_rounds} "
            "rounds; more may be better. Raise n_rounds or learning_rate."
        )

    def _tree_scores(self, features: Any) -> FloatArray:
        """Return the score of every row of checked features."""
        return self.trees_.predict(features, check_jobs(self.n_jobs))

    def _tree_contributions(self, features: Any) -> FloatArray:
        """Return what every feature adds to the score of every row, and the mean score."""
        return self.trees_.contributions(features, check_jobs(self.n_jobs))

    @property
    def feature_importances_(self) -> FloatArray:
        """How much the splits by every feature gained, as shares of all, (d,)."""
        self._check_fitted()
        gains, _ = self.trees_.gains()
        return gains / max(float(gains.sum()), np.finfo(float).tiny)

    def _check_loaded(self) -> None:
        n_features, _ = self.trees_.sizes
        if n_features != self.n_features_in_:
            raise ValueError(
                f"the trees must have the {self.n_features_in_} features of the model, "
                f"got {n_features}"
            )
