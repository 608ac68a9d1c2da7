"""The losses and rounds of rivals against slow definitions, pair by pair."""

import itertools
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from permatch.metrics import MAP, NDCG
from permatch.queries import check_queries
from reproduce.rivals import AdaRank, FRank, ListNet, QBRank, RankBoost, RankSVM, StructRank
from reproduce.rivals.frank import fidelity_slope
from reproduce.rivals.list_net import TopOne
from reproduce.rivals.pairs import graded_pairs, weight_of_pairs
from reproduce.rivals.rank_boost import potential
from reproduce.rivals.rank_svm import PairHinge
from reproduce.rivals.struct_rank import StarFactors
from reproduce.tests.planted import planted


def weighted_lists(seed=0, length=7):
    """Return queries of several weights, one of a single grade, and scores."""
    X, y, qid = planted(seed, n_queries=5, length=length)
    y = np.where(qid == 2, 1, y)
    rng = np.random.default_rng(seed)
    weights = np.array([1.03, 0.52, 1.0, 1.91, 2.87])[qid]  # no two stumps tie
    return check_queries(X, y, qid, sample_weight=weights), rng.normal(size=len(y))


def listed_pairs(queries):
    """Return (query, better, worse) of all pairs of different grade."""
    for k, (first, last) in enumerate(itertools.pairwise(queries.starts)):
        for i, j in itertools.permutations(range(first, last), 2):
            if queries.grades[i] > queries.grades[j]:
                yield k, i, j


def softmax(values):
    shares = np.exp(values - values.max())
    return shares / shares.sum()


def slow_hinge(queries, weights, scores):
    return sum(
        weights[k] * max(0.0, 1.0 - (scores[i] - scores[j]))
        for k, i, j in listed_pairs(queries)
    )


def slow_top_one(queries, weights, scores):
    return sum(
        -weights[k] * softmax(queries.grades[a:b]) @ np.log(softmax(scores[a:b]))
        for k, (a, b) in enumerate(itertools.pairwise(queries.starts))
    )


def slow_stars(queries, weights, scores):
    total = 0.0
    for k, (first, last) in enumerate(itertools.pairwise(queries.starts)):
        for i in range(first, last):
            worse = [j for j in range(first, last) if queries.grades[j] < queries.grades[i]]
            chance = 1.0 / (1.0 + sum(exp(-(scores[i] - scores[j])) for j in worse))
            total -= weights[k] * log(chance)
    return total


LOSSES = {
    "RankSVM": (RankSVM, PairHinge, slow_hinge),
    "ListNet": (ListNet, TopOne, slow_top_one),
    "StructRank": (StructRank, StarFactors, slow_stars),
}
every_loss = pytest.mark.parametrize("name", LOSSES)


@every_loss
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_a_loss_is_its_definition(name, scale):
    _, fast, slow = LOSSES[name]
    queries, scores = weighted_lists()
    weights = np.array([0.2, 0.1, 0.0, 0.4, 0.3])
    loss = fast(queries, weights)
    scores = scale * scores
    value, slope = loss.value_and_slope(scores)
    assert value == pytest.approx(slow(queries, weights, scores), rel=1e-10, abs=1e-12)
    assert slope[queries.owners == 2].any() == 0
    if scale == 1.0:  # elsewhere there are kinks, or nothing but rounding
        expected = approx_fprime(scores, lambda s: loss.value_and_slope(s)[0], 1e-7)
        np.testing.assert_allclose(slope, expected, atol=2e-6)
    for first, last in itertools.pairwise(queries.starts):
        assert slope[first:last].sum() == pytest.approx(0.0, abs=1e-12)


@every_loss
def test_losses_of_far_scores_are_finite(name):
    _, fast, _ = LOSSES[name]
    queries, scores = weighted_lists()
    value, slope = fast(queries, np.ones(5)).value_and_slope(1e6 * scores)
    assert np.isfinite(value)
    assert np.isfinite(slope).all()


@every_loss
def test_a_fit_minimises_what_it_says(name):
    kind, _, slow = LOSSES[name]
    queries, _ = weighted_lists()
    model = kind(alpha=0.05, tol=1e-8 if name != "RankSVM" else 1e-6, scaling=None)
    counts = kind().count(queries)
    lengths = queries.lengths
    model.fit(
        queries.documents,
        queries.grades,
        group=lengths,
        sample_weight=np.repeat(queries.weights, lengths),
    )
    weights = queries.weights * (counts > 0) / (counts @ queries.weights)

    def objective(coef):
        return 0.025 * coef @ coef + slow(queries, weights, queries.documents @ coef)

    best = minimize(objective, np.zeros(3), method="Nelder-Mead", tol=1e-9)
    assert objective(model.coef_) <= best.fun + 1e-6
    if name != "RankSVM":  # at whose kinks the general minimiser stops early
        np.testing.assert_allclose(model.coef_, best.x, atol=2e-3)


