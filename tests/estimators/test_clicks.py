"""A weight per document: clicks on lists of which the top is looked at more often."""

import itertools

import numpy as np
import pytest

import permatch as pm
from permatch.errors import InvalidOptionError, InvalidQueriesError

LIKES = np.array([1.0, -1.0, 0.5, 0.0, 0.8])  # of whoever clicks
LENGTH = 12
LOOKED_AT = 1.0 / np.arange(1.0, LENGTH + 1.0)


def shown_lists(seed, n_queries=500, *, by_old=True):
    """Return lists in the order of an old ranker, and whether documents are relevant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries, LENGTH, len(LIKES)))
    chance = 1.0 / (1.0 + np.exp(1.5 - X @ LIKES))
    is_relevant = rng.random(chance.shape) < chance
    if by_old:
        old = 0.3 * LIKES + rng.normal(size=len(LIKES))
        order = np.argsort(-X @ old, axis=1)
        X = np.take_along_axis(X, order[:, :, None], axis=1)
        is_relevant = np.take_along_axis(is_relevant, order, axis=1)
    clicks = is_relevant & (rng.random(chance.shape) < LOOKED_AT)
    qid = np.repeat(np.arange(n_queries), LENGTH)
    return X.reshape(-1, len(LIKES)), is_relevant.ravel(), clicks.ravel(), qid


def agreement(model):
    """Return the cosine of the angle between coefficients and those that matter."""
    return model.coef_ @ LIKES / np.linalg.norm(model.coef_) / np.linalg.norm(LIKES)


@pytest.mark.parametrize("subset_size", ["all", "pairs"])
def test_inverse_propensities_undo_the_bias_of_positions(subset_size):
    figures = []
    new, is_relevant, _, new_qid = shown_lists(99, 1000, by_old=False)
    for seed in range(5):
        X, y, clicks, qid = shown_lists(seed)
        weights = np.tile(1.0 / LOOKED_AT, len(X) // LENGTH)
        model = pm.RankMatch(subset_size, alpha=1e-3)
        fits = [
            pm.RankMatch(subset_size, alpha=1e-3).fit(X, clicks, qid),
            model.fit(X, clicks, qid, sample_weight=weights),
            pm.RankMatch(subset_size, alpha=1e-3).fit(X, y, qid),
        ]
        figures.append(
            [(agreement(fit), fit.score(new, is_relevant, new_qid)) for fit in fits]
        )
    cosines, ndcg = np.moveaxis(figures, 2, 0)
    assert (cosines[:, 1] > cosines[:, 0] + 0.03).all()
    assert (cosines[:, 1] > 0.98).all()
    gained, possible = (ndcg[:, k] - ndcg[:, 0] for k in (1, 2))
    assert (gained > 0.01).all()
    assert gained.mean() > 0.9 * possible.mean()


def all_clicks(relevance, looked_at):
    """Return every pattern of clicks on a list, and its chance."""
    chances = relevance * looked_at
    for clicks in itertools.product([0, 1], repeat=len(chances)):
        yield clicks, np.prod(np.where(clicks, chances, 1.0 - chances))


@pytest.mark.parametrize(("subset_size", "tol"), [("all", 1e-4), ("pairs", 0.1)])
def test_equal_relevance_gets_equal_scores_wherever_it_was_shown(subset_size, tol):
    relevance = np.array([0.2, 0.7, 0.2, 0.7])
    looked_at = np.array([1.0, 0.6, 0.3, 0.1])
    patterns = list(all_clicks(relevance, looked_at))
    X = np.tile(np.eye(4), (len(patterns), 1))
    clicks = np.concatenate([clicks for clicks, _ in patterns])
    qid = np.repeat(np.arange(len(patterns)), 4)
    # What is learnt from endless clicks: every pattern weighs as much as its chance.
    chances = np.repeat([chance for _, chance in patterns], 4)
    model = pm.RankMatch(subset_size, alpha=1e-9, scale_features=False, tol=1e-10)
    plain = model.fit(X, clicks, qid, sample_weight=chances).coef_.copy()
    assert plain[0] > plain[2] + 0.5
    assert plain[1] > plain[3] + 0.5
    weights = chances / np.tile(looked_at, len(patterns))
    scores = model.fit(X, clicks, qid, sample_weight=weights).coef_
    assert scores[0] == pytest.approx(scores[2], abs=tol)
    assert scores[1] == pytest.approx(scores[3], abs=tol)
    assert scores[1] > scores[0] + 0.5


@pytest.mark.parametrize("subset_size", ["all", "pairs"])
def test_a_document_of_weight_0_is_left_out(subset_size):
    X, _, clicks, qid = shown_lists(1, 40)
    weights = np.tile(1.0 / LOOKED_AT, 40)
    weights[[3, 17, 30]] = 0.0
    some = weights > 0.0
    model = pm.RankMatch(subset_size, scale_features=False, tol=1e-9)
    coef = model.fit(X, clicks, qid, sample_weight=weights).coef_.copy()
    model.fit(X[some], clicks[some], qid[some], sample_weight=weights[some])
    np.testing.assert_allclose(coef, model.coef_, atol=1e-7)


@pytest.mark.filterwarnings("ignore:the chosen alpha")
def test_rows_in_any_order_tables_and_searches():
    pd = pytest.importorskip("pandas")
    X, _, clicks, qid = shown_lists(2, 60)
    weights = np.tile(1.0 / LOOKED_AT, 60)
    one = pm.RankMatch().fit(X, clicks, qid, sample_weight=weights)
    order = np.random.default_rng(0).permutation(len(X))
    table = pd.DataFrame(X, columns=list("abcde"))
    table = table.assign(click=clicks, query=qid, inverse=weights).iloc[order]
    other = pm.RankMatch().fit(table, "click", "query", sample_weight="inverse")
    np.testing.assert_allclose(other.coef_, one.coef_, atol=1e-6)
    found = pm.RankMatchCV(alphas=[0.01, 0.1, 1.0, 10.0, 100.0], cv=3).fit(
        X, clicks, qid, sample_weight=weights
    )
    assert found.coef_.shape == (5,)


def test_standard_errors_are_those_of_a_weighted_sum():
    X, _, clicks, qid = shown_lists(3, 300)
    weights = np.tile(1.0 / LOOKED_AT, 300)
    model = pm.RankMatch(alpha=1e-4).fit(X, clicks, qid, sample_weight=weights)
    found = model.inference(X, clicks, qid, sample_weight=weights)
    assert np.isfinite(found.bse).all()
    with pytest.raises(InvalidOptionError, match="sample_weight differs between the docu"):
        model.inference(X, clicks, qid, sample_weight=weights, cov_type="laplace")
    search = pm.RankMatchCV(alphas="evidence")
    with pytest.raises(InvalidOptionError, match="sample_weight differs between the docu"):
        search.fit(X, clicks, qid, sample_weight=weights)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (pm.RankMatch("grades"), "with subset_size='grades', where subsets are drawn"),
        (pm.DORM(), "for DORM, which weighs whole queries"),
        (pm.QueryRidge(scaling="minmax"), "for QueryRidge, which weighs whole queries"),
    ],
    ids=["subsets", "dorm", "ridge"],
)
def test_others_refuse_them_in_words(model, why):
    X, _, clicks, qid = shown_lists(4, 5)
    weights = np.tile(1.0 / LOOKED_AT, 5)
    message = f"equal for all documents of a query {why}; query 0 has .*RankMatch on whole"
    with pytest.raises(InvalidQueriesError, match=message):
        model.fit(X, clicks, qid, sample_weight=weights)


def test_scores_are_averages_over_queries():
    X, _, clicks, qid = shown_lists(5, 30)
    weights = np.tile(1.0 / LOOKED_AT, 30)
    model = pm.RankMatch().fit(X, clicks, qid, sample_weight=weights)
    with pytest.raises(InvalidQueriesError, match=r"a query in score\(\), which averages"):
        model.score(X, clicks, qid, sample_weight=weights)
    assert model.score(X, clicks, qid) > 0.0
