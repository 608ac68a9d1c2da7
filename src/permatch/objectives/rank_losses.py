"""Losses of judged lists, made from options.

Each is a loss of document scores, whatever model they come from.  What the loss of one
query needs to know of all others, such as the largest grade and the sum of the weights, is
a sum over shards.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from permatch._shards import Shards, add_up, light
from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_choice, check_count
from permatch.errors import GradeError, InvalidOptionError
from permatch.objectives.list_levels import GradeLevels, PositionLevels, choose_levels
from permatch.objectives.pairs import PairLikelihood
from permatch.objectives.query_counts import (
    QUERY_WEIGHTS,
    count_kinds,
    count_pairs,
    has_grades,
    no_grades,
    weigh_queries,
)
from permatch.objectives.rank_margin import (
    ListHinge,
    RankLoss,
    SubsetHinge,
    check_rank_loss,
)
from permatch.objectives.subset_likelihood import (
    SubsetLikelihood,
    Ties,
    check_position_weights,
)
from permatch.objectives.subsets import (
    MissingGrades,
    Subsets,
    check_subset_options,
    count_subsets,
    draw_subsets,
    nothing_left,
)
from permatch.objectives.weighted_lists import CopiedLoss, copy_queries
from permatch.objectives.whole_list import WholeListLikelihood
from permatch.queries import LARGEST_GRADE, QuerySet


@dataclass(frozen=True, eq=False)
class ObservedLoss:
    """A loss over judged lists."""

    shards: Shards  # pairs of queries and a `permatch.objectives.ranking.ScoreLoss`
    n_observations: int  # number of subsets, pairs or lists in the mean
    weigh: Callable[[], FloatArray]  # returns the weight of every query, in all one
    total_weight: float = np.nan  # sum of the weights given to these, if anyone asks
    fitted: dict[str, Any] = field(default_factory=dict)  # attributes of fitted models
    has_kinks: bool = False  # whether slopes are subgradients
    has_forms: bool = False  # whether the losses are those of whole lists


@dataclass(frozen=True, eq=False)
class GradeCounts:
    """The grades of all queries."""

    counts: IntArray  # documents by grade
    most: int  # grades in a query
    n_queries: int

    @property
    def largest(self) -> int:
        """The largest grade."""
        return int(self.grades[-1])

    @property
    def grades(self) -> IntArray:
        """The grades there are, rising."""
        return np.flatnonzero(self.counts)


def count_grades(shards: Shards) -> GradeCounts:
    """Count the grades of all queries."""
    *sums, most = zip(*shards.map(_count_grades), strict=True)
    counts, n_queries = add_up(list(zip(*sums, strict=True)))
    return GradeCounts(counts, max(most), n_queries)


@light
def _count_grades(queries: QuerySet) -> tuple[IntArray, int, int]:
    counts = np.bincount(queries.grades, minlength=LARGEST_GRADE + 1)
    n_kinds = (count_kinds(queries, queries.grades) > 0).sum(axis=1)
    return counts, queries.n_queries, int(n_kinds.max(initial=0))


def ranking_likelihood(
    shards: Shards,
    subset_size: int | str,
    *,
    position_weights: Any = None,
    n_subsets: float = 0.4,
    ties: Ties = "average",
    missing_grades: MissingGrades = "skip",
    levels: Any = "grades",
    query_weight: str = "observations",
    form: str = "auto",
    is_single: bool = False,
    random_state: int = 0,
    n_jobs: int = 1,
) -> ObservedLoss:
    """Return the negative log-likelihood of lists, subsets or pairs, as for `RankMatch`.

    That of whole lists may be wanted in single precision only, see `WholeListLikelihood`.
    """
    size = check_subset_size(subset_size, ("all", "grades", "pairs"))
    if size != "all":
        refuse_option("levels", levels, "grades", size, "'all'")
        refuse_option("form", form, "auto", size, "'all'")
    if size == "pairs":
        refuse_option("position_weights", position_weights, None, size, "lists and subsets")
    n_subsets = check_subset_options(n_subsets, missing_grades, ties)
    known = count_grades(shards)
    if size == "all":
        chosen = choose_levels(levels, position_weights, known.largest)
        seen = _Lists(chosen, form, is_single)
        return _whole_lists(shards, known, seen, query_weight, n_jobs)
    if size == "pairs":
        fitted = _even_levels(np.array([1.0, 0.0]), known)
        return _observe(shards, _Pairs(), query_weight, n_jobs, fitted=fitted)
    drawn = _Drawn(size, n_subsets, missing_grades, random_state, known.most)
    seen = _Subsets(drawn, position_weights, ties)
    observed = _observe(shards, seen, query_weight, n_jobs)
    n_levels = size if isinstance(size, int) else int((known.counts > 0).sum())
    fitted = _even_levels(check_position_weights(position_weights, n_levels), known)
    observed.fitted.update(fitted)
    return observed


def ranking_margin(
    shards: Shards,
    subset_size: int | str,
    *,
    position_weights: Any = None,
    n_subsets: float = 0.4,
    loss: RankLoss = "ndcg",
    ties: Ties = "average",
    missing_grades: MissingGrades = "skip",
    query_weight: str = "observations",
    random_state: int = 0,
    n_jobs: int = 1,
) -> ObservedLoss:
    """Return the structured hinge of whole lists or subsets, as for `DORM`."""
    size = check_subset_size(subset_size, ("all", "grades"))
    if size == "all":
        refuse_option("position_weights", position_weights, None, size, "subsets")
    n_subsets = check_subset_options(n_subsets, missing_grades, ties)
    check_rank_loss(loss)
    if size == "all":
        return _observe(shards, _Sorted(), query_weight, n_jobs, has_kinks=True)
    most = count_grades(shards).most
    drawn = _Drawn(size, n_subsets, missing_grades, random_state, most)
    seen = _Subsets(drawn, position_weights, ties, loss)
    return _observe(shards, seen, query_weight, n_jobs, has_kinks=True)


def _observe(
    shards: Shards, seen: "_Seen", query_weight: str, n_jobs: int, **more: Any
) -> ObservedLoss:
    """Return the loss of what is seen of every query, weighted."""
    check_choice(query_weight, "query_weight", QUERY_WEIGHTS)
    n_queries, n_observations, total, given = shards.total(_count, seen, query_weight)
    if not n_observations and isinstance(seen, _Subsets):
        raise nothing_left(seen.drawn.size, seen.drawn.most_grades, n_queries)
    if not total > 0.0:
        raise seen.nothing(n_queries)
    pairs = shards.keep(_lose, seen, query_weight, total, n_jobs)
    weigh = partial(_weigh, shards, seen, query_weight, total)
    return ObservedLoss(pairs, int(n_observations), weigh, float(given), **more)


def _weigh(shards: Shards, seen: "_Seen", query_weight: str, total: float) -> FloatArray:
    """Return the weights of all queries, which sum to one."""
    return np.concatenate(shards.map(_weights, seen, query_weight)) / total


@light
def _weights(queries: QuerySet, seen: "_Seen", query_weight: str) -> FloatArray:
    copies = copy_queries(queries)
    own = copies.queries
    return copies.add_up(weigh_queries(own, seen.counts(own), query_weight))


@light
def _count(
    queries: QuerySet, seen: "_Seen", query_weight: str
) -> tuple[int, float, float, float]:
    copies = copy_queries(queries)
    own = copies.queries
    counts = seen.counts(own)
    total = weigh_queries(own, counts, query_weight).sum()
    n_observations = copies.most(counts).sum()
    return queries.n_queries, n_observations, total, own.weights[counts > 0].sum()


@light
def _lose(
    queries: QuerySet, seen: "_Seen", query_weight: str, total: float, n_jobs: int
) -> Any:
    copies = copy_queries(queries)
    own = copies.queries
    counts = seen.counts(own)
    if not counts.any():
        return _NoLoss(queries.n_documents)
    weights = weigh_queries(own, counts, query_weight) / total
    loss = seen.loss(own, weights, n_jobs)
    return loss if copies.rows is None else CopiedLoss(loss, copies)


class _NoLoss:
    """The loss of queries that say nothing."""

    def __init__(self, n_documents: int) -> None:
        self.n_documents = n_documents
        self.forms = np.zeros(0, dtype="U7")

    def in_form(self, form: str) -> "_NoLoss":
        return self

    def value_and_slope(self, scores: FloatArray) -> tuple[float, FloatArray]:
        return 0.0, np.zeros(self.n_documents)

    def hessian(self, scores: FloatArray, documents: Any) -> FloatArray:
        return np.zeros((documents.shape[1],) * 2)

    def evaluate_curved(
        self, scores: FloatArray, documents: Any
    ) -> tuple[float, FloatArray, FloatArray]:
        return *self.value_and_slope(scores), self.hessian(scores, documents)


class _Seen:
    """What is observed of a query, and the loss of it."""

    def counts(self, queries: QuerySet) -> Any:
        """Return the number of observations of every query, (q,)."""
        raise NotImplementedError

    def loss(self, queries: QuerySet, weights: FloatArray, n_jobs: int) -> Any:
        """Return the loss of the scores of all documents, given weights of queries."""
        raise NotImplementedError

    def nothing(self, n_queries: int) -> GradeError:
        """Return the error of queries none of which has an observation."""
        return no_grades(n_queries)


@dataclass(frozen=True, eq=False)
class _Lists(_Seen):
    """Whole lists, by the level of every grade."""

    levels: GradeLevels | PositionLevels
    form: str
    is_single: bool

    def counts(self, queries: QuerySet) -> BoolArray:
        kinds, _ = self.levels.of_queries(queries)
        return has_grades(queries, kinds)

    def loss(self, queries: QuerySet, weights: FloatArray, n_jobs: int) -> Any:
        kinds, levels = self.levels.of_queries(queries)
        own = queries.starts, kinds, levels, weights
        how: Any = {"form": self.form, "is_single": self.is_single}
        return WholeListLikelihood(*own, **how, n_jobs=n_jobs)

    def nothing(self, n_queries: int) -> GradeError:
        if isinstance(self.levels, GradeLevels):
            return no_grades(n_queries)
        return GradeError(
            "at least one query needs documents of different grades at positions of "
            f"different weight, and a weight above 0; none of the {n_queries} queries has "
            "them. Check the grades, and that position_weights differ among the first "
            "positions."
        )


class _Sorted(_Seen):
    """Whole lists, by their order."""

    def counts(self, queries: QuerySet) -> BoolArray:
        return has_grades(queries)

    def loss(self, queries: QuerySet, weights: FloatArray, n_jobs: int) -> Any:
        return ListHinge(queries.starts, queries.grades, weights, n_jobs=n_jobs)


class _Pairs(_Seen):
    """All pairs of documents of different grade."""

    def counts(self, queries: QuerySet) -> IntArray:
        return count_pairs(queries)

    def loss(self, queries: QuerySet, weights: FloatArray, n_jobs: int) -> Any:
        return PairLikelihood(queries.starts, queries.grades, weights, n_jobs=n_jobs)


@dataclass(frozen=True)
class _Drawn:
    """How subsets are drawn."""

    size: Any
    n_subsets: float
    missing_grades: MissingGrades
    random_state: Any
    most_grades: int


@dataclass(frozen=True, eq=False)
class _Subsets(_Seen):
    """Subsets, in the order of their grades."""

    drawn: _Drawn
    position_weights: Any
    ties: Ties
    margin: RankLoss | None = None

    def counts(self, queries: QuerySet) -> FloatArray:
        drawn = self.drawn
        return count_subsets(
            queries.starts,
            queries.grades,
            drawn.size,
            n_subsets=drawn.n_subsets,
            missing_grades=drawn.missing_grades,
            most_grades=drawn.most_grades,
        )

    def loss(self, queries: QuerySet, weights: FloatArray, n_jobs: int) -> Any:
        drawn = self.drawn
        subsets = draw_training_subsets(
            queries,
            drawn.size,
            drawn.n_subsets,
            drawn.missing_grades,
            drawn.random_state,
            drawn.most_grades,
        )
        own = subsets, queries.grades, self.position_weights, weights
        options: Any = {"ties": self.ties, "n_jobs": n_jobs}
        if self.margin is None:
            return SubsetLikelihood(*own, **options)
        return SubsetHinge(*own, loss=self.margin, **options)


def draw_training_subsets(
    queries: QuerySet,
    size: Any,
    n_subsets: float,
    missing_grades: MissingGrades,
    random_state: Any,
    most_grades: int | None = None,
) -> Subsets:
    """Return the subsets a ranker learns from; equal seeds give equal subsets."""
    return draw_subsets(
        queries.starts,
        queries.grades,
        size,
        n_subsets=n_subsets,
        missing_grades=missing_grades,
        random_state=check_count(random_state, "random_state", 0),
        most_grades=most_grades,
        first=queries.first,
    )


def check_subset_size(subset_size: Any, names: tuple[str, ...]) -> int | str:
    """Return a subset size: one of some names, or a whole number of at least 2."""
    if isinstance(subset_size, str):
        if subset_size in names:
            return subset_size
        raise InvalidOptionError(
            f"subset_size must be one of {', '.join(map(repr, names))} or a whole number "
            f"of documents; got {subset_size!r}."
        )
    return check_count(subset_size, "subset_size", 2)


def refuse_option(name: str, value: Any, default: Any, size: Any, of: str) -> None:
    """Refuse an option without effect at the chosen subset size."""
    is_plain = isinstance(value, str | int | float)
    if value is not default and not (is_plain and value == default):
        raise InvalidOptionError(
            f"{name} is an option of {of} and has no effect with subset_size={size!r}; got "
            f"{name}={value!r}. Drop it, or choose another subset_size."
        )


def _whole_lists(
    shards: Shards, known: GradeCounts, seen: _Lists, query_weight: str, n_jobs: int
) -> ObservedLoss:
    observed = _observe(shards, seen, query_weight, n_jobs, has_forms=True)
    counts, values = known.counts[: known.largest + 1], None
    if isinstance(seen.levels, GradeLevels):
        values = seen.levels.values
        counts = np.bincount(seen.levels.codes, counts, len(values))
    forms = observed.shards.total(_count_forms)
    observed.fitted.update(
        forms_=dict(zip(_FORMS, forms, strict=True)),
        level_weights_=None if values is None else values[::-1],
        level_shares_=(counts / known.counts.sum())[::-1],
        grades_=known.grades,
        grade_levels_=_levels_of_grades(shards, known, seen.levels),
    )
    return observed


_FORMS = ("exact", "profile", "skipped")


@light
def _count_forms(shard: tuple[QuerySet, Any]) -> tuple[int, ...]:
    queries, loss = shard
    n_skipped = queries.n_queries - len(loss.forms)  # of a loss of nothing
    counts = [int(np.sum(loss.forms == name)) for name in _FORMS]
    return *counts[:-1], counts[-1] + n_skipped


def _levels_of_grades(
    shards: Shards, known: GradeCounts, levels: GradeLevels | PositionLevels
) -> FloatArray:
    """Return the level of every grade; if they differ by list, means over documents."""
    if isinstance(levels, GradeLevels):
        return levels.values[levels.codes[known.grades]]
    (sums,) = shards.total(_sum_levels, levels)
    return np.sort(sums[known.grades] / known.counts[known.grades])


@light
def _sum_levels(queries: QuerySet, levels: PositionLevels) -> tuple[FloatArray]:
    sums = np.zeros(LARGEST_GRADE + 1)
    if queries.n_documents:
        kinds, values = levels.of_queries(queries)
        own = values[queries.owners, kinds]
        sums += np.bincount(queries.grades, own, LARGEST_GRADE + 1)
    return (sums,)


def _even_levels(weights: FloatArray, known: GradeCounts) -> dict[str, Any]:
    """Return what is kept of equally many positions with each of some weights.

    The levels of grades are spread over them evenly.
    """
    ends = np.linspace(0.0, 1.0, len(weights))
    levels = np.interp(np.linspace(0.0, 1.0, len(known.grades)), ends, weights[::-1])
    return {
        "level_weights_": weights,
        "level_shares_": np.full(len(weights), 1.0 / len(weights)),
        "grades_": known.grades,
        "grade_levels_": levels,
    }
