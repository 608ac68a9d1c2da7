"""Boosted matchers that choose leaves and rounds on held-out graphs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from permatch._blas import one_blas_thread
from permatch._validation import check_choice
from permatch.boosting.boosted_matching import BoostedMatching, Training
from permatch.boosting.matching_objective import edge_rows
from permatch.boosting.search import BoostedSearch, Split
from permatch.estimators.checks import DataSet
from permatch.estimators.graph_splits import split_graphs

_SCORINGS = ("log_likelihood", "hamming")
# Splits expected of a splitter, for estimates of time.
_SPLITS = 5


@dataclass(eq=False, repr=False)
class BoostedMatchingCV(BoostedSearch, BoostedMatching):
    """`BoostedMatching` with leaves and rounds chosen on held-out graphs.

    For every number of leaves, trees are grown on all splits together, until the mean score
    of what they hold out no longer rises.  Ties go to the fewest leaves.  The model is then
    grown again on all training graphs; with a validation set, which never trains, the trees
    that were chosen are kept.

    Parameters
    ----------
    n_rounds : int
        Most rounds.
    learning_rate, min_data_in_leaf, lambda_l2, feature_fraction
        As in `BoostedMatching`.
    monotone_constraints, tree_options
        As in `BoostedMatching`.
    patience : int
        Rounds without a better score before growth ends.
    random_state : int
        Seed of the shuffled folds and of all else that is random.
    n_jobs, verbose, engine
        As in `BoostedMatching`.
    budget : float or None
        As in `BoostedMatching`, for all splits together.
    unmatched : {"auto", "larger", "any"}
        As in `BoostedMatching`.
    leaf_counts : sequence of int
        Numbers of leaves to try.
    cv : int, splitter, or iterable of (train, test) index arrays
        A number means that many shuffled folds of the graphs; a single graph is split by
        its nodes, matched ones together, and pairs between folds are left out.  Not used
        with a validation set.
    scoring : {"log_likelihood", "hamming"}
        Criterion on held-out graphs: the mean log-likelihood or the Hamming loss.

    Attributes
    ----------
    num_leaves_, n_rounds_ : int
        The chosen leaves, and the rounds that were kept.
    best_score_ : float
        Their mean score on held-out graphs; a Hamming loss counts as negative.
    cv_results_ : dict
        ``num_leaves``, the best ``n_rounds`` of each, ``scores`` there (one row per number
        of leaves, one column per split), ``mean_score``, ``std_score``, and ``curves``,
        the mean score after every round.
    trees_, history_, is_converged_, n_features_in_, n_node_features_, feature_names_
        As in `BoostedMatching`.
    unmatched_, unmatched_intercept_, is_exact_, marginal_error_, engine_report_
        As in `BoostedMatching`.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> graphs = rng.normal(size=(100, 4, 4, 2))
    >>> matchings = [
    ...     pm.best_matching(x[..., 0] * x[..., 1] + 0.1 * rng.normal(size=(4, 4)))
    ...     for x in graphs
    ... ]
    >>> model = pm.BoostedMatchingCV(leaf_counts=[2, 8], n_rounds=60, cv=2)
    >>> model.fit(graphs, matchings).num_leaves_
    8
    """

    _: KW_ONLY
    scoring: str = "log_likelihood"

    @one_blas_thread()
    def fit(
        self,
        graphs: Any,
        matchings: Any = None,
        sample_weight: Any = None,
        *,
        validation: tuple[Any, Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Choose leaves and rounds, and grow the trees.

        Parameters
        ----------
        graphs : sequence of (n, k, d) arrays or BipartiteGraph
            Edge features; sizes may differ between graphs.
        matchings : sequence of integer arrays of shape (n,), Known or EdgeLabels
            The true matching of every graph, or what is known of it.
        sample_weight : array of shape (n_graphs,), optional
            Weight of every graph, in training and in the scores of its fold.
        validation : pair (graphs, matchings), optional
            Graphs to choose on, never trained on; default: split `graphs` by `cv`.
        feature_names : sequence of str, optional
            A name per feature, saved with the model.

        Returns
        -------
        BoostedMatchingCV
            Itself.
        """
        check_choice(self.scoring, "scoring", _SCORINGS)
        training = self._prepare(graphs, matchings, sample_weight, feature_names)
        options = self._tree_options(len(training.columns), training.columns.all_names)
        if validation is None:
            pairs = split_graphs(self.cv, self.random_state, training.data)
            splits = [self._split(training.of_fold(own), test) for own, test in pairs]
        else:
            splits = [self._split(training, training.columns.check(validation))]
        is_kept = validation is not None
        whole = None if is_kept else lambda: (training.rows, training)
        grown, loss = self._search(splits, options, whole)
        self._hold(loss)
        self._conclude(loss)
        self._warn(grown)
        self._warn_of_engine()
        return self

    def _split(self, training: Training, held_out: DataSet) -> Split:
        rows = edge_rows(held_out[0])
        return Split(training.rows, training, rows, training.judge(held_out, self.scoring))

    def _n_evaluations(self) -> int:
        n_splits = max(self.cv, 1) if isinstance(self.cv, int) else _SPLITS
        n_grown = len(self._check_leaf_counts()) * n_splits + 1
        return max(self.n_rounds * n_grown // 2, 1)  # few growths go on to the last round
