"""Levels of whole lists from the weights of positions, against their definition."""

import numpy as np
import pytest

from permatch._shards import HeldShards
from permatch.errors import GradeError, InvalidOptionError
from permatch.objectives import WholeListLikelihood
from permatch.objectives.list_levels import PositionLevels
from permatch.objectives.rank_losses import ranking_likelihood
from permatch.queries import check_queries
from tests.objectives.test_whole_list import by_definition

STEP = 1e-5
GRADES = [
    [0, 2, 1, 0, 1, 0, 2],
    [0, 2, 2, 0, 0],
    [1, 2, 2, 1],
    [1, 0],
    [2],
    [1, 1, 1],
    [4, 0, 0, 1, 0, 2, 0, 0, 0],
]
SIZES = [len(grades) for grades in GRADES]
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
WEIGHTS = {
    "dcg": "dcg",
    "as long": [9.0, 7.0, 6.5, 4.0, 3.0, 2.0, 1.0, 0.5, -1.0],
    "longer": np.linspace(5.0, -5.0, 40),
    "two positions": [1.0, 0.5, 0.0],
    "steps": [2.0, 2.0, 2.0, 1.0, 1.0, 0.0],
}


def lists(documents=None):
    documents = np.zeros((STARTS[-1], 1)) if documents is None else documents
    return check_queries(documents, np.concatenate(GRADES), group=SIZES)


def observe(queries, position_weights, **options):
    observed = ranking_likelihood(
        HeldShards([queries]), "all", position_weights=position_weights, **options
    )
    ((_, loss),) = observed.shards.shards
    return loss, observed


def levels_of(grades, position_weights):
    """Return the level of every grade of a list, by definition."""
    n = len(grades)
    if isinstance(position_weights, str):
        c = 1.0 / np.log2(np.arange(n) + 2.0)
    else:
        c = np.asarray(position_weights, dtype=float)
        c = np.append(c, np.full(n, c[-1]))[:n]
    placed = np.sort(grades)[::-1]
    return np.array([c[placed == g].mean() if g in placed else np.nan for g in range(5)])


@pytest.mark.parametrize("name", WEIGHTS)
def test_levels_are_means_over_blocks(name):
    queries, weights = lists(), WEIGHTS[name]
    kinds, levels = PositionLevels.of(weights).of_queries(queries)
    for k, grades in enumerate(GRADES):
        own = kinds[STARTS[k] : STARTS[k + 1]]
        expected = levels_of(grades, weights)
        np.testing.assert_allclose(levels[k, own], expected[grades], atol=1e-14)
        # Kinds that occur have different levels, in the order of the grades.
        assert (np.diff(levels[k, np.unique(own)]) > 0).all()


