"""The bootstrap of subsets: which queries, how many, and exactly which distribution."""

from collections import Counter
from itertools import pairwise, product
from math import factorial, prod

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from permatch.errors import GradeError, InvalidOptionError, SizeLimitError
from permatch.objectives import draw_subsets
from permatch.objectives.subsets import check_subset_options, sort_by_grade

# A right sampler fails a test of this level once in ten thousand seeds.
LEVEL = 1e-4

QUERIES = {
    "all grades": [0, 2, 1, 0, 0, 1, 2],
    "no grade 2": [1, 0, 0, 1],
    "one grade": [1, 1, 1],
    "one document": [2],
    "all grades again": [2, 1, 0],
}
GRADES = np.concatenate([np.array(grades) for grades in QUERIES.values()])
STARTS = np.concatenate([[0], np.cumsum([len(grades) for grades in QUERIES.values()])])


def compositions(subsets, grades):
    """How many documents of every subset have each grade, high grades first."""
    rows = grades[subsets.groups[0].rows]
    return [tuple(Counter(row.tolist()).values()) for row in rows]


def weights_of(counts, size):
    """The chance of every composition, by its formula."""
    share = np.array(counts) / sum(counts)
    possible = [m for m in product(range(1, size), repeat=len(counts)) if sum(m) == size]
    chance = [prod(share**m) / prod(map(factorial, m)) for m in possible]
    return possible, np.array(chance) / sum(chance)


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (3, "skip", [8, 0, 0, 0, 4]),
        (3, "fill", [8, 5, 0, 0, 4]),
        (4, "fill", [11, 6, 0, 0, 5]),
        (2, "fill", [0, 3, 0, 0, 0]),
        ("grades", "skip", [8, 3, 0, 0, 4]),
        ("grades", "fill", [8, 3, 0, 0, 4]),
    ],
    ids=str,
)
def test_which_queries_and_how_many_subsets(size, policy, expected):
    subsets = draw_subsets(STARTS, GRADES, size, missing_grades=policy)
    assert subsets.counts.tolist() == expected
    assert subsets.counts.sum() == sum(expected)
    owners = np.concatenate([group.owners for group in subsets.groups])
    assert np.bincount(owners, minlength=5).tolist() == expected


def test_at_least_one_subset_a_query():
    counts = draw_subsets(STARTS, GRADES, 3, n_subsets=1e-9).counts
    assert counts.tolist() == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("size", [2, 3, 5, 8, "grades"])
def test_documents_are_of_the_query_with_every_grade_and_best_first(size):
    subsets = draw_subsets(STARTS, GRADES, size, n_subsets=3.0, missing_grades="fill")
    for group in subsets.groups:
        assert (np.diff(group.owners) >= 0).all()
        assert (group.rows >= STARTS[group.owners, None]).all()
        assert (group.rows < STARTS[group.owners + 1, None]).all()
        assert (np.diff(GRADES[group.rows], axis=1) <= 0).all()
        for owner, row in zip(group.owners, group.rows, strict=True):
            present = GRADES[STARTS[owner] : STARTS[owner + 1]]
            assert set(GRADES[row]) == set(present)
            assert size != "grades" or len(row) == len(set(present))


