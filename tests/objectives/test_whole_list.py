"""The whole-list likelihood against its definition, and its derivatives."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import permatch as pm
from permatch.errors import InvalidOptionError
from permatch.objectives import WholeListLikelihood

LEVELS = np.array([0.0, 1.0, 3.0])
# Central differences at this step: rounding and curvature each leave about 1e-9.
STEP = 1e-5
DIFFERENCE_TOL = 1e-7

LISTS = {
    "all grades": [0, 2, 1, 0, 1, 0, 2],
    "a grade missing": [0, 2, 2, 0, 0],
    "no grade 0": [1, 2, 2, 1, 2, 1],
    "two documents": [1, 0],
    "one document": [2],
    "one grade": [1, 1, 1, 1],
}


def likelihood(lists, levels=LEVELS, weights=None, **options):
    starts = np.concatenate([[0], np.cumsum([len(grades) for grades in lists])])
    grades = np.concatenate([np.asarray(grades, dtype=np.int64) for grades in lists])
    weights = np.full(len(lists), 1.0 / len(lists)) if weights is None else weights
    return WholeListLikelihood(starts, grades, levels, weights, **options)


def by_definition(scores, grades, levels=LEVELS):
    """Minus log of the probability of the observed levels, by enumeration."""
    ways = np.array(sorted(set(itertools.permutations(grades))))
    totals = levels[ways] @ scores
    return logsumexp(totals) - levels[np.asarray(grades)] @ scores


def random_lists(rng, sizes, n_grades=3):
    return [rng.integers(n_grades, size=size) for size in sizes]


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("name", LISTS)
def test_value_is_its_definition(name, spread, rng):
    scores = spread * rng.normal(size=len(LISTS[name]))
    value, slope = likelihood([LISTS[name]]).value_and_slope(scores)
    expected = by_definition(scores, LISTS[name])
    assert value == pytest.approx(expected, abs=1e-12 * (1 + spread))
    assert slope.sum() == pytest.approx(0.0, abs=1e-12)


def test_several_queries_and_weights(rng):
    lists = list(LISTS.values())
    weights = rng.dirichlet(np.ones(len(lists)))
    weights[0], weights[1] = 0.0, weights[0] + weights[1]
    objective = likelihood(lists, weights=weights)
    scores = rng.normal(size=sum(map(len, lists))).round(1)  # some tie
    parts = np.split(scores, objective.starts[1:-1])
    pairs = zip(weights, parts, lists, strict=True)
    expected = sum(w * by_definition(part, grades) for w, part, grades in pairs)
    value, slope = objective.value_and_slope(scores)
    assert value == pytest.approx(expected, rel=1e-12)
    assert objective.forms.tolist() == ["skipped", *["exact"] * 3, *["skipped"] * 2]
    assert (slope[: objective.starts[1]] == 0.0).all()


def test_agrees_with_permanents(rng):
    grades = np.array([0, 1, 2, 0, 1, 0, 0, 2, 0])
    scores = rng.normal(size=9)
    value, _ = likelihood([grades]).value_and_slope(scores)
    orders = np.log([120, 2, 2]).sum()  # n_l! rankings have the same levels
    log_partition = pm.log_partition(np.outer(scores, np.sort(LEVELS[grades])))
    expected = log_partition - orders - LEVELS[grades] @ scores
    assert value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("form", ["exact", "profile"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_slope_against_finite_differences(form, spread, rng):
    objective = likelihood(random_lists(rng, [5, 1, 30, 60, 9]), form=form)
    scores = spread * rng.normal(size=105)
    _, slope = objective.value_and_slope(scores)
    for _ in range(10):
        way = rng.normal(size=105)
        higher, _ = objective.value_and_slope(scores + STEP * way)
        lower, _ = objective.value_and_slope(scores - STEP * way)
        difference = (higher - lower) / (2 * STEP)
        assert slope @ way == pytest.approx(difference, abs=DIFFERENCE_TOL)


@pytest.mark.parametrize("form", ["exact", "profile"])
def test_is_convex_along_lines(form, rng):
    objective = likelihood(random_lists(rng, [6, 40, 15]), form=form)
    for _ in range(20):
        a, b = 3 * rng.normal(size=(2, 61))
        (low, slope), (high, _) = objective.value_and_slope(a), objective.value_and_slope(b)
        middle, _ = objective.value_and_slope((a + b) / 2)
        assert middle <= (low + high) / 2 + 1e-12
        assert high >= low + slope @ (b - a) - 1e-12


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e2, 1e4, 1e6])
def test_lies_between_the_best_assignment_and_the_profile(scale, rng):
    lists = random_lists(rng, [7, 150, 40, 90])
    scores = scale * rng.normal(size=287)
    exact = likelihood(lists)
    assert (exact.forms == "exact").all()
    value, slope = exact.value_and_slope(scores)
    bound, _ = exact.in_form("profile").value_and_slope(scores)
    best = 0.0
    parts = np.split(scores, exact.starts[1:-1])
    for part, grades in zip(parts, lists, strict=True):
        levels = LEVELS[grades]
        best += (np.sort(part) @ np.sort(levels) - part @ levels) / len(lists)
    assert np.isfinite(slope).all()
    # the two sides coincide where scores are far apart
    rounding = 1e-12 * (1.0 + best)
    assert best - rounding <= value <= bound + rounding


def test_profile_is_the_best_tilt(rng):
    grades = rng.integers(3, size=30)
    scores = rng.normal(size=30)
    counts = np.bincount(grades, minlength=3)
    value, _ = likelihood([grades], form="profile").value_and_slope(scores)

    def bound(tilt):
        z = np.outer(scores, LEVELS) + np.r_[0.0, tilt]
        return logsumexp(z, axis=1).sum() - counts[1:] @ tilt - LEVELS[grades] @ scores

    nearby = [bound(tilt) for tilt in 2 * rng.normal(size=(2000, 2))]
    assert value <= min(nearby)
    assert value == pytest.approx(min(nearby), rel=0.05)


def test_two_grades_are_conditional_logistic_regression(rng):
    documents, grades = rng.normal(size=(9, 2)), np.array([1, 0, 0, 1, 0, 0, 1, 0, 0])
    coef = np.array([0.7, -1.2])
    odds = np.exp(documents @ coef)
    chosen = odds[grades == 1].prod()
    total = sum(odds[list(some)].prod() for some in itertools.combinations(range(9), 3))
    value, slope = likelihood([grades], np.array([0.0, 1.0])).value_and_slope(
        documents @ coef
    )
    assert np.exp(-value) == pytest.approx(chosen / total, rel=1e-12)
    case_sums = [
        documents[list(some)].sum(axis=0) * odds[list(some)].prod() / total
        for some in itertools.combinations(range(9), 3)
    ]
    expected = np.sum(case_sums, axis=0) - documents[grades == 1].sum(axis=0)
    np.testing.assert_allclose(documents.T @ slope, expected, atol=1e-12)


def test_closed_under_taking_subsets(rng):
    grades, scores = np.array([0, 2, 1, 0, 1, 0, 2, 0]), rng.normal(size=8)
    subset = np.array([1, 2, 4, 5])
    rearranged = [np.array(order) for order in itertools.permutations(grades[subset])]

    def log_probs(scores, lists):
        return np.array([-likelihood([g]).value_and_slope(scores)[0] for g in lists])

    whole = []
    for order in rearranged:
        whole.append(grades.copy())
        whole[-1][subset] = order
    of_whole, of_part = log_probs(scores, whole), log_probs(scores[subset], rearranged)
    # given the grades inside, and those outside, the subset follows the same model
    np.testing.assert_allclose(of_whole - of_whole[0], of_part - of_part[0], atol=1e-12)


def test_threads_change_no_bit(rng):
    lists = random_lists(rng, [300, 20, 500, 400, 90, 600])
    scores = rng.normal(size=1910)
    one, two = (likelihood(lists, n_jobs=n) for n in (1, 3))
    assert one.value_and_slope(scores)[0] == two.value_and_slope(scores)[0]
    slopes = [objective.value_and_slope(scores)[1] for objective in (one, two)]
    np.testing.assert_array_equal(*slopes)
    for a, b in zip(one.curvature(scores), two.curvature(scores), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_order_of_documents_is_irrelevant(rng):
    grades, scores = rng.integers(3, size=80), rng.normal(size=80)
    order = rng.permutation(80)
    value, slope = likelihood([grades]).value_and_slope(scores)
    again, slope_again = likelihood([grades[order]]).value_and_slope(scores[order])
    assert again == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope_again, slope[order], atol=1e-12)


def test_a_constant_added_to_a_query_says_nothing(rng):
    objective = likelihood(random_lists(rng, [40, 30]))
    scores = rng.normal(size=70)
    value, slope = objective.value_and_slope(scores)
    shift = np.repeat([1e3, -7.0], [40, 30])
    again, slope_again = objective.value_and_slope(scores + shift)
    assert again == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(slope_again, slope, atol=1e-10)


@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_hessian_is_the_derivative_of_the_profile_gradient(kind, rng):
    lists = random_lists(rng, [50, 1, 2000, 3000, 4, 30])
    objective = likelihood(lists, form="profile")
    plain = rng.normal(size=(5085, 4)).astype(np.float32).astype(np.float64)
    plain[:, 0] *= rng.random(5085) < 0.2
    given = {
        "float64": plain,
        "float32": plain.astype(np.float32),
        "csr": sparse.csr_matrix(plain),
    }
    coef = rng.normal(size=4)
    hessian = objective.hessian(plain @ coef, given[kind])
    for k, way in enumerate(np.eye(4)):
        ahead = objective.value_and_slope(plain @ (coef + STEP * way))[1]
        behind = objective.value_and_slope(plain @ (coef - STEP * way))[1]
        difference = plain.T @ (ahead - behind) / (2 * STEP)
        np.testing.assert_allclose(hessian[k], difference, rtol=1e-6, atol=1e-4)


def test_the_form_is_chosen_by_size(rng):
    lists = [
        rng.integers(3, size=320),
        rng.integers(2, size=5000),
        np.r_[0, 1, 2, 3, 4],
        np.arange(120) % 5,
    ]
    objective = likelihood(lists, np.arange(5.0))
    assert objective.forms.tolist() == ["exact", "exact", "exact", "profile"]
    assert objective.in_form("profile").forms.tolist() == ["profile"] * 4
    assert objective.in_form("profile").in_form("auto").forms.tolist()[0] == "exact"


def test_no_queries():
    objective = WholeListLikelihood(np.zeros(1), np.zeros(0, int), LEVELS, np.zeros(0))
    value, slope = objective.value_and_slope(np.zeros(0))
    assert (value, slope.shape) == (0.0, (0,))


def test_bad_options(rng):
    with pytest.raises(InvalidOptionError, match="'exact', 'profile'; got 'fast'"):
        likelihood([[0, 1]], form="fast")
    with pytest.raises(InvalidOptionError, match="got 'fast'"):
        likelihood([[0, 1]]).in_form("fast")


# ---- derivatives by single scores ------------------------------------------------------


def single_derivatives(scores, grades, levels=LEVELS):
    """Loss, slope and variance of the levels by enumeration."""
    ways = np.array(sorted(set(itertools.permutations(grades))))
    totals = levels[ways] @ scores
    chances = np.exp(totals - logsumexp(totals))
    means = chances @ levels[ways]
    variances = chances @ (levels[ways] - means) ** 2
    observed = levels[np.asarray(grades)]
    return logsumexp(totals) - observed @ scores, means - observed, variances


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("is_single", [False, True])
def test_derivatives_are_their_definition(is_single, name, spread, rng):
    scores = (spread * rng.normal(size=len(LISTS[name]))).round(1)
    objective = likelihood([LISTS[name]], is_single=is_single)
    for found, expected in zip(
        objective.derivatives(scores), single_derivatives(scores, LISTS[name]), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=3e-8 if is_single else 1e-11)


@pytest.mark.parametrize("form", ["exact", "profile"])
@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_second_derivatives_against_differences_of_slopes(form, spread, rng):
    lists, weights = random_lists(rng, [5, 1, 30, 60, 9], 4), rng.dirichlet(np.ones(5))
    objective = likelihood(lists, np.arange(4.0), weights, form=form)
    scores = spread * rng.normal(size=105)
    value, slope, curvature = objective.derivatives(scores)
    assert value == pytest.approx(objective.value_and_slope(scores)[0])
    np.testing.assert_allclose(slope, objective.value_and_slope(scores)[1], atol=1e-15)
    assert (curvature >= 0.0).all()
    for i in range(0, 105, 4):
        step = STEP * np.eye(105)[i]
        higher, lower = (objective.derivatives(scores + s)[1][i] for s in (step, -step))
        assert curvature[i] == pytest.approx((higher - lower) / (2 * STEP), abs=1e-8)


def test_second_derivatives_of_the_profile_form_are_the_diagonal_of_its_curvature(rng):
    objective = likelihood(random_lists(rng, [40, 7, 90], 3), form="profile")
    scores = rng.normal(size=137)
    variances, loadings = objective.curvature(scores)
    expected = variances - (loadings**2).sum(axis=1)
    np.testing.assert_allclose(objective.derivatives(scores)[2], expected, atol=1e-15)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_derivatives_at_extreme_scores(scale, rng):
    for form in ("exact", "profile"):
        objective = likelihood(random_lists(rng, [5, 30, 60]), form=form, is_single=True)
        value, slope, curvature = objective.derivatives(scale * rng.normal(size=95))
        assert np.isfinite([value, *slope, *curvature]).all()
        assert (curvature >= 0.0).all()


def test_forms_in_single_precision(rng):
    lists = [rng.integers(3, size=2000), rng.integers(4, size=100), [0] * 50 + [1, 2, 3, 4]]
    levels = np.arange(5.0)
    assert likelihood(lists, levels).forms.tolist() == ["profile", "profile", "exact"]
    single = likelihood(lists, levels, is_single=True)
    assert single.forms.tolist() == ["exact", "profile", "exact"]
    assert (
        likelihood(lists[:2], levels, form="profile", is_single=True).forms[0] == "profile"
    )
