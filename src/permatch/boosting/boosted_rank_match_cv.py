"""Boosted ranking with the size and number of trees chosen on held-out queries."""

from dataclasses import dataclass
from typing import Any

from permatch._shards import HeldShards
from permatch.boosting.boosted_rank_match import BoostedRankMatch
from permatch.boosting.search import BoostedSearch, Split
from permatch.boosting.trees import Grown
from permatch.estimators.splits import split_queries
from permatch.queries import QuerySet


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedRankMatchCV(BoostedSearch, BoostedRankMatch):
    """`BoostedRankMatch` with leaves and rounds chosen on held-out queries.

    For every number of leaves, trees are grown on all splits at once until their mean score
    on held-out queries no longer rises; the best round counts.  Ties go to fewer leaves.
    The model is then refitted on all training lists with that many rounds; with a
    validation set, which never trains, the model grown on the training lists is kept.

    Parameters
    ----------
    n_rounds : int
        Most rounds to try.
    learning_rate, min_data_in_leaf, lambda_l2, feature_fraction, monotone_constraints
        As in `BoostedRankMatch`.
    tree_options
        As in `BoostedRankMatch`.
    patience : int
        Rounds without a better mean score before the growth ends.
    random_state : int
        Seed of all that is random, folds included.
    n_jobs, verbose, levels, query_weight, form, qid, scaling, scoring
        As in `BoostedRankMatch`.
    leaf_counts : sequence of int
        Numbers of leaves to try.
    cv : int, splitter, or iterable of (train, test) arrays of row numbers
        A number means that many shuffled folds of whole queries.  A splitter gets the
        queries as groups.  Not used with a validation set.

    Attributes
    ----------
    num_leaves_ : int
        The chosen number of leaves.
    n_rounds_ : int
        The chosen number of rounds.
    best_score_ : float
        Their mean score on held-out queries.
    cv_results_ : dict
        ``num_leaves``, the best ``n_rounds`` of each, ``scores`` there (one row per number
        of leaves, one column per split), ``mean_score``, ``std_score``, and ``curves``,
        the mean score after every round.
    trees_, history_, is_converged_, n_features_in_, feature_names_, n_observations_
        As in `BoostedRankMatch`, of the model that was kept.
    columns_, left_out_, feature_importances_, forms_, level_weights_, level_shares_
        As in `BoostedRankMatch`.
    grades_, grade_levels_, grade_offsets_, shift_coef_, shift_std_, score_slope_
        As in `BoostedRankMatch`: learned from the validation lists, if there are any.

    Examples
    --------
    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = np.digitize(X[:, 0] * X[:, 1], [0.3, 1.0])
    >>> qid = np.repeat(np.arange(30), 20)
    >>> model = pm.BoostedRankMatchCV(leaf_counts=[3, 7], n_rounds=40, cv=3)
    >>> model = model.fit(X, y, qid=qid)
    >>> model.num_leaves_ in (3, 7), model.n_rounds_ <= 40
    (True, True)
    """

    def _learn(
        self,
        queries: QuerySet,
        options: dict[str, Any],
        held_out: QuerySet | None = None,
        rows: tuple[Any, Any] | None = None,
    ) -> Grown:
        def whole() -> tuple[Any, Any]:
            return queries.documents, self._loss(queries)

        if held_out is not None:
            splits = [self._split(queries, held_out)]
            grown, loss = self._search(splits, options, None)
        else:
            shards = HeldShards([queries])
            folds = split_queries(self.cv, self.random_state, shards, rows)
            taken = [(queries.take(train), queries.take(test)) for train, test in folds]
            splits = [self._split(train, test) for train, test in taken]
            grown, loss = self._search(splits, options, whole)
        self._conclude(loss, self.best_score_, queries, held_out)
        return grown

    def _split(self, train: QuerySet, test: QuerySet) -> Split:
        return Split(train.documents, self._loss(train), *self._judged(test))