def test_same_seed_same_subsets():
    first, second, other = (
        draw_subsets(STARTS, GRADES, 4, random_state=seed).groups[0].rows
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_subsets_of_a_query_do_not_depend_on_other_queries():
    whole = draw_subsets(STARTS, GRADES, 4, missing_grades="fill").groups[0]
    changed = GRADES.copy()
    changed[:7] = [2, 2, 1, 0, 0, 0, 0]
    other = draw_subsets(STARTS, changed, 4, missing_grades="fill").groups[0]
    for query in (1, 4):
        np.testing.assert_array_equal(
            whole.rows[whole.owners == query], other.rows[other.owners == query]
        )


COMPOSED = {
    "two grades": ([1, 6], 5),
    "three grades": ([2, 3, 9], 5),
    "M=6": ([5, 2, 4], 6),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_have_the_chances_of_the_formula(name):
    counts, size = COMPOSED[name]
    grades = np.repeat(np.arange(len(counts))[::-1], counts)
    subsets = draw_subsets(np.array([0, len(grades)]), grades, size, n_subsets=300.0)
    possible, chances = weights_of(counts, size)
    seen = Counter(compositions(subsets, grades))
    observed = np.array([seen.pop(m, 0) for m in possible])
    assert not seen
    assert chisquare(observed, chances * subsets.counts.sum()).pvalue > LEVEL


@pytest.mark.parametrize("size", [3, 5])
def test_subsets_are_distributed_as_by_rejection(size, rng):
    # Frequencies of documents sets (as sorted tuples), of two independent samples.
    grades = np.array([2, 1, 1, 0, 0])
    subsets = draw_subsets(np.array([0, 5]), grades, size, n_subsets=800.0)
    draws = rng.integers(0, 5, size=(12 * subsets.counts.sum(), size))
    is_kept = [set(row) == {0, 1, 2} for row in grades[draws].tolist()]
    ours = Counter(map(tuple, np.sort(subsets.groups[0].rows, axis=1).tolist()))
    theirs = Counter(map(tuple, np.sort(draws[is_kept], axis=1).tolist()))
    keys = sorted(ours | theirs)
    a, b = (np.array([sample[key] for key in keys], float) for sample in (ours, theirs))
    scale = np.sqrt(b.sum() / a.sum())
    statistic = ((a * scale - b / scale) ** 2 / (a + b)).sum()
    assert chi2.sf(statistic, len(keys) - 1) > LEVEL


@pytest.mark.parametrize("n_more", [0, 1, 2])
def test_one_of_every_grade_and_the_rest_at_random_is_the_same_for_up_to_one_more(n_more):
    counts = [2, 3, 9]
    possible, chances = weights_of(counts, 3 + n_more)
    shortcut = chances * [prod(m) for m in possible]
    shortcut /= shortcut.sum()
    assert np.allclose(shortcut, chances) == (n_more < 2)


def test_documents_of_a_grade_are_uniform():
    grades = np.repeat([2, 1, 0], [3, 5, 7])
    subsets = draw_subsets(np.array([0, 15]), grades, 3, n_subsets=500.0)
    for column, (first, last) in zip(
        subsets.groups[0].rows.T, pairwise([0, 3, 8, 15]), strict=True
    ):
        assert chisquare(np.bincount(column)[first:last]).pvalue > LEVEL


def test_many_grades_and_long_subsets():
    grades = np.repeat(np.arange(12), 3)
    subsets = draw_subsets(np.array([0, 36]), grades, 20, n_subsets=0.2)
    drawn = grades[subsets.groups[0].rows]
    assert all(set(row) == set(range(12)) for row in drawn)


def test_rare_grade_in_a_long_list():
    grades = np.zeros(100_000, dtype=np.intp)
    grades[17] = 1
    subsets = draw_subsets(np.array([0, 100_000]), grades, 20, n_subsets=1e-4)
    rows = subsets.groups[0].rows
    assert (rows[:, 0] == 17).all()
    assert (grades[rows[:, 1:]] == 0).mean() > 0.99


DEFAULTS = {"n_subsets": 0.4, "missing_grades": "skip", "ties": "average"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_subsets": 0.0}, "above 0.*got 0.0"),
        ({"n_subsets": np.nan}, "above 0.*got nan"),
        ({"n_subsets": "many"}, "above 0.*got 'many'"),
        ({"missing_grades": "drop"}, "'skip', 'fill'; got 'drop'"),
        ({"ties": "random"}, "'average', 'first'; got 'random'"),
    ],
    ids=str,
)
def test_refuses_options_out_of_range(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        check_subset_options(**{**DEFAULTS, **options})


def test_says_how_large_subsets_may_be():
    starts, grades = np.array([0, 400]), np.arange(400) % 3
    rows = draw_subsets(starts, grades, 150, n_subsets=0.01).groups[0].rows
    assert rows.shape[1] == 150
    assert (np.diff(np.sort(grades[rows])) <= 1).all()
    with pytest.raises(SizeLimitError, match="at most 150.*got 151. Use 'all'"):
        draw_subsets(starts, grades, 151)


def test_says_when_no_query_is_left():
    with pytest.raises(GradeError, match="at least 3, the number of grades.*got 2"):
        draw_subsets(STARTS, GRADES, 2)
    with pytest.raises(GradeError, match="each of the 2 queries all grades are equal"):
        draw_subsets(np.array([0, 2, 3]), np.array([1, 1, 0]), 3)


def test_runs_of_equal_grade():
    runs = sort_by_grade(STARTS, GRADES)
    assert runs.counts.tolist() == [3, 2, 1, 1, 3]
    assert runs.sizes.sum() == len(GRADES)
    assert runs.order[:7].tolist() == [1, 6, 2, 5, 0, 3, 4]
