"""Losses of judged lists, made from options.

Each is a loss of document scores, whatever model they come from.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from permatch._types import BoolArray, FloatArray, IntArray
from permatch._validation import check_choice, check_count, refuse_masked
from permatch.errors import GradeError, InvalidOptionError
from permatch.objectives.pairs import PairLikelihood
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
    draw_subsets,
)
from permatch.objectives.whole_list import WholeListLikelihood
from permatch.queries import QuerySet

#: Choices of the weights of queries.
QUERY_WEIGHTS = ("observations", "queries", "per_document", "per_relevant")

_NAMED_LEVELS = ("grades", "gains")


@dataclass(frozen=True, eq=False)
class ObservedLoss:
    """A loss over judged lists."""

    loss: Any  # a `permatch.objectives.ranking.ScoreLoss`
    n_observations: int  # number of subsets, pairs or lists in the mean
    query_weights: FloatArray  # total weight of every query, (q,); they sum to one
    fitted: dict[str, Any] = field(default_factory=dict)  # attributes of fitted models
    has_kinks: bool = False  # whether slopes are subgradients


def ranking_likelihood(
    queries: QuerySet,
    subset_size: int | str,
    *,
    position_weights: Any = None,
    n_subsets: float = 0.4,
    ties: Ties = "average",
    missing_grades: MissingGrades = "skip",
    levels: Any = "grades",
    query_weight: str = "observations",
    form: str = "auto",
    random_state: int = 0,
    n_jobs: int = 1,
) -> ObservedLoss:
    """Return the negative log-likelihood of lists, subsets or pairs, as for `RankMatch`."""
    size = check_subset_size(subset_size, ("all", "grades", "pairs"))
    if size != "all":
        refuse_option("levels", levels, "grades", size, "'all'")
        refuse_option("form", form, "auto", size, "'all'")
    if size in ("all", "pairs"):
        refuse_option("position_weights", position_weights, None, size, "subsets")
    n_subsets = check_subset_options(n_subsets, missing_grades, ties)
    if size == "all":
        return _whole_lists(queries, levels, query_weight, form, n_jobs)
    if size == "pairs":
        counts = count_pairs(queries)
        weights = weigh_queries(queries, counts, query_weight)
        loss = PairLikelihood(queries.starts, queries.grades, weights, n_jobs=n_jobs)
        fitted = _even_levels(np.array([1.0, 0.0]))
        return ObservedLoss(loss, int(counts.sum()), weights, fitted)
    subsets = draw_training_subsets(queries, size, n_subsets, missing_grades, random_state)
    weights = weigh_queries(queries, subsets.counts, query_weight)
    loss = SubsetLikelihood(
        subsets, queries.grades, position_weights, weights, ties=ties, n_jobs=n_jobs
    )
    n_levels = size if isinstance(size, int) else len(np.unique(queries.grades))
    fitted = _even_levels(check_position_weights(position_weights, n_levels))
    return ObservedLoss(loss, int(subsets.counts.sum()), weights, fitted)


def ranking_margin(
    queries: QuerySet,
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
        counts = has_grades(queries)
        weights = weigh_queries(queries, counts, query_weight)
        hinge = ListHinge(queries.starts, queries.grades, weights, n_jobs=n_jobs)
        return ObservedLoss(hinge, int(counts.sum()), weights, has_kinks=True)
    subsets = draw_training_subsets(queries, size, n_subsets, missing_grades, random_state)
    weights = weigh_queries(queries, subsets.counts, query_weight)
    hinge = SubsetHinge(
        subsets,
        queries.grades,
        position_weights,
        weights,
        loss=loss,
        ties=ties,
        n_jobs=n_jobs,
    )
    return ObservedLoss(hinge, int(subsets.counts.sum()), weights, has_kinks=True)


def draw_training_subsets(
    queries: QuerySet,
    size: Any,
    n_subsets: float,
    missing_grades: MissingGrades,
    random_state: Any,
) -> Subsets:
    """Return the subsets a ranker learns from; equal seeds give equal subsets."""
    return draw_subsets(
        queries.starts,
        queries.grades,
        size,
        n_subsets=n_subsets,
        missing_grades=missing_grades,
        random_state=check_count(random_state, "random_state", 0),
    )


def weigh_queries(
    queries: QuerySet, counts: IntArray | BoolArray, query_weight: str = "observations"
) -> FloatArray:
    """Return the total weight of every query, (q,), summing to one.

    `counts` (q,) are the observations per query; queries without any get weight 0.  The
    weights of the queries multiply those chosen by `query_weight`.
    """
    check_choice(query_weight, "query_weight", QUERY_WEIGHTS)
    weights = np.asarray(counts, dtype=np.float64)
    if not (weights * queries.weights).any():
        raise GradeError(
            "at least one query needs documents of different grades and a weight above 0; "
            f"none of the {queries.n_queries} queries has both. Check the grades, query "
            "ids and weights."
        )
    if query_weight != "observations":
        weights = (weights > 0).astype(np.float64)
    if query_weight == "per_document":
        weights /= queries.lengths
    elif query_weight == "per_relevant":
        n_relevant = np.bincount(queries.owners, queries.grades > 0, queries.n_queries)
        weights /= np.maximum(n_relevant, 1.0)
    weights = weights * queries.weights
    return weights / weights.sum()


def count_kinds(queries: QuerySet, kinds: IntArray) -> IntArray:
    """Return how many documents of every kind every query has, (q, number of kinds)."""
    n_kinds = int(kinds.max()) + 1
    cells = queries.owners * n_kinds + kinds
    counts = np.bincount(cells, minlength=queries.n_queries * n_kinds)
    return counts.reshape(queries.n_queries, n_kinds)


def has_grades(queries: QuerySet, kinds: IntArray | None = None) -> BoolArray:
    """Return whether documents of a query differ in grade, or in another kind, (q,)."""
    kinds = queries.grades if kinds is None else kinds
    return (count_kinds(queries, kinds) > 0).sum(axis=1) > 1


def count_pairs(queries: QuerySet) -> IntArray:
    """Return how many pairs of documents of different grade every query has, (q,)."""
    same = (count_kinds(queries, queries.grades) ** 2).sum(axis=1)
    return (queries.lengths**2 - same) // 2


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


def check_levels(levels: Any, largest_grade: int) -> FloatArray:
    """Return the position weight of every grade, (largest_grade + 1,)."""
    grades = np.arange(largest_grade + 1.0)
    if isinstance(levels, str) and levels in _NAMED_LEVELS:
        return grades if levels == "grades" else 2.0**grades - 1.0
    required = (
        f"levels must be {' or '.join(map(repr, _NAMED_LEVELS))}, or one number per "
        f"grade from 0 to {largest_grade}, non-decreasing and not all equal"
    )
    refuse_masked(levels, "levels", InvalidOptionError)
    try:
        found = np.array(levels, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(f"{required}; got {levels!r}.") from err
    if found.ndim != 1 or len(found) < len(grades) or not np.isfinite(found).all():
        raise InvalidOptionError(f"{required}; got {levels!r}.")
    found = found[: len(grades)]
    if (np.diff(found) < 0).any() or found[0] == found[-1]:
        raise InvalidOptionError(f"{required}; got {levels!r}.")
    return found


def _whole_lists(
    queries: QuerySet, levels: Any, query_weight: str, form: str, n_jobs: int
) -> ObservedLoss:
    by_grade = check_levels(levels, int(queries.grades.max()))
    # Grades of equal level are one to the model.
    values, codes = np.unique(by_grade, return_inverse=True)
    kinds = codes[queries.grades]
    counts = has_grades(queries, kinds)
    weights = weigh_queries(queries, counts, query_weight)
    loss = WholeListLikelihood(
        queries.starts, kinds, values, weights, form=form, n_jobs=n_jobs
    )
    shares = np.bincount(kinds, minlength=len(values)) / queries.n_documents
    names = ("exact", "profile", "skipped")
    fitted = {
        "forms_": {name: int(np.sum(loss.forms == name)) for name in names},
        "level_weights_": values[::-1],
        "level_shares_": shares[::-1],
    }
    return ObservedLoss(loss, int(counts.sum()), weights, fitted)


def _even_levels(weights: FloatArray) -> dict[str, FloatArray]:
    shares = np.full(len(weights), 1.0 / len(weights))
    return {"level_weights_": weights, "level_shares_": shares}