def test_terms_are_counted():
    queries, _ = weighted_lists()
    n_pairs = np.bincount([k for k, _, _ in listed_pairs(queries)], minlength=5)
    np.testing.assert_array_equal(RankSVM().count(queries), n_pairs)
    np.testing.assert_array_equal(ListNet().count(queries), n_pairs > 0)
    n_better = [len({i for k, i, _ in listed_pairs(queries) if k == q}) for q in range(5)]
    np.testing.assert_array_equal(StructRank().count(queries), n_better)


def test_one_worse_document_makes_a_logistic_loss():
    queries = check_queries([[0.0], [1.0]], [0, 1], group=[2])
    value, _ = StarFactors(queries, np.ones(1)).value_and_slope(np.array([0.3, 1.0]))
    assert value == pytest.approx(log(1 + exp(-0.7)))


# ---- boosting ----------------------------------------------------------------------------


def test_pairs_are_listed_and_weighted():
    queries, _ = weighted_lists()
    pairs = graded_pairs(queries)
    expected = sorted(listed_pairs(queries))
    assert sorted(zip(pairs.owners, pairs.above, pairs.below, strict=True)) == expected
    alike = weight_of_pairs(queries, pairs, is_by_query=False)
    expected = queries.weights[pairs.owners]
    np.testing.assert_allclose(alike, expected / expected.sum())
    shared = weight_of_pairs(queries, pairs, is_by_query=True)
    by_query = np.bincount(pairs.owners, shared)
    told = [0, 1, 3, 4]
    np.testing.assert_allclose(by_query[told], queries.weights[told] / 6.33)


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_the_potential_is_that_of_all_pairs(scale):
    queries, scores = weighted_lists()
    scores = scale * np.sort(scores)[np.argsort(np.argsort(queries.grades))]
    shares = np.zeros(len(scores))
    pairs = list(listed_pairs(queries))
    logs = np.array([log(queries.weights[k]) + scores[j] - scores[i] for k, i, j in pairs])
    for (_, i, j), share in zip(pairs, softmax(logs), strict=True):
        shares[i] += share
        shares[j] -= share
    np.testing.assert_allclose(potential(queries, scores), shares, atol=1e-12)


def stumps_of(documents):
    """Return all stumps that halve some documents, as (feature, threshold)."""
    for feature, column in enumerate(documents.T):
        values = np.unique(column)
        for low, high in itertools.pairwise(values):
            yield feature, 0.5 * (low + high)


def slow_rank_boost(queries, n_rounds):
    """Return scores by rounds over pairs and all stumps."""
    X, scores = queries.documents, np.zeros(queries.n_documents)
    pairs = list(listed_pairs(queries))
    for _ in range(n_rounds):
        chances = [queries.weights[k] * exp(scores[j] - scores[i]) for k, i, j in pairs]
        best = 0.0, None
        for feature, threshold in stumps_of(X):
            h = X[:, feature] > threshold
            signs = [int(h[i]) - int(h[j]) for _, i, j in pairs]
            r = np.dot(chances, signs) / sum(chances)
            if abs(r) > abs(best[0]) + 1e-12:
                best = r, h
        r, h = best
        scores = scores + 0.5 * log((1 + r) / (1 - r)) * h
    return scores


def slow_frank(queries, n_rounds):
    """Return scores by rounds over pairs and all stumps."""
    X, scores = queries.documents, np.zeros(queries.n_documents)
    pairs = list(listed_pairs(queries))
    counts = np.bincount([k for k, _, _ in pairs], minlength=5)
    shares = [queries.weights[k] / counts[k] for k, _, _ in pairs]
    for _ in range(n_rounds):
        chances = [1 / (1 + exp(-(scores[i] - scores[j]))) for _, i, j in pairs]
        pulls = [q * 0.5 * (1 - p) * sqrt(p) for q, p in zip(shares, chances, strict=True)]
        one, best = np.mean(pulls), (0.0, None, None)
        for feature, threshold in stumps_of(X):
            h = X[:, feature] > threshold
            signs = np.array([int(h[i]) - int(h[j]) for _, i, j in pairs])
            right = one + sum(w for w, sign in zip(pulls, signs, strict=True) if sign > 0)
            wrong = one + sum(w for w, sign in zip(pulls, signs, strict=True) if sign < 0)
            gain = abs(sqrt(right) - sqrt(wrong))
            if gain > best[0] + 1e-12:
                best = gain, 0.5 * log(right / wrong), h
        scores = scores + best[1] * best[2]
    return scores


@pytest.mark.parametrize(
    ("kind", "slow"), [(RankBoost, slow_rank_boost), (FRank, slow_frank)]
)
def test_rounds_over_all_stumps_are_those_over_all_pairs(kind, slow):
    queries, _ = weighted_lists(length=5)
    lengths = queries.lengths
    model = kind(n_rounds=4, n_bins=1000, scaling=None).fit(
        queries.documents,
        queries.grades,
        group=lengths,
        sample_weight=np.repeat(queries.weights, lengths),
    )
    told = queries.owners != 2  # stumps are those of what is learned from
    expected = slow(queries.take([0, 1, 3, 4]), 4)
    np.testing.assert_allclose(model.predict(queries.documents[told]), expected)


