"""Second derivatives of ranking likelihoods against differences of their gradients."""

import numpy as np
import pytest
from scipy import sparse

from permatch._shards import HeldShards
from permatch.objectives import (
    PairLikelihood,
    SubsetLikelihood,
    WholeListLikelihood,
    draw_subsets,
)
from permatch.objectives.ranking import LinearRanking
from permatch.queries import QuerySet

# Differences of fourth order at this step leave about 1e-11.
STEP = 1e-3
RELATIVE = 1e-9
LENGTHS = [3, 3, 1, 40, 8, 12]
STARTS = np.concatenate([[0], np.cumsum(LENGTHS)])
N = STARTS[-1]
WEIGHTS = np.array([0.1, 0.2, 0.1, 0.3, 0.0, 0.3])


@pytest.fixture
def grades(rng):
    grades = rng.integers(3, size=N)
    grades[:3], grades[3:6] = [0, 1, 2], [2, 2, 0]
    return grades


@pytest.fixture
def documents(rng):
    return rng.normal(size=(N, 4)) * (rng.random((N, 4)) < 0.7)


def ranking(documents, starts, loss, scale, alpha=0.0):
    """The objective over one shard."""
    n_queries = len(starts) - 1
    grades = np.zeros(documents.shape[0], dtype=int)  # the loss knows them
    ids, weights = np.arange(n_queries), np.ones(n_queries)
    queries = QuerySet(documents, grades, starts, ids, weights)
    return LinearRanking(HeldShards([(queries, loss)]), scale, alpha)


def differences(objective, coef):
    rows = []
    for way in STEP * np.eye(len(coef)):
        far, near = (
            objective.value_and_grad(coef + k * way)[1]
            - objective.value_and_grad(coef - k * way)[1]
            for k in (2, 1)
        )
        rows.append((8.0 * near - far) / (12.0 * STEP))
    return np.array(rows)


def losses(grades):
    levels = np.array([0.0, 1.0, 3.0])
    own = STARTS, grades, levels, WEIGHTS
    drawn = draw_subsets(STARTS, grades, 3, n_subsets=1.0, random_state=0)
    longer = draw_subsets(STARTS, grades, 9, n_subsets=0.2, missing_grades="fill")
    return {
        "exact": WholeListLikelihood(*own, form="exact"),
        "profile": WholeListLikelihood(*own, form="profile"),
        "pairs": PairLikelihood(STARTS, grades, WEIGHTS),
        "subsets": SubsetLikelihood(drawn, grades, "dcg", WEIGHTS),
        "longer": SubsetLikelihood(longer, grades, None, WEIGHTS, ties="first"),
    }


@pytest.mark.parametrize("size", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("kind", ["exact", "profile", "pairs", "subsets", "longer"])
def test_hessian_is_the_derivative_of_the_gradient(kind, size, grades, documents, rng):
    scale = np.array([1.0, 2.0, 0.5, 1.0])
    objective = ranking(documents, STARTS, losses(grades)[kind], scale, 0.1)
    coef = size * rng.normal(size=4)
    expected = differences(objective, coef)
    found = objective.hessian(coef)
    np.testing.assert_allclose(found, expected, atol=RELATIVE * np.abs(expected).max())
    assert (found == found.T).all()
    assert (np.linalg.eigvalsh(found) > 0.0).all()


@pytest.mark.parametrize("kind", ["exact", "pairs", "subsets"])
def test_sparse_documents_and_threads_change_nothing(kind, grades, documents, rng):
    scores = documents @ rng.normal(size=4)
    one, two = losses(grades)[kind], losses(grades)[kind]
    two.n_jobs = 2
    dense = one.hessian(scores, documents)
    assert (two.hessian(scores, documents) == dense).all()
    np.testing.assert_allclose(
        one.hessian(scores, sparse.csr_matrix(documents)), dense, atol=1e-14
    )


@pytest.mark.parametrize("n_grades", [2, 4, 5])
def test_exact_form_with_other_numbers_of_grades(n_grades, rng):
    starts = np.array([0, 30, 36])
    grades = np.concatenate([np.arange(30) % n_grades, np.arange(6) % n_grades])
    loss = WholeListLikelihood(
        starts, grades, np.arange(float(n_grades)), np.array([0.5, 0.5]), form="exact"
    )
    documents = rng.normal(size=(36, 3))
    objective = ranking(documents, starts, loss, np.ones(3))
    for coef in (np.zeros(3), rng.normal(size=3)):
        expected = differences(objective, coef)
        atol = RELATIVE * np.abs(expected).max()
        np.testing.assert_allclose(objective.hessian(coef), expected, atol=atol)


def test_documents_whose_characteristic_function_vanishes(rng):
    # Three equal scores in three grades: phi_i is 0 at a point of the grid.
    starts, grades = np.array([0, 3]), np.array([0, 1, 2])
    loss = WholeListLikelihood(starts, grades, np.arange(3.0), np.ones(1), form="exact")
    hessian = loss.hessian(np.zeros(3), np.eye(3))
    # The levels are a random permutation of 0, 1, 2.
    np.testing.assert_allclose(hessian, np.eye(3) - 1.0 / 3.0, atol=1e-14)


def test_extreme_scores(rng):
    starts, grades = np.array([0, 5]), np.array([0, 1, 2, 0, 1])
    loss = WholeListLikelihood(starts, grades, np.arange(3.0), np.ones(1), form="exact")
    apart = loss.hessian(1e4 * np.arange(5.0), np.eye(5))
    np.testing.assert_allclose(apart, 0.0, atol=1e-14)
    tied = loss.hessian(np.array([0.0, 1e6, 1e6, 2e6, 2e6]), np.eye(5))
    # The best two take grade 2 and 1, the next two grade 1 and 0, at random.
    expected = np.zeros((5, 5))
    expected[1:3, 1:3] = expected[3:, 3:] = [[0.25, -0.25], [-0.25, 0.25]]
    np.testing.assert_allclose(tied, expected, atol=1e-13)


def test_gradients_by_query_sum_to_the_gradient(grades, documents, rng):
    coef, scale = rng.normal(size=4), np.array([1.0, 2.0, 0.5, 1.0])
    for given in (documents, sparse.csr_matrix(documents)):
        for loss in losses(grades).values():
            objective = ranking(given, STARTS, loss, scale)
            parts = objective.gradients(coef)
            assert parts.shape == (6, 4)
            assert not parts[4].any()  # of weight 0
            total = objective.value_and_grad(coef)[1]
            np.testing.assert_allclose(parts.sum(axis=0), total, atol=1e-14)
