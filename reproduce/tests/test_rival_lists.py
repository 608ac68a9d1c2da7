"""Rivals of whole lists against slow definitions: IsoRank, SortNet, C-CRF."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.stats import multivariate_normal

from permatch.errors import InvalidQueriesError
from permatch.queries import check_queries
from reproduce.rivals import CCRF, IsoRank, SortNet
from reproduce.rivals.ccrf import Spectrum, check_similarity, value_and_grad
from reproduce.rivals.comparator import Comparator, SquaredError
from reproduce.rivals.iso_rank import nearest_in_order
from reproduce.rivals.sort_net import compared
from reproduce.tests.planted import alike, planted

# ---- IsoRank -----------------------------------------------------------------------------


def slow_nearest(values, grades):
    """Return the projection by a general minimiser."""
    constraints = [
        {"type": "ineq", "fun": lambda x, i=i, j=j: x[i] - x[j]}
        for i, j in itertools.permutations(range(len(values)), 2)
        if grades[i] > grades[j]
    ]
    found = minimize(
        lambda x: ((x - values) ** 2).sum(),
        values,
        jac=lambda x: 2 * (x - values),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


@pytest.mark.parametrize("seed", range(12))
def test_the_nearest_order_is_that_of_a_quadratic_program(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=7)
    if seed % 3 == 0:
        values = np.round(values)  # ties
    grades = rng.integers(0, 2 + seed % 3, size=7)
    found = nearest_in_order(values, grades)
    np.testing.assert_allclose(found, slow_nearest(values, grades), atol=1e-5)


numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@given(st.lists(st.tuples(numbers, st.integers(0, 4)), min_size=1, max_size=12))
def test_the_nearest_order_obeys_its_laws(documents):
    values = np.array([value for value, _ in documents])
    grades = np.array([grade for _, grade in documents])
    found = nearest_in_order(values, grades)
    for i, j in itertools.permutations(range(len(values)), 2):
        if grades[i] > grades[j]:
            assert found[i] >= found[j]
    # What is taken up is let down elsewhere, and what is in order stays.
    assert found.sum() == pytest.approx(values.sum(), abs=1e-6)
    np.testing.assert_allclose(nearest_in_order(found, grades), found, atol=1e-9)
    moved = nearest_in_order(values + 7.0, grades)
    np.testing.assert_allclose(moved, found + 7.0, atol=1e-6)
    upside_down = -nearest_in_order(-values, grades.max() - grades)
    np.testing.assert_allclose(upside_down, found, atol=1e-6)


def test_isorank_moves_scores_into_order_with_a_margin():
    X, y, qid = planted(n_queries=3)
    queries = check_queries(X, y, qid)
    scores = np.random.default_rng(0).normal(size=len(y))
    moves, weights = IsoRank(margin=0.3)._aim(queries)(scores)
    assert (weights == 1.0).all()
    after = scores + moves
    for i, j in itertools.permutations(range(len(y)), 2):
        if qid[i] == qid[j] and y[i] > y[j]:
            assert after[i] - after[j] >= 0.3 * (y[i] - y[j]) - 1e-9
    again, _ = IsoRank(margin=0.3)._aim(queries)(after)
    np.testing.assert_allclose(again, 0.0, atol=1e-9)


# ---- SortNet -----------------------------------------------------------------------------


def slow_output(net, x, y):
    """Return N(x, y) unit by unit."""
    total = net.threshold[0]
    for p, q, b, u, v in zip(
        net.of_first.T, net.of_second.T, net.bias, net.own, net.twin, strict=True
    ):
        total += u * np.tanh(p @ x + q @ y + b) + v * np.tanh(p @ y + q @ x + b)
    return 1.0 / (1.0 + np.exp(-total))


@pytest.fixture
def net():
    weights = np.random.default_rng(3).normal(size=4 * (2 * 3 + 3) + 1)
    return weights, Comparator.from_vector(weights, 3)


def test_a_comparator_by_its_formula(net):
    weights, network = net
    np.testing.assert_array_equal(np.concatenate([p.ravel() for p in network]), weights)
    X = np.random.default_rng(4).normal(size=(5, 3))
    prefers = network.prefers(X)
    for i, j in itertools.product(range(5), repeat=2):
        assert prefers[i, j] == pytest.approx(slow_output(network, X[i], X[j]))


def test_its_error_and_gradient(net):
    weights, network = net
    X = np.random.default_rng(4).normal(size=(6, 3))
    pairs = np.array([(0, 1), (2, 1), (4, 5)])
    loss = SquaredError(X, pairs.T, decay=0.1)
    value, grad = loss.value_and_grad(weights)
    expected = np.mean(
        [
            (1 - slow_output(network, X[i], X[j])) ** 2
            + slow_output(network, X[j], X[i]) ** 2
            for i, j in pairs
        ]
    )
    assert value == pytest.approx(expected + 0.05 * weights @ weights)
    numeric = approx_fprime(weights, lambda w: loss.value_and_grad(w)[0], 1e-7)
    np.testing.assert_allclose(grad, numeric, atol=1e-6)


def test_lists_are_ranked_by_mean_preference(net):
    _, network = net
    model = SortNet(scaling=None, n_rounds=1)
    X, y, qid = planted(n_queries=2)
    model.fit(X, y, qid).members_ = [network]
    scores = model.predict(X, qid)
    for query in (0, 1):
        own = X[qid == query]
        expected = [
            np.mean([slow_output(network, a, b) - slow_output(network, b, a) for b in own])
            for a in own
        ]
        np.testing.assert_allclose(scores[qid == query], expected)


def test_a_sort_makes_fewer_comparisons_than_there_are_pairs():
    rng = np.random.default_rng(0)
    order = rng.permutation(100)
    is_before = order[:, None] < order
    made = compared(is_before)
    assert len(made) < 700 < 100 * 99 / 2
    assert compared(np.zeros((1, 1), dtype=bool)) == []


def test_mistakes_of_the_sort_are_added():
    X, y, qid = planted(noise=2.0)
    model = SortNet(n_hidden=2, n_rounds=4, n_start=1, n_steps=5).fit(X, y, qid)
    few = SortNet(n_hidden=2, n_rounds=1, n_start=1, n_steps=5).fit(X, y, qid)
    np.testing.assert_array_equal(model.members_[0].own, few.members_[0].own)
    assert len(model.members_) == 4
    assert model.score(X, y, qid) > few.score(X, y, qid)


# ---- C-CRF -------------------------------------------------------------------------------


def test_its_likelihood_is_that_of_a_gaussian():
    X, y, qid = planted(n_queries=3, length=6)
    similarity = alike(y, qid)
    rng = np.random.default_rng(1)
    alpha, beta = np.exp(rng.normal(size=3)), 0.7
    spectra, expected = [], 0.0
    for query, weight in ((0, 0.2), (1, 0.5), (2, 0.3)):
        own = qid == query
        S = similarity[query]
        L = np.diag(S.sum(axis=1)) - S
        A = alpha.sum() * np.eye(6) + beta * L
        mean = np.linalg.solve(A, X[own] @ alpha)
        expected -= weight * multivariate_normal(mean, np.linalg.inv(2 * A)).logpdf(y[own])
        spectra.append(Spectrum.of(L, X[own], y[own].astype(float), weight))
        # And it is the exponential of what the docstring says, but for a constant.
        exponents = []
        for grades in (y[own], y[own] + rng.normal(size=6)):
            fits = (alpha * (grades[:, None] - X[own]) ** 2).sum()
            ties = 0.5 * beta * (S * np.subtract.outer(grades, grades) ** 2).sum()
            exponents.append(fits + ties - (grades - mean) @ A @ (grades - mean))
        assert exponents[0] == pytest.approx(exponents[1])
    logs = np.log(np.append(alpha, beta))
    value, grad = value_and_grad(logs, spectra)
    assert value == pytest.approx(expected)
    numeric = approx_fprime(logs, lambda x: value_and_grad(x, spectra)[0], 1e-7)
    np.testing.assert_allclose(grad, numeric, atol=1e-5)


def test_a_fit_is_where_the_likelihood_is_largest():
    X, y, qid = planted()
    model = CCRF(similarity=alike(y, qid), scaling=None).fit(X, y, qid)
    ((alpha, beta),) = model.members_
    assert (alpha > 0).all()
    assert beta > 0
    assert alpha[0] > alpha[2]  # a feature without use


def test_similar_documents_get_similar_scores():
    X, y, qid = planted(noise=3.0)
    known = alike(y, qid)
    model = CCRF(similarity=known).fit(X, y, qid)
    without = CCRF(similarity={k: np.eye(10) for k in known}).fit(X, y, qid)
    assert model.score(X, y, qid) > without.score(X, y, qid) + 0.05


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(3), r"shape \(4, 4\) .* got shape \(3, 3\)"),
        (np.full((4, 4), np.nan), "finite numbers of at least 0; got values from nan"),
        (-np.eye(4), "at least 0; got values from -1 to"),
        (np.triu(np.ones((4, 4))), "not symmetric. Use the mean"),
        ("none", "could not convert string"),
    ],
    ids=["shape", "nan", "negative", "asymmetric", "text"],
)
def test_bad_similarities_are_refused(matrix, message):
    with pytest.raises(InvalidQueriesError, match=f"similarities of query 'a' .*{message}"):
        check_similarity(matrix, "a", 4)
