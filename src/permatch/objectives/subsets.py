"""Small lists drawn from the documents of every query: the paper's bootstrap.

A subset is M documents of one query, drawn with replacement, given that every grade of the
query occurs.  Nothing is rejected: the grades are drawn first, m_g >= 1 documents of grade
g with

    probability of (m_g)  proportional to  prod_g p_g^m_g / m_g!      sum_g m_g = M

where p_g is the share of grade g in the query, then m_g documents uniformly, with
replacement, within each grade.  This is exactly the distribution of M draws from the whole
query, given that every grade occurs.  The m_g are drawn from the highest grade down, given
what is left, by the tail sums

    tail_g(m) = sum_{t >= 1} p_g^t / t! tail_g+1(m - t)               tail of no grades = 1.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from permatch._types import FloatArray, IntArray
from permatch._validation import check_choice, enough_memory
from permatch.errors import GradeError, InvalidOptionError, SizeLimitError

MissingGrades = Literal["skip", "fill"]
_POLICIES = ("skip", "fill")
# Observed weights of documents of equal grade in a subset.
_TIES = ("average", "first")

# Probabilities of subsets are products of 1 / t!, which underflow soon after.
_LARGEST = 150


@dataclass(frozen=True, eq=False)
class GradeRuns:
    """Documents sorted by grade."""

    # The documents, query by query, best grade first; equal grades keep their order, (n,).
    order: IntArray
    begins: IntArray  # where in `order` each run of one query and one grade begins
    sizes: IntArray  # documents per run
    counts: IntArray  # runs per query: its number of grades, (q,)


def sort_by_grade(starts: IntArray, grades: IntArray) -> GradeRuns:
    """Return documents by query and decreasing grade, and the runs of equal grade.

    Examples
    --------
    >>> import numpy as np
    >>> runs = sort_by_grade(np.array([0, 3, 5]), np.array([0, 2, 0, 1, 1]))
    >>> runs.order, runs.sizes, runs.counts
    (array([1, 0, 2, 3, 4]), array([1, 2, 2]), array([2, 1]))
    """
    n_queries = len(starts) - 1
    owners = np.repeat(np.arange(n_queries), np.diff(starts))
    order = np.lexsort((-grades, owners))
    is_first = np.ones(len(grades), dtype=bool)
    is_first[1:] = (np.diff(grades[order]) != 0) | (np.diff(owners) != 0)
    begins = np.flatnonzero(is_first)
    sizes = np.diff(np.append(begins, len(grades)))
    return GradeRuns(order, begins, sizes, np.bincount(owners[begins], minlength=n_queries))


@dataclass(frozen=True, eq=False)
class SubsetGroup:
    """Subsets of one size, sorted by query."""

    # Documents, best grade first; equal grades in the order drawn, (n_subsets, size).
    rows: IntArray
    owners: IntArray  # the query of every subset, non-decreasing, (n_subsets,)

    @property
    def size(self) -> int:
        """Documents of a subset, M."""
        return self.rows.shape[1]


@dataclass(frozen=True, eq=False)
class Subsets:
    """Subsets of the documents of many queries."""

    groups: tuple[SubsetGroup, ...]  # by size
    counts: IntArray  # subsets per query; 0 if it was skipped
    n_documents: int  # in all queries


def draw_subsets(
    starts: IntArray,
    grades: IntArray,
    subset_size: int | Literal["grades"],
    *,
    n_subsets: float = 0.4,
    missing_grades: MissingGrades = "skip",
    random_state: int = 0,
    most_grades: int | None = None,
    first: int = 0,
) -> Subsets:
    """Draw subsets of every query that contain each of its grades; options are checked.

    A query of D documents gets ``max(1, round(n_subsets * D * M))`` subsets, M being the
    `subset_size`, or for ``"grades"`` the number of grades of the query.  Queries with a
    single grade, or with more grades than M, are skipped; with a fixed M also those that
    lack a grade other queries have, unless `missing_grades` is ``"fill"``.  Every query has
    its own random stream, so its subsets do not depend on the other queries.

    Where these are some of all queries, `first` is the number of the first one and
    `most_grades` the largest number of grades of any.

    Examples
    --------
    >>> import numpy as np
    >>> grades = np.array([0, 2, 1, 0, 0, 1])
    >>> subsets = draw_subsets(np.array([0, 4, 6]), grades, 3, n_subsets=0.25)
    >>> grades[subsets.groups[0].rows]
    array([[2, 1, 0],
           [2, 1, 0],
           [2, 1, 0]])
    >>> subsets.counts
    array([3, 0])
    """
    runs = sort_by_grade(starts, grades)
    n_kinds = runs.counts
    most = int(n_kinds.max(initial=0)) if most_grades is None else most_grades
    sizes, wanted = _wanted(starts, n_kinds, subset_size, n_subsets, missing_grades, most)
    is_used = wanted > 0.0
    if not is_used.any():
        raise nothing_left(subset_size, most, len(n_kinds))
    n_bytes = 8.0 * float(wanted @ (4 * sizes + 4))
    with enough_memory(f"drawing {wanted.sum():.3g} subsets", n_bytes):
        counts = wanted.astype(np.intp)
        first_run = np.cumsum(n_kinds) - n_kinds
        groups: dict[int, list[SubsetGroup]] = {}
        for size, n_present in sorted(
            {*zip(sizes[is_used], n_kinds[is_used], strict=True)}
        ):
            members = np.flatnonzero(is_used & (sizes == size) & (n_kinds == n_present))
            chosen = first_run[members, None] + np.arange(n_present)
            width = size + n_present - 1
            uniforms = _uniforms(random_state, first, members, counts, width)
            which = np.repeat(np.arange(len(members)), counts[members])
            places = _draw(runs.begins[chosen], runs.sizes[chosen], size, which, uniforms)
            group = SubsetGroup(runs.order[places], members[which])
            groups.setdefault(int(size), []).append(group)
        merged = tuple(_merge(parts) for parts in groups.values())
    return Subsets(merged, counts, len(grades))


def count_subsets(
    starts: IntArray,
    grades: IntArray,
    subset_size: int | Literal["grades"],
    *,
    n_subsets: float,
    missing_grades: MissingGrades,
    most_grades: int,
) -> FloatArray:
    """Return how many subsets `draw_subsets` draws of every query, (q,)."""
    n_kinds = sort_by_grade(starts, grades).counts
    how = subset_size, n_subsets, missing_grades, most_grades
    return _wanted(starts, n_kinds, *how)[1]


def _wanted(
    starts: IntArray,
    n_kinds: IntArray,
    subset_size: int | Literal["grades"],
    n_subsets: float,
    missing_grades: MissingGrades,
    most_grades: int,
) -> tuple[IntArray, FloatArray]:
    """Return the size and the number of the subsets of every query."""
    if subset_size == "grades":
        sizes = n_kinds
        is_used = n_kinds > 1
    else:
        size = subset_size
        if size > _LARGEST:
            raise SizeLimitError(
                f"subset_size must be at most {_LARGEST}, since larger subsets underflow "
                f"float64; got {size}. Use 'all' for whole lists."
            )
        sizes = np.full(len(n_kinds), size, dtype=np.intp)
        is_used = (n_kinds > 1) & (n_kinds <= size)
        if missing_grades == "skip":
            is_used &= n_kinds == most_grades
    wanted = np.maximum(1.0, np.rint(n_subsets * np.diff(starts) * sizes))
    return sizes, np.where(is_used, wanted, 0.0)


def check_subset_options(n_subsets: Any, missing_grades: Any, ties: Any) -> float:
    """Check the options of subsets; return `n_subsets` as a number."""
    check_choice(missing_grades, "missing_grades", _POLICIES)
    check_choice(ties, "ties", _TIES)
    try:
        share = float(n_subsets)
    except (TypeError, ValueError):
        share = math.nan
    if not 0.0 < share < math.inf:
        raise InvalidOptionError(
            "n_subsets must be a finite number above 0, the subsets per query as a "
            f"multiple of documents x subset_size; got {n_subsets!r}. The paper used 0.4."
        )
    return share


def nothing_left(subset_size: Any, most_grades: int, n_queries: int) -> GradeError:
    """Return the error of queries none of which has a subset."""
    if most_grades < 2:
        return GradeError(
            "some documents of a query must differ in grade; in each of the "
            f"{n_queries} queries all grades are equal. Check the grades and query ids."
        )
    return GradeError(
        f"subset_size must be at least {most_grades}, the number of grades in a query; got "
        f"{subset_size}. Use subset_size={most_grades} or more, or 'grades', 'pairs' or "
        "'all'."
    )


def _uniforms(
    seed: int, first: int, members: IntArray, counts: IntArray, width: int
) -> FloatArray:
    """Return the uniform numbers of every query, from its own generator."""
    ends = np.cumsum(counts[members])
    uniforms = np.empty((ends[-1], width))
    for query, end in zip(members, ends, strict=True):
        # That which ``default_rng(seed).spawn(...)`` gives the query of this number.
        own = np.random.SeedSequence(seed, spawn_key=(first + int(query),))
        drawn = uniforms[end - counts[query] : end]
        np.random.default_rng(own).random(out=drawn)
    return uniforms


def _draw(
    begins: IntArray, sizes: IntArray, size: int, which: IntArray, uniforms: FloatArray
) -> IntArray:
    """Return places in the sorted documents, (n, size).

    `begins` and `sizes` (queries, kinds) tell the runs of equal grade of every query,
    `which` is the query of every subset.
    """
    n_kinds = sizes.shape[1]
    ends = _draw_ends(sizes, size, which, uniforms[:, size:])
    rows = np.empty((len(which), size), dtype=np.intp)
    for j in range(size):
        kind = (ends <= j).sum(axis=0) if n_kinds < size else j
        n_choices = sizes[which, kind]
        rows[:, j] = begins[which, kind] + (uniforms[:, j] * n_choices).astype(np.intp)
    return rows


def _draw_ends(
    sizes: IntArray, size: int, which: IntArray, uniforms: FloatArray
) -> IntArray:
    """Return after which place of a subset each kind but the last ends, (kinds - 1, n)."""
    n_queries, n_kinds = sizes.shape
    ends = np.empty((n_kinds - 1, len(which)), dtype=np.intp)
    most = size - n_kinds + 1  # of one kind
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    numbers = np.arange(1, most + 1)
    factorials = np.array([math.factorial(t) for t in numbers], dtype=np.float64)
    # chances[g][q, t - 1] = p_g^t / t!;  tails[g][q, m] as in the module docstring
    chances = [shares[:, g, None] ** numbers / factorials for g in range(n_kinds)]
    tails = [np.zeros((n_queries, size + 1)) for _ in range(n_kinds)]
    tails.append(np.eye(1, size + 1).repeat(n_queries, axis=0))
    for g in range(n_kinds - 1, -1, -1):
        for t in numbers:
            tails[g][:, t:] += chances[g][:, t - 1, None] * tails[g + 1][:, : size + 1 - t]
    left = np.full(len(which), size)
    for g in range(n_kinds - 1):
        drawn = np.ones(len(which), dtype=np.intp)
        below = np.zeros((n_queries, size + 1))  # P(number of kind g <= t | left)
        for t in numbers[:-1]:
            below[:, t:] += chances[g][:, t - 1, None] * tails[g + 1][:, : size + 1 - t]
            with np.errstate(invalid="ignore"):  # where nothing can be left
                drawn += uniforms[:, g] >= (below / tails[g])[which, left]
        # Rounding must leave one for every kind to come.
        np.minimum(drawn, left - (n_kinds - 1 - g), out=drawn)
        left = left - drawn
        ends[g] = size - left
    return ends


def _merge(parts: list[SubsetGroup]) -> SubsetGroup:
    """Return subsets of equal size in the order of their queries."""
    if len(parts) == 1:
        return parts[0]
    owners = np.concatenate([part.owners for part in parts])
    order = np.argsort(owners, kind="stable")
    return SubsetGroup(np.concatenate([part.rows for part in parts])[order], owners[order])