@pytest.mark.parametrize("form", ["exact", "profile"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_value_is_its_definition(name, form, rng):
    scores = 2.0 * rng.normal(size=STARTS[-1])
    loss, observed = observe(lists(), WEIGHTS[name], form=form)
    total, n_lists = 0.0, 0
    for k, grades in enumerate(GRADES):
        own = levels_of(grades, WEIGHTS[name])[grades]
        values, kinds = np.unique(own, return_inverse=True)
        if len(values) > 1:
            total += by_definition(scores[STARTS[k] : STARTS[k + 1]], kinds, values)
            n_lists += 1
    assert observed.n_observations == n_lists
    value, slope = loss.value_and_slope(scores)
    if form == "exact":
        assert value == pytest.approx(total / n_lists, rel=1e-12)
    else:
        assert value > total / n_lists
    for i in range(len(scores)):
        step = STEP * np.eye(len(scores))[i]
        up, down = (loss.value_and_slope(scores + s)[0] for s in (step, -step))
        assert slope[i] == pytest.approx((up - down) / (2 * STEP), abs=1e-8)


@pytest.mark.parametrize("form", ["exact", "profile"])
def test_hessian_against_finite_differences(form, rng):
    documents, coef = rng.normal(size=(STARTS[-1], 3)), rng.normal(size=3)
    loss, _ = observe(lists(documents), "dcg", form=form)
    hessian = loss.hessian(documents @ coef, documents)
    for k, way in enumerate(np.eye(3)):
        ahead, behind = (
            loss.value_and_slope(documents @ (coef + step * way))[1]
            for step in (STEP, -STEP)
        )
        change = documents.T @ (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(hessian[k], change, atol=1e-7)


def test_a_constant_added_to_the_weights_changes_nothing(rng):
    scores = rng.normal(size=STARTS[-1])
    weights = np.array([3.0, 1.0, 0.5])  # shorter than most lists
    one, other = (
        observe(lists(), weights + shift)[0].value_and_slope(scores) for shift in (0.0, 7.0)
    )
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    np.testing.assert_allclose(one[1], other[1], atol=1e-12)


def test_one_relevant_document_is_told_apart_by_the_top_only():
    # Two lists, one relevant document each: the levels differ by c(1) and the mean below.
    queries = check_queries(np.zeros((10, 1)), [1, 0, 0, 1, *[0] * 6], group=[3, 7])
    kinds, levels = PositionLevels.of([1.0, 0.0]).of_queries(queries)
    assert levels.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert kinds.tolist() == queries.grades.tolist()


@pytest.mark.parametrize(
    ("scale", "spread"), [(1e-12, 1.0), (1e6, 1.0), (1.0, 1e6), (1.0, 0.0)]
)
def test_extreme_weights_and_scores(scale, spread, rng):
    weights = scale / np.log2(np.arange(20) + 2.0)
    scores = spread * rng.normal(size=STARTS[-1])
    for form in ("exact", "profile"):
        value, slope = observe(lists(), weights, form=form)[0].value_and_slope(scores)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
        assert value >= 0.0


def test_nearly_equal_weights_do_not_break_the_order():
    # Means of blocks round: levels must still differ, or be one.
    sizes = np.full(30, 40)
    grades = np.tile(np.arange(40) % 5, 30)
    weights = 1e8 + np.linspace(1e-7, 0.0, 40)
    queries = check_queries(np.zeros((1200, 1)), grades, group=sizes)
    kinds, levels = PositionLevels.of(weights).of_queries(queries)
    for k in range(30):
        own = np.unique(kinds[40 * k : 40 * (k + 1)])
        assert (np.diff(levels[k, own]) > 0).all()


def test_levels_by_query_and_for_all_agree(rng):
    starts, grades = np.array([0, 4, 9]), np.array([0, 1, 2, 0, 1, 1, 0, 2, 0])
    levels, weights = np.array([0.0, 1.0, 3.0]), np.array([0.3, 0.7])
    scores = rng.normal(size=9)
    one = WholeListLikelihood(starts, grades, levels, weights)
    many = WholeListLikelihood(starts, grades, np.tile(levels, (2, 1)), weights)
    assert one.value_and_slope(scores)[0] == many.value_and_slope(scores)[0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("discount", "must be None, 'dcg' or a non-increasing sequence; got 'discount'"),
        ([1.0, 2.0], "must be non-increasing; got 1 at position 1 before 2"),
        ([1.0, 1.0], "must not all be equal.*got 1 at all 2 positions"),
        ([], "must not all be equal.*got none"),
        ([[1.0, 0.0]], r"one number for each position; got shape \(1, 2\)"),
        ([1.0, np.nan], "must be finite"),
        (["a", "b"], "must be a sequence of numbers.*Use 'dcg'"),
    ],
)
def test_bad_weights_are_refused_in_words(weights, message):
    with pytest.raises(InvalidOptionError, match=message):
        observe(lists(), weights)


def test_weights_that_differ_only_beyond_the_lists_teach_nothing():
    with pytest.raises(GradeError, match="position_weights differ among the first posit"):
        observe(lists(), [1.0] * 9 + [0.0])


def test_levels_and_weights_of_positions_exclude_each_other():
    with pytest.raises(InvalidOptionError, match="levels have no effect with position_wei"):
        observe(lists(), "dcg", levels="gains")