def test_the_slope_of_the_fidelity_loss():
    margins, shares = np.linspace(-3, 3, 7), np.linspace(0.1, 0.2, 7)

    def loss(margin, share):
        chance, certain = 1 / (1 + exp(-margin)), 1.0
        fidelity = sqrt(certain * chance) + sqrt((1 - certain) * (1 - chance))
        return share * (1 - fidelity)

    for margin, share, slope in zip(
        margins, shares, fidelity_slope(margins, shares), strict=True
    ):
        change = (loss(margin + 1e-5, share) - loss(margin - 1e-5, share)) / 2e-5
        assert slope == pytest.approx(-change, rel=1e-6)
    assert np.isfinite(fidelity_slope(np.array([-1e4, 1e4]), np.ones(2))).all()


def test_boosting_brings_the_loss_down():
    X, y, qid = planted()
    queries = check_queries(X, y, qid)
    pairs = graded_pairs(queries)
    for kind, loss in (
        (RankBoost, lambda margins: np.exp(-margins).mean()),
        (FRank, lambda margins: (1 - np.sqrt(1 / (1 + np.exp(-margins)))).mean()),
    ):
        model = kind(n_rounds=20).fit(X, y, qid)
        stages = model.staged_predict(X, qid)
        values = [loss(s[pairs.above] - s[pairs.below]) for s in stages]
        assert values[-1] < values[0]
        if kind is RankBoost:  # whose steps are exact bounds
            assert (np.diff(values) < 1e-12).all()


def test_a_perfect_stump_has_the_last_word():
    y = np.tile([0, 0, 1, 1], 3)
    model = RankBoost(scaling=None).fit(np.column_stack([1 - y, y]), y, group=[4] * 3)
    assert len(model.members_) == 1
    assert np.isfinite(model.predict(np.eye(2))).all()


@pytest.mark.parametrize("measure", [MAP(), NDCG @ 3])
@pytest.mark.parametrize("is_reusing", [True, False])
def test_adarank_by_its_formulas(measure, is_reusing):
    queries, _ = weighted_lists()
    queries = queries.take([0, 1, 3, 4])
    lengths = queries.lengths
    model = AdaRank(measure=measure, is_reusing=is_reusing, n_rounds=3, scaling=None)
    model.fit(
        queries.documents,
        queries.grades,
        group=lengths,
        sample_weight=np.repeat(queries.weights, lengths),
    )

    def reached(scores):
        return [
            measure(queries.grades[a:b], scores[a:b])
            for a, b in itertools.pairwise(queries.starts)
        ]

    scores, used = np.zeros(queries.n_documents), set()
    for member in model.members_:
        shares = queries.weights * (np.exp(-np.array(reached(scores))) if used else 1.0)
        shares /= shares.sum()
        values = [shares @ reached(column) for column in queries.documents.T]
        free = [k for k in range(3) if is_reusing or k not in used]
        feature = max(free, key=lambda k: values[k])
        own = np.array(reached(queries.documents[:, feature]))
        weight = 0.5 * log((shares @ (1 + own)) / (shares @ (1 - own)))
        assert member.feature == feature
        assert member.weight == pytest.approx(weight)
        scores += weight * queries.documents[:, feature]
        used.add(feature)
    assert len(model.members_) == 3


def test_a_feature_that_ranks_everything_is_taken_alone():
    y = np.tile([0, 1, 2], 4)
    X = np.column_stack([np.zeros(12), y])
    model = AdaRank(measure="MAP", n_rounds=3, scaling=None).fit(X, y, group=[3] * 4)
    assert {member.feature for member in model.members_} == {1}
    assert np.isfinite(model.predict(X)).all()


def test_qbrank_moves_documents_by_their_violated_margins():
    queries, scores = weighted_lists()
    queries = queries.take([0, 1, 3, 4])
    scores = scores[: queries.n_documents]
    moves, weights = QBRank(margin=0.5)._aim(queries)(scores)
    expected, counts = np.zeros((2, queries.n_documents))
    for k, i, j in listed_pairs(queries):
        tau = 0.5 * (queries.grades[i] - queries.grades[j])
        missing = queries.weights[k] * max(0.0, tau - (scores[i] - scores[j]))
        expected[[i, j]] += missing * np.array([1, -1])
        counts[[i, j]] += queries.weights[k]
    np.testing.assert_allclose(moves, expected / counts)
    np.testing.assert_allclose(weights / weights[0], counts / counts[0])

    def loss(step):
        moved = scores + step
        return sum(
            0.5 * queries.weights[k] * max(0.0, tau - (moved[i] - moved[j])) ** 2
            for k, i, j in listed_pairs(queries)
            for tau in [0.5 * (queries.grades[i] - queries.grades[j])]
        )

    slope = approx_fprime(np.zeros(len(scores)), loss, 1e-7)
    np.testing.assert_allclose(-expected, slope, atol=1e-5)
    assert loss(0.5 * moves) < loss(0.0 * moves)  # half the moves minimise the bound
