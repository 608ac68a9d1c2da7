"""Learning to rank by boosted trees that maximise the likelihood of whole lists."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._shards import HeldShards
from permatch._types import FloatArray, IntArray
from permatch._validation import check_jobs
from permatch.boosting.base import BoostedModel
from permatch.boosting.rank_objective import ListLoss
from permatch.boosting.serving import add_trees, elasticsearch_model, solr_model
from permatch.boosting.splits import Move, find_moves
from permatch.boosting.tree_text import read_trees
from permatch.boosting.trees import Judge
from permatch.estimators.inputs import query_ids
from permatch.estimators.onnx_graph import OnnxGraph
from permatch.estimators.rank_search import find_scoring, judge_of
from permatch.estimators.ranking_law import RankingLaw
from permatch.queries import QuerySet


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedRankMatch(BoostedModel, RankingLaw):
    """Learn to rank from judged lists by boosted trees, which see interactions of features.

    As for `RankMatch` on whole lists, position j has a weight c(j), and a permutation of
    the documents has probability

        p(permutation) ∝ exp( sum_i c(position of i) score of i ),

    but the scores are sums of regression trees.  Each is fitted, by LightGBM (extra
    ``boosting``), to the first and second derivatives of the log-probability of the grades.

    Parameters
    ----------
    num_leaves : int
        Most leaves of a tree, at least 2.
    n_rounds : int
        Rounds, each of which adds a tree; with validation lists, the most.
    learning_rate : float
        Share of every tree that is added, above 0.
    min_data_in_leaf : int
        Fewest training documents of a leaf.
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
        With validation lists: rounds without a better score before training ends.
    random_state : int
        Seed of all that is random.
    n_jobs : int, optional
        Threads; None means one, -1 all processors.  Results do not depend on it.
    verbose : bool
        Show a progress bar.
    levels : "grades", "gains" or sequence of numbers
        Position weight by grade: the grade itself, ``2**grade - 1``, or one number per
        grade from 0, non-decreasing.
    query_weight : {"observations", "queries", "per_document", "per_relevant"}
        Weight of a list: 1, 1, 1 / its documents, or 1 / its documents of grade 1 or
        higher; on average 1.
    form : {"auto", "exact", "profile"}
        The likelihood itself, or its profile form, an upper bound that is quicker for lists
        of many grades.  "auto" takes the exact form for lists of up to three grades, and
        for those with few documents of the others.
    qid : str, optional
        The column of DataFrames that holds the queries: `fit`, `score` and all else then
        need no `qid`, in scikit-learn's searches too.
    scaling : None, "minmax" or "standard"
        Scale features within each query first, as `QueryScaler` does; `predict` then needs
        the queries, and the model cannot be exported, which `fit` warns of.
    scoring : Measure, str or callable
        What validation lists are judged by, as for `RankMatchCV`.

    Attributes
    ----------
    trees_ : permatch.boosting.Trees
        The trees; ``trees_.booster`` is a ``lightgbm.Booster``.
    n_rounds_ : int
        The rounds that were kept.
    history_ : list of dict
        For every round ``round``, the mean training ``loss`` before it and, with validation
        lists, their ``score`` after it.
    best_score_ : float
        Score of the validation lists after the rounds that were kept; NaN without them.
    is_converged_ : bool
        False if Ctrl-C ended the fit.
    n_features_in_ : int
        Number of features, d.
    feature_names_ : list of str or None
        Their names, if known.
    columns_ : list of str or None
        The columns of the table it was fitted on that are features; `predict` finds them
        by name.
    left_out_ : list of str
        Of a table in memory: the columns without numbers and without a role.
    feature_importances_ : ndarray of shape (d,)
        How much the splits by every feature gained, as shares of all.
    n_observations_ : int
        Number of lists in training.
    forms_ : dict
        Number of lists in the "exact" and the "profile" form, and "skipped" because of a
        single grade.
    level_weights_, level_shares_ : ndarrays
        Position weights, best first, and the share of the training lists with each.
    grades_, grade_levels_ : ndarrays of shape (R,)
        The grades of the training lists, and the position weight of each.
    grade_offsets_, shift_coef_, shift_std_, score_slope_ : ndarrays and floats
        What was learned of how many documents of every grade a list has, see `RankMatch`:
        with validation lists from these, with a slope.  Without, it is learned from the
        training lists, whose scores are better than those of new ones, so that
        probabilities are too sure: call `calibrate` with lists held out.

    Notes
    -----
    `predict_relevance`, `rank_marginals`, `prob_above` and the default of `distribution`
    use what was learned of the numbers of documents.

    See Also
    --------
    permatch.boosting.RankMatchObjective : The same for your own calls of LightGBM or
        XGBoost.

    Examples
    --------
    Grades follow the product of two features, which no linear ranker can learn.

    >>> import numpy as np
    >>> import permatch as pm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = np.digitize(X[:, 0] * X[:, 1], [0.3, 1.0])
    >>> qid = np.repeat(np.arange(30), 20)
    >>> train, test = qid < 20, qid >= 20
    >>> model = pm.BoostedRankMatch(num_leaves=7, n_rounds=50)
    >>> model = model.fit(X[train], y[train], qid=qid[train])
    >>> model.score(X[test], y[test], qid=qid[test]) > 0.9
    True
    >>> linear = pm.RankMatch().fit(X[train], y[train], qid=qid[train])
    >>> linear.score(X[test], y[test], qid=qid[test]) < 0.6
    True
    """

    levels: Any = "grades"
    query_weight: str = "observations"
    form: str = "auto"
    qid: str | None = None
    scaling: str | None = None
    scoring: Any = "MeanNDCG@10"
    n_observations_: int = field(init=False)
    forms_: dict[str, int] = field(init=False)
    level_weights_: FloatArray | None = field(init=False)
    level_shares_: FloatArray = field(init=False)
    grades_: IntArray = field(init=False)
    grade_levels_: FloatArray = field(init=False)
    grade_offsets_: FloatArray = field(init=False)
    shift_coef_: FloatArray = field(init=False)
    shift_std_: float = field(init=False)
    score_slope_: float = field(init=False)
    best_score_: float = field(init=False)

    @one_blas_thread()
    def fit(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
        validation: tuple[Any, ...] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Learn from judged lists.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            As in `BaseRanker.fit`; the data must be in memory.
        validation : tuple (X, y, qid), (X, y) or (X, y, None, group), optional
            Judged lists that end the training when their score no longer rises, and choose
            how many rounds are kept; they are never trained on.
        feature_names : sequence of str, optional
            As in `BaseRanker.fit`.

        Returns
        -------
        BoostedRankMatch
            Itself.
        """
        find_scoring(self.scoring)  # before the data are looked at
        roles = self._roles(X, y, qid, group, sample_weight, feature_names)
        inputs, shards = self._open(X, roles, group)
        queries, held_out, rows = self._in_memory(shards), None, None
        if validation is None:
            rows = query_ids(self, X, qid, group), group
        else:
            held_out = self._in_memory(self._open_validation(validation, inputs))
        options = self._tree_options(queries.n_features, inputs.names)
        grown = self._learn(queries, options, held_out, rows)
        vars(self).update(inputs.attributes)
        self._warn(grown)
        return self

    def _fit(self, queries: QuerySet) -> Any:
        return self._learn(queries, self._tree_options(queries.n_features, None))

    def _learn(
        self,
        queries: QuerySet,
        options: dict[str, Any],
        held_out: QuerySet | None = None,
        rows: tuple[Any, Any] | None = None,
    ) -> Any:
        """Learn from checked, scaled lists; return the argument of `_warn`.

        `rows` are the qid and group that the lists were given by.
        """
        loss = self._loss(queries)
        judged = None if held_out is None else self._judged(held_out)
        grown = self._grow(queries.documents, loss, options, judged)
        self._conclude(loss, grown.best_score, queries, held_out)
        return grown

    def _conclude(
        self,
        loss: ListLoss,
        best_score: float,
        queries: QuerySet,
        held_out: QuerySet | None,
    ) -> None:
        """Set the fitted attributes beside the trees."""
        self.n_observations_ = loss.n_observations
        vars(self).update(loss.fitted)
        self.best_score_ = best_score
        # Trees know the lists they were grown on too well to say how steep they are; of
        # grades that these lack they know nothing.
        is_new = held_out is not None and np.isin(held_out.grades, self.grades_).all()
        lists = held_out if is_new and held_out is not None else queries
        self._learn_counts(HeldShards([lists]), has_slope=bool(is_new))

    def _judged(self, queries: QuerySet) -> tuple[Any, Judge]:
        """Return the documents of held-out lists, and the judge of their scores."""
        return queries.documents, judge_of(self.scoring, queries)

    def _why_equal_weights(self) -> None:
        return None

    def _loss(self, queries: QuerySet) -> ListLoss:
        own = self.levels, self.query_weight, self.form, check_jobs(self.n_jobs)
        return ListLoss(queries, *own)

    def _predict(self, documents: Any) -> FloatArray:
        return self._tree_scores(documents)

    def _contributions(self, documents: Any) -> FloatArray:
        return self._tree_contributions(documents)[:, :-1]

    def _moves(self, documents: Any, n_most: int) -> list[list[Move]]:
        """Return the splits that moved each of some scaled documents most."""
        return find_moves(read_trees(self.trees_.text), documents, n_most)

    def _add_scores(self, graph: OnnxGraph, features: str) -> str:
        return add_trees(graph, features, read_trees(self.trees_.text))

    def _solr_model(self, names: list[str]) -> dict[str, Any]:
        return solr_model(read_trees(self.trees_.text), names)

    def _elasticsearch_model(self, names: list[str]) -> tuple[str, Any]:
        return elasticsearch_model(read_trees(self.trees_.text), names)
