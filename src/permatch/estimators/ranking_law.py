"""What a model with a likelihood of rankings says of the documents of a query."""

from typing import Any, Self

import numpy as np

from permatch._blas import one_blas_thread
from permatch._cells import column_keys
from permatch._shards import Shards
from permatch._tables import is_table
from permatch._types import FloatArray, IntArray
from permatch._validation import check_jobs
from permatch.distributed import is_in_parts
from permatch.errors import InvalidOptionError, InvalidQueriesError, NotFittedError
from permatch.estimators.grade_fit import Score, learn_counts
from permatch.estimators.inputs import Inputs, query_ids
from permatch.estimators.ranker import BaseRanker
from permatch.inference.ranking.grade_law import SUMMARIES, GradeLaw
from permatch.objectives.grade_counts import LARGEST
from permatch.objectives.list_levels import PositionLevels
from permatch.queries import LARGEST_GRADE, query_rows
from permatch.ranking_distribution import RankingDistribution, check_pairs

# What is learned of the number of documents of every grade.
_LEARNED = ("grade_offsets_", "shift_coef_", "shift_std_", "score_slope_")


class RankingLaw(BaseRanker):
    """A ranker whose scores are those of a distribution over rankings.

    Subclasses set ``level_weights_``, ``grades_`` and ``grade_levels_``, and learn how many
    documents of every grade a list has by `_learn_counts`.  Where ``level_weights_`` is
    None, the weights of positions are the means of `position_weights` over the positions of
    every grade.

    Notes
    -----
    The likelihood of whole lists says which documents are relevant, given how many are.
    How many a new list has is learned after the coefficients: given a shift t of the list,
    document i has grade l with probability ``∝ exp( v_l (s_i + t) + a_l )``, independently
    of the others, and t is normal around ``<b, z>``, z being the mean of the scores of the
    list and the log of its length.  Given the counts this is the law of the
    fit, for any a, b and spread of t, so that these are fitted to the counts of the
    training lists by exact marginal likelihood.  Where ``level_weights_`` is None it is
    only close to that law, and a factor of the scores is learned too.  All lists take
    part, those with a single grade too; of many, up to 1,000 taken evenly.  Where documents
    of a query differ in weight, as clicks do, nothing is learned of counts.
    """

    n_jobs: int | None
    position_weights: Any = None
    level_weights_: FloatArray | None
    grades_: IntArray
    grade_levels_: FloatArray
    grade_offsets_: FloatArray
    shift_coef_: FloatArray
    shift_std_: float
    score_slope_: float

    # ---- learning how many

    def _score_documents(self) -> Score:
        """Return what scores checked, scaled documents; it stands pickling."""
        return self._predict

    def _learn_counts(self, shards: Shards, *, has_slope: bool) -> None:
        """Learn how many documents of every grade a list has, from judged lists."""
        self._forget_counts()
        law = learn_counts(
            shards,
            self._score_documents(),
            self.grades_,
            self.grade_levels_,
            has_slope=has_slope,
            n_jobs=check_jobs(self.n_jobs),
        )
        if law is not None:
            self.grade_offsets_, self.shift_coef_ = law.offsets, law.coef
            self.shift_std_, self.score_slope_ = law.std, law.slope

    def _forget_counts(self) -> None:
        for name in _LEARNED:
            vars(self).pop(name, None)

    @one_blas_thread()
    def calibrate(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        group: Any = None,
        *,
        sample_weight: Any = None,
    ) -> Self:
        """Learn how many documents of every grade a list has from lists held out.

        The order of documents stays as it is.  Scores on training lists are better than on
        new ones: lists that took no part in the fit say by how much, and how steep
        probabilities should be.  They should be lists like those that are to come, those
        without a relevant document included, and a hundred or more: of fewer, the training
        lists of a linear ranker may say more.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            Judged lists, as in `fit`; weights must be equal within a query.  In parts too.

        Returns
        -------
        RankingLaw
            Itself, with new ``grade_offsets_``, ``shift_coef_``, ``shift_std_`` and
            ``score_slope_``.
        """
        self._check_fitted()
        roles = self._roles(X, y, qid, group, sample_weight)
        shards = self._open_new(X, roles, group, Inputs.of(self))
        before = {name: getattr(self, name) for name in _LEARNED if hasattr(self, name)}
        self._check_levels()
        try:
            self._learn_counts(shards, has_slope=True)
        except BaseException:
            vars(self).update(before)
            raise
        if not hasattr(self, "grade_offsets_"):
            vars(self).update(before)
            raise InvalidQueriesError(
                "sample_weight must be equal for all documents of a query in calibrate(), "
                "which counts documents; got several values. Use lists with grades instead "
                "of clicks."
            )
        return self

    # ---- what is known of it

    def _check_levels(self) -> None:
        if not hasattr(self, "grade_levels_"):
            raise NotFittedError(
                f"this {type(self).__name__} was fitted by a version of permatch that did "
                "not keep the levels of grades. Fit it again."
            )

    def _grade_law(self) -> GradeLaw:
        """Return what was learned; refuse if nothing was."""
        self._check_levels()
        if not hasattr(self, "grade_offsets_"):
            raise NotFittedError(
                f"this {type(self).__name__} has not learned how many documents of every "
                "grade a list has: its fit was interrupted, or had weights that differ "
                "within queries. Call calibrate(X, y, qid=qid) with judged lists of equal "
                "weights, or give position_weights where a method takes them."
            )
        return GradeLaw(
            grades=self.grades_,
            levels=self.grade_levels_,
            offsets=self.grade_offsets_,
            coef=self.shift_coef_,
            std=float(self.shift_std_),
            slope=float(self.score_slope_),
        )

    def _check_loaded(self) -> None:
        super()._check_loaded()
        if not hasattr(self, "grade_offsets_"):
            return
        shape = (len(self.grades_),)
        arrays = self.grades_, self.grade_levels_, self.grade_offsets_
        is_right = all(a.shape == shape and np.isfinite(a).all() for a in arrays)
        ends = np.r_[-1, self.grades_, LARGEST_GRADE + 1]
        is_right &= bool((np.diff(ends) > 0).all())
        is_right &= self.shift_coef_.shape == (len(SUMMARIES),)
        is_right &= bool(np.isfinite(self.shift_coef_).all())
        for number in (self.shift_std_, self.score_slope_):
            is_right &= 0.0 < number <= LARGEST
        levels = self.grade_levels_
        if not is_right or (np.diff(levels) < 0.0).any() or levels[-1] <= levels[0]:
            raise ValueError("what was learned of grades must be finite and fit together")

    # ---- questions

    def predict_relevance(self, X: Any, qid: Any = None, group: Any = None) -> FloatArray:
        """Return the probability of every grade for every document.

        The number of documents of every grade is not known of new queries: the
        probabilities are means over it, see the notes of `RankMatch`.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of any number of queries, in memory.
        qid : array of shape (n,) or str, optional
            The query of every document; default: the column that the parameter `qid` of
            the model names.
        group : array of shape (q,), optional
            Instead of `qid`: the number of consecutive rows of each query;
            ``group=[len(X)]`` for a single one.

        Returns
        -------
        ndarray of shape (n, n_grades)
            Column g has the probability of grade g, from 0 to the highest of the training
            lists; rows sum to one.  Grades that these lack have probability 0.
        """
        law = self._law_of(X)
        documents = self._check_new(X)
        rows = query_rows(query_ids(self, X, qid, group), group, documents.shape[0])
        scores = rows.gather(self.predict(X, qid, group))
        return rows.scatter(law.relevance(scores, rows.starts))

    def rank_marginals(self, X: Any, position_weights: Any = None) -> FloatArray:
        """Return the probability of every document of one query at every position.

        Documents are sorted by their grades, which are not known, ties in random order.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list, which say how many documents there are of
            every level; see `distribution`.  Default: not known, as in `predict_relevance`.

        Returns
        -------
        ndarray of shape (n, n)
            Row i is document i, column j position j.  Rows sum to one; columns up to the
            error of quadrature, about 1e-10 for 150 documents and 1e-7 for 1,000, which
            take 0.1 and a few seconds.
        """
        if position_weights is not None:
            return self.distribution(X, position_weights).marginals
        law, scores = self._law_of(X), self._scores_of_one(X)
        return law.rank_marginals(scores, check_jobs(self.n_jobs))

    def distribution(
        self, X: Any, position_weights: Any = None, **options: Any
    ) -> RankingDistribution:
        """Return the model's distribution over the rankings of one query's documents.

        It is that of a list whose number of documents of every grade is known.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list, best first, non-increasing.  Default: as
            many positions of every grade as this list is expected to have documents of it,
            with the weight of the grade; of a model with `position_weights`, their means
            over these positions.
        **options
            Passed to `RankingDistribution`.

        Returns
        -------
        RankingDistribution
            Gives marginals, samples and more.
        """
        scores = self._scores_of_one(X)
        if position_weights is None:
            law = self._grade_law()
            sizes = _round(law.counts(scores))[::-1]
            if self.level_weights_ is None:
                of_positions = PositionLevels.of(self.position_weights)
                position_weights = of_positions.block_means(sizes)
            else:
                position_weights = np.repeat(law.levels[::-1], sizes)
        own = self._slope_by_positions() * scores, position_weights
        return RankingDistribution(*own, n_jobs=self.n_jobs, **options)

    def prob_above(self, X: Any, i: Any, j: Any, position_weights: Any = None) -> Any:
        """Return the probability that document i ranks above document j.

        That is the probability that its grade is higher, plus half of the probability that
        both have the same grade: ties are broken at random.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n, d)
            The documents of one query.
        i, j : int or arrays of ints
            Rows of `X`.
        position_weights : array of shape (n,), optional
            Weights of the positions of this list; documents of one level are tied.
            Default: the number of documents of every grade is not known, as in
            `predict_relevance`.

        Returns
        -------
        float or ndarray
            Of the broadcast shape of `i` and `j`.
        """
        if position_weights is not None:
            return self.distribution(X, position_weights).prob_above(i, j)
        law, scores = self._law_of(X), self._scores_of_one(X)
        first, second = check_pairs(i, j, len(scores))
        found = law.above(scores, first, second)
        return float(found) if found.ndim == 0 else found

    def _slope_by_positions(self) -> float:
        """Return the factor of the scores where the weights of positions are known.

        With `position_weights` that law is the one of the fit, whose factor is 1: the one
        learned makes up for mean weights of grades.
        """
        return 1.0 if self.level_weights_ is None else getattr(self, "score_slope_", 1.0)

    def _law_of(self, X: Any) -> GradeLaw:
        """Return what was learned, for documents in memory."""
        self._check_fitted()
        if is_in_parts(X):
            raise InvalidOptionError(
                "probabilities of grades and positions need documents in memory; got data "
                "in parts. Load them, or some whole queries at a time."
            )
        return self._grade_law()

    def _scores_of_one(self, X: Any) -> FloatArray:
        """Return the scores of the documents of one query."""
        return self.predict(X, group=[self._check_one(X).shape[0]])

    def _check_one(self, X: Any) -> Any:
        """Return the checked documents of one query."""
        documents = self._check_new(X)
        if self.qid is not None and is_table(X) and self.qid in column_keys(X):
            own = query_ids(self, X, None, None)
            n_queries = len(query_rows(own, None, documents.shape[0]).ids)
            if n_queries > 1:
                raise InvalidQueriesError(
                    f"X must hold the documents of one query; got {n_queries} in column "
                    f"{self.qid!r}. Ask query by query."
                )
        return documents


def _round(counts: FloatArray) -> IntArray:
    """Round counts to whole numbers of the same sum, largest remainders first."""
    sizes = np.floor(counts).astype(np.intp)
    n_left = round(float(counts.sum())) - int(sizes.sum())
    # Equal remainders go to the better grades.
    order = np.argsort((sizes - counts)[::-1], kind="stable")
    sizes[len(counts) - 1 - order[:n_left]] += 1
    return sizes
