"""The levels of whole lists: one per grade, or from the weights of positions.

The documents of a grade fill a block of positions, in any order.  With position weights
c(1) >= c(2) >= ... their level is the mean of c over the block, so it depends on how many
documents of the list have every grade.  Grades of equal level are one to the model.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import refuse_masked
from permatch.errors import InvalidOptionError
from permatch.objectives.query_counts import count_kinds
from permatch.objectives.subset_likelihood import as_position_weights, dcg_weights
from permatch.queries import QuerySet

_NAMED_LEVELS = ("grades", "gains")


@dataclass(frozen=True, eq=False)
class GradeLevels:
    """Levels by grade; grades of equal level are one to the model."""

    codes: IntArray
    values: FloatArray

    def of_queries(self, queries: QuerySet) -> tuple[IntArray, FloatArray]:
        """Return the kind of every document, (n,), and the level of every kind."""
        return self.codes[queries.grades], self.values


@dataclass(frozen=True, eq=False)
class PositionLevels:
    """Position weights for lists of any length.

    `first` are the weights of the first positions, the last of which goes for all others;
    None stands for those of DCG.
    """

    first: FloatArray | None

    @classmethod
    def of(cls, position_weights: Any) -> "PositionLevels":
        """Return checked weights: "dcg" or a non-increasing sequence."""
        if isinstance(position_weights, str) and position_weights == "dcg":
            return cls(None)
        return cls(as_position_weights(position_weights))

    def weights(self, n: int) -> FloatArray:
        """Return the weights of the positions of a list of n documents, best first."""
        if self.first is None:
            return dcg_weights(n)
        beyond = np.full(max(0, n - len(self.first)), self.first[-1])
        return np.concatenate([self.first[:n], beyond])

    def block_means(self, sizes: IntArray) -> FloatArray:
        """Return the weights of a list's positions, averaged over blocks of some sizes."""
        n = int(sizes.sum())
        used = sizes[sizes > 0]
        sums = np.add.reduceat(self.weights(n), np.cumsum(used) - used)
        return np.repeat(sums / used, used)

    def of_queries(self, queries: QuerySet) -> tuple[IntArray, FloatArray]:
        """Return the kind of every document, and the level of every kind by query.

        Kinds (n,) are grades, the highest of those that are one to the model; levels
        (q, number of grades) rise with the grade.
        """
        counts = count_kinds(queries, queries.grades)
        ends = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
        begins = ends - counts
        weights = self.weights(max(1, int(queries.lengths.max(initial=0))))
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        levels = (sums[ends] - sums[begins]) / np.maximum(counts, 1)
        n_queries, n_grades = counts.shape
        kinds = np.tile(np.arange(n_grades), (n_queries, 1))
        # Of the last grade that a query has, from the best one down.
        kind, begin = np.full(n_queries, -1), np.zeros(n_queries, dtype=np.intp)
        level = np.full(n_queries, np.inf)
        for grade in range(n_grades - 1, -1, -1):
            has = counts[:, grade] > 0
            last = weights[np.maximum(ends[:, grade] - 1, 0)]
            # Sums that are rounded must not make levels rise.
            is_one = (weights[begin] == last) | (levels[:, grade] >= level)
            is_one &= has & (kind >= 0)
            kinds[is_one, grade] = kind[is_one]
            is_new = has & ~is_one
            kind[is_new], begin[is_new] = grade, begins[is_new, grade]
            level[is_new] = levels[is_new, grade]
        return kinds[queries.owners, queries.grades], levels


def choose_levels(
    levels: Any, position_weights: Any, largest_grade: int
) -> GradeLevels | PositionLevels:
    """Return what gives the grades of whole lists their levels."""
    if position_weights is None:
        by_grade = check_levels(levels, largest_grade)
        values, codes = np.unique(by_grade, return_inverse=True)
        return GradeLevels(codes, values)
    if not isinstance(levels, str) or levels != "grades":
        raise InvalidOptionError(
            "levels have no effect with position_weights, which give every grade the mean "
            f"weight of its positions; got levels={levels!r}. Drop one of the two."
        )
    return PositionLevels.of(position_weights)


def check_levels(levels: Any, largest_grade: int | None) -> FloatArray:
    """Return the position weight of every grade, (largest_grade + 1,).

    None where grades are not known yet: of a name those of 0 and 1, else all given.
    """
    grades = np.arange(2.0 if largest_grade is None else largest_grade + 1.0)
    if isinstance(levels, str) and levels in _NAMED_LEVELS:
        return grades if levels == "grades" else 2.0**grades - 1.0
    whose = (
        "grade, two at least"
        if largest_grade is None
        else f"grade from 0 to {largest_grade}"
    )
    required = (
        f"levels must be {' or '.join(map(repr, _NAMED_LEVELS))}, or one number per "
        f"{whose}, non-decreasing and not all equal"
    )
    refuse_masked(levels, "levels", InvalidOptionError)
    try:
        found = np.array(levels, dtype=np.float64)
    except (TypeError, ValueError) as err:
        raise InvalidOptionError(f"{required}; got {levels!r}.") from err
    if found.ndim != 1 or len(found) < len(grades) or not np.isfinite(found).all():
        raise InvalidOptionError(f"{required}; got {levels!r}.")
    if largest_grade is not None:
        found = found[: len(grades)]
    if (np.diff(found) < 0).any() or found[0] == found[-1]:
        raise InvalidOptionError(f"{required}; got {levels!r}.")
    return found
